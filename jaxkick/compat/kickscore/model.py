"""What all models share: items, observations, and the fit."""

import math
from collections.abc import Callable, Hashable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxkick as jk
from jaxkick.compat.kickscore.kernel import Kernel
from jaxkick.compat.kickscore.plotting import plot_scores

__all__ = ["InvalidObservation", "Item", "Model", "Observation"]

METHODS = {"ep": jk.ExpectationPropagation, "kl": jk.ReverseKL}


class Item:
    """A team or player; its posterior is that of the model that it belongs to."""

    def __init__(self, kernel: Kernel, fitter: Literal["batch", "recursive"], *owner: Any):
        if fitter not in ("batch", "recursive"):
            raise ValueError(f"invalid fitter type '{fitter}'; it is 'recursive' or 'batch'.")
        self.kernel = kernel
        self.times: list[float] = []
        self.num_fitted = 0
        self._model, self._name = owner or (None, None)

    @property
    def scores(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times, means and variances at the item's observations, in the order of time."""
        self.check_fitted()
        times = np.sort(np.array(self.times))
        # Where coefficients are zero, the posterior knows of fewer times.
        own = self.times and len(self._model.posterior.data.entries(self._name).times) == len(times)
        return times, *self.predict(None if own else times)

    def predict(self, ts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances at any times; at those of the item's observations if `None`."""
        self.check_fitted()
        if ts is not None and not (self.times and len(ts)):
            return np.zeros(len(ts)), self.kernel.k_diag(ts)
        with jax.enable_x64(True):
            return tuple(map(np.array, self._model.posterior.scores(self._name, ts)[1:]))

    def check_fitted(self) -> None:
        """Raise if observations came after the last fit."""
        if self.num_fitted != len(self.times):
            raise RuntimeError("new data since last call to `fit()`")


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
    """

    plot_scores = plot_scores

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
        self._likelihood, self._default_kernel = likelihood, kernel

    def add_item(self, name: Hashable, kernel: Kernel, fitter: str = "recursive") -> None:
        """Declare an item; both of kickscore's fitters mean the same."""
        if name in self.item:
            raise ValueError(f"item '{name}' already added")
        self.item[name] = Item(kernel, fitter, self, name)

    def fit(self, method="ep", lr=1.0, tol=1e-3, max_iter=100, verbose=False) -> bool:
        """Fit all scores, from where the last fit ended.

        Args:
            method: `"ep"`, expectation propagation, or `"kl"`, reverse KL.
            lr: the share of each update that is taken, above zero.
            tol: the distance to the fixed point that may be left, in posterior standard
                deviations.
            max_iter: stop after so many updates.
            verbose: whether to print the distance after every update.

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
        # The first step looks at where it starts.
        options = {"tol": tol, "max_steps": max_iter + 1, "throw": False}
        with jax.enable_x64(True):
            self.posterior = self._infer(rule, progress=verbose and _print_progress, **options)
        for item in self.item.values():
            item.num_fitted = len(item.times)
        return self.posterior.converged

    @property
    def log_likelihood(self) -> float:
        """The log-marginal likelihood (EP), or a lower bound of it (reverse KL)."""
        for item in self.item.values():
            item.check_fitted()
        return float(self.posterior.log_marginal_likelihood) if self.posterior else 0.0

    def to_jaxkick(self) -> tuple[jk.Model, jk.Dataset]:
        """Model and data in jaxkick's terms, for `jaxkick.learn` and all else."""
        kernels = {item.kernel for item in self.item.values()}
        likelihood = self._likelihood_of([seen.parameter for seen in self.observations])
        model = jk.Model({repr(each): each.to_jaxkick() for each in kernels}, likelihood)
        return model, self._dataset(self.observations)

    def __getstate__(self) -> dict:
        # As NumPy's arrays, which are read back in float64 whatever JAX is set to.
        return {**self.__dict__, "posterior": jax.device_get(self.posterior)}

    def _group_of(self, name: Hashable) -> str:
        """Items with equal kernels are one group."""
        return repr(self.item[name].kernel)

    def _infer(self, rule: Any, **options: Any) -> jk.Posterior:
        """The posterior, from the last one on where that can be."""
        last = self.posterior
        known = last.data.num_observations if last else 0
        if known == len(self.observations):
            return jk.infer(last.model, last.data, rule, start=last, **options)
        alike = len({seen.parameter for seen in self.observations}) == 1
        groups = set(map(self._group_of, self.item))
        if last and alike and last.method == rule and set(last.model.kernel) == groups:
            return last.update(self._dataset(self.observations[known:]), **options)
        return jk.infer(*self.to_jaxkick(), rule, **options)

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

    def _features(self, *teams: Any) -> dict[Hashable, float]:
        """Coefficients by name; those of a name that comes twice are added."""
        features: dict[Hashable, float] = {}
        for team, sign in zip(teams, (1.0, -1.0), strict=True):
            if not isinstance(team, (dict, list, tuple)):
                raise ValueError("items should be a list, a tuple or a dict")
            for name in team:
                if name not in self.item:
                    if self._default_kernel is None:
                        raise KeyError(name)
                    self.add_item(name, self._default_kernel)
                value = sign * float(team[name]) if isinstance(team, dict) else sign
                features[name] = features.get(name, 0.0) + value
        return features

    def _predict(self, teams, t, parameter=None) -> jk.Prediction:
        """What is known of a match."""
        moments = np.zeros(2)
        for name, value in self._features(*teams).items():
            mean, variance = self.item[name].predict(np.array([t]))
            moments += value * mean[0], value**2 * variance[0]
        with jax.enable_x64(True):
            mean, variance = jnp.asarray(moments)
            return jk.Prediction(mean, variance, self._likelihood_of([parameter]))

    def _dataset(self, observations: list[Observation]) -> jk.Dataset:
        times, features, outcomes, weights, _ = map(list, zip(*observations, strict=True))
        weight = None if set(weights) == {1.0} else weights
        groups = self._group_of
        return jk.Dataset.from_mappings(times, features, outcomes, weight=weight, groups=groups)


def _print_progress(steps: int, distance: float) -> None:
    """A line as kickscore writes it."""
    print(f"iteration {int(steps)}, max diff: {float(distance):.5f}", flush=True)  # noqa: T201
