"""Models and items with kickscore's names and arguments."""

import math
from collections.abc import Callable, Hashable
from datetime import datetime
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxkick as jk
from jaxkick.compat.kickscore.kernel import Kernel
from jaxkick.errors import DataError, invalid

__all__ = ["BinaryModel", "CountDiffModel", "CountModel", "DifferenceModel", "Item"]
__all__ += ["TernaryModel"]

METHODS = {"ep": jk.ExpectationPropagation, "kl": jk.ReverseKL}


class Item:
    """A team or player of a model."""

    def __init__(
        self,
        kernel: Kernel,
        fitter: Literal["batch", "recursive"],
        model: Any = None,
        name: Hashable = None,
    ):
        if fitter not in ("batch", "recursive"):
            raise ValueError(f"invalid fitter type '{fitter}'; it is 'recursive' or 'batch'.")
        self.kernel = kernel
        self.times: list[float] = []
        self.num_fitted = 0
        self._model, self._name = model, name

    @property
    def scores(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times, means and variances of the item's observations, in time order."""
        self.check_fitted()
        times = np.sort(np.array(self.times))
        # The posterior has no entries for coefficients of zero.
        own = self.times and len(self._model.posterior.data.entries(self._name).times) == len(times)
        return times, *self.predict(None if own else times)

    def predict(self, ts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Compute means and variances at `ts`; at the item's observations if `None`."""
        self.check_fitted()
        if ts is not None and not (self.times and len(ts)):
            return np.zeros(len(ts)), self.kernel.k_diag(ts)
        with jax.enable_x64(True):
            scores = self._model.posterior.scores(self._name, ts, joint=False, allow_unknown=True)
            return np.array(scores.mean), np.array(scores.variance)

    def check_fitted(self) -> None:
        """Raise an error if observations were added after the last fit."""
        if self.num_fitted != len(self.times):
            raise RuntimeError("new data since last call to `fit()`")


class InvalidObservation(DataError, AssertionError):
    """An invalid observation, for which kickscore raises `ValueError` or `AssertionError`."""


class Observation(NamedTuple):
    """One match; `parameter` is the parameter of its likelihood, such as a margin, or `None`."""

    t: float
    features: dict[Hashable, float]
    outcome: float
    weight: float
    parameter: float | None


class Model:
    """Items, observations and their fit.

    Attributes:
        item: items by name.
        observations: all observations, in the order of the calls.
        last_t: the latest time.
        posterior: jaxkick's posterior of the last fit; `None` before it.
    """

    def __init__(self, likelihood: Callable, kernel: Kernel | None = None):
        """Create a model without items.

        Args:
            likelihood: function from the parameter, if there is one, to a likelihood.
            kernel: default kernel of items that were not added; if `None`, they raise a
                `KeyError`.
        """
        self.item: dict[Hashable, Item] = {}
        self.observations: list[Observation] = []
        self.last_t = -math.inf
        self.posterior: jk.Posterior | None = None
        self._likelihood, self._default_kernel = likelihood, kernel

    def add_item(self, name: Hashable, kernel: Kernel, fitter: str = "recursive") -> None:
        """Add an item; both fitters of kickscore give the same result."""
        if name in self.item:
            raise ValueError(f"item '{name}' already added")
        self.item[name] = Item(kernel, fitter, self, name)

    def fit(self, method="ep", lr=1.0, tol=1e-3, max_iter=100, verbose=False) -> bool:
        """Fit all scores, with a warm start from the last fit.

        Args:
            method: `"ep"` (expectation propagation) or `"kl"` (reverse KL).
            lr: the learning rate, 1 − damping; positive.
            tol: tolerance: the distance to the fixed point, in posterior standard deviations.
            max_iter: maximum number of iterations.
            verbose: whether to print the distance after each iteration.

        Returns:
            Whether the fit converged.
        """
        if method not in METHODS:
            raise ValueError("'method' should be one of: 'ep', 'kl'")
        if not lr > 0:
            raise invalid("lr", lr, "but must be positive")
        if max_iter < 1 or not self.observations:
            return max_iter > 0
        rule = METHODS[method](damping=max(0.0, 1.0 - lr))
        # The first step of `infer` only evaluates the starting point.
        options = {"tol": tol, "max_steps": max_iter + 1, "throw": False}
        with jax.enable_x64(True):
            self.posterior = self._infer(rule, progress=verbose and _print_progress, **options)
        for item in self.item.values():
            item.num_fitted = len(item.times)
        return self.posterior.converged

    @property
    def log_likelihood(self) -> float:
        """The log marginal likelihood (EP), or a lower bound on it (reverse KL)."""
        for item in self.item.values():
            item.check_fitted()
        return float(self.posterior.log_marginal_likelihood) if self.posterior else 0.0

    def to_jaxkick(self) -> tuple[jk.Model, jk.Dataset]:
        """Return jaxkick's model and data, for instance for `jaxkick.learn`."""
        kernels = {item.kernel for item in self.item.values()}
        likelihood = self._likelihood_of([seen.parameter for seen in self.observations])
        model = jk.Model({repr(each): each.to_jaxkick() for each in kernels}, likelihood)
        return model, self._dataset(self.observations)

    def plot_scores(self, items, resolution=None, figsize=None, timestamps=False):
        """Plot means ± one standard deviation; return matplotlib's figure and axes.

        Args:
            items: names.
            resolution: points per unit of time; 100 points in total if `None`.
            figsize: width and height in inches.
            timestamps: whether times are seconds since 1970, shown as dates.
        """
        import matplotlib.pyplot as plt

        times = [observation.t for observation in self.observations]
        resolution = resolution or 100 / max(max(times) - min(times), 1e-9)
        figure, axes = plt.subplots(figsize=figsize)
        for name in items:
            own, _, _ = self.item[name].scores
            grid = np.linspace(own[0], own[-1], max(int(resolution * np.ptp(own)), 1))
            means, variances = self.item[name].predict(grid)
            low, high = means - np.sqrt(variances), means + np.sqrt(variances)
            where = [datetime.fromtimestamp(t) for t in grid] if timestamps else grid
            (line,) = axes.plot(where, means, label=name)
            axes.fill_between(where, low, high, color=line.get_color(), alpha=0.1)
        axes.spines[:].set_visible(False)
        axes.grid(axis="x", alpha=0.5)
        axes.legend()
        return figure, axes

    def __getstate__(self) -> dict:
        return {**self.__dict__, "posterior": jax.device_get(self.posterior)}

    def __setstate__(self, state: dict) -> None:
        # Arrays are float64, whatever JAX is set to.
        with jax.enable_x64(True):
            posterior = jax.tree.map(jnp.asarray, state["posterior"])
        self.__dict__.update(state, posterior=posterior)

    def _group_of(self, name: Hashable) -> str:
        """Return the group of an item; items with equal kernels form one group."""
        return repr(self.item[name].kernel)

    def _infer(self, rule: Any, **options: Any) -> jk.Posterior:
        """Fit, with a warm start if the last posterior allows it."""
        last = self.posterior
        known = len(last.data) if last else 0
        if last and known == len(self.observations):
            return jk.infer(last.model, last.data, rule, start=last, **options)
        alike = len({seen.parameter for seen in self.observations}) == 1
        groups = set(map(self._group_of, self.item))
        if last and alike and last.method == rule and set(last.model.kernel) == groups:
            return last.update(self._dataset(self.observations[known:]), **options)
        return jk.infer(*self.to_jaxkick(), rule, **options)

    def _likelihood_of(self, parameters: list[float | None]) -> Any:
        """Return the likelihood, with one parameter for all observations or one for each."""
        different = list(dict.fromkeys(parameters))
        if different == [None]:
            return self._likelihood()
        values = np.array(parameters if len(different) > 1 else different[0])
        return self._likelihood(jk.Real(values) if np.any(values == 0) else values)

    def _observe(self, teams, t, outcome, weight, parameter=None) -> None:
        features = self._features(*teams)
        _check(any(features.values()), "need at least one item per observation")
        valid = math.isfinite(t) and math.isfinite(outcome) and 0 <= weight < math.inf
        _check(valid, f"time {t}, outcome {outcome} or weight {weight} is invalid")
        for name in features:
            self.item[name].times.append(t)
        seen = Observation(float(t), features, float(outcome), float(weight), parameter)
        self.observations.append(seen)
        self.last_t = max(self.last_t, t)

    def _features(self, *teams: Any) -> dict[Hashable, float]:
        """Return coefficients by name; those of a repeated name are added."""
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
        moments = np.zeros(2)
        for name, value in self._features(*teams).items():
            mean, variance = self.item[name].predict(np.array([t]))
            moments += value * mean[0], value**2 * variance[0]
        with jax.enable_x64(True):
            mean, variance = jnp.asarray(moments)
            likelihood = self._likelihood_of([parameter])
            return jk.Prediction(mean=mean, variance=variance, likelihood=likelihood)

    def _dataset(self, observations: list[Observation]) -> jk.Dataset:
        times, features, outcomes, weights, _ = map(list, zip(*observations, strict=True))
        weight = None if set(weights) == {1.0} else weights
        groups = self._group_of
        return jk.Dataset.from_mappings(times, features, outcomes, weight=weight, groups=groups)


class BinaryModel(Model):
    """A model of wins and losses."""

    def __init__(self, obs_type="probit", **options):
        super().__init__(getattr(jk.likelihoods, _kind(obs_type)), **options)

    def observe(self, winners, losers, t, *, weight=1.0):
        self._observe((winners, losers), t, 1.0, weight)

    def probabilities(self, team1, team2, t):
        return _win_first(self._predict((team1, team2), t))


class _OwnMargins:
    """Ties with a margin for each observation, where an array would mean several levels."""

    _has_differences, _largest = False, 1


class _ProbitMargins(_OwnMargins, jk.likelihoods.OrdinalProbit):
    pass


class _LogitMargins(_OwnMargins, jk.likelihoods.OrdinalLogit):
    pass


class TernaryModel(Model):
    """A model of wins, ties and losses."""

    def __init__(self, margin=0.1, obs_type="probit", **options):
        kind = _kind(obs_type)
        alike = getattr(jk.likelihoods, f"Ordinal{kind}")
        own = {"Probit": _ProbitMargins, "Logit": _LogitMargins}[kind]

        def likelihood(margin):
            return (own if np.ndim(getattr(margin, "value", margin)) else alike)(margin)

        super().__init__(likelihood, **options)
        self.margin = margin

    def observe(self, winners, losers, t, tie=False, margin=None, *, weight=1.0):
        margin = self.margin if margin is None else margin
        self._observe((winners, losers), t, 0.0 if tie else 1.0, weight, margin)

    def probabilities(self, team1, team2, t, margin=None):
        margin = self.margin if margin is None else margin
        return _win_first(self._predict((team1, team2), t, margin))


class DifferenceModel(Model):
    """A model of differences of points."""

    def __init__(self, var=1.0, **options):
        super().__init__(jk.likelihoods.Gaussian, **options)
        self.var = var

    def observe(self, items1, items2, diff, var=None, t=0.0, *, weight=1.0):
        var = self.var if var is None else var
        _check(var > 0, f"`var` is {var}, but must be positive")
        self._observe((items1, items2), t, diff, weight, var)

    def probabilities(self, items1, items2, threshold=0.0, var=None, t=0.0):
        var = self.var if var is None else var
        match = self._predict((items1, items2), t, var)
        above = NormalDist(threshold, (match.variance.item() + var) ** 0.5).cdf(match.mean.item())
        return above, 1.0 - above


class CountModel(Model):
    """A model of counts; the score is the logarithm of the rate."""

    def __init__(self, **options):
        super().__init__(jk.likelihoods.Poisson, **options)

    def observe(self, items1, items2, count, t=0.0, *, weight=1.0):
        whole = isinstance(count, (int, np.integer)) and count >= 0
        _check(whole, f"`count` is {count!r}, but must be a nonnegative integer")
        self._observe((items1, items2), t, count, weight)

    def probabilities(self, items1, items2, t=0.0):
        return _around_zero(self._predict((items1, items2), t), signed=False)


class CountDiffModel(Model):
    """A model of differences of two counts with rates exp(base_rate ± score)."""

    def __init__(self, base_rate=0.0, **options):
        super().__init__(jk.likelihoods.Skellam, **options)
        self._base_rate = base_rate

    def observe(self, items1, items2, diff, t=0.0, *, weight=1.0):
        _check(diff == round(diff), f"`diff` is {diff!r}, but must be an integer")
        self._observe((items1, items2), t, diff, weight, self._base_rate)

    def probabilities(self, items1, items2, t=0.0):
        return _around_zero(self._predict((items1, items2), t, self._base_rate), signed=True)


def _kind(obs_type: str) -> str:
    if obs_type not in ("probit", "logit"):
        raise ValueError(f"unknown observation type: '{obs_type}'")
    return obs_type.capitalize()


def _check(valid: bool, problem: str) -> None:
    if not valid:
        raise InvalidObservation(problem)


def _win_first(match: jk.Prediction) -> tuple[float, ...]:
    """Return the probabilities of win, tie (if possible) and loss."""
    with jax.enable_x64(True):
        return tuple(np.array(match.probabilities)[::-1].tolist())


def _around_zero(match: jk.Prediction, signed: bool) -> tuple[float, ...]:
    """Return the probabilities of the smallest counts, in size, that sum to at least 0.999."""
    for reach in 2 ** np.arange(4, 21):
        counts = np.arange(-reach if signed else 0, reach + 1.0)
        with jax.enable_x64(True):
            likely = np.array(match.distribution(counts).probabilities)
        mass = np.bincount(np.abs(counts).astype(int), likely).cumsum()
        if mass[-1] >= 0.999:
            return tuple(likely[np.abs(counts) <= np.argmax(mass >= 0.999)].tolist())
    raise OverflowError("The score is so uncertain that counts above a million are probable.")


def _print_progress(steps: int, distance: float) -> None:
    """Print a line in the format of kickscore."""
    print(f"iteration {int(steps)}, max diff: {float(distance):.5f}", flush=True)  # noqa: T201
