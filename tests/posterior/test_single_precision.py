"""The whole surface in float32, close to float64."""

import jax
import numpy as np
import pytest

import jaxkick as jk

TABLE = {
    "t": ["2001-01-01", "2001-02-01", "2001-02-01", "2001-07-01", "2002-01-01"],
    "a": ["ant", "bee", "cat", "ant", "bee"],
    "b": ["bee", "cat", "ant", "cat", "ant"],
    "x": [3, 1, 0, 2, 1],
    "y": [1, 1, 2, 0, 1],
}
# Together eight, for which the first five have room.
MORE = {name: column[:3] for name, column in TABLE.items()} | {"t": ["2003-01-01"] * 3}


def answers(path):
    model = jk.Model(
        jk.kernels.Constant(0.3) + jk.kernels.Matern12(1.0, 2.0),
        jk.likelihoods.OrdinalProbit(margin=0.4),
    )
    columns = {"time": "t", "first": "a", "second": "b", "result": ("x", "y"), "home": True}
    data = jk.Dataset.from_frame(TABLE, **columns)
    posterior = jk.infer(model, data, tol=1e-3).update(MORE, tol=1e-3)
    jk.save(path, posterior)
    posterior = jk.load(path)
    stream = jk.Stream.start(model, data).observe(MORE)
    board = posterior.leaderboard("2003-06-01", scale="elo")
    paths = posterior.sample("ant", ["2001-06-01", "2003-06-01"], jax.random.key(0), (2000,))
    assert paths.dtype == posterior.observations.mean.dtype
    order = np.argsort(board["name"])
    return {
        "evidence": posterior.log_marginal_likelihood,
        "rating": board["rating"][order],
        "best": board["best"][order],
        "stream": stream.leaderboard()["rating"],
        "log evidence": stream.log_evidence,
        "spread": paths.std(axis=0),
    }


def test_single_precision_is_close_to_double(tmp_path):
    double = answers(tmp_path / "double")
    with jax.enable_x64(False):
        single = answers(tmp_path / "single")
    for name, value in double.items():
        # Paths in float32 and float64 are different draws: the standard deviation of 2,000
        # draws has a standard error of 1.6 %, so the difference of two has 2.2 %.
        tolerance = 0.09 if name == "spread" else 2e-3
        assert np.asarray(single[name]) == pytest.approx(np.asarray(value), rel=tolerance), name
