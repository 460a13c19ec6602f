"""The joint posterior of all scores: covariances and draws.

At the fixed point every observation has a Gaussian factor on its score f = X s, with precisions W.
Together with the prior they form one Gaussian of precision A = K⁻¹ + XᵀWX. Its means are those of
the fit; unlike those of the fit, its covariances include the dependence between competitors.

The smoother inverts M = K⁻¹ + diag(τ), with τ the precisions of the sites. For a score c, at any
time, u⁰ = M⁻¹c is one pass along its chain, and A u = c is solved for the rest by conjugate
gradients that are preconditioned by the smoother: A (u − u⁰) = −(XᵀWX − diag(τ)) u⁰, which involves
entries only. The covariance with another score is its interpolation from u.
"""

from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike

from jaxkick._math.small_matrices import AbstractMatrix, adapt, dot
from jaxkick._typing import Array, Float, Int, Key, Scalar
from jaxkick._xla import is_known, jit_by_size, jit_once, pad_to_power_of_two
from jaxkick.chains.interpolation import Functional, Queries, functionals, take_entries
from jaxkick.chains.layout import Chain
from jaxkick.chains.mean_smoother import Vectors, smooth_means, smooth_states
from jaxkick.chains.smoother import Gains, Smoothed, States
from jaxkick.chains.step import StepModel, StepTime
from jaxkick.data.dataset import Dataset
from jaxkick.data.queries import Query
from jaxkick.errors import warn_caller
from jaxkick.inference.conjugate_gradients import cast, least_eigenvalue, prior_variances
from jaxkick.inference.methods import AbstractMethod, Linearization
from jaxkick.inference.problem import Problem, Sites, cavities_of, make_problem
from jaxkick.kernels import Epoch
from jaxkick.model import Model
from jaxkick.parameters import resolve
from jaxkick.posterior.scores import queries_of

if TYPE_CHECKING:
    from jaxkick.posterior.posterior import Posterior

__all__ = [
    "Solution", "covariance_of", "draw_scores", "find_factors", "is_affordable", "is_joint",
    "reach_of", "solve", "square_root", "variance_of",
]  # fmt: skip

Entries = tuple[Float[Array, "*batch _ _"], ...]

_MAX_ITERATIONS = 500
# The error of a solution in the norm of A, relative to the whole change from u⁰. That of a variance
# is its square, that of a covariance at most this.
_TOLERANCE = 1e-3
# The smallest error for which float32 is enough, unless its rounding errors are larger.
_NARROW_TOLERANCE = 1e-4
# Warn if rounding errors exceed this part of a change.
_ROUGH = 0.05
# So many numbers of one vector, for all simultaneous right-hand sides, fit into a cache.
_NUMBERS = 1 << 20
_MAX_WIDTH = 16
# The smallest padded number of pairs of points, to limit the number of programs.
_LEAST_PAIRS = 64
# By default, joint variances are computed for at most so many right-hand sides times entries, which
# takes about ten seconds.
_AFFORDABLE = 10_000_000


class Pulls(NamedTuple):
    """Right-hand sides c: combinations of scores between entries of one chain.

    Attributes:
        left: flat position of the entry to the left of each score; -1 if there is none.
        right: flat position of the entry to the right.
        B: coefficients of the mean of the state after the left entry.
        F: coefficients of the adjoint of the right entry.
    """

    left: Int[Array, "*batch S"]
    right: Int[Array, "*batch S"]
    B: Float[Array, "*batch S K"]
    F: Float[Array, "*batch S K"]


class Solution(NamedTuple):
    """Solutions u = A⁻¹c for several right-hand sides.

    Attributes:
        vectors: what `interpolate` needs for the value of u at any time, chain by chain.
        reach: X u: the covariance with every observation's score.
        error: the error of every variance, relative to the change from its factorised value.
        iterations: the number of conjugate-gradient iterations.
    """

    vectors: tuple[Vectors, ...]
    reach: Float[Array, "B N"]
    error: Float[Array, " B"]
    iterations: Int[Array, ""]


