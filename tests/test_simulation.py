"""Simulated seasons and tournaments, against enumeration, plain Python and predictions."""

import dataclasses
import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest

import jaxkick as jk
from jaxkick.simulation import Simulated, knockout, league_table, title_race

DRAWS = 20_000
TEAMS = ["a", "b", "c", "d", "e"]
SKILLS = np.array([0.6, 0.3, 0.1, -0.2, -0.5])
COLUMNS = {"time": "time", "first": "first", "second": "second"}
GOALS = ("goals", "against")
SIDES = ("first", "second", *GOALS)


def table(pairs, time=0.0, seed=0):
    generator = np.random.default_rng(seed)
    goals = generator.poisson(1.4, (2, len(pairs)))
    first, second = zip(*pairs, strict=True)
    times = time + 0.01 * np.arange(len(pairs))
    return {"time": times, "first": first, "second": second, **dict(zip(GOALS, goals, strict=True))}


PLAYED = table(list(itertools.combinations(TEAMS, 2)))
FIXTURES = table([("a", "b"), ("b", "c"), ("c", "a"), ("a", "d")], time=1.0)


def within(frequency, probability, errors=4.5):
    """Frequencies of draws agree with probabilities."""
    frequency, probability = np.asarray(frequency), np.asarray(probability)
    spread = np.sqrt(probability * (1 - probability) / DRAWS) + 1e-6
    return np.all(np.abs(frequency - probability) < errors * spread)


@pytest.fixture(scope="module")
def known():
    """A league whose skills are known: their prior variance is tiny."""
    data = jk.Dataset.from_frame(PLAYED, result=GOALS, **COLUMNS)
    means = np.array([SKILLS[TEAMS.index(name)] for name in data.names])
    kernel, likelihood = jk.kernels.Constant(1e-10), jk.likelihoods.OrdinalProbit(margin=0.3)
    return jk.infer(jk.Model(kernel, likelihood, mean=means, newcomer_mean=0.0), data)


@pytest.fixture(scope="module")
def unsure():
    """A league whose skills are hardly known."""
    data = jk.Dataset.from_frame(PLAYED, result=GOALS, **COLUMNS)
    return jk.infer(
        jk.Model(jk.kernels.Matern12(4.0, 3.0), jk.likelihoods.OrdinalProbit(0.3)), data
    )


@pytest.fixture(scope="module")
def goals():
    """A league of attack and defence with a home advantage."""
    data = jk.Dataset.from_frame(PLAYED, counts=GOALS, home=True, **COLUMNS)
    return jk.infer(jk.Model(jk.kernels.Constant(0.1), jk.likelihoods.Poisson()), data)


# Matches


def test_frequencies_are_the_predicted_probabilities(known):
    simulated = known.simulate(FIXTURES, DRAWS)
    expected = known.forecast(FIXTURES)
    found = simulated.to_frame()
    for name in ("p_win", "p_tie", "p_loss"):
        assert within(found[name], expected[name])
    assert simulated.kind == "result"
    assert simulated.goals is None
    assert simulated.differences is None
    assert simulated.results.dtype == np.int8
    assert "4 matches, 20,000 draws" in repr(simulated)
    again = known.simulate(FIXTURES, DRAWS)
    assert np.array_equal(simulated.outcomes, again.outcomes)
    assert not np.array_equal(simulated.outcomes, known.simulate(FIXTURES, DRAWS, seed=1).outcomes)


