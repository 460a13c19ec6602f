"""A model to start learning from when the user has none."""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import ArrayLike

from jaxkick.data.dataset import Dataset
from jaxkick.data.schema import (
    GENERAL,
    LEVEL,
    NO_TABLE,
    NOISE,
    OUTCOMES,
    ROLES,
    TIE,
    Feature,
    Schema,
)
from jaxkick.errors import DataError
from jaxkick.inference.checks import read_mask
from jaxkick.kernels import AbstractKernel, Aspects, Constant, CorrelatedAspects, Matern12, Wiener
from jaxkick.likelihoods import (
    AbstractLikelihood,
    Gaussian,
    OrdinalProbit,
    Poisson,
    Probit,
    Ranking,
    VaryingNoise,
    VaryingTies,
)
from jaxkick.model import Model
from jaxkick.newcomers import Newcomers

__all__ = ["suggest_model"]

Given: TypeAlias = AbstractLikelihood | type[AbstractLikelihood] | None

# The variance of a competitor's contribution to the logarithm of the margin of ties.
_TIE_VARIANCE = 0.1
# The variance that the logarithm of the noise gains from the first match to the last.
_NOISE_VARIANCE = 0.04
# Aspects start with a tenth of the variance of the general skill; attack and defence start
# positively correlated.
_ASPECT_SHARE, _ROLE_CORRELATION = 0.1, 0.5
# Competitors are newcomers after a tenth of the matches, if at least so many are and are not.
_BURN_IN, _LEAST_NEWCOMERS = 0.1, 20
# The mean of newcomers fades within this share of the remaining time.
_FADE = 0.2
_CODES = {0.0, 0.5, 1.0, 2.0, 3.0}
# Whole differences are those of goals if all but this share of them are at most so large.
_RARE, _MOST_GOALS = 0.02, 10


def suggest_model(
    data: Dataset,
    likelihood: Given | Mapping[str, Given] = None,
    kernel: type[AbstractKernel] = Matern12,
    *,
    newcomers: Any = None,
    mask: ArrayLike | None = None,
) -> Model:
    """Suggest a simple model with starting values of the right size, for `learn` to improve.

    Each group of features has a constant score plus one that changes with time, with the
    starting values of the kernel's class (`AbstractKernel.from_scale`). All groups contribute
    equally to the prior variance of a match's combined score, which the likelihood suggests
    (`AbstractLikelihood.score_variance`). Each aspect of competitors has a constant score; attack
    and defence are correlated. Newcomers have a prior mean and variance of their own (`Newcomers`),
    which start at those of the others; with at least 20 newcomers, the mean fades.

    Args:
        data: the observations.
        likelihood: the likelihood, or its class. If `None`: `Probit` for outcomes -1 and +1,
            `OrdinalProbit` with a margin if there is 0 as well, `Poisson` for a table read with
            `counts=`, `Ranking` for rankings, `VaryingTies` with `tie_effects=True`,
            `VaryingNoise` with `noise_effects=True`, `OrdinalProbit` with levels for a table read
            with `difference=` whose differences are small whole numbers, such as goals, else
            `Gaussian`. For data of several kinds, a mapping from kinds to any of these.
        kernel: the class of the kernel that changes with time.
        newcomers: which competitors are newcomers. `True`: competitors whose own first match comes
            after the first tenth of all matches. A time, as in the data: competitors whose first
            match is then or later; several times for cohorts. `False`: none. `None`: as `True`,
            in groups with at least 20 newcomers and 20 others.
        mask: boolean array of shape (N,); observations where it is False are ignored.

    Returns:
        The model.

    Raises:
        TypeError: if `likelihood` or `kernel` has the wrong type.
        DataError: if `likelihood` is `None`, and outcomes such as 0 and 1, 0, 0.5 and 1, or 1 and 2
            may be codes of losses, ties and wins; if `mask` has the wrong shape; if `likelihood`
            is not a mapping for data of several kinds; or if there is no newcomer by `newcomers`.
    """
    if data.index.kind_names:
        return _suggest_by_kind(data, likelihood, kernel, newcomers, mask)
    if isinstance(likelihood, Mapping):
        raise TypeError("`likelihood` is a mapping from kinds, but the data has no kinds.")
    kinds = {"likelihood": (likelihood, AbstractLikelihood), "kernel": (kernel, AbstractKernel)}
    for name, (given, base) in kinds.items():
        is_class = isinstance(given, type) and issubclass(given, base)
        if not (is_class or (name == "likelihood" and (given is None or isinstance(given, base)))):
            raise TypeError(f"`{name}` must be a class of {name}s, not {given!r}.")
    used = np.ones(len(data), bool)
    if mask is not None:
        used = np.asarray(read_mask(mask, data))[: len(data)]
    schema = data.schema or NO_TABLE
    counted, tied, noisy = schema.counts is not None, schema.tie_effects, schema.noise_effects
    events = used
    if tied or noisy:
        # The second row of a match has no outcome of its own.
        used = used & np.isin(np.arange(len(data)), data.first_rows)
    outcome = data.observations.outcome[used]
    if not len(outcome):
        raise DataError("{argument} leaves no observation", argument="mask")
    if likelihood is None:
        likelihood = Poisson if counted else Ranking
        if not (counted or schema.is_ranking):
            likelihood = _likelihood_for(schema, outcome)
        likelihood = VaryingTies if tied else VaryingNoise if noisy else likelihood
    if isinstance(likelihood, type):
        if likelihood.num_predictors != 1:
            likelihood = likelihood.from_outcomes(_whole_events(data, events).event_outcomes())
        else:
            likelihood = likelihood.from_outcomes(outcome)
    share = likelihood.score_variance(outcome) / (len(data.chains) - (tied or noisy))
    # All scores of counts lie around that of the mean count, which only the level can explain.
    offsets = {data.index.group_of(LEVEL): likelihood.score_offset(outcome)} if counted else {}
    kernels = {
        group: _kernel_for(data, used, number, share, offsets.get(group, 0.0), kernel)
        for number, group in enumerate(data.index.groups)
    }
    if tied:
        kernels[TIE] = Constant(_TIE_VARIANCE)
    if noisy:
        # Zero at the first match: only changes of the noise are distinguishable from skill.
        span = float(np.ptp(data.index.times[used]))
        kernels[NOISE] = Wiener(_NOISE_VARIANCE / (span or 1.0))
    return _model_of(kernels, likelihood, _newcomers_for(data, used, newcomers))


