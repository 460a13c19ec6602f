"""Damaged, foreign and hostile files, made from good ones at random."""

import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import jaxkick as jk
from jaxkick import kernels, likelihoods
from jaxkick.cli.files import read_file

__all__ = ["good_files", "good_tables", "spoil", "spoil_bytes", "table_ends", "unpleasant_ends"]

HEADER = "jaxkick.json"
NASTY = (
    None, True, "", "x", 0.0, -1.0, 1e308, [], {}, [[]], 7, -1, 2**70, "\x00", "os.system",
    "1" * 5000, {"float": "one"}, {"float": "nan"}, {"float": "inf"}, {"float": []},
    [5, "text"], {"dict": "text"}, {"dict": [[[], 1.0]]}, {"dict": [[{"dict": []}, 1.0]]},
    {"dict": [["a"]]}, {"array": "array0", "device": True}, {"array": "array1"}, {"array": []},
    {"kind": "Positive", "fields": {"log_value": "text"}}, {"kind": [], "fields": {}},
    {"kind": "Model", "fields": None}, {"kind": "Fixed", "fields": {"constant": 1}},
    {"first": None}, {"decode": {}}, {"__class__": "str"}, {"array": "array0", "device": False},
)  # fmt: skip
ARRAYS = (
    np.array(np.nan), np.array(-1.0), np.zeros(0), np.full(3, np.inf), np.zeros((2, 0, 3)),
    np.array(2**62), np.array([-5, 2**31 - 1], np.int32), np.array(True), np.float16([1, 2]),
    np.zeros((1, 1, 1, 1)), np.arange(5.0), np.array(7, np.uint8), np.full((5, 4), np.nan),
)  # fmt: skip


def good_files(folder: Path) -> dict[str, bytes]:
    """Saved files of a model, a posterior and a stream."""
    table = {
        "t": ["2001-01-01", "2001-02-01", "2001-02-01", "2001-07-01", "2002-01-01"],
        "a": ["ant", "bee", "cat", "ant", "bee"],
        "b": ["bee", "cat", "ant", "cat", "ant"],
    }
    sides = {"first": "a", "second": "b", "home": True}
    data = jk.Dataset.from_frame(table, time="t", outcome=1.0, **sides)
    kernel = {"skill": kernels.Constant(0.1) + kernels.Wiener(0.3), "home": kernels.Constant(1.0)}
    model = jk.Model(kernel, likelihoods.OrdinalProbit(margin=jk.Fixed(0.4)), mean={"home": 0.1})
    things = {
        "model": model,
        "posterior": jk.infer(model, data),
        "stream": jk.Stream.start(model, data),
    }
    for name, thing in things.items():
        jk.save(folder / name, thing)
    return {name: (folder / name).read_bytes() for name in things}


def good_tables() -> dict[str, bytes]:
    """A table as CSV in several dialects, and as Parquet."""
    rows = [("date", "home", "away", "goals"), ("2001-01-01", "Köln, 1. FC", 'SV "Blau"', "3:1")]
    rows += [("2001-02-03", "Zürich", "Łódź", "0:0"), ("2001-02-05", "Łódź", "Zürich", "")]
    quoted = "\r\n".join(",".join(_quoted(cell) for cell in row) for row in rows)
    plain = "\n".join(";".join(row).replace('"', "") for row in rows)
    parquet = io.BytesIO()
    columns = list(zip(*rows[1:], strict=True))
    pyarrow.parquet.write_table(pa.table(dict(zip(rows[0], columns, strict=True))), parquet)
    return {
        "csv": quoted.encode(),
        "semicolons": plain.encode("utf-8-sig"),
        "latin": plain.replace("Ł", "L").replace("ź", "z").encode("latin-1"),
        "utf-16": quoted.encode("utf-16"),
        "gzip": gzip.compress(quoted.encode()),
        "parquet": parquet.getvalue(),
    }


def table_ends(path: Path) -> Iterator[str]:
    """Problems with the way in which the command line reads a table."""
    try:
        table = read_file(path)
    except ValueError as error:
        text = str(error)
        if path.name not in text or not text.endswith("."):
            yield f"an error of other words: {text[:80]!r}"
    except Exception as error:
        yield f"{type(error).__name__}: {error}"
    else:
        if {len(column) for column in table.columns.values()} != {table.num_rows}:
            yield "columns of several lengths"


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def spoil(good: bytes, rng: np.random.Generator) -> bytes:
    """A file with changes in its bytes, its header or its arrays."""
    way = rng.integers(0, 6)
    if way == 0:
        return good[: rng.integers(0, len(good))]
    if way == 1:
        return spoil_bytes(good, rng)
    return _with_other_parts(good, rng, in_arrays=way == 2)


def unpleasant_ends(path: Path) -> Iterator[str]:
    """Problems if `load` gives neither an object nor an error with a message."""
    try:
        thing = jk.load(path)
    except ValueError as error:
        text = str(error)
        if not text.endswith(".") or len(text) > 1000:
            yield f"an error of other words: {text[:80]!r}"
    except Exception as error:
        yield f"{type(error).__name__}: {error}"
    else:
        if not isinstance(thing, jk.Model | jk.Posterior | jk.Stream):
            yield f"an object of type {type(thing).__name__}"


def spoil_bytes(good: bytes, rng: np.random.Generator) -> bytes:
    """Bytes with some of them changed, or some removed."""
    spoilt = bytearray(good)
    for place in rng.integers(0, len(good), rng.integers(1, 20)):
        spoilt[place] = rng.integers(0, 256)
    begin, end = np.sort(rng.integers(0, len(good), 2))
    return bytes(spoilt[:begin] + spoilt[end:]) if rng.random() < 0.3 else bytes(spoilt)


def _with_other_parts(good: bytes, rng: np.random.Generator, in_arrays: bool) -> bytes:
    """A valid zip file with changed content."""
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts.pop(HEADER))
    for _ in range(rng.integers(1, 3)):
        if in_arrays:
            buffer = io.BytesIO()
            np.save(buffer, ARRAYS[rng.integers(len(ARRAYS))])
            parts[sorted(parts)[rng.integers(len(parts))]] = buffer.getvalue()
        else:
            places = list(_places(header))
            node, key = places[rng.integers(len(places))]
            _spoil_node(node, key, places, rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(HEADER, json.dumps(header))
        for name, part in parts.items():
            archive.writestr(name, part)
    return buffer.getvalue()


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """All places in a tree of lists and mappings."""
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield node, key
        yield from _places(node[key])


def _spoil_node(node: Any, key: Any, places: list, rng: np.random.Generator) -> None:
    way = rng.integers(0, 4)
    if way == 0:
        del node[key]
    elif way == 1 and isinstance(node, dict):
        node[f"{key}x"] = node.pop(key)
    elif way == 2:
        other, place = places[rng.integers(len(places))]
        node[key] = json.loads(json.dumps(other[place]))
    else:
        node[key] = json.loads(json.dumps(NASTY[rng.integers(len(NASTY))]))
