"""Check claims of convergence: fits of difficult structures against their true fixed points.

    python benchmarks/convergence.py                # about 2,500 fits
    python benchmarks/convergence.py --seeds 3      # three times as many
    python benchmarks/convergence.py --sample 300   # 300 of them, chosen at random

Structures: divisions joined by a few matches, ladders, rings, stars, round robins, line-ups,
features of pairs, covariates shared by all matches ("shared" in the group of the competitors,
"effects" in a group of constant effects). Prior variances from 0.1 to 1,000, most
likelihoods, EP and reverse KL, at the default tolerance. The true fixed point comes from a fit with
a tolerance of 1e-8, or 1e-10 if plain sweeps amplify what is left. It is accepted if a plain sweep
does not change its sites. For Gaussian outcomes its means are also compared with a dense solve.
Prints the number of fits, the fits that claim convergence although a marginal is more than twice
the tolerance away, and the largest distance.
"""

import argparse
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable

import equinox as eqx
import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import jaxkick as jk  # noqa: E402
from jaxkick.inference.fixed_point import plain_update  # noqa: E402
from jaxkick.inference.problem import make_problem  # noqa: E402

MATCHES, SLOTS, TOL = 240, 4, 0.05
# The largest change of a site by a plain sweep at a fixed point.
STILL = 1e-6
Pairs = tuple[np.ndarray, np.ndarray]


def divisions(rng: np.random.Generator) -> Pairs:
    """Make two to four pools with 1 to 20 matches between them."""
    pools, bridges = rng.integers(2, 5), rng.integers(1, 21)
    first, gap = rng.integers(0, 8, MATCHES), rng.integers(1, 8, MATCHES)
    pool = rng.integers(0, pools, MATCHES)
    other = pool.copy()
    other[:bridges] = (pool[:bridges] + 1) % pools
    return 8 * pool + first, 8 * other + (first + gap) % 8


def ladder(rng: np.random.Generator) -> Pairs:
    """Match the neighbours on a long line."""
    size = int(rng.integers(10, 60))
    first = rng.integers(0, size - 1, MATCHES)
    return first, first + 1


def ring(rng: np.random.Generator) -> Pairs:
    """Match the neighbours on a circle."""
    size = int(rng.integers(10, 60))
    first = rng.integers(0, size, MATCHES)
    return first, (first + 1) % size


def star(rng: np.random.Generator) -> Pairs:
    """Match one competitor with all others."""
    return np.zeros(MATCHES, int), rng.integers(1, rng.integers(5, 60), MATCHES)


def robin(rng: np.random.Generator) -> Pairs:
    """Match every pair of competitors."""
    size = int(rng.integers(4, 40))
    first = rng.integers(0, size, MATCHES)
    return first, (first + rng.integers(1, size, MATCHES)) % size


STRUCTURES: dict[str, Callable[[np.random.Generator], Pairs]] = {
    each.__name__: each for each in (divisions, ladder, ring, star, robin)
}
EXTRAS = ("plain", "line-ups", "pairs", "shared", "effects")
LIKELIHOODS = {
    "probit": jk.likelihoods.Probit(),
    "logit": jk.likelihoods.Logit(),
    "ties": jk.likelihoods.OrdinalProbit(margin=0.5),
    "gaussian": jk.likelihoods.Gaussian(1.0),
    "poisson": jk.likelihoods.Poisson(),
}
METHODS = {"ep": jk.ExpectationPropagation(), "kl": jk.ReverseKL()}
VARIANCES = (0.1, 1.0, 10.0, 100.0, 1000.0)


def make_data(structure: str, extra: str, likelihood: str, seed: int) -> jk.Dataset:
    """Make data sets of one shape, so that few programs are compiled."""
    rng = np.random.default_rng([seed, list(STRUCTURES).index(structure)])
    first, second = STRUCTURES[structure](rng)
    features = np.full((MATCHES, SLOTS), -1, np.int32)
    x = np.zeros((MATCHES, SLOTS))
    features[:, 0], features[:, 1] = first, second
    x[:, 0], x[:, 1] = 1.0, -1.0
    features[:, 2], features[:, 3] = 90, 91
    if extra == "line-ups":
        features[:, 2:] = (first[:, None] + [7, 13]) % 60 + 100
        x[:, 2:] = rng.uniform(0.2, 1.0, (MATCHES, 2))
    elif extra == "pairs":
        features[:, 2] = 200 + (np.minimum(first, second) * 61 + np.maximum(first, second)) % 97
        x[:, 2] = np.where(first < second, 1.0, -1.0)
    elif extra in ("shared", "effects"):
        x[:, 2:] = np.stack([np.ones(MATCHES), rng.normal(size=MATCHES)], axis=1)
    strength = rng.normal(size=400)
    score = np.sum(x * strength[features], axis=1)
    noisy = score + rng.normal(size=MATCHES)
    outcome = {
        "gaussian": noisy,
        "poisson": rng.poisson(np.exp(np.minimum(score, 4.0))).astype(float),
        "ties": np.where(np.abs(noisy) < 0.8, 0.0, np.sign(noisy)),
    }.get(likelihood, np.sign(noisy))
    times = np.sort(rng.uniform(0.0, 5.0, MATCHES))
    groups = {90: "effects", 91: "effects"} if extra == "effects" else {}
    return jk.Dataset.from_arrays(
        times, features, x, outcome, groups=groups, row_length=4 * MATCHES
    )