def _model_of(
    kernels: dict[str, AbstractKernel], likelihood: Any, newcomers: dict[str, Newcomers]
) -> Model:
    """Make a model with a kernel for each group, or a single kernel for a single group."""
    if len(kernels) > 1:
        return Model(kernels, likelihood, newcomers=newcomers or None)
    ((group, kernel),) = kernels.items()
    return Model(kernel, likelihood, newcomers=newcomers.get(group))


def _suggest_by_kind(
    data: Dataset,
    likelihood: Any,
    kernel: type[AbstractKernel],
    newcomers: Any,
    mask: ArrayLike | None,
) -> Model:
    """Suggest a likelihood for each kind; a group's kernel is that of its most frequent kind."""
    index = data.index
    given = {} if likelihood is None else likelihood
    if not isinstance(given, Mapping) or not set(given) <= set(index.kind_names):
        shown = ", ".join(f"{kind!r}: ..." for kind in index.kind_names)
        raise DataError(
            "{argument} must be a mapping from the kinds of the data to likelihoods",
            f"Pass {{{shown}}}, in which kinds may be left out.",
            argument="likelihood",
        )
    used = np.ones(len(data), bool) if mask is None else np.asarray(read_mask(mask, data))
    likelihoods, kernels, most = {}, {}, {}
    for number, kind in enumerate(index.kind_names):
        mine = index.kinds == number
        if not used[: len(data)][mine].any():
            problem = f"{{argument}} leaves no observation of the kind {kind!r}"
            raise DataError(problem, argument="mask")
        part = data.of_kind(kind)
        chosen = used[: len(data)][mine]
        found = suggest_model(part, given.get(kind), kernel, newcomers=False, mask=chosen)
        likelihoods[kind] = found.likelihood
        for place, group in enumerate(part.index.groups):
            entries = int(part.index.counts[part.index.feature_group == place].sum())
            if entries > most.get(group, 0):
                kernels[group], most[group] = found.kernel_of(group), entries
    ordered = {group: kernels[group] for group in index.groups}
    return _model_of(ordered, likelihoods, _newcomers_for(data, used[: len(data)], newcomers))


def _newcomers_for(data: Dataset, used: np.ndarray, newcomers: Any) -> dict[str, Newcomers]:
    """The newcomers of each group of competitors; see `suggest_model`."""
    index = data.index
    if newcomers is False:
        return {}
    times = index.times[used]
    if newcomers is None or newcomers is True:
        since = np.sort(times)[int(_BURN_IN * len(times))]
    else:
        since = index.to_time(newcomers, "newcomers")
    since = np.unique(since)
    first = np.full(len(index.names), np.inf)
    features = index.features[used]
    np.minimum.at(
        first, features[features >= 0], np.repeat(times, features.shape[1])[(features >= 0).ravel()]
    )
    first[~_are_competitors(data)] = np.inf
    found = {}
    for number, group in enumerate(index.groups):
        own = first[(index.feature_group == number) & np.isfinite(first)]
        late, least = int((own >= since[0]).sum()), _LEAST_NEWCOMERS if newcomers is None else 1
        if late >= least and len(own) - late >= least:
            span = float(times.max()) - since[0]
            fade = _FADE * span if late >= _LEAST_NEWCOMERS and span > 0 else None
            found[group] = Newcomers(since, fade=fade)
    if not found and newcomers is not None:
        start, stop = index.scale.to_user(np.array([since[0], times.max()]))
        raise DataError(
            f"{{argument}} leaves no newcomer with a first match from {start} to {stop}, or none "
            "but newcomers",
            "Pass a time at which some competitors were known, or False.",
            argument="newcomers",
        )
    return found


