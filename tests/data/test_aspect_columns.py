"""Aspects of competitors in tables: reading, writing, joining, predictions and files."""

import numpy as np
import pandas as pd
import pytest

import jaxkick as jk
from jaxkick import kernels, likelihoods

COLUMNS = {"time": "day", "first": "one", "second": "two", "result": ("goals", "against")}
READ = {
    **COLUMNS,
    "neutral": "neutral",
    "aspects": {"home": True, "court": "surface", "white": (1, 0), "rest": ("rest_1", "rest_2")},
}
KERNEL = {
    "skill": kernels.Constant(0.5)
    + kernels.Aspects(home=kernels.Constant(0.3), clay=kernels.Matern12(0.4, 5.0))
    + kernels.Aspects(grass=kernels.Constant(0.2)),
    "home": kernels.Constant(0.1),
}
MODEL = jk.Model(KERNEL, likelihoods.OrdinalProbit(0.3))


@pytest.fixture(scope="module")
def matches():
    rng = np.random.default_rng(0)
    pairs = np.array([rng.permutation(4)[:2] for _ in range(20)])
    return pd.DataFrame(
        {
            "day": np.sort(rng.uniform(0, 9, 20)),
            "one": np.array(list("abcd"))[pairs[:, 0]],
            "two": np.array(list("abcd"))[pairs[:, 1]],
            "goals": rng.poisson(1.5, 20),
            "against": rng.poisson(1.5, 20),
            "neutral": rng.random(20) < 0.3,
            "surface": rng.choice(["clay", "grass"], 20),
            "rest_1": rng.uniform(0, 1, 20).round(2),
            "rest_2": rng.uniform(0, 1, 20).round(2),
        }
    )


@pytest.fixture(scope="module")
def data(matches):
    return jk.Dataset.from_frame(matches, **READ)


@pytest.fixture(scope="module")
def posterior(data):
    return jk.infer(MODEL, data, tol=1e-6)


def coefficients(data, row, name):
    """The coefficients of an aspect by the name of the competitor, in one observation."""
    features, x = data.index.features[row], data.index.aspects[row]
    place = data.index.aspect_names.index(name)
    return {data.names[k]: x[slot, place] for slot, k in enumerate(features) if k >= 0}


def test_every_kind_of_aspect_is_read(matches, data):
    assert data.index.aspect_names == ("skill", "home", "clay", "grass", "white", "rest")
    for row, match in matches.iterrows():
        home = float(not match.neutral)
        sides = (match.one, match.two)
        expected = {
            "skill": (1.0, 1.0),
            "home": (home, 0.0),
            "clay": (float(match.surface == "clay"),) * 2,
            "white": (1.0, 0.0),
            "rest": (match.rest_1, match.rest_2),
        }
        for name, values in expected.items():
            found = coefficients(data, row, name)
            assert tuple(found[side] for side in sides) == values
            assert found.get("home", 0.0) == float(name == "skill" and "home" in found)


def test_tables_are_written_as_they_were_read(data):
    again = jk.Dataset.from_frame(data.to_frame(), **READ)
    np.testing.assert_array_equal(again.index.aspects, data.index.aspects)
    assert "aspects  'skill', 'home', 'clay'" in repr(data)


def test_parts_join_to_the_whole(matches, data):
    clay = matches[matches.surface == "clay"].index
    parts = [matches.loc[clay], matches.drop(clay)]
    joined = jk.concat([jk.Dataset.from_frame(part, **READ) for part in parts])
    order = np.argsort(np.concatenate([part.index for part in parts]))
    whole = joined.subset(order).observations
    places = [whole.aspect_names.index(name) for name in data.index.aspect_names]
    np.testing.assert_array_equal(whole.aspects[..., places], data.observations.aspects)
    assert whole.aspect_roles[whole.aspect_names.index("grass")] == "court"
    with pytest.raises(jk.DataError, match="Only some of the matches were read with `aspects=`"):
        jk.concat([data, jk.Dataset.from_frame(matches, **COLUMNS, neutral="neutral")])


