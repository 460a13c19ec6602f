"""What all models share: items, observations, and the fit."""

import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxkick as jk
from jaxkick.compat.kickscore.item import Item
from jaxkick.compat.kickscore.kernel import Kernel

__all__ = ["InvalidObservation", "Model", "Observation", "Team"]

Team = dict[Hashable, float] | list[Hashable] | tuple[Hashable, ...]

METHODS = {"ep": jk.ExpectationPropagation, "kl": jk.ReverseKL}


class InvalidObservation(ValueError, AssertionError):
    """What cannot be observed; kickscore raises the one or the other."""


class Observation(NamedTuple):
    """One match; `parameter` is that of its likelihood, such as a margin, if it has one."""

    t: float
    features: dict[Hashable, float]
    outcome: float
    weight: float
    parameter: float | None


class Model:
    """Items, observations and their fit.

    Attributes:
        item: items by name.
        observations: what was observed, in the order of the calls.
        last_t: the latest time.
        posterior: what jaxkick made of the last fit; `None` before it.
        moments: means and variances of all scores that were observed, side by side.
    """

    def __init__(self, likelihood: Callable, kernel: Kernel | None = None):
        """Begin without items.

        Args:
            likelihood: makes a likelihood of a parameter, if it has one.
            kernel: the kernel of items that were not added; they are refused if `None`.
        """
        self.item: dict[Hashable, Item] = {}
        self.observations: list[Observation] = []
        self.last_t = -math.inf
        self.posterior: jk.Posterior | None = None
        self.moments: list[np.ndarray] = []
        self._likelihood, self._default_kernel = likelihood, kernel
        self._groups: dict[Kernel, str] = {}

    def add_item(self, name: Hashable, kernel: Kernel, fitter: str = "recursive") -> None:
        """Declare an item; both of kickscore's fitters mean the same."""
        if name in self.item:
            raise ValueError(f"item '{name}' already added")
        self.item[name] = Item(kernel, fitter, self, name)
        self._groups.setdefault(kernel, f"kernel {len(self._groups)}")

    def fit(self, method="ep", lr=1.0, tol=1e-3, max_iter=100, verbose=False) -> bool:
        """Fit all scores, from where the last fit ended.

        Args:
            method: `"ep"`, expectation propagation, or `"kl"`, reverse KL.
            lr: the share of each update that is taken, above zero.
            tol: the distance to the fixed point that may be left, in posterior standard
                deviations.
            max_iter: stop after so many updates.
            verbose: whether to show progress on the error stream.

        Returns:
            Whether the fixed point was reached.
        """
        if method not in METHODS:
            raise ValueError("'method' should be one of: 'ep', 'kl'")
        if not lr > 0:
            raise ValueError(f"`lr` is {lr}, but must be above zero.")
        if max_iter < 1 or not self.observations:
            return max_iter > 0
        rule = METHODS[method](damping=max(0.0, 1.0 - lr))
        with jax.enable_x64(True):
            # The first step looks at where it starts.
            limits = {"tol": tol, "max_steps": max_iter + 1, "throw": False}
            self.posterior = self._infer(rule, limits, verbose)
        parts = zip(*self.posterior.entries, strict=True)
        self.moments = [np.concatenate([np.ravel(part) for part in chains]) for chains in parts]
        for item in self.item.values():
            item.num_fitted = len(item.times)
        return self.posterior.converged

    @property
    def log_likelihood(self) -> float:
        """The log-marginal likelihood (EP), or a lower bound of it (reverse KL)."""
        if self._num_fitted != len(self.observations):
            raise RuntimeError("new data since last call to `fit()`")
        return float(self.posterior.log_marginal_likelihood) if self.posterior else 0.0

    def to_jaxkick(self) -> tuple[jk.Model, jk.Dataset]:
        """Model and data in jaxkick's terms, for `jaxkick.learn` and all else."""
        groups = {name: self._group_of(name) for name in self.item}
        return self._model(), _dataset(self.observations, groups)

    def plot_scores(self, items, resolution=None, figsize=None, timestamps=False) -> Any:
        """A figure and its axes with the scores of items over time; needs matplotlib."""
        from jaxkick.compat.kickscore.plotting import plot_scores

        return plot_scores(self, items, resolution, figsize, timestamps)

    def __getstate__(self) -> dict:
        # As NumPy's arrays, which are read back in float64 whatever JAX is set to.
        return {**self.__dict__, "posterior": jax.device_get(self.posterior)}

    @property
    def _num_fitted(self) -> int:
        return self.posterior.data.num_observations if self.posterior else 0

    def _group_of(self, name: Hashable) -> str:
        return self._groups[self.item[name].kernel]

    def _infer(self, rule: Any, limits: dict[str, Any], verbose: bool) -> jk.Posterior:
        """The posterior, from the last one on where that can be."""
        last, known = self.posterior, self._num_fitted
        if known == len(self.observations):
            return jk.infer(last.model, last.data, rule, start=last, progress=verbose, **limits)
        alike = len({seen.parameter for seen in self.observations}) == 1
        if last and alike and last.method == rule and len(last.model.kernel) == len(self._groups):
            return last.update(_dataset(self.observations[known:], self._group_of), **limits)
        data = _dataset(self.observations, self._group_of)
        return jk.infer(self._model(), data, rule, progress=verbose, **limits)

    def _model(self) -> jk.Model:
        kernels = {name: kernel.to_jaxkick() for kernel, name in self._groups.items()}
        parameters = [seen.parameter for seen in self.observations]
        return jk.Model(kernels, self._likelihood_of(parameters))

    def _likelihood_of(self, parameters: list[float | None]) -> Any:
        """The likelihood with one parameter for all, where it is the same, or one for each."""
        different = list(dict.fromkeys(parameters))
        if different == [None]:
            return self._likelihood()
        values = np.array(parameters if len(different) > 1 else different[0])
        return self._likelihood(jk.Real(values) if np.any(values == 0) else values)

    def _observe(self, teams, t, outcome, weight, parameter=None) -> None:
        features = self._features(*teams)
        if not any(features.values()):
            raise InvalidObservation("need at least one item per observation")
        if not (math.isfinite(t) and math.isfinite(outcome) and 0 <= weight < math.inf):
            raise InvalidObservation(f"time {t}, outcome {outcome} or weight {weight} is invalid")
        for name in features:
            self.item[name].times.append(t)
        seen = Observation(float(t), features, float(outcome), float(weight), parameter)
        self.observations.append(seen)
        self.last_t = max(self.last_t, t)

    def _features(self, *teams: Team) -> dict[Hashable, float]:
        """Coefficients by name; those of a name that comes twice are added."""
        features: dict[Hashable, float] = {}
        for team, sign in zip(teams, (1.0, -1.0), strict=True):
            if not isinstance(team, (dict, list, tuple)):
                raise ValueError("items should be a list, a tuple or a dict")
            for name in team:
                if name not in self.item and self._default_kernel is not None:
                    self.add_item(name, self._default_kernel)
                if name not in self.item:
                    raise KeyError(name)
                value = sign * float(team[name]) if isinstance(team, dict) else sign
                features[name] = features.get(name, 0.0) + value
        return features

    def _score(self, first: Team, second: Team, t: float) -> tuple[float, float]:
        """Mean and variance of a match's combined score."""
        mean, variance, observed = 0.0, 0.0, {}
        for name, value in self._features(first, second).items():
            item = self.item[name]
            item.check_fitted()
            if item.times:
                observed[name] = value
            else:
                variance += value**2 * float(item.kernel.k_diag(t))
        if observed:
            with jax.enable_x64(True):
                moments = self.posterior.combination(observed, t)
            mean, variance = float(moments.mean), variance + float(moments.variance)
        return mean, variance


def _dataset(observations: list[Observation], groups: Any) -> jk.Dataset:
    times, features, outcomes, weights, _ = map(list, zip(*observations, strict=True))
    weight = None if set(weights) == {1.0} else weights
    return jk.Dataset.from_mappings(times, features, outcomes, weight=weight, groups=groups)