class Factors(NamedTuple):
    """The Gaussian factors of all observations at the fixed point.

    Attributes:
        linear: the factors. A curvature below zero, of a likelihood that is not log-concave, is
            zero here, as in the fit.
        least: a lower bound on the eigenvalues of M⁻¹A, of which the largest are about one.
    """

    linear: Linearization
    least: Scalar


@jit_once
def find_factors(
    model: Model,
    data: Dataset,
    method: AbstractMethod,
    sites: Sites,
    smoothed: tuple[Smoothed, ...],
) -> Factors:
    """Compute the Gaussian factors of all observations at the fixed point.

    Observations whose sites are all zero were masked out.
    """
    problem = make_problem(model, data)
    touched = tuple(
        jnp.where((site.precision != 0) | (site.precision_mean != 0), x, 0.0)
        for x, site in zip(problem.entry_coefficients, sites, strict=True)
    )
    counted = problem.mask & (problem.combine(touched) > 0)
    problem = eqx.tree_at(lambda problem: problem.mask, problem, counted)
    linear = method.linearize(problem, cavities_of(smoothed), sites)
    linear = linear._replace(curvature=jnp.maximum(problem.masked(linear.curvature), 0.0))
    precisions = tuple(site.precision for site in sites)
    return Factors(linear, least_eigenvalue(problem, precisions, prior_variances(problem)))


class _State(NamedTuple):
    """The iteration for all right-hand sides: solution, residual, direction p, M p, and scalars.

    Attributes:
        rho: rᵀM⁻¹r of the last iteration.
        radau: the remaining part of the coefficient γ of the upper bound γ ρ on the squared error
            in the norm of A (`jaxkick.inference.conjugate_gradients`).
        gained: the square of the change so far, in the norm of A.
        error: an upper bound on the squared error, relative to it.
    """

    change: Entries
    residual: Entries
    direction: Entries
    preconditioned: Entries
    rho: Float[Array, " B"]
    radau: Float[Array, " B"]
    gained: Float[Array, " B"]
    error: Float[Array, " B"]
    iterations: Int[Array, ""]


class _System(NamedTuple):
    """The joint precision A, as two operators on vectors of entries."""

    problem: Problem
    precisions: tuple[Float[Array, "_ _"], ...]
    gains: tuple[Gains, ...]
    curvature: Float[Array, " N"]

    @property
    def chains(self) -> tuple:
        """The arguments of the smoother, each chain by chain."""
        return self.problem.steps, self.problem.chains, self.precisions, self.gains

    def invert(self, entries: Entries) -> Entries:
        """M⁻¹ times a vector."""
        return tuple(map(smooth_means, *self.chains, entries))

    def decouple(self, entries: Entries) -> Entries:
        """(M − A) times a vector."""
        scores = self.problem.combine(entries)
        coupled = self.problem.distribute(self.problem.curve(self.curvature, scores))
        return jax.tree.map(lambda a, t, b: t * b - a, coupled, self.precisions, entries)


class _Found(NamedTuple):
    """Intermediate solutions: (M − A) u, u, the vectors of the last pass, error, iterations."""

    entries: Entries
    means: Entries
    vectors: tuple[Vectors, ...]
    error: Float[Array, " B"]
    iterations: Int[Array, ""]