LIKELIHOODS = {
    "Probit": (jk.likelihoods.Probit(), {}, "result"),
    "Gaussian": (jk.likelihoods.Gaussian(2.0), {"difference": GOALS}, "difference"),
    "Poisson": (jk.likelihoods.Poisson(), {"counts": GOALS, "home": True}, "goals"),
    "BivariatePoisson": (jk.likelihoods.BivariatePoisson(0.2), {"counts": GOALS}, "goals"),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_likelihoods_play_as_they_predict(name):
    likelihood, reading, kind = LIKELIHOODS[name]
    data = jk.Dataset.from_frame(PLAYED, **COLUMNS, **reading)
    # Scores are known, so that the spread of predictions is that of the likelihood.
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1e-9), likelihood, mean=0.3), data)
    simulated = posterior.simulate(FIXTURES, DRAWS)
    assert simulated.kind == kind
    expected, found = posterior.forecast(FIXTURES), simulated.to_frame()
    for column in ("p_win", "p_tie", "p_loss"):
        assert within(found[column], expected.get(column, 0.0)), column
    for column in ("expected", "first_expected", "second_expected"):
        if column in found:
            assert np.allclose(found[column], expected[column], atol=0.06)


def test_ties_depend_on_who_plays():
    data = jk.Dataset.from_frame(PLAYED, result=GOALS, tie_effects=True, **COLUMNS)
    likelihood = jk.likelihoods.VaryingTies(0.4)
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1e-9), likelihood, mean=0.3), data)
    found = posterior.simulate(FIXTURES, DRAWS).to_frame()
    # Skills are equal, and each side multiplies the margin by exp(0.3).
    tie = 2 * NormalDist().cdf(0.4 * math.exp(0.6)) - 1
    assert within(found["p_tie"], tie)
    assert within(found["p_win"], 0.5 - 0.5 * tie)


def test_matches_of_one_team_are_correlated(unsure, known):
    """A team that is good in one draw is good in all of its matches."""
    fixtures = {**FIXTURES, "first": ["a", "a", "b", "c"], "second": ["b", "c", "d", "d"]}
    results = unsure.simulate(fixtures, DRAWS).results
    assert np.corrcoef(results[:, 0], results[:, 1])[0, 1] > 0.1
    assert np.corrcoef(results[:, 0], results[:, 2])[0, 1] < -0.1
    certain = known.simulate(fixtures, DRAWS).results
    assert abs(np.corrcoef(certain[:, 0], certain[:, 1])[0, 1]) < 5 / np.sqrt(DRAWS)


def test_a_newcomer_is_one_team(unsure):
    fixtures = {**FIXTURES, "first": ["new", "new", "new", "old"], "second": ["a", "b", "old", "b"]}
    results = unsure.simulate(fixtures, DRAWS, allow_unknown=True).results
    assert np.corrcoef(results[:, 0], results[:, 1])[0, 1] > 0.1
    assert np.corrcoef(results[:, 2], results[:, 3])[0, 1] < -0.1
    with pytest.raises(jk.DataError, match=r"Row 0: 'new' in `first` \(column 'first'\)"):
        unsure.simulate(fixtures, DRAWS)


# League tables


def plain_order(matches, goals, points, breakers):
    """Groups of teams that all criteria leave equal, the best first, in plain Python."""
    win, tie, loss = points

    def total(team, kind, among):
        found = 0
        for (first, second), (one, two) in zip(matches, goals, strict=True):
            if team not in (first, second) or not {first, second} <= among:
                continue
            own, other = (one, two) if team == first else (two, one)
            found += {
                "points": win if own > other else tie if own == other else loss,
                "wins": int(own > other),
                "goals": own,
                "goal_difference": own - other,
            }[kind]
        return found

    groups = [set(TEAMS)]
    for name in ("points", *breakers):
        kind = {"head_to_head": "points", "head_to_head_goal_difference": "goal_difference"}
        refined = []
        for group in groups:
            among = group if name in kind else set(TEAMS)
            value = {team: total(team, kind.get(name, name), among) for team in group}
            for level in sorted(set(value.values()), reverse=True):
                refined.append({team for team in group if value[team] == level})
        groups = refined
    return groups


