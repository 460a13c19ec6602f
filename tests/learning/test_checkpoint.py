"""A killed run continues from its checkpoint."""

import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

import jaxkick as jk
from jaxkick.io import Checkpoint, fingerprint
from tests.learning.simulate import measurements

ROOT = Path(__file__).parents[2]
START = jk.Model(jk.kernels.Matern12(0.2, lengthscale=20.0), jk.likelihoods.Gaussian(3.0))
ARGUMENTS = {"restarts": 1, "key": 0, "jitter": 0.5}

VICTIM = """
import sys, time
import tests.conftest
from tests.learning.test_checkpoint import run

def report(step, value):
    print(step, flush=True)
    if step == 3:
        time.sleep(600)

run(sys.argv[1], progress=report)
"""


def run(checkpoint, **arguments):
    chosen = {**ARGUMENTS, **arguments, "key": jax.random.key(0)}
    return jk.learn(START, measurements(features=6, each=30), checkpoint=checkpoint, **chosen)


def test_a_killed_run_continues_to_the_same_result(tmp_path):
    path = tmp_path / "run.npz"
    process = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        for line in process.stdout:
            if line.strip() == "3":
                break
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    before = path.stat().st_mtime_ns
    seen = []
    model, history = run(path, progress=lambda step, value: seen.append(step))
    expected, undisturbed = run(None)
    assert seen[0] == 4
    assert path.stat().st_mtime_ns > before
    assert [each.name for each in tmp_path.iterdir()] == ["run.npz"]
    np.testing.assert_allclose(history.values, undisturbed.values, rtol=1e-12)
    np.testing.assert_allclose(history.runs, undisturbed.runs, rtol=1e-12)
    leaves = zip(jax.tree.leaves(model), jax.tree.leaves(expected), strict=True)
    for found, wanted in leaves:
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert (np.diff(history.seconds) > 0).all()
    # A finished run returns its result without another step.
    seen.clear()
    again, _ = run(path, progress=lambda step, value: seen.append(step))
    assert not seen
    assert eqx.tree_equal(again, model)


def test_more_steps_continue_from_fewer(tmp_path):
    path = tmp_path / "run.npz"
    _, few = run(path, max_steps=2)
    _, more = run(path, max_steps=4)
    assert len(few.values) == 3
    assert len(more.values) == 5
    assert more.values[:3].tolist() == few.values.tolist()


def test_refuses_the_checkpoint_of_another_run(tmp_path):
    path = tmp_path / "run.npz"
    run(path, max_steps=1)
    with pytest.raises(ValueError, match="another model, data, method or other"):
        run(path, max_steps=1, tol=0.5)
    other = measurements(features=6, each=30, seed=1)
    with pytest.raises(ValueError, match="another model, data, method or other"):
        jk.learn(START, other, checkpoint=path, **{**ARGUMENTS, "key": jax.random.key(0)})
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="not a checkpoint of this run"):
        run(path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "state.npz"
    checkpoint = Checkpoint(path, [1.0])
    checkpoint.save([np.arange(3)])

    class Broken:
        def __array__(self, *arguments, **keywords):
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        checkpoint.save([Broken()])
    assert [each.name for each in tmp_path.iterdir()] == ["state.npz"]
    np.testing.assert_array_equal(Checkpoint(path, [1.0]).load([np.arange(3)])[0], np.arange(3))
    assert Checkpoint(tmp_path / "absent.npz", [1.0]).load([0]) is None
    with pytest.raises(jk.DataError, match=r"an array of int64 with the shape \(4,\) is missing"):
        checkpoint.load([np.arange(4)])
    assert Checkpoint(None).load([0]) is None


def test_fingerprints_distinguish_arrays_and_structures():
    same = fingerprint({"a": np.ones(2)}), fingerprint({"a": np.ones(2)})
    assert same[0] == same[1]
    others = [{"b": np.ones(2)}, {"a": np.ones(2, np.float32)}, {"a": np.zeros(2)}]
    assert len({same[0], *map(fingerprint, others)}) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"mask": np.arange(180) < 90},
        {"log_prior": lambda model: -model.likelihood.variance.value},
    ],
    ids=["mask", "log_prior"],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, change):
    path = tmp_path / "run.npz"
    run(path, max_steps=1, restarts=0)
    with pytest.raises(ValueError, match="another model, data, method or other"):
        run(path, max_steps=1, restarts=0, **change)