@jit_by_size
def solve(
    model: Model,
    data: Dataset,
    sites: Sites,
    smoothed: tuple[Smoothed, ...],
    curvature: Float[Array, " N"],
    least: Scalar,
    pulls: tuple[Pulls, ...],
    tol: Scalar,
    narrow: bool,
) -> Solution:
    """Solve A u = c for several right-hand sides at once.

    Args:
        model: the fitted model.
        data: the observations, without their index.
        sites: the sites of the fit.
        smoothed: the smoothing pass over these sites.
        curvature: the precisions W of the factors.
        least: a lower bound on the eigenvalues of M⁻¹A.
        pulls: the right-hand sides, chain by chain.
        tol: the error of a solution in the norm of A, relative to the change from u⁰.
        narrow: whether to iterate in float32.
    """
    problem = make_problem(model, data)
    precisions = tuple(site.precision for site in sites)
    gains = tuple(found.gains for found in smoothed)
    whole = _System(problem, precisions, gains, curvature)
    part = cast(whole, jnp.float32) if narrow else whole

    def run(entries: Entries, pulls: tuple[Pulls, ...]) -> tuple[Entries, tuple[Vectors, ...]]:
        added = map(_spread, problem.steps, problem.chains, pulls)
        found = map(smooth_states, *whole.chains, entries, added)
        means, vectors = zip(*found, strict=True)
        return means, vectors

    def refine(last: Array, found: _Found) -> _Found:
        """Run the smoother with all pulls, then solve for the rest, except the last time."""
        means, vectors = jax.vmap(run)(found.entries, pulls)
        residual = cast(jax.vmap(whole.decouple)(means), part.curvature.dtype)
        stop = jnp.where(last == 1, jnp.inf, tol)
        end = _conjugate_gradients(part, residual, least, stop)
        means = jax.tree.map(jnp.add, means, cast(end.change, tol.dtype))
        iterations = found.iterations + end.iterations
        error = jnp.where(last == 1, found.error, end.error.astype(tol.dtype))
        return _Found(jax.vmap(whole.decouple)(means), means, vectors, error, iterations)

    width = len(pulls[0].left)
    nothing = tuple(jnp.zeros((width, *chain.gap.shape), tol.dtype) for chain in problem.chains)
    empty = tuple(
        Vectors(*[jax.tree.map(lambda x, z=z: jnp.zeros((*z.shape, *x.shape), z.dtype), m)] * 2)
        for m, z in zip([step.origin().m for step in problem.steps], nothing, strict=True)
    )
    begin = _Found(nothing, nothing, empty, nothing[0][:, 0, 0], jnp.zeros((), jnp.int32))
    # A loop, so that the smoother is compiled once.
    end = lax.fori_loop(0, 2, refine, begin)
    return Solution(end.vectors, jax.vmap(problem.combine)(end.means), end.error, end.iterations)


def _spread(step: StepModel, chain: Chain, pulls: Pulls) -> Vectors:
    """Add the pulls of one right-hand side to their entries."""
    steps, rows = chain.gap.shape

    def spread(positions: Int[Array, " S"], values: Float[Array, "S K"]) -> AbstractMatrix:
        # Positions beyond the end are dropped.
        places = jnp.divmod(jnp.where(positions < 0, steps * rows, positions), rows)
        flat = jnp.zeros((steps, rows, step.state_dim), step.dtype)
        flat = flat.at[places].add(values, mode="drop")
        return jax.vmap(jax.vmap(lambda vector: adapt(vector, step.state_dim, step.dtype)))(flat)

    return Vectors(spread(pulls.right, pulls.F), spread(pulls.left, pulls.B))


def _conjugate_gradients(system: _System, residual: Entries, least: Scalar, tol: Scalar) -> _State:
    """Solve A x = r for all right-hand sides r, from x = 0, to the relative error `tol`.

    `least` is a lower bound on the eigenvalues of M⁻¹A.
    """
    invert, decouple = jax.vmap(system.invert), jax.vmap(system.decouple)
    least, tol = cast((least, tol), residual[0].dtype)

    def unresolved(state: _State) -> Array:
        return (state.error > tol * tol) & (state.rho > 0)

    def proceed(state: _State) -> Array:
        return jnp.any(unresolved(state)) & (state.iterations < _MAX_ITERATIONS)

    def iterate(state: _State) -> _State:
        z = invert(state.residual)
        rho = _inner(state.residual, z)
        beta = jnp.where(jnp.isfinite(state.rho) & (state.rho > 0), rho / state.rho, 0.0)
        radau = 1.0 / (least + beta / state.radau)
        direction = _add(z, beta, state.direction)
        preconditioned = _add(state.residual, beta, state.preconditioned)
        product = jax.tree.map(jnp.subtract, preconditioned, decouple(direction))
        energy = _inner(direction, product)
        # Rounding may leave nothing to gain.
        usable = unresolved(state) & (rho > 0) & (energy > 0)
        alpha = jnp.where(usable, rho / jnp.where(usable, energy, 1.0), 0.0)
        left = jnp.where(radau > alpha, radau - alpha, radau)
        gained = state.gained + alpha * rho
        return _State(
            _add(state.change, alpha, direction),
            _add(state.residual, -alpha, product),
            direction,
            preconditioned,
            jnp.where(usable, rho, 0.0),
            jnp.where(radau > alpha, left, jnp.inf),
            gained,
            jnp.where(usable, left * rho / jnp.where(usable, gained, 1.0), state.error),
            state.iterations + 1,
        )

    zeros = jax.tree.map(jnp.zeros_like, residual)
    nothing = jnp.zeros(len(residual[0]), residual[0].dtype)
    infinite = jnp.full_like(nothing, jnp.inf)
    begin = _State(
        zeros, residual, zeros, zeros, infinite, infinite, nothing, infinite,
        jnp.zeros((), jnp.int32),
    )  # fmt: skip
    return lax.while_loop(proceed, iterate, begin)