@pytest.mark.parametrize(
    "breakers",
    [
        ["goal_difference", "goals", "head_to_head"],
        ["head_to_head", "head_to_head_goal_difference", "wins"],
        ["wins"],
        [],
    ],
    ids=" ".join,
)
def test_tie_breakers_against_plain_python(breakers):
    generator = np.random.default_rng(3)
    pairs = list(itertools.permutations(TEAMS, 2))
    outcomes = generator.integers(0, 3, (300, len(pairs), 2))
    first, second = map(tuple, zip(*pairs, strict=True))
    index = jk.Dataset.from_frame(PLAYED, counts=GOALS, **COLUMNS).index
    simulated = Simulated(first, second, np.zeros(len(pairs)), outcomes, "goals", index)
    found = league_table(None, simulated, (2, 1, 0), breakers)
    assert found.tie_breakers == tuple(breakers)
    shared = 0
    for draw in range(len(outcomes)):
        place = 1
        for group in plain_order(pairs, outcomes[draw], (2, 1, 0), breakers):
            places = {found.places[draw, found.names.index(team)] for team in group}
            assert places == set(range(place, place + len(group)))
            place += len(group)
            shared += len(group) > 1
    # Some teams are equal to the end, and their order is random.
    assert shared
    assert np.allclose(found.probabilities.sum(axis=0), 1.0)
    assert np.allclose(found.probabilities.sum(axis=1), 1.0)


def test_final_places_against_enumeration(known):
    """Every outcome of four matches, with its probability, after ten matches played."""
    chances = known.forecast(FIXTURES)
    chances = np.stack([chances[name] for name in ("p_loss", "p_tie", "p_win")])
    before = list(zip(PLAYED["first"], PLAYED["second"], strict=True))
    after = list(zip(FIXTURES["first"], FIXTURES["second"], strict=True))
    goals = list(zip(PLAYED["goals"], PLAYED["against"], strict=True))
    expected = np.zeros((5, 5))
    for results in itertools.product((-1, 0, 1), repeat=len(after)):
        probability = np.prod([chances[r + 1, n] for n, r in enumerate(results)])
        new = [(max(r, 0), max(-r, 0)) for r in results]
        place = 0
        for group in plain_order(before + after, goals + new, (3, 1, 0), ["head_to_head"]):
            for team in group:
                columns = slice(place, place + len(group))
                expected[TEAMS.index(team), columns] += probability / len(group)
            place += len(group)
    found = league_table(PLAYED, known.simulate(FIXTURES, DRAWS), zones={"last two": (-2, -1)})
    order = [TEAMS.index(name) for name in found.names]
    assert found.tie_breakers == ("head_to_head", "random")
    assert within(found.probabilities, expected[order])
    assert within(found.p_title, expected[order, 0])
    assert within(found.p_top(2), expected[order, :2].sum(axis=1))
    assert within(found.p_bottom(2), expected[order, 3:].sum(axis=1))
    frame = found.to_frame(places=True)
    assert np.array_equal(frame["p_last two"], found.p_bottom(2))
    assert np.array_equal(frame["place_3"], found.probabilities[:, 2])
    assert "5 teams, 20,000 draws, equal points decided by head_to_head, random" in repr(found)


