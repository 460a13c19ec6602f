"""Kernels: the prior over how a score moves with time.

Each kernel is a Gaussian process with its state space. They combine by ``+`` and ``*``, and
``number * kernel`` scales the variance::

    Constant(0.03) + Matern32(variance=0.9, lengthscale=7.5)
"""

from jaxkick.kernels.base import (
    AbstractDerived,
    AbstractKernel,
    AbstractStationary,
    state_space_covariance,
)
from jaxkick.kernels.combine import Product, Sum
from jaxkick.kernels.nonstationary import Affine, Linear, PiecewiseConstant, Wiener
from jaxkick.kernels.oscillation import Cosine, Periodic
from jaxkick.kernels.sampling import sample_prior
from jaxkick.kernels.sde import StochasticDifferentialEquation
from jaxkick.kernels.squared_exponential import SquaredExponential
from jaxkick.kernels.stationary import Constant, Matern12, Matern32, Matern52
from jaxkick.kernels.time import FIRST, Epoch, Instant, Interval

__all__ = [
    "FIRST",
    "AbstractDerived",
    "AbstractKernel",
    "AbstractStationary",
    "Affine",
    "Constant",
    "Cosine",
    "Epoch",
    "Instant",
    "Interval",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "PiecewiseConstant",
    "Product",
    "SquaredExponential",
    "StochasticDifferentialEquation",
    "Sum",
    "Wiener",
    "sample_prior",
    "state_space_covariance",
]