def _inner(first: Entries, second: Entries) -> Float[Array, " B"]:
    return sum(jnp.sum(a * b, axis=(1, 2)) for a, b in zip(first, second, strict=True))  # pyright: ignore[reportReturnType]


def _add(first: Entries, factor: Float[Array, " B"], second: Entries) -> Entries:
    return jax.tree.map(lambda a, b: a + factor[:, None, None] * b, first, second)


class _Group(NamedTuple):
    """The points of one group, padded.

    Attributes:
        name: the name of the group.
        place: the place of its chain; `None` if the group has no entries.
        points: the number of every point, without padding.
        queries: the neighbours of every point.
        pairs: pairs of points between the same entries, the earlier one first, with padding.
        gap: the time between them.
        count: the number of pairs without padding.
    """

    name: str
    place: int | None
    points: np.ndarray
    queries: Queries
    pairs: np.ndarray
    gap: np.ndarray
    count: int


class _Points(NamedTuple):
    """The distinct scores of a query, and their coefficients.

    Attributes:
        groups: the points by group.
        count: the number of points.
        design: coefficients [Q, count] of every combination.
        slots: points [Q, P] of every combination; -1 in an empty slot.
        coefficients: coefficients [Q, P].
    """

    groups: tuple[_Group, ...]
    count: int
    design: np.ndarray
    slots: np.ndarray
    coefficients: np.ndarray


def _find_points(data: Dataset, query: Query) -> _Points:
    used = query.codes >= 0
    times = np.broadcast_to(query.times[:, None], query.codes.shape)
    aspects = query.aspects or {}
    keys = [query.codes[used], times[used], *(x[used] for x in aspects.values())]
    keys = np.stack(keys, axis=1)
    distinct, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    slots = np.full(query.codes.shape, -1)
    slots[used] = number.ravel()
    design = np.zeros((len(slots), len(distinct)))
    np.add.at(design, (np.nonzero(used)[0], slots[used]), query.coefficients[used])
    codes, times, *read = distinct.T
    aspects = dict(zip(aspects, read, strict=True)) or None
    features, names = query.features[used][first], query.groups[used][first]
    places = {chain.group: place for place, chain in enumerate(data.chains)}
    groups = tuple(
        _find_group(
            data,
            name,
            places.get(name),
            np.flatnonzero(names == name),
            features,
            codes,
            times,
            aspects,
        )
        for name in dict.fromkeys(names.tolist())
    )
    return _Points(groups, len(distinct), design, slots, query.coefficients)


