"""Log-probabilities of outcomes given a score, with their first two derivatives in the score.

The derivatives are not needed by the integrals of `tests.reference.quadrature`, which work from
the log-probability alone, but they keep those integrals accurate at tiny variances.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import erfcx, expit, gammaln, ive, log_expit, log_ndtr

__all__ = [
    "Likelihood",
    "gaussian",
    "logit",
    "negative_binomial",
    "ordinal_logit",
    "ordinal_probit",
    "poisson",
    "probit",
    "skellam",
    "student_t",
]

Function = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Likelihood:
    """p(y | f): `log_prob`, its `slope` and `curvature` in f, and a sampler."""

    name: str
    log_prob: Function
    slope: Function
    curvature: Function
    sample: Callable[[np.random.Generator, float], float]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, outcome, score) -> np.ndarray:
        """The log-probability of `outcome` given `score`."""
        return self.log_prob(outcome, score)


def _sides(f, low, high) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The interval for the noise, mirrored to the left half line, and the mirror's sign.

    Φ keeps its relative accuracy on the left only.
    """
    a, b = low - f, high - f
    mirrored = a + b > 0
    return np.where(mirrored, -b, a), np.where(mirrored, -a, b), np.where(mirrored, -1.0, 1.0)


def _probit_log(f, low, high):
    """log(Φ(high − f) − Φ(low − f))."""
    a, b, _ = _sides(f, low, high)
    return log_ndtr(b) + np.log(-np.expm1(log_ndtr(a) - log_ndtr(b)))


def _probit_ratios(f, low, high):
    """The normal densities at both ends over the probability between them."""
    a, b, sign = _sides(f, low, high)
    relative = np.exp(0.5 * (b - a) * (b + a))
    span = erfcx(-b / np.sqrt(2.0)) - erfcx(-a / np.sqrt(2.0)) * relative
    ratio = np.sqrt(2.0 / np.pi) / span
    return a, b, ratio * relative, ratio, sign


def _probit_slope(f, low, high):
    _, _, at_a, at_b, sign = _probit_ratios(f, low, high)
    return sign * (at_a - at_b)


def _probit_curvature(f, low, high):
    a, b, at_a, at_b, _ = _probit_ratios(f, low, high)
    # a φ(a) − b φ(b) − (φ(a) − φ(b))², over the probability, in the order that cancels least;
    # an end at infinity gives nothing.
    inner = at_a * (np.where(np.isneginf(a), 0.0, a) - at_a + 2.0 * at_b)
    return inner - at_b * (b + at_b)


def _logit_log(f, low, high):
    """log(F(high − f) − F(low − f)) with F the logistic function."""
    return log_expit(f - low) + log_expit(high - f) + np.log(-np.expm1(low - high))


def _logit_slope(f, low, high):
    return expit(low - f) - expit(f - high)


def _logit_curvature(f, low, high):
    return -expit(f - low) * expit(low - f) - expit(f - high) * expit(high - f)


_LINKS = {
    "probit": (_probit_log, _probit_slope, _probit_curvature, lambda rng: rng.normal()),
    "logit": (_logit_log, _logit_slope, _logit_curvature, lambda rng: rng.logistic()),
}


def _interval(name: str, link: str, cuts: np.ndarray, levels: np.ndarray, parameters):
    """P(y = levels[k]) = P(cuts[k−1] < f + noise < cuts[k]), with infinite outer cuts."""
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    functions = _LINKS[link][:3]
    noise = _LINKS[link][3]

    def bounded(function):
        def with_outcome(y, f):
            k = np.searchsorted(levels, np.asarray(y, float))
            return function(np.asarray(f, float), edges[k], edges[k + 1])

        return with_outcome

    def sample(rng, f):
        return float(levels[np.searchsorted(cuts, f + noise(rng))])

    return Likelihood(name, *map(bounded, functions), sample=sample, parameters=parameters)


def probit() -> Likelihood:
    """P(y = ±1) = Φ(±f)."""
    return _interval("probit", "probit", np.array([0.0]), np.array([-1.0, 1.0]), {})


def logit() -> Likelihood:
    """P(y = ±1) = F(±f), F the logistic function."""
    return _interval("logit", "logit", np.array([0.0]), np.array([-1.0, 1.0]), {})


