"""Every likelihood with its independent reference and some outcomes."""

from typing import Any, NamedTuple

from jaxkick import likelihoods
from jaxkick.likelihoods import AbstractLikelihood
from tests import reference as ref
from tests.translation import likelihood_of

__all__ = ["CASES", "COUNTS", "Case"]


class Case(NamedTuple):
    """A likelihood, the same in plain NumPy, and outcomes to look at."""

    likelihood: AbstractLikelihood
    truth: Any
    outcomes: list[float]


def _case(truth: ref.Likelihood, outcomes: list[float]) -> Case:
    return Case(likelihood_of(truth), truth, outcomes)


TIES, LEVELS = [-1.0, 0.0, 1.0], [0.0, 1.0, 3.0]

CASES = {
    "probit": _case(ref.probit(), [-1.0, 1.0]),
    "logit": _case(ref.logit(), [-1.0, 1.0]),
    "ordinal_probit-margin": _case(ref.ordinal_probit(margin=0.3), TIES),
    "ordinal_probit-wide": _case(ref.ordinal_probit(margin=8.0), [0.0, 1.0]),
    "ordinal_probit-cuts": _case(ref.ordinal_probit(cuts=[-1.0, 0.2, 0.9]), LEVELS),
    "ordinal_logit-margin": _case(ref.ordinal_logit(margin=0.3), TIES),
    "ordinal_logit-cuts": _case(ref.ordinal_logit(cuts=[-9.0, 0.2, 0.9]), LEVELS),
    "gaussian": _case(ref.gaussian(2.0), [-30.0, 0.5]),
    "poisson": _case(ref.poisson(), [0.0, 1.0, 7.0, 500.0]),
    "negative_binomial": _case(ref.negative_binomial(0.4), [0.0, 1.0, 7.0, 500.0]),
    "skellam": _case(ref.skellam(0.4), [-30.0, 0.0, 3.0]),
    "student_t": _case(ref.student_t(4.0, 0.7), [-2.0, 1.5]),
}
COUNTS = ("poisson", "skellam")

assert {type(case.likelihood).__name__ for case in CASES.values()} >= {
    name
    for name in likelihoods.__all__
    if name not in ("AbstractLikelihood", "Derivatives", "Distribution")
    and getattr(likelihoods, name).num_predictors == 1
}
