"""The textbook Kalman filter and Rauch–Tung–Striebel smoother, one step after another.

Convention: x[i] = A[i] x[i−1] + q, q ~ N(0, Q[i]), x[0] ~ N(0, P0), score = hᵀ x. A[0] and Q[0]
are not used. A[i] = 0 with Q[i] = P starts a new feature.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["Smoothed", "kalman_smoother", "state_space_covariance"]


class Smoothed(NamedTuple):
    """The results of the two passes, by step."""

    mean: np.ndarray
    variance: np.ndarray
    log_normaliser: float
    state_mean: np.ndarray
    state_cov: np.ndarray
    predicted_mean: np.ndarray
    predicted_cov: np.ndarray
    filtered_mean: np.ndarray
    filtered_cov: np.ndarray


def _pseudo_inverse(matrix: np.ndarray) -> np.ndarray:
    """Inverse of a covariance on its range, after scaling to unit variances."""
    scale = np.sqrt(np.diag(matrix))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    correlation = matrix * np.outer(inverse, inverse)
    return np.linalg.pinv(correlation, hermitian=True) * np.outer(inverse, inverse)


def _update(m, P, h, precision_mean, precision):
    """Condition on one pseudo-observation exp(ν s − τ s²/2); Joseph's form of the covariance."""
    mu, v = h @ m, h @ P @ h
    ratio = 1.0 + precision * v
    gain = P @ h / ratio
    shrink = np.eye(len(h)) - precision * np.outer(gain, h)
    log_normaliser = 0.5 * (
        (precision_mean**2 * v + 2 * precision_mean * mu - precision * mu**2) / ratio
        - np.log(ratio)
    )
    covariance = shrink @ P @ shrink.T + precision * np.outer(gain, gain)
    return m + gain * (precision_mean - precision * mu), covariance, log_normaliser


def kalman_smoother(A, Q, h, P0, precision_mean, precision) -> Smoothed:
    """Filter forward and smooth backward.

    Args:
        A: transitions, [n, K, K].
        Q: noise covariances, [n, K, K].
        h: measurement vector, [K].
        P0: covariance of the first state, [K, K].
        precision_mean: ν of the pseudo-observations, [n].
        precision: τ of the pseudo-observations, [n]; zero where there is none.
    """
    A, Q, h, P0 = (np.asarray(array, float) for array in (A, Q, h, P0))
    steps, dim = len(precision), len(h)
    m_p, m_f, m_s = (np.zeros((steps, dim)) for _ in range(3))
    P_p, P_f, P_s = (np.zeros((steps, dim, dim)) for _ in range(3))
    total = 0.0
    for i in range(steps):
        m_p[i] = A[i] @ m_f[i - 1] if i else np.zeros(dim)
        P_p[i] = A[i] @ P_f[i - 1] @ A[i].T + Q[i] if i else P0
        m_f[i], P_f[i], term = _update(m_p[i], P_p[i], h, precision_mean[i], precision[i])
        total += term
    m_s[-1], P_s[-1] = m_f[-1], P_f[-1]
    for i in range(steps - 2, -1, -1):
        G = P_f[i] @ A[i + 1].T @ _pseudo_inverse(P_p[i + 1])
        m_s[i] = m_f[i] + G @ (m_s[i + 1] - m_p[i + 1])
        P_s[i] = P_f[i] + G @ (P_s[i + 1] - P_p[i + 1]) @ G.T
    variance = np.einsum("j,ijk,k->i", h, P_s, h)
    return Smoothed(m_s @ h, variance, float(total), m_s, P_s, m_p, P_p, m_f, P_f)


def state_space_covariance(A, Q, h, P0) -> np.ndarray:
    """The dense covariance of the scores of all steps that a state-space model implies."""
    steps = len(A)
    blocks = np.zeros((steps, steps, len(h), len(h)))
    for i in range(steps):
        blocks[i, i] = A[i] @ blocks[i - 1, i - 1] @ A[i].T + Q[i] if i else P0
        for j in range(i):
            blocks[i, j] = A[i] @ blocks[i - 1, j]
            blocks[j, i] = blocks[i, j].T
    return np.einsum("k,ijkl,l->ij", h, blocks, h)
