"""What a prediction asks for: named features with coefficients at times, as arrays."""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxkick.dataset.directory import Directory
from jaxkick.dataset.features import Block, compact, join, read_covariate, read_side
from jaxkick.dataset.names import Vocabulary
from jaxkick.dataset.validation import list_rows

__all__ = ["Query", "read_query"]


class Query(NamedTuple):
    """Linear combinations of features at times, and the shape that answers have.

    Attributes:
        shape: shape of the answers: `()` for one combination at one time.
        times: float64 times [Q] in the data's unit.
        features: feature numbers [Q, P]; -1 in an empty slot and for an unseen feature.
        groups: names of the groups of the features [Q, P]; empty in an empty slot.
        coefficients: coefficients [Q, P]; 0 in an empty slot.
    """

    shape: tuple[int, ...]
    times: np.ndarray
    features: np.ndarray
    groups: np.ndarray
    coefficients: np.ndarray


def read_query(
    directory: Directory,
    times: Any,
    sides: Mapping[str, tuple[Any, float]],
    covariates: Mapping[Hashable, Any],
) -> Query:
    """Combinations of features at times; one of either stands for all of the other.

    Args:
        directory: names, groups and times.
        times: one time or many, in the user's terms.
        sides: for each argument one name, list of names or mapping to coefficients, or a
            list of them for many combinations, and the sign of their coefficients. A list
            of names alone is many combinations of one feature each.
        covariates: further features by name, each with one coefficient or many.

    Returns:
        The query.

    Raises:
        ValueError: if lengths do not fit, a name is missing or a coefficient is no number.
    """
    numbers = np.asarray(directory.to_time(times, "time"))
    sides = {name: (_without_array(values), sign) for name, (values, sign) in sides.items()}
    covariates = {name: _without_array(values) for name, values in covariates.items()}
    arguments = {name: values for name, (values, _) in sides.items()}
    arguments |= {f"covariates[{name!r}]": values for name, values in covariates.items()}
    lengths = {name: len(values) for name, values in arguments.items() if _is_many(values)}
    if numbers.ndim:
        lengths["time"] = len(numbers)
    count = _common_length(lengths)
    vocabulary = Vocabulary()
    blocks = []
    for argument, (values, sign) in sides.items():
        many = values if argument in lengths else [values]
        block = read_side(many, sign, vocabulary, argument, len(many))
        blocks.append(
            Block(*(np.repeat(part, count // max(len(many), 1), axis=0) for part in block))
        )
    for name, values in covariates.items():
        label = f"covariates[{name!r}]"
        one_for_all = lengths.get(label) == 1 and count > 1
        values = next(iter(values)) if one_for_all else values
        blocks.append(read_covariate(name, values, vocabulary, label, count))
    block = join(blocks)
    _check(block, vocabulary, bool(lengths))
    block = compact(block)
    names = vocabulary.names()
    empty = block.features < 0
    ids = np.append(directory.feature_ids(names), -1)
    groups = np.array([*map(directory.group_of, names), ""], dtype=object)
    return Query(
        shape=(count,) if lengths else (),
        times=np.broadcast_to(numbers, (count,)),
        features=np.where(empty, -1, ids[block.features]),
        groups=np.where(empty, "", groups[block.features]),
        coefficients=block.coefficients,
    )


def _check(block: Block, vocabulary: Vocabulary, many: bool) -> None:
    """Refuse names that are missing and coefficients that are no numbers."""

    def refuse(bad: np.ndarray, problem: str, remedy: str) -> None:
        if bad.any():
            where = f" in {list_rows(bad.any(axis=1))}" if many else ""
            raise ValueError(f"{problem}{where}; {remedy}.")

    missing = np.append(vocabulary.missing(), False)
    refuse(missing[block.features], "a name is missing", "give every competitor a name")
    refuse(
        ~np.isfinite(block.coefficients),
        "a coefficient is missing or infinite",
        "coefficients, such as who is at home, must be numbers",
    )


def _without_array(values: Any) -> Any:
    """The value of an array without dimensions."""
    return values.item() if getattr(values, "ndim", None) == 0 else values


def _is_many(values: Any) -> bool:
    """Whether an argument gives one value for each query rather than one for all."""
    if isinstance(values, (str, bytes, Mapping)):
        return False
    return hasattr(values, "__len__")


def _common_length(lengths: Mapping[str, int]) -> int:
    """The number of queries; arguments of one element stand for all."""
    different = {length for length in lengths.values() if length != 1}
    if len(different) > 1:
        found = ", ".join(f"`{argument}` has {length:,}" for argument, length in lengths.items())
        raise ValueError(
            f"the arguments differ in length: {found}; give as many of each, or one for all."
        )
    return different.pop() if different else 1
