"""Results of `walk_forward`, for each kind of outcome, with one compilation."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick.evaluation.forecasts import outcome_labels, outcome_probabilities

RNG = np.random.default_rng(2)
N = 30
TIMES = np.datetime64("2022-05-02") + np.sort(RNG.integers(0, 40, N))
FIRST = RNG.integers(0, 4, N)
SECOND = (FIRST + RNG.integers(1, 4, N)) % 4
SIGNS = RNG.choice([-1.0, 1.0], N)
START = "2022-05-16"
DATA = jk.Dataset.from_pairs(TIMES, FIRST, SECOND, SIGNS)
KERNEL = jk.kernels.Constant(0.5)


def test_one_compilation_serves_all_blocks():
    traces = []

    class Counted(jk.likelihoods.AbstractLikelihood):
        def log_prob(self, outcome, score):
            return -((outcome - score) ** 2)

        def log_partition(self, outcome, mean, variance, weight=None):
            traces.append(None)
            return jk.likelihoods.Gaussian(0.5).log_partition(outcome, mean, variance, weight)

    model = jk.Model(KERNEL, Counted())
    seen = []
    forecasts = ev.walk_forward(
        model, DATA, START, progress=lambda done, total: seen.append((done, total, len(traces)))
    )
    blocks = len(np.unique(forecasts.blocks))
    assert [row[:2] for row in seen] == [(n + 1, blocks) for n in range(blocks)]
    assert seen[0][2] == seen[-1][2] > 0
    assert forecasts.levels == ()
    assert forecasts.summary(resamples=10).accuracy is None
    np.testing.assert_array_equal(forecasts.log_losses, -forecasts.log_prob)


def test_table_and_summary():
    forecasts = ev.walk_forward(jk.Model(KERNEL, jk.likelihoods.Probit()), DATA, START)
    table = forecasts.table
    assert all(len(column) == len(forecasts) for column in table.values())
    assert (np.diff(table["time"]) >= np.timedelta64(0)).all()
    np.testing.assert_array_equal(table["time"], TIMES[table["row"]])
    np.testing.assert_array_equal(table["outcome"], SIGNS[table["row"]])
    chance = np.where(table["outcome"] > 0, table["probability[+1]"], table["probability[-1]"])
    np.testing.assert_allclose(table["log_loss"], -np.log(chance), rtol=1e-12)
    np.testing.assert_allclose(table["log_prob"], np.log(chance), rtol=1e-9)
    z = table["score_mean"] / np.sqrt(1 + table["score_variance"])
    np.testing.assert_allclose(table["probability[+1]"], scipy.stats.norm.cdf(z), rtol=1e-9)
    summary = forecasts.summary(resamples=50)
    assert summary.matches == len(forecasts)
    assert summary.log_loss.value == pytest.approx(table["log_loss"].mean())
    assert f"log loss                   {summary.log_loss.value:.4f} (" in str(summary)


def test_rows_count_dropped_rows():
    outcome = SIGNS.copy()
    outcome[3] = np.nan
    with pytest.warns(UserWarning, match="Dropped 1 of 30"):
        data = jk.Dataset.from_pairs(TIMES, FIRST, SECOND, outcome, on_invalid="drop")
    forecasts = ev.walk_forward(ev.Elo(), data, TIMES[0])
    np.testing.assert_array_equal(forecasts.rows, np.delete(np.arange(N), 3))


def test_signs_of_differences():
    mean, variance = jnp.array([-0.4, 0.0, 0.7]), jnp.array([0.3, 1e-9, 0.5])
    scores = mean + np.sqrt(variance) * RNG.normal(size=(400_000, 3))
    gaussian, skellam = jk.likelihoods.Gaussian(2.0), jk.likelihoods.Skellam(0.2)
    points = np.rint(scores + np.sqrt(2.0) * RNG.normal(size=scores.shape))
    goals = RNG.poisson(np.exp(0.2 + scores)) - RNG.poisson(np.exp(0.2 - scores))
    for likelihood, drawn in ((gaussian, points), (skellam, goals)):
        truth = np.stack([np.mean(np.sign(drawn) == sign, axis=0) for sign in (-1, 0, 1)], 1)
        found = outcome_probabilities(likelihood, mean, variance, ties=True)
        np.testing.assert_allclose(found, truth, atol=4 * 0.5 / np.sqrt(400_000))
        two = np.asarray(outcome_probabilities(likelihood, mean, variance, ties=False))
        np.testing.assert_allclose(two.sum(1), 1.0)
        np.testing.assert_array_equal(two[:, 1] > 0.5, found[:, 2] > found[:, 0])
    three = np.array([-3.0, 0.0, 2.0])
    np.testing.assert_array_equal(outcome_labels(skellam, three, True, np.arange(3)), [0, 1, 2])
    with pytest.raises(ValueError, match="Row 8: `outcome` is a tie"):
        outcome_labels(gaussian, three, False, np.array([7, 8, 9]))


def test_ties_default_to_those_of_the_past():
    late = np.where(np.arange(N) == N - 1, 0.0, SIGNS)
    early = np.where(np.arange(N) == 0, 0.0, SIGNS)
    model = jk.Model(KERNEL, jk.likelihoods.Gaussian(1.0))
    found = {}
    for name, outcome in {"none": SIGNS, "early": early}.items():
        data = jk.Dataset.from_pairs(TIMES, FIRST, SECOND, outcome)
        found[name] = ev.walk_forward(model, data, START)
    assert found["none"].levels == (-1.0, 1.0)
    assert found["early"].levels == (-1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match=f"Row {N - 1}: `outcome` is a tie"):
        ev.walk_forward(model, jk.Dataset.from_pairs(TIMES, FIRST, SECOND, late), START)


def test_predicted_outcomes_are_checked_before_the_first_fit():
    late = np.where(np.arange(N) == N - 1, 0.0, SIGNS)
    model = jk.Model(KERNEL, jk.likelihoods.Probit())
    data = jk.Dataset.from_pairs(TIMES, FIRST, SECOND, late)
    seen = []
    with pytest.raises(ValueError, match=f"Row {N - 1}: outcome 0 is not valid for Probit"):
        ev.walk_forward(model, data, START, progress=lambda *counts: seen.append(counts))
    assert not seen


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (KERNEL, DATA, r"`model` must be a `Model`, or a forecaster such as .*, not Constant"),
        (ev.Elo(), {"time": TIMES}, "`data` must be a `Dataset`, not dict"),
    ],
)
def test_arguments_of_the_wrong_type(model, data, message):
    with pytest.raises(TypeError, match=message):
        ev.walk_forward(model, data, START)


@pytest.mark.parametrize("relearn", ["start", "week"])
def test_relearning_needs_earlier_matches(relearn):
    with pytest.raises(ValueError, match="`relearn` needs matches before the first block"):
        ev.walk_forward(ev.Elo(), DATA, TIMES[0], relearn=relearn)


def test_features_shared_by_all_matches_converge():
    # Without damping and acceleration, updates of a shared feature diverge.
    rng = np.random.default_rng(0)
    times = np.datetime64("2022-01-01") + np.arange(240) // 4
    first, second = np.arange(240) % 5, (np.arange(240) % 5 + 1 + np.arange(240) % 4) % 5
    data = jk.Dataset.from_pairs(
        times,
        first,
        second,
        3.0 + rng.normal(size=240),
        covariates={"home": 1.0, "season": 1.0, "weather": 1.0},
    )
    model = jk.Model(jk.kernels.Constant(9.0), jk.likelihoods.Gaussian(1.0))
    forecasts = ev.walk_forward(model, data, "2022-02-01", ties=False)
    exact = jk.infer(model, data, mask=times < np.datetime64("2022-03-01"), tol=1e-6)
    last = forecasts.times == np.datetime64("2022-03-01")
    rows = forecasts.rows[last]
    np.testing.assert_allclose(forecasts.mean[last], exact.observations.mean[rows], atol=0.02)
    assert np.mean((forecasts.outcome - forecasts.mean) ** 2) < 2.0


def test_the_error_of_a_failed_fit_names_its_block():
    model = jk.Model(KERNEL, jk.likelihoods.Probit())
    first = TIMES[np.datetime64(START) <= TIMES][0]
    with pytest.raises(jk.InferenceError) as caught:
        ev.walk_forward(ev.Refit(model, tol=-1.0), DATA, START)
    assert f"before the block that starts at {first}" in caught.value.__notes__[0]


def test_progress_writes_few_lines_to_a_file(capsys):
    data = jk.Dataset.from_pairs(
        times=np.arange(100.0), first=["a"] * 100, second=["b"] * 100, outcome=[1, -1] * 50
    )
    model = jk.Model(KERNEL, jk.likelihoods.Probit())
    ev.walk_forward(model, data, 10.0, every=lambda times: times, progress=True)
    shown = capsys.readouterr().err
    assert shown.endswith("90 of 90 blocks \n")
    assert shown.count("\r") <= 31
