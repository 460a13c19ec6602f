"""Checks of the arguments of inference against each other and against the data."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._typing import Array, Bool
from jaxkick._xla import is_known
from jaxkick.data.dataset import Dataset, check_bits
from jaxkick.data.events import EventBlock
from jaxkick.data.observations import check_outcomes as check_domain
from jaxkick.data.schema import GENERAL
from jaxkick.errors import DataError, check_least, plain
from jaxkick.inference.methods import AbstractMethod
from jaxkick.inference.problem import Sites
from jaxkick.kernels import AbstractKernel
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.likelihoods.likelihood import observation_count
from jaxkick.model import Model
from jaxkick.parameters import AbstractParameter

__all__ = [
    "check_fit",
    "check_kinds",
    "check_method",
    "check_outcomes",
    "read_mask",
    "read_start",
]


def read_mask(mask: ArrayLike | None, data: Dataset) -> Bool[Array, " N"] | None:
    """Read the mask of observations, padded as the data is; `None` for all of them."""
    if mask is None:
        return None
    mask = jnp.asarray(mask)
    count, size = len(data.slots if data.index is None else data), len(data.slots)
    if mask.shape != (count,) or mask.dtype != bool:
        raise DataError(
            f"{{argument}} has the shape {mask.shape} and type {mask.dtype}, but must be one "
            f"boolean for each of the {count:,} observations",
            argument="mask",
        )
    return jnp.pad(mask, (0, size - count))


def read_start(sites: Sites | None, data: Dataset) -> Sites | None:
    """Read the sites of a warm start, in the data's floating-point type."""
    if sites is None:
        return None
    shapes = [site.precision.shape for site in sites]
    if shapes != [chain.gap.shape for chain in data.chains]:
        raise DataError(
            "{argument} belongs to other data: its sites do not have the shape of these chains",
            "Leave it out, or pass a posterior of the same data set.",
            argument="start",
        )
    return jax.tree.map(lambda leaf: leaf.astype(data.coefficients.dtype), sites)


def check_fit(model: Model, data: Dataset, mask: Array | None) -> None:
    """Reject a model that does not fit the data, as far as values are known on the host."""
    _check_means(model, data)
    _check_aspects(model, data)
    _check_own_numbers(model, data)
    check_outcomes(model.likelihood, data, mask)


def check_kinds(model: object, data: object) -> None:
    """Reject arguments in the wrong place."""
    for label, value, kind in (("model", model, Model), ("data", data, Dataset)):
        if not isinstance(value, kind):
            raise TypeError(f"`{label}` must be a `{kind.__name__}`, not {type(value).__name__}.")


def check_method(method: object, max_steps: int) -> None:
    """Reject objects that are not methods, and a number of steps below one."""
    if not isinstance(method, AbstractMethod):
        raise TypeError(
            f"`method` must be `ExpectationPropagation()` or `ReverseKL()`, not {method!r}."
        )
    if is_known(max_steps):
        check_least("max_steps", max_steps)


def _check_means(model: Model, data: Dataset) -> None:
    if isinstance(model.mean, dict) and isinstance(model.kernel, AbstractKernel):
        unknown = sorted(set(model.mean) - {chain.group for chain in data.chains})
        if unknown:
            known = ", ".join(repr(chain.group) for chain in data.chains)
            raise DataError(
                f"{{argument}} of the model has the group {{value}}, but the data has {known}",
                "Use one of these groups, or `groups=` of the data set.",
                argument="mean",
                value=unknown[0],
            )
    if data.index is None or not isinstance(model.mean, AbstractParameter):
        return
    shape = model.mean.value.shape
    if shape and shape != (data.num_features,):
        raise DataError(
            f"{{argument}} of the model has {shape[0]:,} numbers, but the data has "
            f"{data.num_features:,} features",
            "Give one number for each of `data.names`, in that order.",
            argument="mean",
        )


