"""The likelihood as the page's own program needs it."""

from typing import Any

import numpy as np

from jaxkick._parameters import AbstractParameter, resolve
from jaxkick.likelihoods import (
    Gaussian,
    Logit,
    OrdinalLogit,
    OrdinalProbit,
    Poisson,
    Probit,
    Skellam,
)
from jaxkick.likelihoods.base import AbstractLikelihood

__all__ = ["describe_outcome"]


def describe_outcome(likelihood: AbstractLikelihood, two_counts: bool) -> dict[str, Any]:
    """How outcomes follow from scores, in numbers and words that JSON can hold.

    Args:
        likelihood: the model's likelihood.
        two_counts: whether a match has the counts of both sides as outcomes.

    Returns:
        The kind of outcome with its parameters; the kind `"score"`, which says nothing of
        outcomes, for a likelihood that the page has no formula for.
    """
    likelihood = resolve(likelihood)
    kind = type(likelihood)
    if two_counts:
        return {"kind": "counts" if kind is Poisson else "score"}
    if isinstance(likelihood, Probit | OrdinalProbit):
        return _ordinal(likelihood, "normal")
    if isinstance(likelihood, Logit | OrdinalLogit):
        return _ordinal(likelihood, "logistic")
    if isinstance(likelihood, Gaussian):
        return {"kind": "normal", "variance": _number(likelihood.variance)}
    if isinstance(likelihood, Skellam):
        return {"kind": "skellam", "base_rate": _number(likelihood.base_rate)}
    return {"kind": "poisson" if kind is Poisson else "score"}


def _ordinal(likelihood: AbstractLikelihood, noise: str) -> dict[str, Any]:
    """Thresholds of score plus noise, and the outcomes between them."""
    margin, cuts = getattr(likelihood, "margin", None), getattr(likelihood, "cuts", None)
    if cuts is not None:
        thresholds = np.asarray(cuts.value, np.float64).tolist()
    else:
        thresholds = [0.0] if margin is None else [-_number(margin), _number(margin)]
    return {
        "kind": "ordinal",
        "noise": noise,
        "cuts": thresholds,
        "levels": list(likelihood.levels),
        "results": cuts is None,
    }


def _number(parameter: AbstractParameter) -> float:
    return float(parameter.value)
