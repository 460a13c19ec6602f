"""Two counts of one match: each side's attack against the other's defence."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxkick.dataset.features import Block, join
from jaxkick.dataset.home import HOME
from jaxkick.dataset.names import DEFAULT_GROUP, Vocabulary

__all__ = ["LEVEL", "CountGroups", "attack_of", "defence_of", "interleave", "two_counts"]

LEVEL = "level"
"""The name of the feature that every count shares, and of its group."""

_ATTACK, _DEFENCE = "attack", "defence"


@dataclass(frozen=True)
class CountGroups:
    """The groups of features of counts: by the role that a name ends on.

    Attributes:
        named: the user's own groups, by the name of the feature; they come first.
    """

    named: dict[Hashable, str] = field(default_factory=dict)

    def __call__(self, name: Hashable) -> str:
        """The group of a feature."""
        if name in self.named:
            return self.named[name]
        if name in (HOME, LEVEL):
            return str(name)
        role = str(name).rpartition(" ")[2]
        return role if role in (_ATTACK, _DEFENCE) else DEFAULT_GROUP


def attack_of(side: Any) -> Any:
    """A name, a list of names or a mapping from names, with each name's attack in its place."""
    return _with_role(side, _ATTACK)


def defence_of(side: Any) -> Any:
    """A name, a list of names or a mapping from names, with each name's defence in its place."""
    return _with_role(side, _DEFENCE)


def two_counts(
    first: Block, second: Block, covariates: Sequence[Block], vocabulary: Vocabulary
) -> tuple[Block, Vocabulary]:
    """The features of both counts of every match.

    The count of a side depends on its attack, on the defence of the other side, on the
    `level` of all counts, and on the covariates: with their own sign for the first side, with
    the opposite sign for the second.

    Args:
        first: the first side of each match.
        second: the second side, whose coefficients count with a minus.
        covariates: further features.
        vocabulary: names by code.

    Returns:
        Two rows for each match, and the names by their new codes.
    """
    names = vocabulary.names()
    roles = Vocabulary()
    attack = roles.encode([attack_of(name) for name in names], "first")
    defence = roles.encode([defence_of(name) for name in names], "second")
    plain = roles.encode(names, "covariates")
    level = int(roles.encode([LEVEL], LEVEL)[0])
    always = np.full((len(first.features), 1), level, np.int32)
    shared = Block(always, np.ones(always.shape))
    favour = [_recode(block, plain, 1.0) for block in covariates]
    against = [_recode(block, plain, -1.0) for block in covariates]
    own = join([_recode(first, attack, 1.0), _recode(second, defence, 1.0), *favour, shared])
    other = join([_recode(second, attack, -1.0), _recode(first, defence, -1.0), *against, shared])
    return Block(*(interleave(*pair) for pair in zip(own, other, strict=True))), roles


def interleave(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The rows of two arrays of one shape in turn."""
    return np.stack([first, second], axis=1).reshape(2 * len(first), *first.shape[1:])


def _recode(block: Block, codes: np.ndarray, sign: float) -> Block:
    empty = block.features < 0
    return Block(np.where(empty, -1, codes[block.features]), sign * block.coefficients)


def _with_role(side: Any, role: str) -> Any:
    if isinstance(side, Mapping):
        return {_with_role(name, role): value for name, value in side.items()}
    if hasattr(side, "__len__") and not isinstance(side, (str, bytes)):
        return [_with_role(name, role) for name in side]
    return f"{side} {role}"