def _find_group(
    data: Dataset,
    name: str,
    place: int | None,
    points: np.ndarray,
    features: np.ndarray,
    codes: np.ndarray,
    times: np.ndarray,
    aspects: dict[str, np.ndarray] | None,
) -> _Group:
    dtype = np.dtype(data.coefficients.dtype)
    features, codes, times = features[points], codes[points], times[points]
    location = data.index.locate(features, times, dtype)
    queries = queries_of(location, 0 if place is None else int(data.index.bases[place]))
    # A process without entries begins at the first time that is asked for.
    absent = (queries.left < 0) & (queries.right < 0)
    earliest = np.full(int(codes.max()) + 1, np.inf)
    np.minimum.at(earliest, codes.astype(int), times)
    age = np.where(absent, times - earliest[codes.astype(int)], queries.age).astype(dtype)
    own = aspects and {name: x[points].astype(dtype) for name, x in aspects.items()}
    queries = queries._replace(age=age, aspects=own)
    pairs = _pairs_between(queries.left, queries.right, codes, times)
    gap = (times[pairs[1]] - times[pairs[0]]).astype(dtype)
    count = pairs.shape[1]
    queries = jax.tree.map(pad_to_power_of_two, queries)
    pairs, gap = (pad_to_power_of_two(each, _LEAST_PAIRS) for each in (pairs.T, gap))
    return _Group(name, place, points, queries, pairs, gap, count)


def _pairs_between(
    left: np.ndarray, right: np.ndarray, codes: np.ndarray, times: np.ndarray
) -> np.ndarray:
    """Pairs [2, n] of points of one feature between the same entries, the earlier one first."""
    order = np.lexsort((times, right, left, codes))
    keys = np.stack([codes, left, right])[:, order]
    begins = np.flatnonzero(np.any(np.diff(keys, axis=1, prepend=-2.0), axis=0))
    sizes = np.diff(begins, append=len(order))
    parts = []
    for begin, size in zip(begins, sizes, strict=True):
        parts.append(begin + np.stack(np.triu_indices(size)))
    return order[np.concatenate(parts, axis=1)]


class _Described(NamedTuple):
    """The points of a group as functions of their neighbours, as arrays.

    Attributes:
        B: coefficients of the mean of the state after the left entry.
        F: coefficients of the adjoint of the right entry.
        between: the covariance of every pair that the neighbours do not have.
    """

    B: np.ndarray
    F: np.ndarray
    between: np.ndarray


@jit_once
def _describe(
    model: Model,
    epoch: Epoch,
    known: tuple[tuple[Chain, States] | None, ...],
    groups: tuple[tuple[str, Queries, np.ndarray, np.ndarray], ...],
) -> tuple[_Described, ...]:
    """Describe the points of every group, given by name, queries, pairs and gaps."""
    found = []
    for (name, *arrays), part in zip(groups, known, strict=True):
        queries, pairs, gap = jax.tree.map(jnp.asarray, arrays)
        step = StepModel(resolve(model.process_of(name), queries.age.dtype), epoch)
        points = _prior(step, queries) if part is None else functionals(step, *part, queries)

        def covariance(early, late, gap, step=step, points=points):
            first = jax.tree.map(lambda leaf: leaf[early], points)
            now = jax.tree.map(lambda leaf: leaf[late], points.time)._replace(gap=gap)
            return dot(step.h(now), step.transition(first.time, now) @ first.phi)

        def array(vectors: AbstractMatrix, step=step) -> Array:
            return jax.vmap(lambda each: each.filled(step.dtype).to_array()[:, 0])(vectors)

        between = jax.vmap(covariance)(pairs[:, 0], pairs[:, 1], gap)
        found.append(_Described(array(points.B), array(points.F), between))
    return tuple(found)


def _prior(step: StepModel, queries: Queries) -> Functional:
    """Describe scores of a group without entries."""

    def one(queries: Queries) -> Functional:
        gap, first = jnp.zeros_like(queries.age), jnp.asarray(True)
        time = StepTime(gap, queries.offset, queries.age, first, queries.aspects)
        nothing = step.origin().m
        return Functional(time, step.prior_cov(time) @ step.h(time), nothing, nothing)

    return jax.vmap(one)(queries)


