"""Models by kickscore's names and arguments, one for each kind of outcome."""

from statistics import NormalDist

import jax
import numpy as np

import jaxkick as jk
from jaxkick import likelihoods
from jaxkick.compat.kickscore.model import InvalidObservation, Model

__all__ = ["BinaryModel", "CountDiffModel", "CountModel", "DifferenceModel", "TernaryModel"]


class BinaryModel(Model):
    """One side wins."""

    def __init__(self, obs_type="probit", **options):
        super().__init__(getattr(likelihoods, _kind(obs_type)), **options)

    def observe(self, winners, losers, t, *, weight=1.0):
        self._observe((winners, losers), t, 1.0, weight)

    def probabilities(self, team1, team2, t):
        return _from_best(self._predict((team1, team2), t))


class TernaryModel(Model):
    """One side wins, or there is a tie."""

    def __init__(self, margin=0.1, obs_type="probit", **options):
        super().__init__(getattr(likelihoods, f"Ordinal{_kind(obs_type)}"), **options)
        self.margin = margin

    def observe(self, winners, losers, t, tie=False, margin=None, *, weight=1.0):
        margin = self.margin if margin is None else margin
        self._observe((winners, losers), t, 0.0 if tie else 1.0, weight, margin)

    def probabilities(self, team1, team2, t, margin=None):
        margin = self.margin if margin is None else margin
        return _from_best(self._predict((team1, team2), t, margin))


class DifferenceModel(Model):
    """A difference of points."""

    def __init__(self, var=1.0, **options):
        super().__init__(likelihoods.Gaussian, **options)
        self.var = var

    def observe(self, items1, items2, diff, var=None, t=0.0, *, weight=1.0):
        var = self.var if var is None else var
        _check(var > 0, f"`var` is {var}, but must be above zero.")
        self._observe((items1, items2), t, diff, weight, var)

    def probabilities(self, items1, items2, threshold=0.0, var=None, t=0.0):
        var = self.var if var is None else var
        match = self._predict((items1, items2), t, var)
        above = NormalDist(threshold, (match.variance.item() + var) ** 0.5).cdf(match.mean.item())
        return above, 1.0 - above


class CountModel(Model):
    """A count; the score is the logarithm of its rate."""

    def __init__(self, **options):
        super().__init__(likelihoods.Poisson, **options)

    def observe(self, items1, items2, count, t=0.0, *, weight=1.0):
        whole = isinstance(count, (int, np.integer)) and count >= 0
        _check(whole, f"`count` is {count!r}, not a whole number from zero.")
        self._observe((items1, items2), t, count, weight)

    def probabilities(self, items1, items2, t=0.0):
        return _around_zero(self._predict((items1, items2), t), signed=False)


class CountDiffModel(Model):
    """A difference of two counts, whose rates are exp(base_rate ± score)."""

    def __init__(self, base_rate=0.0, **options):
        super().__init__(likelihoods.Skellam, **options)
        self._base_rate = base_rate

    def observe(self, items1, items2, diff, t=0.0, *, weight=1.0):
        _check(diff == round(diff), f"`diff` is {diff!r}, not a whole number.")
        self._observe((items1, items2), t, diff, weight, self._base_rate)

    def probabilities(self, items1, items2, t=0.0):
        return _around_zero(self._predict((items1, items2), t, self._base_rate), signed=True)


def _kind(obs_type: str) -> str:
    """What the names of likelihoods end on."""
    if obs_type not in ("probit", "logit"):
        raise ValueError(f"unknown observation type: '{obs_type}'")
    return obs_type.capitalize()


def _check(valid: bool, problem: str) -> None:
    if not valid:
        raise InvalidObservation(problem)


def _from_best(match: jk.Prediction) -> tuple[float, ...]:
    """Probabilities of win, tie if there is one, and loss."""
    with jax.enable_x64(True):
        return tuple(np.array(match.probabilities)[::-1].tolist())


def _around_zero(match: jk.Prediction, signed: bool) -> tuple[float, ...]:
    """Probabilities of the smallest counts that have 999 thousandths of the mass."""
    for reach in 2 ** np.arange(4, 21):
        counts = np.arange(-reach if signed else 0, reach + 1.0)
        with jax.enable_x64(True):
            likely = np.array(match.distribution(counts).probabilities)
        mass = np.bincount(np.abs(counts).astype(int), likely).cumsum()
        if mass[-1] >= 0.999:
            return tuple(likely[np.abs(counts) <= np.argmax(mass >= 0.999)].tolist())
    raise OverflowError("the score is so uncertain that counts beyond a million matter.")
