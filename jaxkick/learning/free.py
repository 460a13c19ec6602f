"""What an optimiser may change: the free leaves of a model, and the way back."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxkick._parameters import AbstractParameter, Fixed, Tied
from jaxkick._typing import Array, Key

__all__ = ["Frame", "named_values", "perturb", "split"]


class Frame(eqx.Module):
    """Everything of a model but its free leaves.

    Attributes:
        rest: the model, with `None` in place of what is free or tied to something free.
    """

    rest: PyTree

    def fill(self, free: PyTree) -> Any:
        """The model again, with these free leaves; tied parameters follow the first of them."""
        leaders: dict[str, Tied] = {}

        def follow(node):
            return leaders.setdefault(node.name, node) if isinstance(node, Tied) else node

        return jax.tree.map(follow, eqx.combine(free, self.rest), is_leaf=_is_tied)


def split(model: Any) -> tuple[PyTree, Frame]:
    """Part what may be learnt from what may not.

    Free are the floating-point leaves, but not those of `Fixed` parameters. Of `Tied`
    parameters with one name only the first is free.

    Args:
        model: a model, or any pytree with parameters.

    Returns:
        The free leaves, as a tree of the model's structure, and the rest.

    Raises:
        ValueError: if tied parameters differ, or nothing is free.
    """
    leaders: dict[str, Tied] = {}

    def is_free(node):
        if isinstance(node, Tied):
            if leaders.setdefault(node.name, node) is not node:
                _check_alike(leaders[node.name], node)
                return jax.tree.map(lambda _: False, node)
            return jax.tree.map(is_free, node, is_leaf=_is_fixed)
        if isinstance(node, Fixed):
            return jax.tree.map(lambda _: False, node)
        return eqx.is_inexact_array(node)

    chosen = jax.tree.map(is_free, model, is_leaf=lambda node: _is_tied(node) or _is_fixed(node))
    free, rest = eqx.partition(model, chosen)
    if not jax.tree.leaves(free):
        raise ValueError(
            "the model has no parameter that may be learnt: all of them are `Fixed`; give at "
            "least one of them as a number, or use `infer` alone."
        )
    # A new array of the same type is not weakly typed, as the optimiser's own are not.
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), free), Frame(rest)


def perturb(free: PyTree, key: Key[Array, ""], spread: float) -> PyTree:
    """Free leaves with normal noise of standard deviation `spread` on them."""
    leaves, structure = jax.tree.flatten(free)
    keys = jax.random.split(key, len(leaves))
    moved = [
        leaf + jnp.asarray(spread, leaf.dtype) * jax.random.normal(key, leaf.shape, leaf.dtype)
        for leaf, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, moved)


def named_values(model: Any) -> dict[str, np.ndarray]:
    """The values of all parameters of a model by where they stand: `"kernel.variance"`."""
    found = jax.tree_util.tree_leaves_with_path(
        model, is_leaf=lambda node: isinstance(node, AbstractParameter)
    )
    return {
        jax.tree_util.keystr(path).removeprefix("."): np.asarray(node.value)
        for path, node in found
        if isinstance(node, AbstractParameter)
    }


def _check_alike(first: Tied, other: Tied) -> None:
    same_kind = type(first.parameter) is type(other.parameter)
    if not (same_kind and np.array_equal(np.asarray(first.value), np.asarray(other.value))):
        raise ValueError(
            f"the parameters tied by the name {first.name!r} differ: {first!r} is "
            f"{type(first.parameter).__name__}, {other!r} is {type(other.parameter).__name__}; "
            "give them one value and one constraint, or different names."
        )


def _is_tied(node: Any) -> bool:
    return isinstance(node, Tied)


def _is_fixed(node: Any) -> bool:
    return isinstance(node, Fixed)