@jit_once
def _read(
    vectors: tuple[Vectors, ...], queries: tuple[Queries, ...], found: tuple[_Described, ...]
) -> list[Float[Array, "B n"]]:
    """Interpolate every right-hand side's solution at the points of every group."""

    def read(vectors: Vectors, queries: Queries, found: _Described) -> Float[Array, " n"]:
        past = take_entries(vectors.past, jnp.asarray(queries.left))
        future = take_entries(vectors.future, jnp.asarray(queries.right))

        def one(past, future, B, F):
            return jnp.sum(past.to_array()[:, 0] * B) + jnp.sum(future.to_array()[:, 0] * F)

        return jax.vmap(one)(past, future, found.B, found.F)

    parts = zip(vectors, queries, found, strict=True)
    return [jax.vmap(read, in_axes=(0, None, None))(*part) for part in parts]


def covariance_of(
    posterior: "Posterior",
    query: Query,
    tol: float | None = None,
    measured: Model | None = None,
) -> Float[np.ndarray, "Q Q"]:
    """Compute the joint posterior covariance of linear combinations of scores.

    Args:
        posterior: a fit.
        query: the combinations and their times. Features that are not in the data have their
            prior and are independent of all others.
        tol: the error of a solution in the norm of the joint precision, relative to the change
            from the factorised one; 1e-3 if `None`. The error of a variance is about its square,
            the error of a covariance at most of this size.
        measured: the model with other measurement vectors, for parts of scores.

    Returns:
        The covariance matrix, as float64.
    """
    points, found = _describe_query(posterior, query, measured)
    direct = np.zeros((points.count, points.count))
    for group, part in zip(points.groups, found, strict=True):
        early, late = group.points[group.pairs[: group.count].T]
        direct[early, late] = direct[late, early] = part.between[: group.count]
    covariance = points.design @ direct @ points.design.T
    basis = _choose_basis(points, found)
    if len(basis.transform):
        values, _ = _solve_basis(posterior, points, found, basis, tol)
        across = basis.transform.T @ values @ points.design.T
        covariance = covariance + 0.5 * (across + across.T)
        # Rounding may make a small variance negative.
        np.fill_diagonal(covariance, np.maximum(np.diagonal(covariance), 0.0))
    return covariance


def reach_of(
    posterior: "Posterior", query: Query, tol: float | None = None
) -> Float[np.ndarray, "Q N"]:
    """Compute the joint posterior covariance of combinations with the scores of all observations.

    The arguments are those of `covariance_of`.
    """
    points, found = _describe_query(posterior, query)
    basis = _choose_basis(points, found)
    if not len(basis.transform):
        return np.zeros((len(query.times), len(posterior.data)))
    return basis.transform.T @ _solve_basis(posterior, points, found, basis, tol)[1]


def _describe_query(
    posterior: "Posterior", query: Query, measured: Model | None = None
) -> tuple[_Points, tuple[_Described, ...]]:
    points, data = _find_points(posterior.data, query), posterior.data
    known = tuple(
        None if group.place is None else (data.chains[group.place], posterior.states[group.place])
        for group in points.groups
    )
    # Only what is padded: the number of points would make another program.
    groups = tuple((g.name, g.queries, g.pairs, g.gap) for g in points.groups)
    found = _describe(measured or posterior.model, data.epoch, known, groups)
    return points, jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), found)


class _Basis(NamedTuple):
    """The right-hand sides to solve for.

    Attributes:
        pulls: the right-hand sides, group by group, as NumPy arrays.
        transform: coefficients [right-hand sides, Q] that combine them to the query's combinations.
    """

    pulls: tuple[Pulls, ...]
    transform: np.ndarray