@eqx.filter_jit
def residual(method, model, data, sites):
    """Return the largest change of a site by a plain sweep."""
    update = plain_update(method, make_problem(model, data), sites)
    changes = jax.tree.map(lambda new, old: jnp.max(jnp.abs(new - old)), update, sites)
    return jnp.max(jnp.stack(jax.tree.leaves(changes)))


def distance(found: jk.Posterior, truth: jk.Posterior) -> float:
    """Return the largest distance of marginals, in standard deviations of the true ones."""
    worst = 0.0
    for ours, theirs in zip(found.entries, truth.entries, strict=True):
        variance = np.asarray(theirs.variance)
        mean = np.abs(np.asarray(ours.mean - theirs.mean)) / np.sqrt(variance)
        worst = max(worst, mean.max(), np.abs(np.asarray(ours.variance) / variance - 1.0).max())
    return float(worst)


def dense_error(model: jk.Model, data: jk.Dataset, fit: jk.Posterior, variance: float) -> float:
    """Return the largest error of the means of Gaussian outcomes under a constant kernel."""
    seen = data.observations
    design = np.zeros((MATCHES, len(data.names)))
    np.add.at(design, (np.arange(MATCHES)[:, None], seen.features), seen.coefficients)
    precision = np.eye(len(data.names)) / variance + design.T @ design
    means = np.linalg.solve(precision, design.T @ seen.outcome)
    played = [name for name in data.names if len(data.entries(name).times)]
    found = [fit.scores(name) for name in played]
    return max(
        float(abs(each.mean[0] - means[data.feature_id(name)]) / np.sqrt(each.variance[0]))
        for name, each in zip(played, found, strict=True)
    )


def main() -> None:
    """Fit, compare and count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="data sets of every combination")
    parser.add_argument("--sample", type=int, help="the number of cases to choose at random")
    parser.add_argument("--extras", nargs="*", default=EXTRAS, choices=EXTRAS)
    options = parser.parse_args()
    kinds = (STRUCTURES, options.extras, LIKELIHOODS, METHODS, VARIANCES, ("still", "moving"))
    cases = list(itertools.product(*kinds, range(options.seeds)))
    if options.sample:
        cases = random.Random(0).sample(cases, options.sample)
    count, skipped = Counter(), []
    worst, steps, dense, begin = (0.0, None), [], 0.0, time.time()
    for structure, extra, likelihood, method, variance, motion, seed in cases:
        data = make_data(structure, extra, likelihood, seed)
        kernel = jk.kernels.Constant(variance)
        if motion == "moving":
            kernel = jk.kernels.Matern12(variance, lengthscale=2.0)
        if extra == "effects":
            kernel = {"skill": kernel, "effects": jk.kernels.Constant(variance)}
        model = jk.Model(kernel, LIKELIHOODS[likelihood])
        rule = METHODS[method]
        fit = jk.infer(model, data, rule, tol=TOL, throw=False)
        truth = jk.infer(model, data, rule, tol=1e-8, start=fit, throw=False)
        case = (structure, extra, likelihood, method, variance, motion, seed)
        count["tried"] += 1
        count["claimed"] += fit.converged
        change = float(residual(rule, model, data.without_index(), truth.sites))
        if truth.converged and change > STILL:
            truth = jk.infer(model, data, rule, tol=1e-10, start=truth, throw=False)
            change = float(residual(rule, model, data.without_index(), truth.sites))
        if not truth.converged or change > STILL:
            count["without a truth"] += 1
            skipped.append((case, float(truth.distance), change, fit.converged))
            continue
        steps.append(int(fit.steps))
        off = distance(fit, truth)
        if fit.converged and off > worst[0]:
            worst = (off, case)
        if fit.converged and off > 2 * TOL:
            count["false"] += 1
            print(f"FALSE {off:.3g} claimed {float(fit.distance):.3g} {int(fit.steps)} {case}")
        if fit.converged and off > TOL:
            count["beyond the tolerance"] += 1
        if likelihood == "gaussian" and motion == "still" and method == "ep":
            dense = max(dense, dense_error(model, data, truth, variance))
    print(dict(count), f"largest distance {worst[0]:.3g} at {worst[1]}")
    print(
        f"steps: median {np.median(steps):.0f}, 90 % {np.quantile(steps, 0.9):.0f}, most "
        f"{max(steps)}; dense solves of Gaussian outcomes: {dense:.2g}; "
        f"{time.time() - begin:.0f} s"
    )
    for each in skipped:
        print("without a truth:", *each)


if __name__ == "__main__":
    main()
