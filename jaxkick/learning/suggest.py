"""A model to start from, when the user has none."""

import numpy as np

from jaxkick.dataset.dataset import Dataset
from jaxkick.kernels.base import AbstractKernel
from jaxkick.kernels.stationary import Constant, Matern12
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.likelihoods.binary import Probit
from jaxkick.likelihoods.count import Poisson
from jaxkick.likelihoods.gaussian import Gaussian
from jaxkick.likelihoods.ordinal import OrdinalProbit
from jaxkick.model import Model

__all__ = ["suggest_model"]

_SPANS_PER_LENGTHSCALE = 4.0


def suggest_model(data: Dataset, likelihood: AbstractLikelihood | None = None) -> Model:
    """A plain model with starting values of the right size, for `learn` to improve.

    Every group of features has a constant score plus one that wanders (Matérn 1/2) with a
    quarter of a feature's time span as lengthscale. All groups contribute equally to the
    variance of a match's combined score, which is 1, or half of the outcomes' for `Gaussian`.

    Args:
        data: the observations.
        likelihood: how outcomes follow from scores. If `None`: `Probit` for outcomes of -1
            and +1, `OrdinalProbit` with a margin if there is 0 as well, `Poisson` for a table
            that was read with `counts=`, else `Gaussian`.

    Returns:
        The model.

    Raises:
        ValueError: if outcomes are 0 and 1 and no likelihood says what they mean.
    """
    outcome = np.asarray(data.outcome)
    spread = float(np.var(outcome))
    spread = spread if spread > 0 else 1.0
    if likelihood is None:
        recipe = data.index.recipe
        counted = recipe is not None and recipe.counts is not None
        likelihood = Poisson() if counted else _likelihood_for(outcome, spread)
    total = 0.5 * spread if isinstance(likelihood, Gaussian) else 1.0
    share = total / len(data.chains)
    kernels = {
        group: _kernel_for(data, number, share) for number, group in enumerate(data.index.groups)
    }
    alone = len(kernels) == 1
    return Model(next(iter(kernels.values())) if alone else kernels, likelihood)


def _likelihood_for(outcome: np.ndarray, spread: float) -> AbstractLikelihood:
    levels = set(np.unique(outcome).tolist())
    if levels == {0.0, 1.0}:
        raise ValueError(
            "outcomes are 0 and 1, which may be losses and wins, or ties and wins; give losses as "
            "-1 or outcomes as booleans, or pass a likelihood."
        )
    if levels <= {-1.0, 1.0}:
        return Probit()
    if levels <= {-1.0, 0.0, 1.0}:
        return OrdinalProbit(margin=0.5)
    return Gaussian(0.5 * spread)


def _kernel_for(data: Dataset, number: int, variance: float) -> AbstractKernel:
    """A kernel for one group whose part of the combined score has this variance."""
    index, source = data.index, np.asarray(data.chains[number].source).ravel()
    x = np.append(np.asarray(data.coefficients, float).ravel(), 0.0)[source]
    squares = float(np.sum(x * x)) / len(index.times)
    # A group that hardly takes part is not given a huge variance for that.
    variance = variance / max(squares, 0.1)
    members = np.flatnonzero((index.feature_group == number) & (index.counts > 0))
    begins, counts = index.begins[members], index.counts[members]
    if not members.size:
        return Constant(variance)
    times = index.times[index.observations]
    spans = times[begins + counts - 1] - times[begins]
    span = float(np.average(spans, weights=counts))
    if span <= 0:
        return Constant(variance)
    return Constant(0.5 * variance) + Matern12(0.5 * variance, span / _SPANS_PER_LENGTHSCALE)
