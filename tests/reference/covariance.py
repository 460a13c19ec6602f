"""Dense covariance functions k(t, u), straight from their formulas.

Each comes with its name and parameters, so that the same kernel can be built in another
library (see `tests.reference.kickscore_fit`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = [
    "Covariance",
    "affine",
    "constant",
    "cosine",
    "linear",
    "matern12",
    "matern32",
    "matern52",
    "periodic",
    "piecewise_constant",
    "squared_exponential",
    "wiener",
]


@dataclass(frozen=True)
class Covariance:
    """A covariance function of two times (arrays broadcast), with its name and parameters.

    Sums and products are made with `+` and `*`; their `parts` are the two operands.
    """

    function: Callable[[np.ndarray, np.ndarray], np.ndarray]
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple["Covariance", ...] = ()

    def __call__(self, t, u) -> np.ndarray:
        """The covariance of the scores at times `t` and `u`."""
        t, u = np.broadcast_arrays(np.asarray(t, float), np.asarray(u, float))
        return self.function(t, u)

    def matrix(self, t, u=None) -> np.ndarray:
        """The covariance between all of `t` and all of `u` (default: `t`)."""
        t = np.asarray(t, float)
        u = t if u is None else np.asarray(u, float)
        return self(t[:, None], u[None, :])

    def __add__(self, other: "Covariance") -> "Covariance":
        return Covariance(lambda t, u: self(t, u) + other(t, u), "sum", parts=(self, other))

    def __mul__(self, other: "Covariance") -> "Covariance":
        return Covariance(lambda t, u: self(t, u) * other(t, u), "product", parts=(self, other))


def constant(variance: float) -> Covariance:
    """A score that never moves: k = σ²."""
    return Covariance(lambda t, u: np.full(t.shape, variance), "constant", {"variance": variance})


def piecewise_constant(variance: float, bounds: Sequence[float]) -> Covariance:
    """A score drawn anew after each bound; a time at a bound belongs to the piece before it."""
    edges = np.sort(np.asarray(bounds, float))
    return Covariance(
        lambda t, u: variance * (np.searchsorted(edges, t) == np.searchsorted(edges, u)),
        "piecewise_constant",
        {"variance": variance, "bounds": tuple(edges)},
    )


def wiener(variance: float, origin: float = 0.0, origin_variance: float = 0.0) -> Covariance:
    """Brownian motion: k = σ² (min(t, u) − origin) + σ₀², for times from the origin on."""
    return Covariance(
        lambda t, u: variance * (np.minimum(t, u) - origin) + origin_variance,
        "wiener",
        {"variance": variance, "origin": origin, "origin_variance": origin_variance},
    )


def linear(variance: float, origin: float = 0.0) -> Covariance:
    """A straight line through zero at the origin: k = σ² (t − origin)(u − origin)."""
    return Covariance(
        lambda t, u: variance * (t - origin) * (u - origin),
        "linear",
        {"variance": variance, "origin": origin},
    )


def affine(offset_variance: float, slope_variance: float, origin: float = 0.0) -> Covariance:
    """A straight line: k = σ₀² + σ₁² (t − origin)(u − origin)."""
    return Covariance(
        lambda t, u: offset_variance + slope_variance * (t - origin) * (u - origin),
        "affine",
        {
            "offset_variance": offset_variance,
            "slope_variance": slope_variance,
            "origin": origin,
        },
    )


def matern12(variance: float, lengthscale: float) -> Covariance:
    """Matérn 1/2: k = σ² exp(−|t − u|/ℓ)."""
    return Covariance(
        lambda t, u: variance * np.exp(-np.abs(t - u) / lengthscale),
        "matern12",
        {"variance": variance, "lengthscale": lengthscale},
    )


def matern32(variance: float, lengthscale: float) -> Covariance:
    """Matérn 3/2: k = σ² (1 + a) exp(−a), a = √3 |t − u|/ℓ."""

    def function(t, u):
        a = np.sqrt(3.0) * np.abs(t - u) / lengthscale
        return variance * (1.0 + a) * np.exp(-a)

    return Covariance(function, "matern32", {"variance": variance, "lengthscale": lengthscale})


def matern52(variance: float, lengthscale: float) -> Covariance:
    """Matérn 5/2: k = σ² (1 + a + a²/3) exp(−a), a = √5 |t − u|/ℓ."""

    def function(t, u):
        a = np.sqrt(5.0) * np.abs(t - u) / lengthscale
        return variance * (1.0 + a + a**2 / 3.0) * np.exp(-a)

    return Covariance(function, "matern52", {"variance": variance, "lengthscale": lengthscale})


def cosine(variance: float, period: float, lengthscale: float = np.inf) -> Covariance:
    """A damped oscillation: k = σ² exp(−|t − u|/ℓ) cos(2π (t − u)/period)."""
    return Covariance(
        lambda t, u: (
            variance * np.exp(-np.abs(t - u) / lengthscale) * np.cos(2 * np.pi * (t - u) / period)
        ),
        "cosine",
        {"variance": variance, "period": period, "lengthscale": lengthscale},
    )


def squared_exponential(variance: float, lengthscale: float) -> Covariance:
    """Squared exponential: k = σ² exp(−(t − u)²/(2ℓ²))."""
    return Covariance(
        lambda t, u: variance * np.exp(-0.5 * ((t - u) / lengthscale) ** 2),
        "squared_exponential",
        {"variance": variance, "lengthscale": lengthscale},
    )


def periodic(variance: float, period: float, lengthscale: float) -> Covariance:
    """Periodic: k = σ² exp(−2 sin²(π (t − u)/period)/ℓ²), with ℓ a pure number."""
    return Covariance(
        lambda t, u: (
            variance * np.exp(-2.0 * (np.sin(np.pi * (t - u) / period) / lengthscale) ** 2)
        ),
        "periodic",
        {"variance": variance, "period": period, "lengthscale": lengthscale},
    )