def test_final_places_of_unknown_skills(unsure):
    """All outcomes of a round robin, each averaged over the joint posterior of three skills."""
    fixtures = {"time": [1.0] * 3, "first": list("abc"), "second": list("bca")}
    mean = np.asarray(unsure.linear_combination(list("abc"), 1.0).mean)
    covariance = unsure.covariance(list("abc"), 1.0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    grid = np.stack(np.meshgrid(*[nodes] * 3), axis=-1).reshape(-1, 3)
    weights = np.prod(np.meshgrid(*[weights / weights.sum()] * 3), axis=0).ravel()
    skills = mean + grid @ np.linalg.cholesky(covariance).T
    gaps = skills - np.roll(skills, -1, axis=1)
    low, high = (np.vectorize(NormalDist().cdf)(margin - gaps) for margin in (-0.3, 0.3))
    chances = np.stack([low, high - low, 1.0 - high])
    pairs = list(zip(fixtures["first"], fixtures["second"], strict=True))
    expected = np.zeros((3, 3))
    for results in itertools.product((-1, 0, 1), repeat=3):
        probability = weights @ np.prod([chances[r + 1, :, n] for n, r in enumerate(results)], 0)
        goals, place = [(max(r, 0), max(-r, 0)) for r in results], 0
        for group in plain_order(pairs, goals, (3, 1, 0), []):
            teams = sorted(group & set("abc"))
            for team in teams:
                own = slice(place, place + len(teams))
                expected["abc".index(team), own] += probability / len(teams)
            place += len(teams)
    found = league_table(None, unsure.simulate(fixtures, DRAWS), tie_breakers=["random"])
    order = ["abc".index(name) for name in found.names]
    assert within(found.probabilities, expected[order])
    # Matches drawn independently of each other would be wrong.
    known = unsure.forecast(fixtures)
    apart = known["p_win"][0] * known["p_loss"][2]
    together = weights @ (chances[2, :, 0] * chances[0, :, 2])
    assert together - apart > 0.02


def test_played_matches_count(goals):
    simulated = goals.simulate(FIXTURES, 50)
    found = league_table(PLAYED, simulated)
    assert found.tie_breakers == ("goal_difference", "goals", "head_to_head", "random")
    points = dict.fromkeys(TEAMS, 0)
    for first, second, one, two in zip(*list(PLAYED.values())[1:], strict=True):
        points[first] += 3 if one > two else one == two
        points[second] += 3 if two > one else one == two
    assert dict(zip(found.names, found.current_points, strict=True)) == points
    assert set(found.matches) == {4}
    assert sum(found.left) == 8
    same = league_table(goals.data, simulated)
    assert np.array_equal(same.places, found.places)
    fewer = league_table(PLAYED, simulated, adjustments={"a": -2})
    assert fewer.current_points[fewer.names.index("a")] == points["a"] - 2
    assert np.isclose(fewer.expected_points.sum(), found.expected_points.sum() - 2)


def test_goals_of_both_sides_are_counted(goals):
    simulated = goals.simulate(FIXTURES, 200)
    assert simulated.goals.shape == (200, 4, 2)
    assert np.array_equal(simulated.results, np.sign(np.diff(simulated.goals)[..., 0] * -1))
    first = simulated.take(np.array([0]))
    table = league_table(None, first, tie_breakers=["goals"])
    assert table.names == ("a", "b") or table.names == ("b", "a")
    won = table.places[:, table.names.index("a")] == 1
    assert np.array_equal(
        won[first.results[:, 0] != 0], first.results[first.results[:, 0] != 0, 0] > 0
    )


# Knock-out tournaments


def reach(bracket, beats):
    """The probability of each team to reach each round, by recursion."""
    level = [{} if name is None else {name: 1.0} for name in bracket]
    rounds = [level]
    while len(level) > 1:
        pairs = zip(level[0::2], level[1::2], strict=True)
        level = []
        for one, two in pairs:
            level.append(dict(one or two))
            if one and two:
                level[-1] = {
                    a: p * sum(q * beats(a, b) for b, q in two.items()) for a, p in one.items()
                }
                level[-1] |= {
                    b: q * sum(p * beats(b, a) for a, p in one.items()) for b, q in two.items()
                }
        rounds.append(level)
    return {
        name: [sum(each.get(name, 0.0) for each in level) for level in rounds]
        for name in bracket
        if name is not None
    }  # fmt: skip


def beats_of(posterior, penalties, legs=1):
    names = list(itertools.permutations(TEAMS, 2))
    first, second = map(list, zip(*names, strict=True))
    results = dict(
        zip(names, np.asarray(posterior.predict(first, second, 2.0).results), strict=True)
    )

    def beats(one, two):
        chances = results[one, two]
        loss, tie, win = chances
        share = 0.5 if penalties == "coin" else win / (win + loss)
        if legs == 1:
            return win + tie * share
        total = np.convolve(chances, chances)
        return total[3:].sum() + total[2] * share

    return beats


@pytest.mark.parametrize(
    "bracket", [TEAMS[:4], ["a", "e", "b", None, "c", None, "d", None]], ids=len
)
@pytest.mark.parametrize("penalties", ["coin", "skill"])
@pytest.mark.parametrize("legs", [1, 2])
def test_brackets_against_enumeration(known, bracket, penalties, legs):
    found = knockout(known, bracket, 2.0, penalties=penalties, legs=legs, draws=DRAWS)
    expected = reach(bracket, beats_of(known, penalties, legs))
    for name, chances in zip(found.names, found.probabilities, strict=True):
        assert within(chances, expected[name]), name
    assert found.rounds[-3:] == ("semi_final", "final", "winner")
    assert np.isclose(found.p_win.sum(), 1.0)
    assert np.all(np.diff(found.p_win) <= 0)
    assert list(found.to_frame())[-1] == "p_winner"
    assert f"{len(found.names)} teams" in repr(found)


def test_goals_of_two_legs_are_added(goals):
    """Both homes make up for each other; in a round of one match nobody is at home."""
    found = knockout(goals, ["a", "b", "c", None], [2.0, 2.1], legs=[2, 1], draws=DRAWS)
    one = goals.predict("a", "b", 2.0, home=1).difference()
    two = goals.predict("a", "b", 2.0, home=-1).difference()
    total = np.convolve(one.probabilities, two.probabilities)
    middle = len(total) // 2
    wins = total[middle + 1 :].sum() + 0.5 * total[middle]
    # The two legs share their scores, which the product of two predictions neglects.
    assert abs(found.probabilities[found.names.index("a"), 1] - wins) < 0.03


def test_attack_and_defence_as_aspects():
    """Teams have their own names then, and two prior means: one for each role."""
    data = jk.Dataset.from_frame(PLAYED, counts=GOALS, aspects=True, **COLUMNS)
    roles = jk.kernels.CorrelatedAspects(jk.kernels.Constant(0.1), ["attack", "defence"], 0.5)
    kernel = {"skill": roles, "level": jk.kernels.Constant(0.1)}
    model = jk.Model(kernel, jk.likelihoods.Poisson(), mean={"skill": 0.3, "level": 0.0})
    posterior = jk.infer(model, data)
    found = knockout(posterior, ["a", "b", "c", "d"], 2.0, draws=100)
    np.testing.assert_allclose(found.probabilities[:, 0], 1.0)
    explained = posterior.explain("a")
    np.testing.assert_allclose(explained.baseline, 0.6)
    assert abs(explained.rest) < 0.01


# Title races


def test_title_race(known):
    data = jk.Dataset.from_frame(
        {name: [*PLAYED[name], *FIXTURES[name]] for name in PLAYED}, result=GOALS, **COLUMNS
    )
    labels = lambda times: np.floor(times * 50 + 1e-9)  # noqa: E731
    race = title_race(known.model, data, 1.0, every=labels, draws=DRAWS)
    assert race.probabilities.shape == (3, 4, 4)
    assert np.allclose(race.times, [1.0, 1.02, 1.03])
    assert np.allclose(race.probabilities.sum(axis=-1), 1.0)
    simulated = known.simulate(FIXTURES, DRAWS)
    table = league_table(None, simulated)
    order = [table.names.index(name) for name in race.names]
    assert within(race.p_title[0], table.p_title[order], 7)
    # After the last match everything is known, up to a random decision.
    final = league_table({name: FIXTURES[name] for name in FIXTURES}, dataclasses.replace(
        simulated.take(np.zeros(4, bool)), outcomes=np.zeros((DRAWS, 0)))
    )  # fmt: skip
    order = [final.names.index(name) for name in race.names]
    assert within(race.p_top(2)[-1], final.p_top(2)[order], 7)
    assert np.allclose(race.p_bottom(4), 1.0)
    assert len(race.to_frame()["time"]) == 12
    assert "4 teams at 3 times" in repr(race)


def test_title_race_with_other_rules(known):
    data = jk.Dataset.from_frame(
        {name: [*PLAYED[name], *FIXTURES[name]] for name in PLAYED}, result=GOALS, **COLUMNS
    )
    # Only a – b and b – c come before the end; both are in one block.
    period = {"every": lambda times: times >= 1.0, "stop": 1.015}
    rules = {"points": (2, 1, 0), "tie_breakers": ["wins", "random"], "seed": 3}
    method = jk.ReverseKL()
    race = title_race(known.model, data, 1.0, draws=DRAWS, method=method, **period, **rules)
    season = {name: column[:2] for name, column in FIXTURES.items()}
    earlier = jk.infer(known.model, known.data, method)
    expected = league_table(None, earlier.simulate(season, DRAWS), **rules)
    order = [expected.names.index(name) for name in race.names]
    assert within(race.p_title[0], expected.p_title[order], 7)
    points = dict.fromkeys("abc", 0)
    for first, second, own, other in zip(*(season[name] for name in SIDES), strict=True):
        points[first] += 1 + int(np.sign(own - other))
        points[second] += 1 + int(np.sign(other - own))
    assert dict(zip(race.names, race.expected_points[-1], strict=True)) == points
    seeds = [title_race(known.model, data, 1.0, draws=50, seed=seed, **period) for seed in (4, 5)]
    assert not np.array_equal(seeds[0].probabilities[0], seeds[1].probabilities[0])


# Bad input


def test_invalid_leagues(known, unsure):
    simulated = known.simulate(FIXTURES, 10)
    with pytest.raises(
        jk.DataError, match=r"has 'goal_difference', but the model simulates results only"
    ):
        league_table(PLAYED, simulated, tie_breakers=["goal_difference"])
    with pytest.raises(jk.DataError, match=r"'head_to_hed'.*Did you mean 'head_to_head'"):
        league_table(PLAYED, simulated, tie_breakers=["head_to_hed"])
    with pytest.raises(jk.DataError, match=r"`points` is \(3, 1\), but must be three numbers"):
        league_table(PLAYED, simulated, (3, 1))
    with pytest.raises(
        jk.DataError, match=r"is both played and simulated, at the same time \(4 such"
    ):
        league_table(FIXTURES, simulated)
    with pytest.raises(jk.DataError, match="must be a place or two from 1 to 5"):
        league_table(PLAYED, simulated, zones={"cup": (4, 6)})
    with pytest.raises(jk.DataError, match="'z', which is not a team of the league"):
        league_table(PLAYED, simulated, adjustments={"z": -3})
    with pytest.raises(jk.DataError, match="`draws` is 0, but must be a positive whole number"):
        known.simulate(FIXTURES, 0)
    with pytest.raises(jk.DataError, match="`fixtures` has no matches"):
        known.simulate({name: [] for name in FIXTURES})
    others = jk.Dataset.from_frame(PLAYED, difference=GOALS, **COLUMNS)
    with pytest.raises(jk.DataError, match="`played` was not read like the data of the model"):
        league_table(others, simulated)


def test_models_without_winners_are_refused():
    pairs = jk.Dataset.from_pairs([0.0], ["a"], ["b"], [1.0])
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit()), pairs)
    with pytest.raises(jk.DataError, match=r"Make the data with `Dataset.from_frame`"):
        posterior.simulate(FIXTURES)
    with pytest.raises(jk.DataError, match="`bracket` has 'a' twice"):
        knockout(posterior, ["a", "a"], 1.0)
    orders = {"time": [0.0, 0.0], "event": [1, 1], "name": ["a", "b"], "rank": [1, 2]}
    races = jk.Dataset.from_rankings(
        orders, time="time", event="event", competitor="name", rank="rank"
    )
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Ranking()), races)
    with pytest.raises(jk.DataError, match="only matches of two sides can be simulated"):
        posterior.simulate(orders)
    assert knockout(posterior, ["a", "b"], 1.0, draws=100).names == ("a", "b")
    counted = jk.Dataset.from_frame(
        {**PLAYED, "count": PLAYED["goals"]}, outcome="count", **COLUMNS
    )
    posterior = jk.infer(jk.Model(jk.kernels.Constant(0.1), jk.likelihoods.Poisson()), counted)
    with pytest.raises(jk.DataError, match=r"Outcomes of Poisson .* have no winner"):
        posterior.simulate(FIXTURES)