def test_predictions_are_combinations_of_scores(posterior):
    where = {"court": "clay", "rest": (0.2, 0.4)}
    found = posterior.predict("a", "b", 9.5, where, home=1)
    one = posterior.linear_combination("a", 9.5, aspects={"home": 1, "clay": 1})
    two = posterior.linear_combination("b", 9.5, aspects={"clay": 1})
    home = posterior.linear_combination("home", 9.5)
    np.testing.assert_allclose(found.mean, one.mean - two.mean + home.mean, rtol=1e-12)
    np.testing.assert_allclose(found.variance, one.variance + two.variance + home.variance)
    many = posterior.predict("a", "b", 9.5, {"court": ["grass", "clay"]}, home=1)
    np.testing.assert_allclose(many.mean[1], found.mean)
    assert abs(many.mean[0] - many.mean[1]) > 1e-6


def test_forecasts_read_the_columns(matches, posterior):
    table = posterior.forecast(matches.head(3))
    # At the time of a match, smoothed scores are those of its entries.
    np.testing.assert_allclose(table.score_mean, posterior.observations.mean[:3], atol=1e-9)


def test_leaderboards_and_comparisons_by_aspect(posterior):
    general, clay = posterior.leaderboard(), posterior.leaderboard(aspects={"clay": 1})
    rating = clay.set_index("name").rating
    expected = posterior.scores("c", [posterior.data.index.latest], aspects={"clay": 1})
    np.testing.assert_allclose(rating["c"], expected.mean[0])
    assert not np.allclose(general.set_index("name").rating[rating.index], rating)
    gap = posterior.compare("a", "b", 9.5, aspects={"clay": 1})
    np.testing.assert_allclose(
        gap.mean,
        posterior.scores("a", [9.5], aspects={"clay": 1}).mean[0]
        - posterior.scores("b", [9.5], aspects={"clay": 1}).mean[0],
    )
    with pytest.raises(jk.DataError, match=r"'cley', which is not an aspect.*'clay'"):
        posterior.leaderboard(aspects={"cley": 1})


def test_scores_at_matches_are_those_of_the_general_skill(posterior):
    own = posterior.scores("a")
    again = posterior.scores("a", own.times)
    np.testing.assert_allclose(own.mean, again.mean)
    table = posterior.to_frame(["a"], aspects={"clay": 1})
    np.testing.assert_allclose(table["mean"], posterior.scores("a", aspects={"clay": 1}).mean)


def test_updates_equal_a_whole_fit(matches, data, posterior):
    start = jk.infer(MODEL, jk.Dataset.from_frame(matches.head(15), **READ), tol=1e-6)
    updated = start.update(matches.tail(5), tol=1e-6)
    np.testing.assert_allclose(
        updated.log_marginal_likelihood, posterior.log_marginal_likelihood, atol=1e-5
    )


def test_files_keep_aspects(posterior, tmp_path):
    jk.save(tmp_path / "fit.jk", posterior)
    loaded = jk.load(tmp_path / "fit.jk")
    ours, theirs = (
        each.predict("a", "b", 9.5, {"court": "clay"}, home=1) for each in (posterior, loaded)
    )
    np.testing.assert_allclose(theirs.mean, ours.mean)
    fixed = kernels.CorrelatedAspects(kernels.Constant(1.0), ["x", "y"], jk.Fixed(0.3))
    jk.save(tmp_path / "model.jk", jk.Model(fixed, likelihoods.Probit()))
    kernel = jk.load(tmp_path / "model.jk").kernel
    np.testing.assert_allclose(kernel.correlations, [[1.0, 0.3], [0.3, 1.0]])


