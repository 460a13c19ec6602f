"""An interrupted evaluation continues from its checkpoint, with the same result."""

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick import io

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(4)
N = 40
TIMES = np.datetime64("2022-05-02") + np.sort(RNG.integers(0, 30, N))
FIRST = RNG.integers(0, 4, N)
SECOND = (FIRST + RNG.integers(1, 4, N)) % 4
DATA = jk.Dataset.from_pairs(TIMES, FIRST, SECOND, RNG.choice([-1.0, 1.0], N), row_length=80)
MODEL = jk.Model(jk.kernels.Matern12(1.0, 0.1), jk.likelihoods.Probit())
START = "2022-05-14"
REFIT = ev.Refit(MODEL, learn_options={"max_steps": 1})
WEEKLY = {"start": START, "relearn": "week"}

# Writes after every block and waits to be killed after the fourth.
VICTIM = """
import sys, time
import tests.conftest
from jaxkick import evaluation as ev
from jaxkick import io
from tests.evaluation.test_checkpoint import DATA, REFIT, START

def report(done, total):
    print(done, flush=True)
    time.sleep(0 if done < 4 else 600)

io._WRITING_SHARE = 1e9
ev.walk_forward(REFIT, DATA, START, progress=report, checkpoint=sys.argv[1])
"""


class Interrupted(Exception):
    """Interrupts an evaluation."""


def same(one, other):
    for left, right in zip(one.table.values(), other.table.values(), strict=True):
        np.testing.assert_array_equal(left, right)
    return True


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(io, "_WRITING_SHARE", 1e9)
    return tmp_path / "walk"


def test_a_killed_evaluation_continues_to_the_same_result(tmp_path):
    path = tmp_path / "walk"
    process = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        for line in process.stdout:
            if line.strip() == "4":
                break
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    seen = []
    forecasts = ev.walk_forward(
        REFIT, DATA, START, progress=lambda done, total: seen.append(done), checkpoint=path
    )
    assert seen[0] == 4
    assert [each.name for each in tmp_path.iterdir()] == ["walk"]
    uninterrupted = ev.walk_forward(REFIT, DATA, START)
    assert len(np.unique(uninterrupted.blocks)) == seen[-1] > 4
    np.testing.assert_allclose(forecasts.mean, uninterrupted.mean, rtol=1e-12)
    np.testing.assert_allclose(forecasts.probabilities, uninterrupted.probabilities, rtol=1e-12)


@pytest.mark.parametrize("forecaster", [REFIT, ev.TrueSkill(1.0, 0.1)], ids=["refit", "trueskill"])
def test_an_evaluation_that_relearns_may_stop_after_every_block(forecaster, path):
    uninterrupted = ev.walk_forward(forecaster, DATA, **WEEKLY)
    seen = [0]

    def interrupt(done, total):
        if done > seen[-1]:
            seen.append(done)
            raise Interrupted

    forecasts = None
    while forecasts is None and len(seen) < N:
        with contextlib.suppress(Interrupted):
            forecasts = ev.walk_forward(
                forecaster, DATA, **WEEKLY, progress=interrupt, checkpoint=path
            )
    assert same(forecasts, uninterrupted)
    assert len(seen) > 3


def test_a_finished_evaluation_is_read_from_its_checkpoint(path):
    first = ev.walk_forward(REFIT, DATA, START, checkpoint=path)
    content, arrays = io.read_archive(path)
    seen = []
    again = ev.walk_forward(
        REFIT, DATA, START, checkpoint=path, progress=lambda *counts: seen.append(counts)
    )
    blocks = len(np.unique(first.blocks))
    assert seen == [(blocks, blocks)]
    assert same(again, first)
    kept, kept_arrays = io.read_archive(path)
    assert kept == content
    np.testing.assert_equal(kept_arrays, arrays)


def test_checkpoints_of_other_runs_and_damaged_ones(path):
    elo = ev.Elo(0.2)
    ev.walk_forward(elo, DATA, START, checkpoint=path)
    whole = path.read_bytes()
    others = [
        (ev.Elo(0.3), DATA, {}),
        (ev.Elo(0.2, jk.likelihoods.Probit()), DATA, {}),
        (elo, jk.Dataset.from_pairs(TIMES, FIRST, SECOND), {}),
        (elo, DATA, {"every": "week"}),
        (elo, DATA, {"relearn": "start"}),
    ]
    for forecaster, data, options in others:
        with pytest.raises(ValueError, match="written by a run with another model, data"):
            ev.walk_forward(forecaster, data, START, checkpoint=path, **options)
    assert path.read_bytes() == whole
    for broken in (b"", b"text", whole[: len(whole) // 2], whole.replace(b"{'descr'", b"{'dascr'")):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"`checkpoint` is .*not a checkpoint of this run"):
            ev.walk_forward(elo, DATA, START, checkpoint=path)
    with pytest.raises(ValueError, match="but the folder does not exist"):
        ev.walk_forward(elo, DATA, START, checkpoint=path / "nowhere" / "walk")