def _choose_basis(points: _Points, found: tuple[_Described, ...]) -> _Basis:
    """Choose the fewest right-hand sides: combinations, points, or components of neighbours.

    All scores after the last match of a competitor, for example, are combinations of the
    components of one state.
    """
    owner, row = np.full(points.count, -1), np.zeros(points.count, int)
    ports = []
    for number, group in enumerate(points.groups):
        owner[group.points], row[group.points] = number, np.arange(len(group.points))
        sides = (group.queries.left, group.queries.right)
        ports.append([np.unique(side[: len(group.points)]) for side in sides])
    ports = [[side[side >= 0] for side in both] for both in ports]
    needed = np.array([
        group.queries.left[k] >= 0 or group.queries.right[k] >= 0
        for group, k in zip([points.groups[k] for k in owner], row, strict=True)
    ])  # fmt: skip
    sizes = [part.B.shape[1] for part in found]
    num_ports = sum(
        size * len(side) for size, both in zip(sizes, ports, strict=True) for side in both
    )
    combined = np.flatnonzero(points.design[:, needed].any(axis=1))
    if num_ports < min(len(combined), needed.sum()):
        return _ports(points, found, ports, num_ports)
    if len(combined) <= needed.sum():
        slots, coefficients = points.slots[combined], points.coefficients[combined]
        transform = np.eye(len(points.slots))[combined]
    else:
        slots = np.flatnonzero(needed)[:, None]
        coefficients = np.ones(slots.shape)
        transform = points.design.T[needed]
    pulls = []
    for number, (group, part) in enumerate(zip(points.groups, found, strict=True)):
        inside = (slots >= 0) & (owner[slots] == number)
        place = np.where(inside, row[slots], 0)
        x = np.where(inside, coefficients, 0.0)[..., None]
        left, right = (np.where(inside, side[place], -1) for side in group.queries[:2])
        pulls.append(Pulls(left, right, x * part.B[place], x * part.F[place]))
    return _Basis(tuple(pulls), transform)


def _ports(
    points: _Points,
    found: tuple[_Described, ...],
    ports: list[list[np.ndarray]],
    count: int,
) -> _Basis:
    """Take the components of all neighbours as right-hand sides."""
    pulls, transform, begin = [], np.zeros((count, len(points.design))), 0
    for group, part, both in zip(points.groups, found, ports, strict=True):
        size = part.B.shape[1]
        places = np.full((2, count, 1), -1)
        units = np.zeros((2, count, 1, size))
        sides = zip(both, group.queries[:2], (part.B, part.F), strict=True)
        for side, (positions, neighbours, values) in enumerate(sides):
            rows = begin + np.arange(len(positions) * size).reshape(-1, size)
            places[side, rows, 0] = positions[:, None]
            units[side, rows, 0, np.arange(size)] = 1.0
            there = np.flatnonzero(neighbours[: len(group.points)] >= 0)
            own = rows[np.searchsorted(positions, neighbours[there])]
            weights = points.design[:, group.points[there], None] * values[there]
            np.add.at(transform, own, np.moveaxis(weights, 0, -1))
            begin += rows.size
        pulls.append(Pulls(places[0], places[1], units[0], units[1]))
    return _Basis(tuple(pulls), transform)