@pytest.mark.filterwarnings("ignore:.*names in the new matches are not in the data")
def test_streams_filter_with_aspects(matches, tmp_path):
    """One competitor against new ones each time: at the end, filter and smoother agree."""
    read = {name: value for name, value in READ.items() if name != "result"}
    read |= {"difference": ("goals", "against")}
    model = jk.Model(KERNEL | {"home": kernels.Constant(1e-9)}, likelihoods.Gaussian(1.0))
    single = matches.assign(one="a", two=[f"x{k}" for k in range(20)])
    whole = jk.infer(model, jk.Dataset.from_frame(single, **read), tol=1e-9)
    stream = jk.Stream.start(model, jk.Dataset.from_frame(single.head(12), **read))
    stream = stream.observe(single.tail(8))
    jk.save(tmp_path / "stream.jk", stream)
    stream = jk.load(tmp_path / "stream.jk")
    for aspects in ({"clay": 1}, {"skill": 0, "home": 1}):
        ours, theirs = (
            each.linear_combination("a", 9.5, aspects=aspects) for each in (stream, whole)
        )
        np.testing.assert_allclose(ours.mean, theirs.mean, atol=1e-6)
        np.testing.assert_allclose(ours.variance, theirs.variance, atol=1e-6)


def test_goals_in_one_state(matches):
    read = {name: value for name, value in READ.items() if name not in ("result", "aspects")}
    read |= {"counts": ("goals", "against")}
    apart, joint = (jk.Dataset.from_frame(matches, **read, aspects=x) for x in (False, None))
    part, other = (
        kernels.Constant(0.2),
        {"home": kernels.Constant(0.1), "level": kernels.Constant(1.0)},
    )
    poisson = likelihoods.Poisson()
    separate = jk.infer(jk.Model({"attack": part, "defence": part, **other}, poisson), apart)
    both = kernels.CorrelatedAspects(part, ["attack", "defence"], jk.Fixed(0.0))
    found = jk.infer(jk.Model({"skill": both, **other}, poisson), joint)
    # Without correlation the models are the same, but the second one factorises less.
    ours, theirs = (each.predict("a", "b", 9.5, home=1).results for each in (found, separate))
    np.testing.assert_allclose(ours, theirs, atol=0.03)
    # The level is a covariate, which has no attack and defence.
    level, same = (found.linear_combination("level", 9.5, aspects=x) for x in (None, {}))
    assert level.mean == same.mean
    table = found.leaderboard()
    assert set(table.name) == set("abcd")
    assert table.matches.sum() == 2 * len(matches)
    again = jk.Dataset.from_frame(joint.to_frame(), **read, aspects=True)
    np.testing.assert_array_equal(again.index.aspects, joint.index.aspects)
    rating = table.set_index("name").rating["a"]
    np.testing.assert_allclose(
        rating,
        found.scores("a", [joint.index.latest], aspects={"attack": 1, "defence": 1}).mean[0],
    )


@pytest.mark.parametrize(
    ("aspects", "message"),
    [
        ({"skill": "surface"}, "'skill', which is reserved for the general skill"),
        ({"home": 3}, "must be the name of a column, True"),
        (["surface"], "must be a mapping"),
        ({"court": "floor"}, "is not in the table"),
        ({"clay": (1, 0), "court": "surface"}, "another aspect has this name"),
    ],
)
def test_wrong_aspects_are_refused(matches, aspects, message):
    with pytest.raises(jk.DataError, match=message):
        jk.Dataset.from_frame(matches, **COLUMNS, neutral="neutral", aspects=aspects)


def test_wrong_values_are_refused(matches, posterior):
    with pytest.raises(jk.DataError, match="Pass `home=` or `neutral=`"):
        jk.Dataset.from_frame(matches, **COLUMNS, aspects={"home": True})
    holes = matches.assign(surface=matches.surface.where(matches.index != 3))
    with pytest.raises(jk.DataError, match=r"Row 3: a label or number of an aspect is missing"):
        jk.Dataset.from_frame(holes, **READ)
    with pytest.raises(jk.DataError, match="'carpet', which is not in the data"):
        posterior.predict("a", "b", 9.5, {"court": "carpet"})
    with pytest.raises(jk.DataError, match="one for each side"):
        posterior.predict("a", "b", 9.5, {"rest": 0.5})
    plain = jk.infer(
        jk.Model(KERNEL["home"], MODEL.likelihood), jk.Dataset.from_frame(matches, **COLUMNS)
    )
    with pytest.raises(jk.DataError, match="the data has no aspects"):
        plain.leaderboard(aspects={"clay": 1})


