"""Small things that users ask for, and what they get."""

import numpy as np
import pytest

import jaxkick as jk

COLUMNS = {"time": "t", "first": "a", "second": "b", "outcome": "y"}
TABLE = {"t": [0.0, 1.0, 2.0], "a": list("abc"), "b": list("bca"), "y": [1.0, -1.0, 1.0]}
MORE = {"t": [3.0, 4.0], "a": list("ab"), "b": list("bc"), "y": [0.0, 1.0]}
MODEL = jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit())


def test_progress_ends_its_line_and_updates_drop_what_the_likelihood_lacks(capsys):
    posterior = jk.infer(MODEL, jk.Dataset.from_frame(TABLE, **COLUMNS), progress=True)
    lines = capsys.readouterr().err
    assert lines.startswith("\rinference: step 1,")
    assert lines.count("\n") == 1
    assert lines.endswith("\n")
    with pytest.raises(ValueError, match=r"^Row 0: outcome 0 is not valid for Probit"):
        posterior.update(MORE)
    with pytest.warns(UserWarning, match="Dropped 1 of 2 rows: 1 because outcome 0 is not valid"):
        updated = posterior.update(MORE, on_invalid="drop")
    assert len(updated.data) == 4
    stream = jk.Stream.start(MODEL, posterior.data)
    with pytest.raises(ValueError, match=r"^Row 0: outcome 0 is not valid for Probit"):
        stream.observe(MORE)


def test_dates_written_as_integers_are_seen_in_the_repr():
    data = jk.Dataset.from_pairs(np.array([20180131, 20180201]), ["a", "b"], ["b", "a"])
    assert "20180131 to 20180201, numbers that look like dates" in repr(data)
    plain = jk.Dataset.from_pairs(np.array([20180131, 20180299]), ["a", "b"], ["b", "a"])
    assert "look like dates" not in repr(plain)