def test_one_kind_of_several_is_simulated():
    results = jk.Dataset.from_frame(PLAYED, result=GOALS, **COLUMNS)
    goals = jk.Dataset.from_frame(PLAYED, counts=GOALS, aspects=False, **COLUMNS)
    kinds = {"results": jk.likelihoods.OrdinalProbit(0.3), "goals": jk.likelihoods.Poisson()}
    data = jk.concat({"results": results, "goals": goals})
    posterior = jk.infer(jk.Model(jk.kernels.Constant(1e-9), kinds, mean=0.2), data)
    with pytest.raises(
        jk.DataError, match=r"several kinds .* Pass one of them as `kind`: 'results'"
    ):
        posterior.simulate(FIXTURES, 10)
    with pytest.raises(jk.DataError, match="`kind` is 'cups', but the data has no such kind"):
        posterior.simulate(FIXTURES, 10, kind="cups")
    ties = posterior.simulate(FIXTURES, DRAWS, kind="results").to_frame()["p_tie"]
    assert within(ties, 2 * NormalDist().cdf(0.3) - 1)
    goals = posterior.simulate(FIXTURES, DRAWS, kind="goals").goals
    np.testing.assert_allclose(goals.mean(axis=0), np.exp(0.2), atol=0.06)


def test_hosts_and_covariates_of_a_knockout():
    matches = {**PLAYED, "heat": [1.0, 0.0] * 5}
    data = jk.Dataset.from_frame(
        matches, result=GOALS, home=True, covariates={"heat": "heat"}, **COLUMNS
    )
    means = dict.fromkeys(data.names, 0.0) | {"home": 0.4, "heat": 0.3}
    model = jk.Model(
        jk.kernels.Constant(1e-9), jk.likelihoods.Probit(), mean=np.array([*means.values()])
    )
    won = jk.Dataset.from_frame(
        {**matches, "won": [1.0, -1.0] * 5}, outcome="won", home=True,
        covariates={"heat": "heat"}, **COLUMNS,
    )  # fmt: skip
    posterior = jk.infer(model, won)

    def chance(**options):
        found = knockout(posterior, ["a", "b"], 1.0, draws=DRAWS, **options)
        return dict(zip(found.names, found.p_win, strict=True))["b"]

    assert within(chance(), 0.5)
    assert within(chance(hosts=["b"]), NormalDist().cdf(0.4))
    assert within(chance(hosts=["a", "b"]), 0.5)
    assert within(chance(covariates={"heat": 1.0}), NormalDist().cdf(-0.3))