def _check_aspects(model: Model, data: Dataset) -> None:
    """Reject kernels with aspects that the data does not have."""
    for chain in data.chains:
        known = [name for name in chain.aspects or () if name != GENERAL]
        for name in model.kernel_of(chain.group).aspects:
            if name not in known:
                listed = ", ".join(map(repr, known))
                raise DataError(
                    f"the kernel of the group {chain.group!r} has the aspect {name!r}, but the "
                    f"data has {f'only {listed}' if known else 'no aspects'}",
                    "Name it in `aspects=` of the data set, or leave it out of the kernel.",
                )


def _check_own_numbers(model: Model, data: Dataset) -> None:
    """Reject likelihoods with one number for each observation of other data."""
    for likelihood in model.likelihoods.values():
        found = observation_count(likelihood)
        if found is not None and data.index is not None and found != len(data):
            raise DataError(
                f"{type(likelihood).__name__} has {found:,} numbers, but the data has "
                f"{len(data):,} observations",
                "Give it one number for all observations, or one for each of them in the order of "
                "the data. After new matches, call `infer` with the numbers of all matches.",
                argument="likelihood",
            )


def check_outcomes(
    likelihood: AbstractLikelihood | dict[str, AbstractLikelihood],
    data: Dataset,
    mask: ArrayLike | None,
) -> None:
    """Reject outcomes that are not valid for their likelihood, as far as they are known."""
    check_bits(data)
    single = isinstance(likelihood, AbstractLikelihood)
    if single:
        _check_reading(likelihood, data)
    if not single or likelihood.num_predictors != 1:
        _check_events(likelihood if not single else {"": likelihood}, data, mask)
        return
    if data.index is not None and data.schema is not None and data.schema.has_second_score:
        name, use, lacks = (
            ("tie_effects", "VaryingTies(margin=...)", "margin that depends on who plays")
            if data.schema.tie_effects
            else ("noise_effects", "VaryingNoise(...)", "noise that depends on time")
        )
        raise DataError(
            f"The data was read with `{name}=True`, but {type(likelihood).__name__} has no {lacks}",
            f"Use `likelihoods.{use}`, or read the table without it.",
        )
    if not is_known(data.outcome) or not (mask is None or is_known(mask)):
        return
    count = len(data.outcome) if data.index is None else len(data)
    rows = None if data.index is None else data.index.rows
    mask = None if mask is None else np.asarray(mask)[:count]
    check_domain(likelihood, np.asarray(data.outcome)[:count], rows, mask)


def _check_reading(likelihood: AbstractLikelihood, data: Dataset) -> None:
    """Reject places as outcomes of anything but rankings, and other numbers as places."""
    schema, name = data.index and data.index.schema, type(likelihood).__name__
    if schema is None:
        return
    if schema.is_ranking and likelihood.num_predictors is not None:
        raise DataError(
            f"The data has places in rankings, which {name} does not explain",
            "Use `likelihoods.Ranking()`.",
        )
    if likelihood.num_predictors is None and not schema.is_ranking:
        raise DataError(
            f"The data has matches of two sides, but {name} is a likelihood of places",
            "Use `Dataset.from_rankings` to read rankings.",
        )


