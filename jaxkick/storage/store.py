"""`save` and `load`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxkick import kernels, likelihoods
from jaxkick._parameters import AbstractParameter, Fixed, Ordered, Positive, Real, Tied, resolve
from jaxkick.dataset.counts import CountGroups
from jaxkick.dataset.names import Groups
from jaxkick.dataset.recipe import Recipe
from jaxkick.dataset.times import TimeScale
from jaxkick.inference.ep import ExpectationPropagation
from jaxkick.inference.kl import ReverseKL
from jaxkick.kernels.base import AbstractKernel
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.model import Model
from jaxkick.posterior import Posterior
from jaxkick.storage.archive import read_archive, write_archive
from jaxkick.storage.records import (
    FileGroups,
    pack_posterior,
    pack_stream,
    posterior_from,
    stream_from,
)
from jaxkick.storage.tree import Decoder, Encoder
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
        thing, body = content["thing"], decoder.decode(content["body"])
        if thing == "model":
            return _checked(body)
        if thing in ("posterior", "stream"):
            _checked(body["model"])
            make = posterior_from if thing == "posterior" else stream_from
            return make(body, groups)
    except (TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise ValueError(
            f"{str(path)!r} does not hold what it claims ({type(error).__name__}: {error})."
        ) from error
    raise ValueError(f"{str(path)!r} holds something unknown: {thing!r}.")


def _checked(model: Any) -> Model:
    """A model whose parts are what they should be."""
    if not isinstance(model, Model):
        raise ValueError("the file holds no model where one was expected.")
    parts = model.kernel.values() if isinstance(model.kernel, dict) else [model.kernel]
    means = model.mean.values() if isinstance(model.mean, dict) else [model.mean]
    if not (
        all(isinstance(part, AbstractKernel) for part in parts)
        and isinstance(model.likelihood, AbstractLikelihood)
        and all(isinstance(mean, AbstractParameter | None) for mean in means)
    ):
        raise ValueError("the file holds a model whose parts are no kernels or likelihoods.")
    resolve(model)
    return model
