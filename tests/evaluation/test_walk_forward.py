"""Results of `walk_forward`, for each kind of outcome, with one compilation."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick.data.schema import Feature
from jaxkick.evaluation.forecasts import outcome_labels, outcome_levels, outcome_probabilities

RNG = np.random.default_rng(2)
N = 30
TIMES = np.datetime64("2022-05-02") + np.sort(RNG.integers(0, 40, N))
FIRST = RNG.integers(0, 4, N)
SECOND = (FIRST + RNG.integers(1, 4, N)) % 4
SIGNS = RNG.choice([-1.0, 1.0], N)
START = "2022-05-16"
DATA = jk.Dataset.from_pairs(TIMES, FIRST, SECOND, SIGNS)
KERNEL = jk.kernels.Constant(0.5)
TABLE = {
    "date": TIMES,
    "one": FIRST,
    "two": SECOND,
    "goals1": RNG.poisson(1.8, N),
    "goals2": RNG.poisson(1.2, N),
}
GOALS = ("goals1", "goals2")


def read_goals(**how):
    return jk.Dataset.from_frame(TABLE, time="date", first="one", second="two", home=True, **how)


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
    half = forecasts.summary(confidence=0.5, resamples=50).log_loss
    assert summary.log_loss.lower < half.lower < half.upper < summary.log_loss.upper
    assert forecasts.summary(resamples=50, seed=1).log_loss.lower != summary.log_loss.lower


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
    found = outcome_labels(outcome_levels(skellam, True), three, np.arange(3))
    np.testing.assert_array_equal(found, [0, 1, 2])
    with pytest.raises(ValueError, match="Row 8: `outcome` is a tie"):
        outcome_labels(outcome_levels(gaussian, False), three, np.array([7, 8, 9]))


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
    model = jk.Model(jk.kernels.Constant(1e300), jk.likelihoods.Gaussian(1e-300))
    first = TIMES[np.datetime64(START) <= TIMES][0]
    with pytest.raises(jk.InferenceError) as caught:
        ev.walk_forward(model, DATA, START)
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


def test_a_fit_that_does_not_converge_is_counted():
    model = jk.Model(KERNEL, jk.likelihoods.Probit())
    with pytest.warns(UserWarning, match=r"of \d+ fits did not converge"):
        forecasts = ev.walk_forward(ev.Refit(model, tol=-1.0), DATA, START)
    blocks = len(np.unique(forecasts.blocks))
    assert forecasts.unconverged_fits == blocks
    assert repr(forecasts).endswith(f"{blocks} fits did not converge")
    assert f"unconverged fits           {blocks}" in str(forecasts.summary(resamples=2))
    exact = ev.walk_forward(ev.Refit(model, tol=1e-9), DATA, START)
    np.testing.assert_allclose(forecasts.mean, exact.mean, atol=1e-6)
    assert "converge" not in repr(exact) + str(exact.summary(resamples=2))


def test_default_tolerance_bounds_the_error_of_probabilities():
    # Two leagues with few matches between them: their levels are found slowly.
    rng = np.random.default_rng(3)
    league, cup = np.arange(220) % 2, np.arange(220) % 11 == 10
    first = rng.integers(0, 6, 220)
    second = np.where(cup, rng.integers(0, 6, 220), (first + rng.integers(1, 6, 220)) % 6)
    first, second = first + 6 * league, second + 6 * (league ^ cup)
    skill = rng.normal(size=12) + np.repeat([0.0, 1.5], 6)
    outcome = np.where(skill[first] - skill[second] + rng.normal(size=220) > 0, 1.0, -1.0)
    data = jk.Dataset.from_pairs(np.arange(220.0), first, second, outcome)
    model = jk.Model(jk.kernels.Constant(4.0), jk.likelihoods.Probit())
    options = {"start": 100.0, "every": lambda times: times // 20}
    found = ev.walk_forward(model, data, **options).probabilities
    exact = ev.walk_forward(ev.Refit(model, tol=1e-9), data, **options).probabilities
    assert np.abs(found - exact).max() < 0.005


def test_levels_of_differences_are_results():
    data = read_goals(difference=GOALS)
    likelihood = jk.likelihoods.OrdinalProbit(margin=[0.4, 0.6, 0.7])
    kernel = {"skill": KERNEL, "home": jk.kernels.Constant(0.1)}
    forecasts = ev.walk_forward(jk.Model(kernel, likelihood), data, START)
    assert forecasts.levels == (-1.0, 0.0, 1.0)
    scale = np.sqrt(1 + forecasts.variance)
    win = scipy.stats.norm.sf((0.4 - forecasts.mean) / scale)
    loss = scipy.stats.norm.cdf((-0.4 - forecasts.mean) / scale)
    np.testing.assert_allclose(forecasts.probabilities[:, 2], win, atol=1e-9)
    np.testing.assert_allclose(forecasts.probabilities[:, 0], loss, atol=1e-9)
    np.testing.assert_array_equal(forecasts.labels, 1 + np.sign(forecasts.outcome))
    summary = forecasts.summary(resamples=2)
    losses = -np.log(np.take_along_axis(forecasts.probabilities, forecasts.labels[:, None], 1))
    assert summary.log_loss.value == pytest.approx(losses.mean())
    assert summary.ranked_probability_score.value > 0
    # Elo sees the results of the differences, and is comparable.
    elo = ev.Elo({"skill": 0.2, "home": 0.1}, jk.likelihoods.OrdinalLogit(margin=0.5))
    rival = ev.walk_forward(elo, data, START)
    same = ev.walk_forward(elo, read_goals(result=GOALS), START)
    np.testing.assert_array_equal(rival.probabilities, same.probabilities)
    assert ev.compare(forecasts, rival).difference.value == pytest.approx(
        (forecasts.log_losses - rival.log_losses).mean()
    )


def test_counts_are_predicted_by_match():
    data = read_goals(counts=GOALS, aspects=False)
    kernel = {"home": jk.kernels.Constant(0.1), "level": jk.kernels.Constant(0.5)}
    kernel |= {"attack": jk.kernels.Constant(0.1), "defence": jk.kernels.Constant(0.1)}
    model = jk.Model(kernel, jk.likelihoods.Poisson())
    forecasts = ev.walk_forward(model, data, START)
    rows = forecasts.rows
    assert forecasts.levels == (-1.0, 0.0, 1.0)
    np.testing.assert_array_equal(rows, np.flatnonzero(np.datetime64(START) <= TIMES))
    goals = np.stack([TABLE[name][rows] for name in GOALS], 1)
    np.testing.assert_array_equal(forecasts.outcome, goals)
    np.testing.assert_array_equal(forecasts.table["outcome_second"], goals[:, 1])
    # The last block by Monte Carlo, from the posterior of independent features.
    place, now = len(rows) - 1, TIMES[rows[-1]]
    mask = np.repeat(now > TIMES, 2)
    posterior = jk.infer(model, data, mask=mask, tol=1e-4)
    draws = {}
    one, two = FIRST[rows[-1]], SECOND[rows[-1]]
    sides = [Feature(int(name), role) for name in (one, two) for role in ("attack", "defence")]
    for name in (*sides, "home", "level"):
        mean, variance = posterior.linear_combination(name, now)
        draws[name] = float(mean) + np.sqrt(float(variance)) * RNG.normal(size=400_000)
    attack1, defence1, attack2, defence2 = (draws[name] for name in sides)
    rate1 = np.exp(attack1 - defence2 + draws["home"] + draws["level"])
    rate2 = np.exp(attack2 - defence1 - draws["home"] + draws["level"])
    signs = np.sign(RNG.poisson(rate1) - RNG.poisson(rate2))
    truth = [np.mean(signs == sign) for sign in (-1, 0, 1)]
    np.testing.assert_allclose(forecasts.probabilities[place], truth, atol=0.004)
    both = scipy.stats.poisson.pmf(goals[place, 0], rate1)
    both = both * scipy.stats.poisson.pmf(goals[place, 1], rate2)
    np.testing.assert_allclose(forecasts.log_prob[place], np.log(both.mean()), atol=0.01)
    # Comparable with a model of the results.
    results = ev.walk_forward(ev.Random(ties=True), read_goals(result=GOALS), START)
    assert ev.compare(forecasts, results).difference.value == pytest.approx(
        forecasts.log_losses.mean() - np.log(3)
    )
    with pytest.raises(ValueError, match=r"read with `counts=`, but Logit .* `result=`"):
        ev.walk_forward(ev.Elo(), data, START)


def test_attack_and_defence_in_one_state_are_predicted_as_by_predict():
    data = read_goals(counts=GOALS)
    # Teams that score more also concede more, so that both counts of a match depend on each other.
    skill = jk.kernels.CorrelatedAspects(jk.kernels.Constant(0.3), ["attack", "defence"], -0.6)
    kernel = {"skill": skill, "home": jk.kernels.Constant(0.1), "level": jk.kernels.Constant(0.5)}
    model = jk.Model(kernel, jk.likelihoods.Poisson())
    forecasts = ev.walk_forward(ev.Refit(model, tol=1e-5), data, START)
    row = forecasts.rows[-1]
    posterior = jk.infer(model, data, mask=np.repeat(TIMES[row] > TIMES, 2), tol=1e-5)
    match = posterior.predict(int(FIRST[row]), int(SECOND[row]), TIMES[row], home=1)
    assert abs(float(match.covariance)) > 0.01
    found = [match.p_loss, match.p_tie, match.p_win]
    np.testing.assert_allclose(forecasts.probabilities[-1], found, atol=1e-4)


def test_a_suggested_model_does_not_see_what_it_predicts():
    found = []
    for sign in (1.0, -1.0):
        outcome = np.where(np.datetime64(START) <= TIMES, sign, SIGNS)
        data = jk.Dataset.from_pairs(TIMES, FIRST, SECOND, outcome)
        found.append(ev.walk_forward(None, data, START, every="week", stop="2022-05-23"))
    one, other = found
    assert len(one) > 2
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    learnt, history = jk.learn(None, DATA, mask=np.datetime64(START) > TIMES)
    assert eqx.tree_equal(one.model, learnt)
    assert one.unconverged_learning == (not history.converged)
    with pytest.raises(ValueError, match="needs matches before the first block"):
        ev.walk_forward(None, DATA, TIMES[0])


def test_forecasts_carry_the_learned_models():
    refit = ev.Refit(None, learn_options={"max_steps": 1})
    forecasts = ev.walk_forward(refit, DATA, START, relearn="week")
    number = len(forecasts.models)
    assert number > 2
    assert len({float(each.kernel.terms[0].variance) for each in forecasts.models}) == number
    assert forecasts.model is forecasts.models[-1]
    assert forecasts.unconverged_learning == number
    assert repr(forecasts).endswith(f"learning did not converge {number} of {number} times")
    assert isinstance(ev.walk_forward(ev.Elo(), DATA, START).model, ev.Elo)
    with pytest.raises(TypeError, match=r"`model` is the class Elo. Call it: `Elo\(\)`"):
        ev.walk_forward(ev.Elo, DATA, START)
