"""What a user asks of inference, read and checked against the data."""

import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._parameters import AbstractParameter
from jaxkick._tracing import is_known
from jaxkick._typing import Array, Bool
from jaxkick.dataset.dataset import Dataset
from jaxkick.inference.method import AbstractMethod
from jaxkick.inference.problem import Sites
from jaxkick.kernels.base import AbstractKernel
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.model import Model

__all__ = [
    "check_fit",
    "check_kinds",
    "check_method",
    "check_outcomes",
    "read_active",
    "read_start",
    "reporter",
]


def read_active(active: ArrayLike | None, data: Dataset) -> Bool[Array, " N"] | None:
    """The observations that count, as booleans; `None` for all of them."""
    if active is None:
        return None
    active = jnp.asarray(active)
    if active.shape != data.outcome.shape or active.dtype != bool:
        raise ValueError(
            f"`active` has the shape {active.shape} and type {active.dtype}, but must be one "
            f"boolean for each of the {data.num_observations:,} observations."
        )
    return active


def read_start(sites: Sites | None, data: Dataset) -> Sites | None:
    """Sites to start from, in the data's floating-point type."""
    if sites is None:
        return None
    shapes = [site.precision.shape for site in sites]
    if shapes != [chain.gap.shape for chain in data.chains]:
        raise ValueError(
            "`start` belongs to other data: its sites do not have the shape of these chains; "
            "leave it out, or pass a posterior of the same data set."
        )
    return jax.tree.map(lambda leaf: leaf.astype(data.coefficients.dtype), sites)


def check_fit(model: Model, data: Dataset, active: Array | None) -> None:
    """Refuse a model that does not fit the data, where the host can see it."""
    _check_means(model, data)
    check_outcomes(model.likelihood, data, active)


def check_kinds(model: object, data: object) -> None:
    """Refuse arguments in the wrong place."""
    for label, value, kind in (("model", model, Model), ("data", data, Dataset)):
        if not isinstance(value, kind):
            raise TypeError(f"`{label}` must be a `{kind.__name__}`, not {type(value).__name__}.")


def check_method(method: object, acceleration: int, max_steps: int) -> None:
    """Refuse what is no method, and numbers of steps that make no sense."""
    if not isinstance(method, AbstractMethod):
        raise TypeError(
            f"`method` must be `ExpectationPropagation()` or `ReverseKL()`, not {method!r}."
        )
    if acceleration < 0:
        raise ValueError(
            f"`acceleration` is {acceleration}, but must be a number of past steps; 0 for none."
        )
    if is_known(max_steps) and max_steps < 1:
        raise ValueError(f"`max_steps` is {max_steps}, but must be at least 1.")


def _check_means(model: Model, data: Dataset) -> None:
    if isinstance(model.mean, dict) and isinstance(model.kernel, AbstractKernel):
        unknown = sorted(set(model.mean) - {chain.group for chain in data.chains})
        if unknown:
            known = ", ".join(repr(chain.group) for chain in data.chains)
            raise ValueError(
                f"the model's `mean` has the group {unknown[0]!r}, but the groups of the data are "
                f"{known}; use one of them, or `groups=` of the data set."
            )
    if data.index is None or not isinstance(model.mean, AbstractParameter):
        return
    shape = model.mean.value.shape
    if shape and shape != (data.num_features,):
        raise ValueError(
            f"the model's `mean` has {shape[0]:,} numbers, but the data has "
            f"{data.num_features:,} features; give one for each of `data.names`, in that order."
        )


def check_outcomes(likelihood: AbstractLikelihood, data: Dataset, active: ArrayLike | None) -> None:
    """Refuse outcomes that the likelihood cannot explain, where the host can see them."""
    if not is_known(data.outcome) or not (active is None or is_known(active)):
        return
    outside = np.asarray(likelihood.check(np.asarray(data.outcome)))
    if active is not None:
        outside = outside & np.asarray(active)
    if not outside.any():
        return
    places = np.flatnonzero(outside)
    rows = places if data.index is None or data.index.rows is None else data.index.rows[places]
    raise ValueError(
        f"`outcome` is {float(data.outcome[places[0]]):g} in row {rows[0]} "
        f"({len(places):,} such rows), outside the domain of "
        f"{type(likelihood).__name__}: {likelihood.domain}. Choose another "
        "likelihood, or build the data set with `likelihood=` and `on_invalid='drop'`."
    )


def reporter(progress: bool | Callable[[int, float], None]) -> Callable | None:
    """What to call after every step: a line on the error stream, a function, or nothing."""
    if progress is False:
        return None
    return _write_progress if progress is True else progress


def _write_progress(steps: int, distance: float) -> None:
    sys.stderr.write(f"\rinference: step {int(steps)}, distance left {float(distance):.2g} ")
    sys.stderr.flush()
