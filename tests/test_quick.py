"""The whole library on one small league: the core of `pytest -m quick`."""

import json
import pkgutil
import sys

import jax
import matplotlib
import numpy as np
import pandas as pd
import pytest

import jaxkick as jk
from jaxkick.compat import kickscore as ks
from jaxkick.compat import trueskillthroughtime as ttt
from jaxkick.report import write_report
from tests.cli.conftest import OPTIONS, SIZE, play, run, write

pytestmark = pytest.mark.quick

COLUMNS = {
    "time": "date",
    "first": "home",
    "second": "away",
    "result": ("home_goals", "away_goals"),
    "home": True,
}
TEAMS = ["Ada", "Ben", "Cleo", "Dan"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with results in a file, and the command line's fit of them."""
    folder = tmp_path_factory.mktemp("league")
    rows = play(SIZE + 6)
    results = write(folder / "results.csv", rows[:SIZE])
    write(folder / "later.csv", rows[SIZE:])
    fitted = run("fit", results, *OPTIONS, "-o", folder / "fit", "--format", "json")
    assert fitted.code == 0, fitted.err
    return folder


@pytest.fixture(scope="module")
def table(folder):
    return pd.read_csv(folder / "results.csv")


@pytest.fixture(scope="module")
def posterior(folder):
    return jk.load(folder / "fit" / "model.jaxkick")


def test_a_saved_fit_is_the_fit_of_its_data(table, posterior):
    data = jk.Dataset.from_frame(table, **COLUMNS)
    fresh = jk.infer(posterior.model, data)
    assert fresh.converged
    np.testing.assert_allclose(
        fresh.log_marginal_likelihood, posterior.log_marginal_likelihood, atol=1e-5
    )
    bound = jk.infer(posterior.model, data, jk.ReverseKL()).log_marginal_likelihood
    assert bound < fresh.log_marginal_likelihood


def test_commands_on_a_saved_fit(folder):
    model, later = folder / "fit", folder / "later.csv"
    for command in (
        ("leaderboard", model),
        ("predict", model, "--first", "Ada", "--second", "Dan", "--time", "2021-06-01"),
        ("predict", model, "--fixtures", later),
        ("update", model, later, "--output", folder / "updated"),
    ):
        ran = run(*command)
        assert ran.code == 0, ran.err
        assert "Ada" in ran.out


def test_an_update_equals_a_fresh_fit(folder, table, posterior):
    later = pd.read_csv(folder / "later.csv")
    updated = posterior.update(later)
    together = jk.Dataset.from_frame(pd.concat([table, later]), **COLUMNS)
    expected = jk.infer(posterior.model, together)
    np.testing.assert_allclose(
        updated.log_marginal_likelihood, expected.log_marginal_likelihood, atol=1e-3
    )


def test_predictions_scores_and_paths(posterior):
    match = posterior.predict("Ada", "Dan", "2021-06-01", home=1)
    assert float(match.p_win + match.p_tie + match.p_loss) == pytest.approx(1.0)
    assert match.p_win > match.p_loss
    scores = posterior.scores("Ada", ["2020-06-01"])
    paths = posterior.sample("Ada", ["2020-06-01"], jax.random.key(0), (4000,))
    error = np.sqrt(scores.variance[0] / 4000)
    assert float(paths.mean()) == pytest.approx(float(scores.mean[0]), abs=5 * error)
    assert posterior.leaderboard(scale="elo")["name"][0] == "Ada"
    assert isinstance(posterior.check(), (list, tuple))


def test_a_stream_follows_the_matches(table, posterior):
    stream = jk.Stream.start(posterior.model, jk.Dataset.from_frame(table, **COLUMNS))
    assert stream.leaderboard()["name"][0] == "Ada"


def test_a_backtest_against_elo(folder):
    start = ("--start", "2020-12-01")
    ran = run("evaluate", folder / "results.csv", *OPTIONS, *start, "--format", "json")
    assert ran.code == 0, ran.err
    found = {(row["model"], row["metric"]): row["value"] for row in json.loads(ran.out)}
    difference = found["jaxkick", "log_loss"] - found["elo", "log_loss"]
    assert found["difference", "log_loss"] == pytest.approx(difference, rel=1e-6)


def test_plots_and_report(tmp_path, posterior):
    matplotlib.use("Agg")
    figure = jk.plotting.scores(posterior, TEAMS[:2]).figure
    assert len(figure.axes[0].lines) >= 2
    matplotlib.pyplot.close(figure)
    page = write_report(tmp_path / "report.html", posterior)
    assert page.stat().st_size > 1e6


def test_other_libraries_interfaces():
    model = ks.BinaryModel()
    for name in TEAMS[:2]:
        model.add_item(name, kernel=ks.kernel.Constant(1.0))
    model.observe(winners=["Ada"], losers=["Ben"], t=0.0)
    assert model.fit()
    assert model.probabilities(["Ada"], ["Ben"], t=1.0)[0] > 0.5
    parameters = {"mu": 0.5, "sigma": 2.0, "beta": 0.8, "gamma": 0.3, "p_draw": 0.25}
    again = ttt.to_parameters(ttt.from_parameters(**parameters), beta=0.8)
    assert again == pytest.approx(parameters)


def test_every_module_is_imported():
    """Run after the tests above, which use all parts of the package."""
    names = {each.name for each in pkgutil.walk_packages(jk.__path__, "jaxkick.")}
    assert not {name for name in names if name not in sys.modules} - {"jaxkick.__main__"}