def _are_competitors(data: Dataset) -> np.ndarray:
    """Which features are competitors: sides of matches, with a general skill or a role."""
    index = data.index
    schemas = [each for each in (index.schema, *index.kind_schemas) if each is not None]
    covariates = {name for schema in schemas for name, _ in schema.covariates}
    found = [
        name.role in ROLES if isinstance(name, Feature) else name not in covariates
        for name in index.names
    ]
    if index.aspects is None:
        return np.array(found)
    general = index.aspects[..., index.aspect_names.index(GENERAL)] != 0
    with_general = np.zeros(len(found) + 1, bool)
    np.logical_or.at(with_general, index.features, general)
    return np.array(found) & with_general[:-1]


def _whole_events(data: Dataset, used: np.ndarray) -> Dataset:
    """Keep the events with no masked row."""
    events = data.index.events
    if used.all() or events is None:
        return data.subset(used)
    whole = used & ~np.isin(events, events[~used])
    if not whole.any():
        raise DataError("{argument} leaves no whole event", argument="mask")
    return data.subset(whole)


def _likelihood_for(schema: Schema, outcome: np.ndarray) -> type[AbstractLikelihood]:
    levels = set(np.unique(outcome).tolist())
    defined = schema is not NO_TABLE and schema.defines_losses
    if not defined and levels != {1.0} and len(levels) <= 3 and levels <= _CODES:
        *shown, last = [f"{level:g}" for level in sorted(levels)]
        shown = f"{', '.join(shown)} and {last}" if shown else last
        raise DataError(
            f"{{argument}} holds only {shown}, which may be losses, ties or wins",
            "Write losses as -1, ties as 0 and wins as 1, or say what the values mean with "
            f"{{{OUTCOMES}}}. If they are measured, choose a likelihood.",
            argument="outcome",
            mentions=[OUTCOMES],
        )
    if levels <= {-1.0, 1.0}:
        return Probit
    if levels <= {-1.0, 0.0, 1.0} or _holds_goals(schema, outcome):
        return OrdinalProbit
    return Gaussian


def _holds_goals(schema: Schema, outcome: np.ndarray) -> bool:
    """Return whether outcomes are small differences, such as those of goals.

    As ordered levels they forecast football results better than normally distributed
    differences, counts, and results alone (`benchmarks/forecasts.py goals`).
    """
    if schema.difference is None:
        return False
    small = np.quantile(np.abs(outcome), 1.0 - _RARE) <= _MOST_GOALS
    return bool(small and (outcome == np.round(outcome)).all())


def _kernel_for(
    data: Dataset,
    used: np.ndarray,
    number: int,
    variance: float,
    offset: float,
    kernel: type[AbstractKernel],
) -> AbstractKernel:
    """Suggest a kernel for one group, whose part of the score has this variance and offset."""
    index, coefficients = data.index, data.observations.coefficients
    mine = np.append(index.feature_group, -1)[index.features] == number
    mine &= used[:, None]
    squares = float(np.sum(np.where(mine, coefficients, 0.0) ** 2)) / used.sum()
    # A group that is rarely observed does not get a huge variance.
    variance = variance / max(squares, 0.1)
    features = index.features[mine]
    if not features.size:
        return Constant(variance + offset**2)
    with_aspects = partial(_with_aspects, data, mine, variance)
    times = np.broadcast_to(index.times[:, None], mine.shape)[mine]
    first, last = np.full((2, len(index.names)), [[np.inf], [-np.inf]])
    np.minimum.at(first, features, times)
    np.maximum.at(last, features, times)
    span = float(np.mean((last - first)[features]))
    if span <= 0:
        return with_aspects(Constant(variance + offset**2))
    moving = kernel.from_scale(0.5 * variance, span)
    return with_aspects(Constant(0.5 * variance + offset**2) + moving)


def _with_aspects(
    data: Dataset, mine: np.ndarray, variance: float, kernel: AbstractKernel
) -> AbstractKernel:
    """Add the aspects of a group's features: a constant for each, or attack and defence."""
    index = data.index
    if index.aspects is None:
        return kernel
    there = (index.aspects[mine] != 0).any(axis=0)
    named = [name for name, own in zip(index.aspect_names, there, strict=True) if own]
    further = {name: Constant(_ASPECT_SHARE * variance) for name in named[1:] if name not in ROLES}
    if set(ROLES) <= set(named):
        kernel = CorrelatedAspects(kernel, ROLES, _ROLE_CORRELATION)
    return kernel + Aspects(**further) if further else kernel