def _ordinal(link: str, margin: float | None, cuts: Sequence[float] | None) -> Likelihood:
    name = f"ordinal_{link}"
    if margin is not None:
        levels = np.array([-1.0, 0.0, 1.0])
        return _interval(name, link, np.array([-margin, margin]), levels, {"margin": margin})
    edges = np.asarray(cuts, float)
    return _interval(name, link, edges, np.arange(edges.size + 1.0), {"cuts": tuple(edges)})


def ordinal_probit(margin: float | None = None, cuts: Sequence[float] | None = None) -> Likelihood:
    """Win +1, tie 0, loss −1 by `margin`; or levels 0…L−1 by `cuts`, P(y ≥ k) = Φ(f − cutₖ)."""
    return _ordinal("probit", margin, cuts)


def ordinal_logit(margin: float | None = None, cuts: Sequence[float] | None = None) -> Likelihood:
    """As `ordinal_probit`, with the logistic function."""
    return _ordinal("logit", margin, cuts)


def gaussian(variance: float) -> Likelihood:
    """Outcomes y ~ N(f, variance)."""
    return Likelihood(
        "gaussian",
        lambda y, f: -0.5 * (np.log(2 * np.pi * variance) + (y - f) ** 2 / variance),
        lambda y, f: (y - f) / variance,
        lambda y, f: np.broadcast_to(-1.0 / variance, np.broadcast(y, f).shape),
        lambda rng, f: rng.normal(f, np.sqrt(variance)),
        {"variance": variance},
    )


def poisson() -> Likelihood:
    """Counts y ~ Poisson(exp f)."""
    return Likelihood(
        "poisson",
        lambda y, f: y * f - np.exp(f) - gammaln(y + 1.0),
        lambda y, f: y - np.exp(f),
        lambda y, f: np.broadcast_to(-np.exp(f), np.broadcast(y, f).shape),
        lambda rng, f: float(rng.poisson(np.exp(f))),
    )


def negative_binomial(dispersion: float) -> Likelihood:
    """Counts with mean μ = exp f and variance μ + dispersion μ²."""
    size = 1.0 / dispersion

    def log_prob(y, f):
        constant = gammaln(y + size) - gammaln(size) - gammaln(y + 1.0)
        s = f - np.log(size)
        return constant - size * np.logaddexp(0.0, s) - y * np.logaddexp(0.0, -s)

    def share(f):
        return expit(f - np.log(size))

    return Likelihood(
        "negative_binomial",
        log_prob,
        lambda y, f: y - (y + size) * share(f),
        lambda y, f: -(y + size) * share(f) * (1.0 - share(f)),
        lambda rng, f: float(rng.poisson(np.exp(f) * rng.gamma(size) / size)),
        {"dispersion": dispersion},
    )


def skellam(base_rate: float) -> Likelihood:
    """Difference of two Poisson counts of rates exp(base_rate ± f)."""

    def rates(f):
        return np.exp(base_rate + f), np.exp(base_rate - f)

    def log_prob(y, f):
        argument = 2.0 * np.exp(base_rate)
        return y * f - sum(rates(f)) + np.log(ive(np.abs(y), argument)) + argument

    def slope(y, f):
        up, down = rates(f)
        return y - up + down

    def curvature(y, f):
        return np.broadcast_to(-sum(rates(f)), np.broadcast(y, f).shape)

    def sample(rng, f):
        return float(np.subtract(*rng.poisson(rates(f))))

    return Likelihood("skellam", log_prob, slope, curvature, sample, {"base_rate": base_rate})


def student_t(degrees: float, scale: float = 1.0) -> Likelihood:
    """(y − f)/scale ~ Student's t; not log-concave, so sites may be negative."""
    constant = gammaln((degrees + 1) / 2) - gammaln(degrees / 2)
    constant -= 0.5 * np.log(degrees * np.pi * scale**2)
    spread = degrees * scale**2

    return Likelihood(
        "student_t",
        lambda y, f: constant - 0.5 * (degrees + 1) * np.log1p((y - f) ** 2 / spread),
        lambda y, f: (degrees + 1) * (y - f) / (spread + (y - f) ** 2),
        lambda y, f: (degrees + 1) * ((y - f) ** 2 - spread) / (spread + (y - f) ** 2) ** 2,
        lambda rng, f: f + scale * rng.standard_t(degrees),
        {"degrees": degrees, "scale": scale},
    )
