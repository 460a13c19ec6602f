"""`save` and `load`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxkick import kernels, likelihoods
from jaxkick._parameters import Fixed, Ordered, Positive, Real, Tied
from jaxkick._tree import Decoder, Encoder
from jaxkick.dataset.counts import CountGroups
from jaxkick.dataset.names import Groups
from jaxkick.dataset.recipe import Recipe
from jaxkick.dataset.times import TimeScale
from jaxkick.inference.ep import ExpectationPropagation
from jaxkick.inference.kl import ReverseKL
from jaxkick.model import Model
from jaxkick.posterior import Posterior
from jaxkick.storage.archive import read_archive, write_archive
from jaxkick.storage.checks import check_model
from jaxkick.storage.records import (
    FileGroups,
    pack_posterior,
    pack_stream,
    posterior_from,
    stream_from,
)
from jaxkick.stream import Stream

__all__ = ["load", "save"]


def _known_classes() -> dict[str, type]:
    named = [getattr(part, name) for part in (kernels, likelihoods) for name in part.__all__]
    parts = [thing for thing in named if isinstance(thing, type)]
    parts += [Positive, Real, Fixed, Ordered, Tied, Model, ExpectationPropagation, ReverseKL]
    parts += [TimeScale, Recipe, CountGroups, FileGroups]
    return {part.__name__: part for part in parts}


_KNOWN = _known_classes()


def save(path: str | os.PathLike, thing: Model | Posterior | Stream) -> None:
    """Write a model, a posterior or a stream to a file.

    The file appears whole or not at all, and replaces one of the same name. It holds numbers
    and texts only. A function given as `groups` is not held, but what it told.

    Args:
        path: the file.
        thing: what to write.

    Raises:
        TypeError: if it is something else, or has a part that cannot be written.
    """
    encoder = Encoder(_KNOWN)
    if isinstance(thing, Posterior):
        content = {"thing": "posterior", "body": encoder.encode(pack_posterior(thing))}
    elif isinstance(thing, Stream):
        content = {"thing": "stream", "body": encoder.encode(pack_stream(thing))}
    elif isinstance(thing, Model):
        content = {"thing": "model", "body": encoder.encode(thing)}
    else:
        raise TypeError(
            f"a model, a posterior or a stream can be saved, not an object of type "
            f"`{type(thing).__name__}`."
        )
    write_archive(Path(path), content, encoder.arrays)


def load(
    path: str | os.PathLike, *, classes: Sequence[type] = (), groups: Groups = None
) -> Model | Posterior | Stream:
    """Read what `save` wrote.

    Nothing in the file is executed: objects are made of known classes alone.

    Args:
        path: the file.
        classes: kernels, likelihoods or parameters of your own that may be in the file.
        groups: the rule for the groups of features, where it was a function.

    Returns:
        The model, posterior or stream.

    Raises:
        ValueError: if the file is damaged, of another kind or of a later version, or holds
            something unknown.
        FileNotFoundError: if there is none.
    """
    content, arrays = read_archive(Path(path))
    decoder = Decoder({**{each.__name__: each for each in classes}, **_KNOWN}, arrays)
    try:
        restored = _restore(content, decoder, groups)
        # What cannot say what it is was put together wrongly.
        repr((restored, restored.data if isinstance(restored, Posterior) else None))
        return restored
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(f"{str(path)!r} does not hold what it claims: {_worded(error)}") from error


def _restore(content: Any, decoder: Decoder, groups: Groups) -> Model | Posterior | Stream:
    if not isinstance(content, dict) or set(content) != {"thing", "body"}:
        raise ValueError("the file holds no model, posterior or stream.")
    thing, body = content["thing"], decoder.decode(content["body"])
    if thing == "model":
        return check_model(body)
    if thing in ("posterior", "stream"):
        check_model(body["model"])
        return (posterior_from if thing == "posterior" else stream_from)(body, groups)
    raise ValueError(f"the file holds something unknown: {str(thing)[:80]!r}.")


def _worded(error: Exception) -> str:
    """An error in words; those that Python words itself are told by their kind."""
    text = str(error)[:500]
    if isinstance(error, ValueError) and text.endswith("."):
        return text
    return f"its parts do not fit together ({type(error).__name__}: {text.removesuffix('.')})."
