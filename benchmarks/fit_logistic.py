"""Fit the mixture of normal distributions in `jaxkick/_math/logistic.py`.

    python benchmarks/fit_logistic.py        # prints scales and weights, about a minute

Adds one part after another to a mixture of six. Scales minimise the squares of the weighted errors
of σ(−x) and of its first two derivatives; weights are linear.
"""

import numpy as np
from scipy.optimize import least_squares
from scipy.special import ndtr

FEWEST, PARTS = 6, 14
X = np.concatenate([np.linspace(0, 20, 500), np.linspace(20, 60, 200)])
TAIL = 1.0 / (1.0 + np.exp(X))
SLOPE = TAIL * (1.0 - TAIL)
# The last row lets weights sum to one.
WEIGHT = np.append(np.tile(np.exp(0.5 * X), 3), 1.0)
TARGET = WEIGHT * np.concatenate([TAIL, SLOPE, SLOPE * (1.0 - 2.0 * TAIL), [100.0]])


def mixture(log_scales: np.ndarray) -> np.ndarray:
    """Return the columns of all parts: weighted tails, slopes and curvatures."""
    scale = np.exp(log_scales)
    z = X[:, None] / scale
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) / scale
    rows = [ndtr(-z), density, z * density / scale, np.full((1, len(scale)), 100.0)]
    return WEIGHT[:, None] * np.concatenate(rows)


def best_weights(log_scales: np.ndarray) -> np.ndarray:
    """Return the weights of least squares."""
    columns = mixture(log_scales)
    size = np.linalg.norm(columns, axis=0)
    return np.linalg.lstsq(columns / size, TARGET, rcond=1e-17)[0] / size


def errors(log_scales: np.ndarray) -> np.ndarray:
    """Return all weighted errors, in units that suit the optimizer."""
    return 1e9 * (mixture(log_scales) @ best_weights(log_scales) - TARGET)


def main() -> None:
    """Fit mixtures of more and more parts."""
    log_scales = np.log(np.geomspace(0.8, 3.5, FEWEST))
    for count in range(FEWEST, PARTS + 1):
        # Scales as a smooth function of their rank.
        ranks = [(np.arange(n) + 0.5) / n for n in (len(log_scales), count)]
        log_scales = np.polyval(np.polyfit(ranks[0], log_scales, 4), ranks[1])
        for _ in range(4):
            found = least_squares(
                errors, log_scales, jac="3-point", x_scale="jac", max_nfev=60,
                xtol=1e-15, ftol=1e-15, gtol=1e-15,
            )  # fmt: skip
            log_scales = np.sort(found.x)
        print(f"{count} parts: largest weighted error {1e-9 * np.abs(found.fun).max():.1e}")
    print("scales", np.exp(log_scales).tolist())
    print("weights", best_weights(log_scales).tolist())


if __name__ == "__main__":
    main()