def _check_events(
    likelihoods: dict[str, AbstractLikelihood], data: Dataset, mask: ArrayLike | None
) -> None:
    """Reject events that their likelihood cannot explain."""
    blocks = () if data.events is None else data.events.blocks
    if "" not in likelihoods and not any(block.kind for block in blocks):
        known = ", ".join(map(repr, likelihoods))
        raise DataError(
            f"the model has likelihoods for the kinds {known}, but the data has no kinds",
            "Give observations their kinds: `jk.concat({'duels': ..., 'races': ...})`.",
        )
    for kind, likelihood in likelihoods.items():
        mine = [block for block in blocks if kind in ("", block.kind)]
        _check_sizes(likelihood, [block.members.shape[1] for block in mine])
        _check_weights(likelihood, data, mine)
    unknown = sorted({block.kind for block in blocks} - set(likelihoods))
    if unknown and "" not in likelihoods:
        known = ", ".join(map(repr, likelihoods))
        raise DataError(
            f"the data has observations of the kind {unknown[0]!r}, but the model has likelihoods "
            f"for {known}",
            "Name the kinds alike, as in `jk.concat({'duels': ..., 'races': ...})`.",
        )
    if not is_known(data.outcome) or not (mask is None or is_known(mask)):
        return
    outcome = np.asarray(data.outcome)
    counts = np.ones(len(outcome), bool)
    if mask is not None:
        counts[: len(np.asarray(mask))] = np.asarray(mask)
    rows = None if data.index is None else data.index.rows
    for block in blocks:
        likelihood = likelihoods.get(block.kind, likelihoods.get(""))
        members = np.asarray(block.members)
        there = members < len(outcome)
        found = outcome[np.where(there, members, 0)]
        if likelihood.num_predictors == 1:
            bad = (likelihood.check(found) & there).any(axis=1)
        else:
            bad = likelihood.check_events(np.where(there, found, -1.0))
        # Padding repeats the first event.
        own = np.append(True, members[1:, 0] != members[0, 0])
        counted = own & counts[np.where(there, members, members[:, :1])].all(axis=1)
        alone = counted & (there.sum(axis=1) < 2)
        if likelihood.num_predictors is None and alone.any():
            row = int(members[np.argmax(alone), 0])
            raise DataError(
                f"the event has only one side, but {type(likelihood).__name__} compares sides",
                "Leave it out, or give matches and rankings different kinds.",
                row=row if rows is None else int(rows[row]),
                count=int(alone.sum()),
            )
        bad &= counted
        if bad.any():
            event = int(np.argmax(bad))
            row = int(members[event, 0])
            remedy = "Choose another likelihood."
            if there[event].sum() < (likelihood.num_predictors or 1):
                remedy = "Complete the event, leave it out, or choose another likelihood."
            raise DataError(
                f"the outcomes {{value}} are not valid for {type(likelihood).__name__}, which "
                f"needs {likelihood.domain}",
                remedy,
                argument="outcome",
                row=row if rows is None else int(rows[row]),
                count=int(bad.sum()),
                value=[plain(each) for each in found[event][there[event]]],
            )


def _check_weights(likelihood: AbstractLikelihood, data: Dataset, blocks: list[EventBlock]) -> None:
    """Reject weights that a likelihood of several scores cannot use."""
    known, ranking = is_known(data.weight), likelihood.num_predictors is None
    if data.weight is None or likelihood.num_predictors == 1 or not (known or ranking):
        return
    name, rows = type(likelihood).__name__, None if data.index is None else data.index.rows
    for block in blocks:
        members = np.asarray(block.members)
        there = members < len(data.weight)
        weight = np.asarray(data.weight) if known else np.full(len(data.weight), np.nan)
        found = weight[np.where(there, members, members[:, :1])]
        if ranking and np.any(found != 1.0):
            raise DataError(
                f"{name} takes no weights, but the data has some: a power of the probability of "
                "an order is no longer an integral over performances",
                "Leave them out; weights of zero can be given as a mask.",
                argument="weight",
            )
        differ = np.any(found != found[:, :1], axis=1)
        if differ.any():
            event = int(np.argmax(differ))
            row = int(members[event, 0])
            raise DataError(
                f"{{argument}} is {{value}} within one event, but {name} evaluates it as a whole",
                "Give all rows of an event the same weight.",
                argument="weight",
                row=row if rows is None else int(rows[row]),
                count=int(differ.sum()),
                value=[plain(each) for each in found[event][there[event]]],
            )


def _check_sizes(likelihood: AbstractLikelihood, widths: list[int]) -> None:
    """Reject events with another number of scores than the likelihood has."""
    name, number = type(likelihood).__name__, likelihood.num_predictors
    if number != 1 and not widths:
        raise DataError(
            f"{name} needs events of several scores, but the data has none",
            "Use `Dataset.from_rankings` for rankings, `counts=` for the goals of both sides, or "
            "`events=` of `Dataset.from_arrays`.",
        )
    wrong = [width for width in widths if number not in (None, 1, width)]
    if wrong:
        raise DataError(
            f"{name} needs {number} scores for each event, but the data has events of {wrong[0]}"
        )
