"""Files: `save` and `load`, and checkpoints of long runs.

All files have one format: an uncompressed zip with the text `jaxkick.json` and one `.npy` file
for each array. There is no pickle, and nothing in a file is executed: `load` calls the
constructors of known classes, whose checks apply to files as to any other input. The zip holds a
checksum of each part. Files are written atomically.
"""

import dataclasses
import hashlib
import inspect
import json
import math
import os
import re
import secrets
import time
import zipfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxkick import kernels, likelihoods
from jaxkick._xla import is_known
from jaxkick.chains.step import Site
from jaxkick.data.aspect_columns import AspectNames
from jaxkick.data.columns import TimeScale
from jaxkick.data.dataset import Dataset
from jaxkick.data.observations import Observations
from jaxkick.data.schema import Feature, Groups, Schema
from jaxkick.errors import DataError
from jaxkick.inference.checks import check_fit
from jaxkick.inference.methods import AbstractMethod, ExpectationPropagation, ReverseKL
from jaxkick.inference.problem import ScoreMoments, restart_ages
from jaxkick.inference.status import Status
from jaxkick.kernels import FIRST, AbstractKernel, Instant
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.likelihoods.likelihood import observation_count
from jaxkick.model import Model
from jaxkick.newcomers import Newcomers
from jaxkick.online import GroupState, Roster, Stream, Widths
from jaxkick.parameters import (
    AbstractParameter,
    Correlation,
    Fixed,
    Ordered,
    Positive,
    Real,
    Tied,
    resolve,
)
from jaxkick.posterior import Posterior

__all__ = [
    "Checkpoint", "atomic_write", "fingerprint", "load", "read_archive", "save", "write_archive"
]  # fmt: skip

# The version of the format.
_VERSION = 1
_HEADER = "jaxkick.json"
_MAX_SHOWN = 300
# The maximum share of time for writing checkpoints.
_WRITING_SHARE = 0.05
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_DAMAGED = (zipfile.BadZipFile, OSError, EOFError, UnicodeError, NotImplementedError, MemoryError)
_INVALID = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)


def save(path: str | os.PathLike, thing: Model | Posterior | Stream) -> None:
    """Write a model, a posterior or a stream to a file, atomically.

    Args:
        path: the file; an existing one is replaced.
        thing: the object to write. If `groups` of its data was a function, the file contains the
            groups of all known features instead.

    Raises:
        TypeError: if the object has another type, or a part of it cannot be written.
    """
    if isinstance(thing, Posterior):
        name, parts = "posterior", _posterior_to_parts(thing)
    elif isinstance(thing, Stream):
        name, parts = "stream", _stream_to_parts(thing)
    elif isinstance(thing, Model):
        name, parts = "model", thing
    else:
        raise TypeError(
            "`save` writes a `Model`, a `Posterior` or a `Stream`, not an object of type "
            f"`{type(thing).__name__}`."
        )
    arrays: dict[str, np.ndarray] = {}
    content = {"thing": name, "body": _encode(parts, arrays)}
    write_archive(Path(path), content, arrays)


def load(
    path: str | os.PathLike, *, classes: Sequence[type] = (), groups: Groups = None
) -> Model | Posterior | Stream:
    """Read a file that `save` wrote.

    Args:
        path: the file.
        classes: your own kernels, likelihoods or parameters that the file may contain.
        groups: the function that was passed as `groups`, for features that are not in the file.

    Returns:
        The model, posterior or stream.

    Raises:
        DataError: if the file is damaged, is not a jaxkick file or has a later version, or
            if its content is not valid.
        FileNotFoundError: if the file does not exist.
    """
    content, arrays = read_archive(Path(path))
    try:
        _require(
            isinstance(content, dict) and set(content) == {"thing", "body"},
            "it contains no model, posterior or stream",
        )
        restore = {
            "model": lambda model, _: _check_model(model),
            "posterior": _posterior_from_parts,
            "stream": _stream_from_parts,
        }.get(content["thing"])
        if restore is None:
            raise ValueError(f"it contains an unknown kind of object, {content['thing']!r}")
        restored = restore(_Decoder(classes, arrays).decode(content["body"]), groups)
        # Reading all fields finds inconsistencies that the checks miss.
        repr((restored, getattr(restored, "data", None)))
        return restored
    except _INVALID as error:
        text = _brief(error)
        if not isinstance(error, ValueError):
            text = f"its parts do not fit together ({type(error).__name__}: {text})"
        raise DataError(f"{str(path)!r} cannot be loaded: {text}") from error