def test_pairs_are_read_like_tables(matches):
    columns = [matches[name] for name in ("day", "one", "two")]
    won = np.sign(matches["goals"] - matches["against"]).to_numpy(float)
    aspects = {"court": list(matches["surface"]), "white": (1, 0), "rest": tuple(
        matches[name].to_numpy() for name in ("rest_1", "rest_2")
    )}  # fmt: skip
    pairs = jk.Dataset.from_pairs(*map(list, columns), won, aspects=aspects)
    kinds = {name: READ["aspects"][name] for name in ("court", "white", "rest")}
    frame = jk.Dataset.from_frame(matches, **COLUMNS, aspects=kinds)
    np.testing.assert_array_equal(pairs.index.aspects, frame.index.aspects)
    assert pairs.index.aspect_names == frame.index.aspect_names
    assert pairs.schema.columns["aspects['court']"] == "court"
    with pytest.raises(jk.DataError, match="`aspects` has the name 'first', which another column"):
        jk.Dataset.from_pairs([0.0], ["a"], ["b"], aspects={"first": ["x"]})


def test_sides_of_rankings_have_aspects():
    rng = np.random.default_rng(2)
    races = {
        "race": np.repeat(np.arange(8), 3),
        "name": np.concatenate([rng.permutation(list("abcd"))[:3] for _ in range(8)]),
        "rank": np.tile([1, 2, 3], 8),
        "weather": np.repeat(rng.choice(["dry", "wet"], 8), 3),
    }
    read = {"time": 0.0, "event": "race", "competitor": "name", "rank": "rank"}
    data = jk.Dataset.from_rankings(races, **read, aspects={"weather": "weather"})
    wet = data.index.aspects[:, 0, data.index.aspect_names.index("wet")]
    np.testing.assert_array_equal(wet, races["weather"] == "wet")
    kernel = kernels.Constant(0.5) + kernels.Aspects(wet=kernels.Constant(0.5))
    fit = jk.infer(jk.Model(kernel, likelihoods.Ranking()), data)
    found = fit.predict_ranking(["a", "b"], 1.0, features={"weather": "wet"})
    expected = fit.linear_combination(["a", "b"], 1.0, aspects={"wet": 1})
    np.testing.assert_allclose(found.mean, expected.mean)
    np.testing.assert_allclose(found.variance, expected.variance)
    table = {"race": [1, 1], "name": ["a", "b"], "weather": ["wet", "wet"]}
    np.testing.assert_allclose(fit.forecast(table)["p_win"], found.p_win)
    with pytest.raises(jk.DataError, match="is 'snow', which is not in the data"):
        fit.predict_ranking(["a", "b"], 1.0, features={"weather": "snow"})
    with pytest.raises(jk.DataError, match="is True, but must be the name of a column"):
        jk.Dataset.from_rankings(races, **read, aspects={"weather": True})


def test_joined_data_keeps_the_columns_of_the_first(matches):
    data = jk.Dataset.from_frame(matches, **COLUMNS, aspects={"court": "surface"})
    clay = np.full((2, 2), 1.0)
    pairs = ([9.5, 9.8], [[0, 1], [1, 2]], [[1, -1], [1, -1]], [1.0, -1.0])
    more = jk.Dataset.from_arrays(*pairs, names=["a", "b", "c"], aspects={"clay": clay})
    joined = jk.concat([data, more]).index
    assert dict(zip(joined.aspect_names, joined.aspect_roles, strict=True)) == {
        "skill": "",
        "clay": "court",
        "grass": "court",
    }
