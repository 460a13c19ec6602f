"""Fit Laguerre filters to the squared-exponential kernel.

Prints the table in jaxkick/kernels/stationary.py. Takes minutes:

    python benchmarks/fit_squared_exponential.py

A filter of `order` N has a rate λ and a vector h of unit length, and the covariance
Σ_k a_k(λτ) Σ_j h_j h_{j+k}, where a_k are the entries of its transition matrix. The fit
minimizes the largest error against exp(−τ²/2) over λ and h, subject to paths as smooth as those
of Matérn 5/2 (the impulse response starts with zero value and slope): least squares from many
starts, then a sequence of linear programs.
"""

import math

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import least_squares, linprog

LAGS = np.linspace(0.0, 9.0, 721)
TARGET = np.exp(-0.5 * LAGS**2)


def transition_entries(x, order):
    """Return a_0, …, a_{order−1}: exp(−x) (L_k(2x) − L_{k−1}(2x))."""
    entries, before, now = [np.exp(-x)], 0.0 * x, np.exp(-x)
    for k in range(1, order):
        entries.append(-2.0 * x / k * now)
        before, now = now, ((2 * k - 2.0 * x) * now - k * before) / k
    return np.array(entries)


def covariance(rate, h, lags):
    """Return the covariance of the filter's output."""
    products = [h[k:] @ h[: len(h) - k] for k in range(len(h))]
    return np.array(products) @ transition_entries(rate * lags, len(h))


class Fit:
    """The problem for one order, in unconstrained coordinates (log λ, h in a subspace)."""

    def __init__(self, order):
        """Find the subspace of smooth filters."""
        smooth = [[math.comb(k, m) for k in range(order)] for m in range(min(order, 3) - 1)]
        self.basis = null_space(np.array(smooth, float)) if smooth else np.eye(order)

    def unpack(self, point):
        """Return λ and h."""
        h = self.basis @ point[1:]
        return np.exp(point[0]), h / np.linalg.norm(h)

    def pack(self, rate, h):
        """Return the point of λ and h."""
        return np.r_[np.log(rate), self.basis.T @ h]

    def error(self, point):
        """Return the error at each lag."""
        return covariance(*self.unpack(point), LAGS) - TARGET

    def largest(self, point):
        """Return the largest error."""
        return np.max(np.abs(self.error(point)))

    def least_squares(self, point):
        """Minimize squares, then a higher power, which is closer to the largest error."""
        point = least_squares(self.error, point, max_nfev=50).x

        def cubed(point):
            return (1e3 * self.error(point)) ** 3

        return least_squares(cubed, point, max_nfev=50).x

    def minimax(self, point, steps=60):
        """Minimize the largest error by linear programs in a trust region."""
        radius, best = 0.1, self.largest(point)
        for _ in range(steps):
            error, shifts = self.error(point), 1e-6 * np.eye(len(point))
            slopes = np.array([self.error(point + d) - self.error(point - d) for d in shifts])
            slopes, ones = slopes.T / 2e-6, np.ones((len(error), 1))
            programme = linprog(
                np.r_[np.zeros(len(point)), 1.0],
                A_ub=np.block([[slopes, -ones], [-slopes, -ones]]),
                b_ub=np.r_[-error, error],
                bounds=[(-radius, radius)] * len(point) + [(0, None)],
            )
            trial = point + programme.x[:-1] if programme.x is not None else point
            if self.largest(trial) < best:
                point, best, radius = (
                    self.pack(*self.unpack(trial)),
                    self.largest(trial),
                    2 * radius,
                )
            else:
                radius /= 4
            if radius < 1e-12:
                break
        return point


def fit(order, neighbours, random):
    """Find the best filters of one order, from those of the order below and random starts."""
    problem, index = Fit(order), np.arange(order)
    signs, starts = (-1.0) ** index, []
    for rate in np.linspace(1.0, 6.0, 8):
        shapes = [[math.comb(order - 1, k) for k in index]]
        for _ in range(2):
            centre, width = random.uniform(0, 0.6 * order), random.uniform(1, 6)
            shapes.append(np.exp(-((index - centre) ** 2) / width))
        starts += [problem.pack(rate, signs * shape) for shape in shapes]
    for rate, h in neighbours:
        starts += [problem.pack(rate, np.r_[h, 0.0]), problem.pack(rate * 1.1, np.r_[0.0, h])]
    points = sorted((problem.least_squares(start) for start in starts), key=problem.largest)
    distinct = [points[0]]
    for point in points[1:]:
        if problem.largest(point) > 1.001 * problem.largest(distinct[-1]):
            distinct.append(point)
    best = sorted((problem.minimax(point) for point in distinct[:6]), key=problem.largest)
    return [(problem.largest(point), *problem.unpack(point)) for point in best[:3]]


def main():
    """Print the table."""
    random, neighbours = np.random.default_rng(2), []
    for order in range(1, 13):
        found = fit(order, neighbours, random)
        neighbours = [(rate, h) for _, rate, h in found]
        error, rate, h = found[0]
        # A filter and its mirror image have the same covariance: choose one.
        h = h if np.arange(order) @ h**2 <= np.arange(order)[::-1] @ h**2 else h[::-1]
        numbers = ", ".join(f"{value:.10g}" for value in np.sign(h[0]) * h)
        print(f"    {order}: ({rate:.10g}, ({numbers},)),  # {error:.1e}", flush=True)


if __name__ == "__main__":
    main()
