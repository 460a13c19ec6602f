"""Test an installed jaxkick: fit, learn, predict, update, save, plot and report.

    python .ci/smoke.py

Run it outside the repository, so that it imports the installed package.
"""

import tempfile
from importlib import metadata
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import jaxkick as jk
from jaxkick.report import write_report

table = jk.datasets.load_bundesliga()
early = {name: column[:180] for name, column in table.items()}
later = {name: column[180:190] for name, column in table.items()}
data = jk.Dataset.from_frame(
    early,
    time="date",
    first="home",
    second="away",
    result=("home_goals", "away_goals"),
    home=True,
)
model, history = jk.learn(None, data, max_steps=3)
assert history.values.max() > history.values[0]
posterior = jk.infer(model, data, jk.ReverseKL())
posterior = jk.infer(model, data).update(later)
assert posterior.converged
stream = jk.Stream.start(model, data).observe(later)

with tempfile.TemporaryDirectory() as folder:
    jk.save(Path(folder, "fit"), posterior)
    again = jk.load(Path(folder, "fit"))
    teams = data.names[:2]
    for each in (again, stream):
        chances = each.predict(*teams, "1964-06-01", home=1).probabilities
        assert abs(float(chances.sum()) - 1.0) < 1e-5
    board = again.leaderboard(scale="elo")
    assert len(board["name"]) == 16
    jk.plotting.scores(again, teams).figure.savefig(Path(folder, "scores.png"))
    page = write_report(Path(folder, "report.html"), again)
    assert page.stat().st_size > 1e6

assert metadata.version("jaxkick") == jk.__version__
versions = " ".join(f"{name} {metadata.version(name)}" for name in ("jaxkick", "jax", "equinox"))
print(f"works: {versions}, from {Path(jk.__file__).parent}")
