"""Two processes with devices of their own find what one process finds."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

import jaxkick as jk
from tests.sharding.league import league, model

ROOT = Path(__file__).parents[2]
SECONDS = 300


def free_address() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def run_processes(count: int) -> list[dict]:
    """Start the processes, wait for all of them, and read the last line of each."""
    address = free_address()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.sharding.process", address, str(count), str(number)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    try:
        endings = [process.communicate(timeout=SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, endings, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(output.splitlines()[-1]) for output, _ in endings]


def test_two_processes_agree_with_one():
    data = league(12)
    posterior = jk.infer(model(), data, tol=1e-8)
    prediction = posterior.predict("team 1", "team 2", 9.0, {"home": 1.0})
    _, history = jk.learn(model(), data, max_steps=1)
    reports = run_processes(2)
    for report in reports:
        np.testing.assert_allclose(report["learnt"], history.values, rtol=1e-6)
        assert report["devices"] == 4
        np.testing.assert_allclose(report["evidence"], posterior.log_marginal_likelihood, rtol=1e-9)
        np.testing.assert_allclose(report["mean"], prediction.mean, rtol=1e-6)
        total = posterior.sites[0].precision.sum()
        np.testing.assert_allclose(report["precisions"], total, rtol=1e-6)
