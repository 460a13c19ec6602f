"""A model to start learning from when the user has none."""

import numpy as np

from jaxkick.data.dataset import Dataset
from jaxkick.data.schema import OUTCOMES
from jaxkick.errors import DataError
from jaxkick.kernels import AbstractKernel, Constant, Matern12
from jaxkick.likelihoods import AbstractLikelihood, Gaussian, OrdinalProbit, Poisson, Probit
from jaxkick.model import Model

__all__ = ["suggest_model"]

_CODES = {0.0, 0.5, 1.0, 2.0, 3.0}


def suggest_model(
    data: Dataset,
    likelihood: AbstractLikelihood | type[AbstractLikelihood] | None = None,
    kernel: type[AbstractKernel] = Matern12,
) -> Model:
    """Suggest a simple model with starting values of the right size, for `learn` to improve.

    Each group of features has a constant score plus one that changes with time, with the
    starting values of the kernel's class (`AbstractKernel.from_scale`). All groups contribute
    equally to the prior variance of a match's combined score, which the likelihood suggests
    (`AbstractLikelihood.score_variance`).

    Args:
        data: the observations.
        likelihood: the likelihood, or its class. If `None`: `Probit` for outcomes -1 and +1,
            `OrdinalProbit` with a margin if there is 0 as well, `Poisson` for a table read with
            `counts=`, else `Gaussian`.
        kernel: the class of the kernel that changes with time.

    Returns:
        The model.

    Raises:
        DataError: if there is no likelihood, and outcomes such as 0 and 1, 0, 0.5 and 1, or 1 and 2
            may be codes of losses, ties and wins.
    """
    outcome = data.observations.outcome
    if likelihood is None:
        counted = data.schema is not None and data.schema.counts is not None
        likelihood = Poisson if counted else _likelihood_for(data, outcome)
    if isinstance(likelihood, type):
        likelihood = likelihood.from_outcomes(outcome)
    share = likelihood.score_variance(outcome) / len(data.chains)
    kernels = {
        group: _kernel_for(data, number, share, kernel)
        for number, group in enumerate(data.index.groups)
    }
    alone = len(kernels) == 1
    return Model(next(iter(kernels.values())) if alone else kernels, likelihood)


def _likelihood_for(data: Dataset, outcome: np.ndarray) -> type[AbstractLikelihood]:
    levels = set(np.unique(outcome).tolist())
    told = data.schema is not None and data.schema.defines_losses
    if not told and levels != {1.0} and len(levels) <= 3 and levels <= _CODES:
        *shown, last = [f"{level:g}" for level in sorted(levels)]
        shown = f"{', '.join(shown)} and {last}" if shown else last
        raise DataError(
            f"{{argument}} holds only {shown}, which may be losses, ties or wins",
            "Write losses as -1, ties as 0 and wins as 1, or say what the values mean with "
            f"{{{OUTCOMES}}}. If they are measured, choose a likelihood.",
            argument="outcome",
            mentions=[OUTCOMES],
        )
    if levels <= {-1.0, 1.0}:
        return Probit
    return OrdinalProbit if levels <= {-1.0, 0.0, 1.0} else Gaussian


def _kernel_for(
    data: Dataset, number: int, variance: float, kernel: type[AbstractKernel]
) -> AbstractKernel:
    """A kernel for one group whose part of the combined score has this variance."""
    index, source = data.index, np.asarray(data.chains[number].source).ravel()
    x = np.append(np.asarray(data.coefficients, float).ravel(), 0.0)[source]
    squares = float(np.sum(x * x)) / len(index.times)
    # A group that is rarely observed does not get a huge variance.
    variance = variance / max(squares, 0.1)
    members = np.flatnonzero((index.feature_group == number) & (index.counts > 0))
    begins, counts = index.begins[members], index.counts[members]
    if not members.size:
        return Constant(variance)
    times = index.times[index.entry_observations]
    spans = times[begins + counts - 1] - times[begins]
    span = float(np.average(spans, weights=counts))
    if span <= 0:
        return Constant(variance)
    return Constant(0.5 * variance) + kernel.from_scale(0.5 * variance, span)
