"""Damaged, foreign and hostile files are refused with a message; writes are atomic."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import jaxkick as jk
from jaxkick.io import read_archive
from tests.robustness.files import (
    good_files,
    good_tables,
    spoil,
    spoil_bytes,
    table_ends,
    unpleasant_ends,
)

ROOT = Path(__file__).parents[2]

# Kills children at random moments while they write, and prints how many left a temporary file.
KILLER = """
import os, pathlib, random, signal, sys, time, warnings
import numpy as np
from jaxkick.io import read_archive, write_archive

path = pathlib.Path(sys.argv[1])
warnings.simplefilter("ignore")
random.seed(0)
write_archive(path, 0, {"a": np.zeros(100_000)})
drafts = 0
for kill in range(20):
    child = os.fork()
    if not child:
        number = 0
        while True:
            number += 1
            write_archive(path, number, {"a": np.full(100_000, float(number))})
    time.sleep(random.uniform(0.005, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    number, arrays = read_archive(path)
    assert arrays["a"].shape == (100_000,) and (arrays["a"] == number).all(), number
    for draft in path.parent.glob("*.part"):
        drafts += 1
        draft.unlink()
print(drafts)
"""


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return good_files(tmp_path_factory.mktemp("good"))


def test_spoilt_files_are_refused_with_a_message(good, tmp_path):
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        for content in good.values():
            (tmp_path / "spoilt").write_bytes(spoil(content, rng))
            assert not list(unpleasant_ends(tmp_path / "spoilt"))
            try:
                jk.load(tmp_path / "spoilt")
            except ValueError:
                refused += 1
    assert refused > 120


@pytest.mark.parametrize("kind", good_tables())
def test_spoilt_tables_are_read_or_refused_with_a_message(kind, tmp_path):
    rng, good, path = np.random.default_rng(0), good_tables()[kind], tmp_path / "table"
    path.write_bytes(good)
    assert not list(table_ends(path))
    for _ in range(100):
        path.write_bytes(spoil_bytes(good, rng))
        assert not list(table_ends(path))


def test_killing_a_process_during_a_write_leaves_a_complete_file(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", KILLER, str(tmp_path / "file")],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert int(ended.stdout) > 0


def zipped(*parts, **options):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, part in parts:
            archive.writestr(name, part)
    return buffer.getvalue()


HEADER = ("jaxkick.json", '{"format": "jaxkick", "version": 1, "content": {}}')


def npy(header, numbers=b""):
    text = header.encode().ljust(118 - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + numbers


HOSTILE = {
    "a bomb": (
        zipped(HEADER, ("a.npy", bytes(50_000_000)), compression=zipfile.ZIP_DEFLATED),
        "is compressed or encrypted",
    ),
    "absurd shape": (
        zipped(HEADER, ("a.npy", npy("{'descr':'<f8','fortran_order':False,'shape':(10**18,)}"))),
        "'a.npy' is not an? (numeric )?array",
    ),
    "huge shape": (
        zipped(HEADER, ("a.npy", npy("{'descr':'<f8','fortran_order':False,'shape':(9**9,9**9)}"))),
        "'a.npy' is not an? (numeric )?array",
    ),
    "shape below zero": (
        zipped(
            HEADER,
            ("a.npy", npy("{'descr':'<f8','fortran_order':False,'shape':(-1,-1)}", bytes(8))),
        ),
        "is not a numeric array of the size it claims",
    ),
    "code": (
        zipped(HEADER, ("a.npy", npy("__import__('os').abort()"))),
        "'a.npy' is not an? (numeric )?array",
    ),
    "objects": (
        zipped(HEADER, ("a.npy", npy("{'descr':'|O','fortran_order':False,'shape':()}", bytes(8)))),
        "not a numeric array",
    ),
    "other byte order": (
        zipped(
            HEADER, ("a.npy", npy("{'descr':'>f8','fortran_order':False,'shape':()}", bytes(8)))
        ),
        "not a numeric array",
    ),
    "deep": (
        zipped(("jaxkick.json", "[" * 100_000)),
        "its header is not JSON",
    ),
    "long number": (
        zipped(("jaxkick.json", '{"format": "jaxkick", "version": ' + "1" * 9999 + "}")),
        "its header is not JSON",
    ),
    "a name that is no text": (
        zipped(HEADER, ("é.npy", b"")).replace("é".encode(), b"\xe9\xe9"),
        "it is damaged",
    ),
    "nothing inside": (zipped(HEADER), "it contains no model, posterior or stream"),
    "a pickle": (b"\x80\x04cos\nsystem\n(S'false'\ntR.", "it is damaged"),
}


@pytest.mark.parametrize(("content", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused(content, message, tmp_path):
    path = tmp_path / "hostile"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        jk.load(path)
    assert str(path) in str(caught.value)


def test_overlapping_parts_are_refused(tmp_path):
    """The directory has a hundred entries for one array."""
    path = tmp_path / "file"
    array = npy("{'descr':'<f8','fortran_order':False,'shape':(1000,)}", bytes(8000))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(*HEADER)
        archive.writestr("a000.npy", array)
        first = archive.infolist()[-1]
        for number in range(1, 100):
            other = zipfile.ZipInfo(f"a{number:03d}.npy")
            for field in ("header_offset", "file_size", "compress_size", "CRC"):
                setattr(other, field, getattr(first, field))
            archive.filelist.append(other)
    with pytest.raises(ValueError, match=r"claims to hold .* bytes, but has"):
        read_archive(path)


def test_invalid_parameters_are_named(tmp_path):
    path = tmp_path / "model"
    kernel = jk.kernels.Matern12(jk.Fixed([1.0, 2.0]), 1.0)
    jk.save(path, jk.Model({"team": kernel}, jk.likelihoods.Probit()))
    with pytest.raises(
        ValueError, match="the kernel of the group 'team' has parameters of wrong shapes"
    ):
        jk.load(path)
