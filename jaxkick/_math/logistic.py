"""The logistic function under a Gaussian, by a mixture of normal distribution functions.

The logistic distribution is a scale mixture of normal distributions, so σ(x) is close to a sum of
w_k Φ(x / s_k), and its mean under N(μ, v) to the sum of w_k Φ(μ / √(s_k² + v)): a closed form.
Weights and scales minimise the errors of σ and of its first two derivatives times exp(|x| / 2),
which are below 1.1e-9: relative to exp(−|x| / 2), as needed for |μ| ≤ v / 2. Further out,

    E[σ(−f)] = exp(−μ + v / 2) E[σ(f − v)]

moves the mean back. Tilted moments have an error below 1e-8 everywhere, and probabilities in both
tails below 1e-10 of themselves.
"""

import jax
import jax.numpy as jnp
from jax import lax

from jaxkick._math.normal import LOG_SQRT_2PI, Derivatives, hazard_beyond, log
from jaxkick._typing import Array, Bool, Float, Scalar

__all__ = ["logistic_log_mean"]

# Fitted by `benchmarks/fit_logistic.py`.
_SCALES = (
    0.6349013728027435, 0.7782105945953194, 0.9389689422430249, 1.126837783421187,
    1.3488775399554156, 1.6114395575305869, 1.9201313568947387, 2.279491035250211,
    2.6936359867496855, 3.168183290758372, 3.7122853019538735, 4.341550481944825,
    5.086380561239037, 6.027975282659399,
)  # fmt: skip
_WEIGHTS = (
    0.0001975498109882726, 0.005490608884076259, 0.03719828255196943, 0.11184971284381709,
    0.19528655200475759, 0.230222701089218, 0.1994000349618177, 0.1307493609114159,
    0.06344064744151098, 0.021261735414823294, 0.004405967198447465, 0.00047654162596887957,
    2.0133209760976775e-05, 1.7205141089436842e-07,
)  # fmt: skip


def logistic_log_mean(mean: Float[Array, "..."], variance: Float[Array, "..."]) -> Derivatives:
    """Compute log E[σ(f)] for f ~ N(mean, variance) and its derivatives in the mean."""
    positive = mean >= 0
    size = jnp.where(positive, mean, -mean)
    moved = size > 0.5 * variance
    passed = size - variance >= 0
    distance = jnp.where(passed, size - variance, variance - size)
    tail = _tail(jnp.where(moved, distance, size), variance)
    back = _of_sign(_complement(tail), tail, passed)
    far = Derivatives(0.5 * variance - size + back.value, back.first - 1.0, back.second)
    loss = Derivatives(*(jnp.where(moved, *pair) for pair in zip(far, tail, strict=True)))
    return _of_sign(_complement(loss), loss, positive)


def _tail(mean: Float[Array, "..."], variance: Float[Array, "..."]) -> Derivatives:
    """Compute log E[σ(−f)] by the mixture, for means of at least zero."""
    scales, weights = (jnp.asarray(part, mean.dtype) for part in (_SCALES, _WEIGHTS))
    scale_squares, square = scales * scales, mean * mean
    # Densities relative to that of the widest part, which is the last to underflow. Both are
    # rounded alike, or the density of the widest part would underflow for large means.
    largest = scale_squares[-1]
    inverse_largest = 1.0 / (largest + variance)

    @jax.checkpoint
    def add(sums: tuple, part: tuple[Scalar, Scalar]) -> tuple:
        scale_square, weight = part
        total, slope, bend = sums
        inverse = 1.0 / (scale_square + variance)
        root = jnp.sqrt(inverse)
        z = mean * root
        excess = (scale_square - largest) * inverse * inverse_largest
        density = weight * jnp.exp(0.5 * square * excess)
        total = total + density / (z + hazard_beyond(z))
        return total, slope - density * root, bend + density * z * inverse

    def step(sums: tuple, part: tuple[Scalar, Scalar]) -> tuple:
        return add(sums, part), None

    zero = jnp.zeros_like(mean)
    (total, slope, bend), _ = lax.scan(step, (zero, zero, zero), (scale_squares, weights))
    first = slope / total
    value = log(total) - 0.5 * square * inverse_largest - LOG_SQRT_2PI
    return Derivatives(value, first, bend / total - first * first)


def _complement(tail: Derivatives) -> Derivatives:
    """Compute the derivatives of log(1 − T) from those of log T, for T of at most ½."""
    mass = jnp.exp(tail.value)
    odds = mass / (1.0 - mass)
    first = -odds * tail.first
    second = -odds * (tail.second + tail.first * tail.first) - first * first
    # A series keeps the digits of small masses.
    small = mass < float(jnp.finfo(mass.dtype).eps) ** 0.3
    series = -mass * (1.0 + mass * (0.5 + mass / 3.0))
    return Derivatives(jnp.where(small, series, log(1.0 - mass)), first, second)


def _of_sign(same: Derivatives, mirrored: Derivatives, positive: Bool[Array, "..."]) -> Derivatives:
    """Choose a function of −mean where `positive` is False."""
    value, first, second = (jnp.where(positive, *pair) for pair in zip(same, mirrored, strict=True))
    return Derivatives(value, jnp.where(positive, first, -first), second)