def _require(holds: bool | np.bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _brief(text: object) -> str:
    """The first line of an error or text from a file, which may have any length."""
    line = str(text).partition("\n")[0].removesuffix(".")
    return line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}…"


# Archives: one JSON text and named arrays.


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file in the folder of `path`, and rename it to `path` at the end.

    An error removes the temporary file and leaves an existing file as it was; a killed process
    leaves a file that ends in `.part`.

    Raises:
        FileNotFoundError: if the folder does not exist.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{str(path)!r} cannot be written: the folder does not exist.")
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_archive(path: Path, content: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an object that JSON can hold and arrays of numbers or booleans, atomically."""
    header = {"format": "jaxkick", "version": _VERSION, "content": content}
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_HEADER, json.dumps(header, allow_nan=False))
        for name, array in arrays.items():
            plain = np.asarray(array, order="C")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, plain, (1, 0), allow_pickle=False)


def read_archive(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """Read the content and the arrays of a file.

    Raises:
        DataError: if the file is damaged, is not a jaxkick file or has a later version.
        FileNotFoundError: if the file does not exist.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            # Compressed and overlapping parts could fill any amount of memory.
            for part in parts:
                plain = part.compress_type == zipfile.ZIP_STORED and not part.flag_bits & 1
                _require(plain, f"{part.filename[:80]!r} is compressed or encrypted")
            claimed, size = sum(part.file_size for part in parts), path.stat().st_size
            _require(
                claimed <= size, f"it claims to hold {claimed:,} bytes, but has only {size:,} bytes"
            )
            content = _read_header(archive)
            arrays = {
                part.filename.removesuffix(".npy"): _read_array(archive, part)
                for part in parts
                if part.filename != _HEADER
            }
    except FileNotFoundError:
        raise
    except (*_DAMAGED, ValueError) as error:
        # `UnicodeError` is a `ValueError`.
        reason = (
            f"it is damaged ({_brief(error)})" if isinstance(error, _DAMAGED) else _brief(error)
        )
        raise DataError(f"{str(path)!r} cannot be read: {reason}") from error
    return content, arrays


def _read_header(archive: zipfile.ZipFile) -> Any:
    _require(_HEADER in archive.namelist(), "it is a zip file, but not a jaxkick file")
    try:
        header = json.loads(archive.read(_HEADER))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header is not JSON ({error})") from error
    known = isinstance(header, dict) and header.get("format") == "jaxkick"
    _require(known, "it is not a jaxkick file")
    version = header.get("version")
    _require(
        isinstance(version, int) and 1 <= version <= _VERSION,
        f"it has version {str(version)[:20]} of the format, but this jaxkick reads versions up to "
        f"{_VERSION}. Update jaxkick",
    )
    return header.get("content")


def _read_array(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> np.ndarray:
    """Read an array, after a check that its shape fits its size.

    `numpy.load` would reserve the memory that the shape asks for first.
    """
    name = part.filename[:80]
    with archive.open(part) as file:
        try:
            _require(np.lib.format.read_magic(file) == (1, 0), "unknown version")
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        except (ValueError, SyntaxError, TypeError) as error:
            raise ValueError(f"{name!r} is not an array ({error})") from error
        plain = dtype.kind in "biuf" and dtype.isnative and not fortran
        fits = file.tell() + math.prod(shape) * dtype.itemsize == part.file_size
        _require(
            plain and fits and min(shape, default=0) >= 0,
            f"{name!r} is not a numeric array of the size it claims",
        )
        return np.frombuffer(file.read(), dtype).reshape(shape).copy()


# Objects as JSON and arrays.


@dataclasses.dataclass(frozen=True)
class _SavedGroups:
    """The groups of the known features, which replace a function in a file."""

    known: dict[Hashable, str]

    def __call__(self, name: Hashable) -> str:
        if name not in self.known:
            raise DataError(
                f"the group of {name!r} is unknown: `groups` was a function, which a file cannot "
                "hold",
                "Pass it again, as in `load(path, groups=function)`.",
            )
        return self.known[name]


_PUBLIC = [getattr(part, name) for part in (kernels, likelihoods) for name in part.__all__]
_CLASSES = [
    *(each for each in _PUBLIC if isinstance(each, type)),
    *(Positive, Real, Fixed, Ordered, Correlation, Tied),
    *(Model, Newcomers, ExpectationPropagation, ReverseKL),
    *(TimeScale, Schema, Feature, AspectNames, _SavedGroups, Roster, GroupState, Widths),
]
_KNOWN = {each.__name__: each for each in _CLASSES}


def _encode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Turn an object into JSON; its arrays are added to `arrays`."""
    if value is FIRST:
        return {"first": True}
    if isinstance(value, (jax.Array, np.ndarray, np.generic)) and not isinstance(value, str):
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"An array of type {array.dtype} cannot be saved.")
        name = f"array{len(arrays)}"
        arrays[name] = array
        return {"array": name, "device": isinstance(value, jax.Array)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if (names := _field_names(type(value))) is not None:
        kind = type(value).__name__
        if _KNOWN.get(kind, type(value)) is not type(value):
            raise TypeError(f"`{kind}` is the name of a class of jaxkick. Rename yours to save it.")
        return {"kind": kind, "fields": {n: _encode(getattr(value, n), arrays) for n in names}}
    if isinstance(value, (tuple, list)):
        return [_encode(item, arrays) for item in value]
    if isinstance(value, Mapping):
        return {"dict": [[_encode(k, arrays), _encode(v, arrays)] for k, v in value.items()]}
    raise TypeError(
        f"An object of type `{type(value).__name__}` cannot be saved: {value!r}. A file holds "
        "numbers, texts, arrays, and modules made of them."
    )


class _Decoder:
    """Turn JSON and arrays into objects of known classes."""

    def __init__(self, classes: Sequence[type], arrays: Mapping[str, np.ndarray]):
        self._classes = {**{each.__name__: each for each in classes}, **_KNOWN}
        self._arrays = arrays

    def decode(self, node: Any, place: str = "") -> Any:
        """Decode a node of the JSON text at a place such as `.kernel.terms[1]`."""
        match node:
            case None | bool() | int() | float() | str():
                return node
            case list():
                return tuple(self.decode(item, f"{place}[{n}]") for n, item in enumerate(node))
            case {"first": True}:
                return FIRST
            case {"float": str(text)}:
                return float(text)
            case {"array": str(name), "device": bool(device)}:
                return self._array(name, device)
            case {"dict": list(pairs)}:
                return {
                    self.decode(key, place): self.decode(value, f"{place}.{key}")
                    for key, value in pairs
                }
            case {"kind": str(name), "fields": dict(fields)}:
                return self._object(name, fields, place)
        raise ValueError(f"it holds {_brief(repr(node))}{_at(place)}, which is not valid")

    def _array(self, name: str, device: bool) -> np.ndarray | np.generic | jax.Array:
        _require(name in self._arrays, f"the array {name!r} is missing")
        if not device:
            return self._arrays[name][()]
        _check_bits(self._arrays[name].dtype)
        return jnp.asarray(self._arrays[name])

    def _object(self, name: str, fields: dict, place: str) -> Any:
        _require(
            name in self._classes,
            f"it holds a `{name}`, which is not a class of jaxkick; pass the class, as in "
            f"`load(path, classes=[{name}])`",
        )
        names = _field_names(self._classes[name]) or ()
        _require(
            set(fields) == set(names),
            f"it holds a `{name}` with the fields {', '.join(fields)}, but the class has "
            f"{', '.join(names)}; the file was written by another version",
        )
        values = {each: self.decode(fields[each], f"{place}.{each}") for each in names}
        try:
            return _construct(self._classes[name], values)
        except _INVALID as error:
            raise ValueError(f"{_brief(error)}{_at(place)}") from error


def _at(place: str) -> str:
    return f" (at `{_brief(place.removeprefix('.'))}`)" if place else ""


def _field_names(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a module, data class or named tuple."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return getattr(kind, "_fields", None) if issubclass(kind, tuple) else None


def _construct(kind: type, values: dict[str, Any]) -> Any:
    """Make an object by its constructor where that takes the fields, so that its checks apply."""
    if issubclass(kind, tuple):
        return kind(**values)
    parameters = inspect.signature(kind.__init__).parameters
    if set(values) == set(parameters) - {"self"}:
        variadic = [
            each for each in values if parameters[each].kind is inspect.Parameter.VAR_POSITIONAL
        ]
        return kind(*values[variadic[0]]) if variadic else kind(**values)
    # Constructors of parameters take constrained values: rounding would change the stored ones.
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    if isinstance(made, AbstractParameter):
        _check_parameter(made)
    return made


def _check_parameter(parameter: AbstractParameter) -> None:
    label, leaves = f"a `{type(parameter).__name__}`", jax.tree.leaves(parameter)
    numbers = leaves and all(map(eqx.is_inexact_array, leaves))
    _require(bool(numbers), f"{label} without a number")
    _require(isinstance(getattr(parameter, "name", ""), str), f"{label} without a name")
    _require(np.isfinite(parameter.value).all(), f"{label} that is not finite")


def _check_bits(dtype: np.dtype) -> None:
    has_doubles = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
    _require(
        dtype.itemsize < 8 or has_doubles,
        f"it was saved while JAX was set to 64 bits and holds {dtype}, but JAX is set to 32 bits "
        "now. Call `jax.config.update('jax_enable_x64', True)` before `load`",
    )


# Models, data sets, posteriors and streams.


def _check_model(model: Any) -> Model:
    """Check that kernels and likelihoods give one number each, without computing it.

    A likelihood with one number for each observation gives one value for each of them;
    `check_fit` counts them.
    """
    _require(isinstance(model, Model), "there is no model where one is expected")
    arrays = jax.tree.leaves(eqx.filter(model, eqx.is_array))
    _require(
        not any(np.isnan(each).any() for each in arrays), "the model has parameters that are NaN"
    )
    parts = {f"kernel of the group {group!r}": kernel for group, kernel in model.kernels.items()}
    now, zero, dtype = Instant.at(0.0), jnp.zeros(()), jnp.result_type(float)

    def compute(part: Any) -> Any:
        part = resolve(part, dtype)
        is_kernel = isinstance(part, AbstractKernel)
        if is_kernel:
            return part.covariance(now, now)
        scores = zero if part.num_predictors == 1 else jnp.zeros(part.num_predictors or 2)
        # The place 1 of every side is valid for a ranking, and 0 for all others.
        return part.log_prob(scores + 1.0 if part.num_predictors is None else scores, scores)

    for kind, part in model.likelihoods.items():
        parts[f"likelihood of {kind!r}" if kind else "likelihood"] = part
    for label, part in parts.items():
        try:
            shape = eqx.filter_eval_shape(compute, part).shape
            if isinstance(part, AbstractLikelihood) and shape == (observation_count(part),):
                continue
        except _INVALID as error:
            shape = _brief(error)
        _require(shape == (), f"the {label} has parameters of wrong shapes or types ({shape})")
    return model


def _groups_to_parts(grouping: Groups, names: Sequence[Hashable]) -> Groups:
    if not callable(grouping) or isinstance(grouping, _SavedGroups):
        return grouping
    return _SavedGroups({name: grouping(name) for name in names})


def _data_to_parts(data: Dataset) -> dict[str, Any]:
    parts = dict(vars(data.observations))
    parts["grouping"] = _groups_to_parts(parts["grouping"], parts["names"])
    return parts | {"row_length": data.index.row_length}


def _data_from_parts(parts: dict[str, Any], groups: Groups) -> Dataset:
    row_length = parts.pop("row_length")
    seen = Observations(**parts)
    shape, weight = seen.features.shape, seen.weight
    by_row = (seen.times, seen.outcome, weight, seen.rows, seen.events, seen.teams, seen.kinds)
    numbers = (seen.times, seen.outcome, weight, seen.coefficients, seen.aspects)
    _require(
        len(shape) == 2
        and shape[0] > 0
        and all(each.shape == shape[:1] for each in by_row if each is not None)
        and seen.coefficients.shape == shape
        and (seen.aspects is None or seen.aspects.shape == (*shape, len(seen.aspect_names)))
        and len(seen.aspect_roles) == len(seen.aspect_names)
        and seen.features.dtype == np.int32
        and -1 <= seen.features.min() <= seen.features.max() < len(seen.names)
        and all(np.isfinite(each).all() for each in numbers if each is not None)
        and (weight is None or weight.min() >= 0)
        and all(isinstance(each, tuple) for each in (seen.event_names, seen.team_names))
        and (seen.teams is None or np.isin(seen.teams, np.arange(-1, len(seen.team_names))).all())
        and (seen.kinds is None or np.isin(seen.kinds, np.arange(len(seen.kind_names))).all())
        and isinstance(seen.scale, TimeScale)
        and len(seen.kind_schemas) == len(seen.kind_names)
        and all(isinstance(each, Schema | None) for each in (seen.schema, *seen.kind_schemas)),
        "the observations do not fit together",
    )
    _check_bits(seen.outcome.dtype)
    if groups is not None:
        seen = dataclasses.replace(seen, grouping=groups)
    return Dataset.from_observations(seen, seen.outcome.dtype, row_length)


_BY_SLOT = ("precision_mean", "precision", "entry_mean", "entry_variance")
_FIT = ("log_marginal_likelihood", "steps", "distance", "status")


def _posterior_to_parts(posterior: Posterior) -> dict[str, Any]:
    """Store entries by observation and slot: the layout of the chains depends on the device."""
    to_slots = posterior.data.to_slots
    columns = [*zip(*posterior.sites, strict=True), *zip(*posterior.entries, strict=True)]
    return {
        **{name: getattr(posterior, name) for name in ("model", "method", *_FIT)},
        "data": _data_to_parts(posterior.data),
        **{name: to_slots(part) for name, part in zip(_BY_SLOT, columns, strict=True)},
        **posterior.observations._asdict(),
    }


def _posterior_from_parts(parts: dict[str, Any], groups: Groups) -> Posterior:
    model, method = _check_model(parts["model"]), parts["method"]
    data = _data_from_parts(parts["data"], groups)
    moments = ScoreMoments(parts["mean"], parts["variance"])
    by_slot = [parts[name] for name in _BY_SLOT]
    scalars = all(np.shape(parts[name]) == () for name in _FIT)
    _require(
        scalars and int(parts["status"]) in set(Status), "the results of the fit are not numbers"
    )
    _require(isinstance(method, AbstractMethod), "the inference method is missing")
    _require(
        all(np.shape(part) == data.index.features.shape for part in by_slot)
        and all(np.shape(part) == (len(data),) for part in moments),
        "the sites or moments do not have the shape of the data",
    )
    _require(
        all(np.isfinite(part).all() for part in (*moments, *by_slot)),
        "the posterior has moments or sites that are not finite",
    )
    _require(
        min(np.min(moments.variance), np.min(parts["entry_variance"])) >= 0,
        "the posterior has variances below zero",
    )
    # Masked observations have no sites, and may have any outcome.
    mask = jnp.asarray(np.any(parts["precision"] != 0, axis=1))
    check_fit(model, data, mask)
    data = restart_ages(data, mask)
    chains = [data.to_chains(part) for part in by_slot]
    return Posterior(
        data=data,
        sites=tuple(Site(*chain) for chain in zip(*chains[:2], strict=True)),
        entries=tuple(ScoreMoments(*chain) for chain in zip(*chains[2:], strict=True)),
        observations=moments,
        model=model,
        method=method,
        **{name: parts[name] for name in _FIT},
    )


def _stream_to_parts(stream: Stream) -> dict[str, Any]:
    parts = {name: getattr(stream, name) for name in _field_names(Stream) or ()}
    grouping = _groups_to_parts(stream.roster.grouping, stream.roster.names)
    return parts | {"roster": dataclasses.replace(stream.roster, grouping=grouping)}


def _stream_from_parts(parts: dict[str, Any], groups: Groups) -> Stream:
    _check_model(parts["model"])
    stream = Stream(**parts)
    roster = stream.roster
    arrays = (roster.group, roster.first, roster.last, roster.matches)
    _require(
        isinstance(stream.widths, Widths)
        and all(array.shape == (len(roster.names),) for array in arrays)
        and len(stream.states) == len(roster.groups),
        "the parts of the stream do not fit together",
    )
    seen = roster.matches > 0
    _require(
        (roster.matches >= 0).all()
        and np.isin(roster.group, np.arange(len(roster.groups))).all()
        and np.array_equal(seen, np.isfinite(roster.last))
        and (roster.first[seen] <= roster.last[seen]).all(),
        "the features of the stream have impossible groups, times or numbers of matches",
    )
    for group, (m, P) in zip(roster.groups, stream.states, strict=True):
        rows, size = len(m), stream.model.kernel_of(group).state_dim
        fits = m.shape == (rows, size) and P.shape == (rows, size, size)
        _require(
            fits and rows >= len(roster.names), "the states of the stream do not fit its model"
        )
        _require(_are_moments(m, P), "the stream has states that are not finite or not possible")
    if groups is None:
        return stream
    return dataclasses.replace(stream, roster=dataclasses.replace(roster, grouping=groups))


def _are_moments(m: jax.Array, P: jax.Array) -> bool:
    """Return whether means and covariances are finite, and these positive up to rounding."""
    wide = np.asarray(P, np.float64)
    if not (np.isfinite(m).all() and np.isfinite(wide).all()):
        return False
    lowest = np.linalg.eigvalsh(wide).min(axis=-1, initial=0.0)
    size = np.abs(wide).max(axis=(-2, -1), initial=0.0)
    return bool((lowest >= -1e3 * np.finfo(P.dtype).eps * size).all())


# Checkpoints of long runs.


def fingerprint(*trees: PyTree) -> str:
    """A hash of the arrays and structures of trees."""
    digest = hashlib.blake2b(digest_size=16)
    for tree in trees:
        leaves, structure = jax.tree.flatten(tree)
        # The address of a function differs between processes.
        digest.update(_ADDRESS.sub("", str(structure)).encode())
        for leaf in leaves:
            is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            array = np.ascontiguousarray(jax.random.key_data(leaf) if is_key else leaf)
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()


class Checkpoint:
    """A file with the state of a long run, from which a killed run continues."""

    def __init__(self, path: str | os.PathLike | None, *arguments: PyTree):
        """Choose the file.

        Args:
            path: the file; if `None`, all methods do nothing.
            arguments: trees of arrays; a run continues from the file only if they are the same.

        Raises:
            DataError: if the folder does not exist, or a part of the arguments is in other
                processes.
        """
        self._path = None if path is None else Path(path)
        self._saved, self._cost = 0.0, 0.0
        if self._path is None:
            return
        if not self._path.parent.is_dir():
            raise self._error("the folder does not exist", "Create it first.")
        if not all(is_known(leaf) for leaf in jax.tree.leaves(arguments)):
            raise DataError(
                "{argument} cannot be written where other processes hold a part of the data",
                "Leave it out, or run in one process.",
                argument="checkpoint",
            )
        self._mark = fingerprint(*arguments)

    def load(self, like: PyTree) -> PyTree | None:
        """Read the state.

        Args:
            like: a state of the same structure, shapes and types. An array without rows matches
                any number of rows.

        Returns:
            The state, or `None` if there is no file yet.

        Raises:
            DataError: if the file is not a checkpoint, or of another run.
        """
        if self._path is None or not self._path.exists():
            return None
        try:
            content, arrays = read_archive(self._path)
        except DataError as error:
            raise self._error(f"it is not a checkpoint of this run: {error.problem}") from error
        if content != {"run": self._mark}:
            raise self._error(
                "it was written by a run with another model, data, method or other arguments"
            )
        leaves, structure = jax.tree.flatten(like)
        restored = []
        for number, own in enumerate(leaves):
            array, shape = arrays.get(f"leaf{number}"), np.shape(own)
            if array is not None and array.ndim and shape[:1] == (0,):
                shape = (len(array), *shape[1:])
            if array is None or array.shape != shape or array.dtype != own.dtype:
                raise self._error(
                    f"it is not a checkpoint of this run: an array of {own.dtype} with the shape "
                    f"{shape} is missing"
                )
            restored.append(jnp.asarray(array) if isinstance(own, jax.Array) else array)
        return jax.tree.unflatten(structure, restored)

    def save(self, state: PyTree, *, only_if_cheap: bool = False) -> None:
        """Write the state, atomically.

        Args:
            state: a tree of arrays.
            only_if_cheap: skip the write if writing would take more than 5 % of the time.
        """
        began = time.perf_counter()
        share = _WRITING_SHARE * (began - self._saved)
        if self._path is None or (only_if_cheap and self._cost > share):
            return
        leaves = jax.tree.leaves(state)
        arrays = {f"leaf{number}": np.asarray(leaf) for number, leaf in enumerate(leaves)}
        write_archive(self._path, {"run": self._mark}, arrays)
        self._saved = time.perf_counter()
        self._cost = self._saved - began

    def _error(
        self, problem: str, remedy: str = "Remove the file or choose another one."
    ) -> DataError:
        return DataError(
            f"{{argument}} is {{value}}, but {problem}",
            remedy,
            argument="checkpoint",
            value=str(self._path),
        )
