"""Kernels: priors of scores that change over time.

Each kernel is a Gaussian process in state-space form. Combine kernels with ``+`` and ``*``;
``number * kernel`` scales the variance::

    Constant(0.03) + Matern32(variance=0.9, lengthscale=7.5)
"""

from jaxkick.kernels.aspects import Aspects, CorrelatedAspects
from jaxkick.kernels.base import (
    AbstractCompositeKernel,
    AbstractKernel,
    AbstractStationary,
    sample_prior,
    state_space_covariance,
)
from jaxkick.kernels.combine import Product, Sum
from jaxkick.kernels.nonstationary import Affine, Linear, PiecewiseConstant, Wiener
from jaxkick.kernels.oscillation import Cosine, Periodic
from jaxkick.kernels.sde import LinearSDE
from jaxkick.kernels.stationary import (
    Constant,
    Matern12,
    Matern32,
    Matern52,
    SquaredExponential,
)
from jaxkick.kernels.time import FIRST, Epoch, Instant, Interval

__all__ = [
    "FIRST",
    "AbstractCompositeKernel",
    "AbstractKernel",
    "AbstractStationary",
    "Affine",
    "Aspects",
    "Constant",
    "CorrelatedAspects",
    "Cosine",
    "Epoch",
    "Instant",
    "Interval",
    "Linear",
    "LinearSDE",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "PiecewiseConstant",
    "Product",
    "SquaredExponential",
    "Sum",
    "Wiener",
    "sample_prior",
    "state_space_covariance",
]
