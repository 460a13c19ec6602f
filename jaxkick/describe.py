"""A model in plain words: what its kernels and its likelihood say, in the user's unit of time."""

import math

import numpy as np

from jaxkick._parameters import AbstractParameter, Fixed
from jaxkick.kernels.base import AbstractDerived, AbstractKernel, AbstractStationary
from jaxkick.kernels.combine import Product, Sum
from jaxkick.kernels.nonstationary import Affine, Linear, PiecewiseConstant, Wiener
from jaxkick.kernels.oscillation import Cosine, Periodic
from jaxkick.kernels.squared_exponential import SquaredExponential
from jaxkick.kernels.stationary import Constant, Matern12, Matern32, Matern52
from jaxkick.kernels.time import FIRST
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.likelihoods.count import Poisson, Skellam
from jaxkick.likelihoods.gaussian import Gaussian
from jaxkick.likelihoods.ordinal import OrdinalLogit, OrdinalProbit

__all__ = ["describe_kernel", "describe_likelihood"]

# Where the correlation of a kernel has fallen to 1/e, in lengthscales.
_FADING = {Matern12: 1.0, Matern32: 1.2391, Matern52: 1.2990, SquaredExponential: math.sqrt(2.0)}

_TEXTURE = {
    Matern12: "rough fluctuations",
    Matern32: "fluctuations",
    Matern52: "smooth fluctuations",
    SquaredExponential: "very smooth fluctuations",
}


def describe_kernel(kernel: AbstractKernel, unit: str | None = None) -> str:
    """How a score moves, in words.

    "Fade over" is the time over which the correlation of a score with itself falls to 37 %.

    Args:
        kernel: the kernel.
        unit: the unit of time, such as `"year"`.
    """
    if isinstance(kernel, Sum):
        return " plus ".join(describe_kernel(term, unit) for term in kernel.terms)
    if isinstance(kernel, Product):
        return _describe_product(kernel, unit)
    if isinstance(kernel, (Matern12, Matern32, Matern52, SquaredExponential)):
        spread, fading = _size(kernel.variance), _FADING[type(kernel)] * _value(kernel.lengthscale)
        return f"{_TEXTURE[type(kernel)]} of {spread} that fade over about {_span(fading, unit)}"
    if isinstance(kernel, Constant):
        return f"a constant level of {_size(kernel.variance)}"
    if isinstance(kernel, PiecewiseConstant):
        times = len(kernel.boundaries)
        return f"a level of {_size(kernel.variance)} that is drawn afresh {times:,} times"
    if isinstance(kernel, Wiener):
        start = _start(kernel.origin)
        return f"a random walk {start} that moves by {_size(kernel.variance)} in {_one(unit)}"
    if isinstance(kernel, (Linear, Affine)):
        return _describe_line(kernel, unit)
    if isinstance(kernel, (Cosine, Periodic)):
        return _describe_wave(kernel, unit)
    if isinstance(kernel, AbstractDerived):
        return f"{type(kernel).__name__}: {describe_kernel(kernel.definition(), unit)}"
    still = "stationary " if isinstance(kernel, AbstractStationary) else ""
    return f"a {still}process of its own kind, {type(kernel).__name__}"


def describe_likelihood(likelihood: AbstractLikelihood) -> str:
    """How outcomes follow from a difference of scores, in words.

    Args:
        likelihood: the likelihood.
    """
    name = type(likelihood).__name__
    if isinstance(likelihood, (OrdinalProbit, OrdinalLogit)) and likelihood.cuts is not None:
        cuts = ", ".join(f"{cut:.3g}" for cut in np.asarray(likelihood.cuts.value))
        return f"{len(likelihood.levels)} ordered outcomes with cuts at {cuts} ({name})"
    if likelihood.levels and set(likelihood.levels) <= {-1.0, 0.0, 1.0}:
        even, ahead = (_chances(likelihood, score) for score in (0.0, 1.0))
        ties = f"; equals tie with {_percent(even[0.0])}" if 0.0 in even else ""
        return f"who is ahead by 1 wins with {_percent(ahead[1.0])}{ties} ({name})"
    if isinstance(likelihood, Gaussian):
        return f"the outcome is the score with noise of {_size(likelihood.variance)} ({name})"
    if isinstance(likelihood, Poisson):
        return "the outcome is a count; a score higher by 0.1 makes it 10.5 % larger (Poisson)"
    if isinstance(likelihood, Skellam):
        rate = math.exp(_value(likelihood.base_rate))
        return (
            f"the outcome is a difference of two counts, of {rate:.3g} each among equals; who is "
            "ahead by 0.1 counts 10.5 % more and the other 9.5 % less (Skellam)"
        )
    return f"outcomes follow {name}: {likelihood.domain}"


def _describe_product(kernel: Product, unit: str | None) -> str:
    factors = list(kernel.factors)
    scales = [
        factor
        for factor in factors
        if isinstance(factor, Constant) and isinstance(factor.variance, Fixed)
    ]
    rest = [factor for factor in factors if not any(factor is scale for scale in scales)]
    if not rest:
        return f"a constant level of {_deviation(math.prod(_value(s.variance) for s in scales))}"
    text = " times ".join(describe_kernel(factor, unit) for factor in rest)
    times = math.prod(_value(scale.variance) for scale in scales)
    return text if times == 1.0 else f"{text}, with {times:.3g} times the variance"


def _describe_line(kernel: Linear | Affine, unit: str | None) -> str:
    if isinstance(kernel, Linear):
        return (
            f"a straight trend of {_size(kernel.variance)} in {_one(unit)} {_start(kernel.origin)}"
        )
    return (
        f"a level of {_size(kernel.offset_variance)} and a straight trend of "
        f"{_size(kernel.slope_variance)} in {_one(unit)} {_start(kernel.origin)}"
    )


def _describe_wave(kernel: Cosine | Periodic, unit: str | None) -> str:
    period = _span(_value(kernel.period), unit)
    if isinstance(kernel, Periodic):
        return f"a pattern of {_size(kernel.variance)} that repeats every {period}"
    text = f"a wave of {_size(kernel.variance)} with a period of {period}"
    if kernel.lengthscale is None:
        return text
    return f"{text} that fades over about {_span(_value(kernel.lengthscale), unit)}"


def _chances(likelihood: AbstractLikelihood, score: float) -> dict[float, float]:
    chances = np.asarray(likelihood.probabilities(score, 0.0))
    return dict(zip(likelihood.levels, chances.tolist(), strict=True))


def _size(variance: AbstractParameter) -> str:
    return _deviation(_value(variance))


def _deviation(variance: float) -> str:
    return f"± {_two_digits(math.sqrt(variance))}"


def _percent(chance: float) -> str:
    return f"{100.0 * chance:.0f} %"


def _two_digits(number: float) -> str:
    """Two digits, without an exponent unless the number is huge or tiny."""
    return f"{float(f'{number:.2g}'):g}"


def _value(parameter: AbstractParameter) -> float:
    return float(parameter.value)


def _span(length: float, unit: str | None) -> str:
    text = _two_digits(length)
    if unit is None:
        return f"{text} units of time"
    return f"{text} {unit}" if text == "1" else f"{text} {unit}s"


def _one(unit: str | None) -> str:
    return "one unit of time" if unit is None else f"one {unit}"


def _start(origin: float | object) -> str:
    return "from the first match on" if origin is FIRST else f"from {origin:g} on"