@pytest.mark.parametrize(
    ("bracket", "options", "message"),
    [
        (["a", "b", "c"], {}, r"`bracket` has 3 slots, but must have a power of two, such as 4"),
        ([], {}, "`bracket` has 0 slots"),
        (["a", None], {}, "fewer than two teams"),
        (["a", "b", "a", None], {}, "`bracket` has 'a' twice"),
        (["a", "z"], {}, "'z' in `bracket` is not in the data"),
        (["a", "b"], {"legs": 3}, "`legs` is 3, but must be 1 or 2"),
        (["a", "b"], {"legs": [1, 2]}, "`legs` has 2 values, but the bracket has 1 rounds"),
        (["a", "b"], {"penalties": "dice"}, "`penalties` is 'dice', but must be 'coin' or 'skill'"),
        (3, {}, "`bracket` is 3, but must be the list of its teams"),
        ("ab", {}, "`bracket` is 'ab', but must be the list of its teams"),
        (["a", "b"], {"hosts": ["z"]}, "`hosts` has 'z', which is not in the bracket"),
        (["a", "b"], {"hosts": ["a"]}, "`hosts` is given, but the data has no home advantage"),
    ],
)  # fmt: skip
def test_invalid_brackets(unsure, bracket, options, message):
    with pytest.raises(jk.DataError, match=message):
        knockout(unsure, bracket, 2.0, draws=10, **options)