def _solve_basis(
    posterior: "Posterior",
    points: _Points,
    found: tuple[_Described, ...],
    basis: _Basis,
    tol: float | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Solve for all right-hand sides; return their covariances with all points and observations."""
    data, smoothed = posterior.data, posterior.smoothed
    dtype = np.dtype(data.coefficients.dtype)
    chosen = _TOLERANCE if tol is None else tol
    places = [group.place for group in points.groups]
    by_chain = dict(zip(places, basis.pulls, strict=True))
    count, slots = basis.pulls[0].left.shape
    width = _width(sum(chain.gap.size for chain in data.chains))
    known = [k for k, place in enumerate(places) if place is not None]
    queries = tuple(points.groups[k].queries for k in known)
    described = tuple(jax.tree.map(lambda leaf: leaf.astype(dtype), found[k]) for k in known)
    values, reach = np.zeros((count, points.count)), np.zeros((count, len(data)))
    (_, _, _, curvature, *_), least = posterior.factors
    program = (posterior.model, data.without_index(), posterior.sites, smoothed, curvature, least)
    narrow = chosen >= max(_NARROW_TOLERANCE, _rounding(posterior, np.float32))
    _warn_of_rounding(posterior)
    for begin in range(0, count, width):
        here = slice(begin, min(begin + width, count))
        pulls = []
        for place, found_chain in enumerate(smoothed):
            size = found_chain.gains.phi.shape[0]
            pulls.append(_cut(by_chain.get(place), here, width, slots, size, dtype))
        solution = solve(*program, tuple(pulls), jnp.asarray(chosen, dtype), narrow)
        vectors = tuple(solution.vectors[place] for place in places if place is not None)
        for k, read in zip(known, _read(vectors, queries, described), strict=True):
            own = points.groups[k].points
            values[here, own] = np.asarray(read)[: here.stop - begin, : len(own)]
        reach[here] = np.asarray(solution.reach)[: here.stop - begin, : len(data)]
    return values, reach


def _rounding(posterior: "Posterior", dtype: DTypeLike) -> float:
    """The error of a solution by rounding, relative to the whole change from u⁰."""
    return float(jnp.finfo(dtype).eps) / float(posterior.factors.least)


def _warn_of_rounding(posterior: "Posterior") -> None:
    dtype = posterior.data.coefficients.dtype
    error = _rounding(posterior, dtype)
    if error > _ROUGH:
        warn_caller(
            UserWarning(
                "Joint intervals are inexact: prior variances are so large that rounding in "
                f"{dtype} may change them by {min(100 * error, 100):.0f} %. Read the data with "
                "dtype='float64', or pass `joint=False`."
            )
        )


def _width(num_entries: int) -> int:
    """The number of right-hand sides that are solved for at once: a power of two."""
    return int(np.clip(1 << max(_NUMBERS // num_entries, 1).bit_length() - 1, 1, _MAX_WIDTH))


def _cut(
    pulls: Pulls | None, here: slice, width: int, slots: int, size: int, dtype: np.dtype
) -> Pulls:
    """Cut a batch of right-hand sides out, padded to a few shapes; none for a chain without any."""
    room = 1 << max(slots - 1, 0).bit_length()
    places = np.full((2, width, room), -1, np.int32)
    vectors = np.zeros((2, width, room, size), dtype)
    if pulls is not None:
        count = here.stop - here.start
        places[:, :count, :slots] = pulls.left[here], pulls.right[here]
        vectors[:, :count, :slots] = pulls.B[here], pulls.F[here]
    return Pulls(*map(jax.device_put, (*places, *vectors)))


def variance_of(
    posterior: "Posterior", query: Query, measured: Model | None = None
) -> Float[np.ndarray, " Q"]:
    """Compute the joint posterior variances of linear combinations; see `covariance_of`."""
    count, width = len(query.times), 4 * _MAX_WIDTH
    parts = [slice(begin, begin + width) for begin in range(0, count, width)]
    cut = (Query((width,), *jax.tree.map(lambda x, p=p: x[p], query[1:])) for p in parts)
    return np.concatenate([
        np.diagonal(covariance_of(posterior, part, measured=measured)) for part in cut
    ])  # fmt: skip


def is_affordable(data: Dataset, count: int) -> bool:
    """Return whether the joint variances of so many combinations take seconds at most."""
    return count * sum(chain.gap.size for chain in data.chains) <= _AFFORDABLE


def is_joint(posterior: "Posterior", count: int, joint: bool | None) -> bool:
    """Decide whether the joint variances of so many combinations are computed.

    Args:
        posterior: a fit.
        count: the number of combinations.
        joint: the user's choice; if `None`, they are computed unless that would take long, with
            a warning.
    """
    if joint is False or not is_known(jax.tree.leaves(posterior.sites)[0]):
        return False
    if joint is None and not is_affordable(posterior.data, count):
        warn_caller(
            UserWarning(
                f"Intervals ignore the dependence between competitors: joint ones of {count:,} "
                "skills would take long. Pass `joint=True` for them, or `joint=False` to turn "
                "this warning off."
            )
        )
        return False
    return True


def draw_scores(
    posterior: "Posterior", query: Query, key: Key[Array, ""], draws: int
) -> Float[Array, "draws Q"]:
    """Draw linear combinations of scores from the joint posterior."""
    mean = posterior._score_query(query._replace(shape=(len(query.times),))).mean
    root = jnp.asarray(square_root(covariance_of(posterior, query)), mean.dtype)
    return mean + jax.random.normal(key, (draws, len(mean)), mean.dtype) @ root.T


def square_root(covariance: np.ndarray) -> np.ndarray:
    """Return a matrix R with R Rᵀ = covariance, which may be singular up to rounding."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
