"""The search for kernels: its grammar, its course, its words, and one search that learns."""

import itertools
import math
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest

import jaxkick as jk
from jaxkick import kernels, likelihoods
from jaxkick.discovery import search, words
from jaxkick.discovery.grammar import (
    NOTHING,
    WORDS,
    Setting,
    find_seasons,
    neighbours,
    normal_form,
    prior_variance,
)
from jaxkick.discovery.journal import Entry, read_journal, write_journal
from jaxkick.discovery.model_comparison import LearntModel, learn_model
from jaxkick.io import Checkpoint

C, M12, M32, W, L = (
    kernels.Constant(1.0),
    kernels.Matern12(0.5, 2.0),
    kernels.Matern32(0.5, 2.0),
    kernels.Wiener(0.1),
    kernels.Linear(0.01),
)


def league(count=120, home=True, seed=0):
    """Matches of six teams in ten years, from September to May."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 10, count) * 365.25 + rng.uniform(0, 270, count)
    sides = np.array([rng.choice(6, 2, replace=False) for _ in range(count)])
    skill = np.linspace(-1.5, 1.5, 6)
    lead = skill[sides[:, 0]] - skill[sides[:, 1]] + 0.5
    table = {
        "date": np.datetime64("2000-09-01") + np.sort(days).astype("timedelta64[D]"),
        "one": sides[:, 0],
        "two": sides[:, 1],
        "won": np.where(lead + rng.normal(size=count) > 0, 1.0, -1.0),
    }
    columns = {"time": "date", "first": "one", "second": "two", "outcome": "won"}
    return jk.Dataset.from_frame(table, **columns, home=home)


@pytest.fixture(scope="module")
def data():
    return league()


@pytest.fixture(scope="module")
def setting(data):
    return Setting.of(data, "skill", find_seasons(data))


# Grammar


def test_seasons_end_in_the_summer(data):
    ends = np.array(find_seasons(data))
    assert (ends < data.index.times.max()).sum() == 9
    # Forecasts expect new levels in later seasons, too.
    assert len(ends) > 15
    np.testing.assert_allclose(np.diff(ends), 1.0)
    # The middle of June and July and August.
    assert np.all(np.abs(np.mod(ends, 1.0) - 0.54) < 0.04)


def test_there_are_no_seasons_without_a_break_or_a_unit():
    times = np.linspace(0.0, 10.0, 500)
    sides = np.arange(500) % 4, (np.arange(500) + 1) % 4
    for unit in ("year", None):
        spread = jk.Dataset.from_pairs(times, *sides, np.ones(500), unit=unit)
        assert find_seasons(spread) == ()


def test_normal_forms_ignore_order_and_values(setting):
    forms = {normal_form(a + b + c) for a, b, c in itertools.permutations((C, M12, L))}
    assert forms == {("Constant", "Linear", "Matern12")}
    assert normal_form(kernels.Cosine(1.0, 2.0)) != normal_form(kernels.Cosine(1.0, 2.0, 3.0))
    seasons = kernels.PiecewiseConstant(1.0, setting.seasons)
    assert normal_form(seasons * M12) == normal_form(M12 * seasons)


@pytest.mark.parametrize("kernel", [C, C + M12, M32 + L, C + W + M12 + L])
def test_neighbours_differ_in_one_term(kernel, setting):
    own, found = normal_form(kernel), list(neighbours(kernel, setting))
    assert len({form for form, _ in found}) == len(found)
    for form, starts in found:
        more = [name for name in form if form.count(name) > own.count(name)]
        fewer = [name for name in own if own.count(name) > form.count(name)]
        assert form != own
        assert len(set(more)) <= 1
        assert len(fewer) <= 1
        assert set(form) <= set(WORDS)
        assert len(form) <= 4
        assert all(normal_form(start) == form for start in starts)
        # A sum of two constants is a constant.
        assert all(form.count(name) <= 1 for name in ("Constant", "Linear", "Wiener"))


def test_neighbours_keep_the_values_of_shared_terms(setting):
    found = dict(neighbours(C + M12, setting))
    (grown,) = found["Constant", "Linear", "Matern12"]
    assert repr(grown.terms[2]) == repr(M12)
    (swapped,) = found["Constant", "Matern32"]
    assert float(swapped.terms[1].lengthscale) == float(M12.lengthscale)
    assert len(found["Constant", "Cosine", "Matern12"]) > 10


def test_neighbours_are_mutual_for_limits(setting):
    """A long lengthscale is a constant, a cycle that hardly fades is one that does not."""
    fading = kernels.Cosine(0.4, 2.0, 30.0)
    anew = kernels.PiecewiseConstant(jk.Fixed(1.0), setting.seasons) * M12
    for term, limit in ((M12, C), (M32, C), (fading, kernels.Cosine(0.4, 2.0)), (anew, M12)):
        (simpler,) = dict(neighbours(L + term, setting))[normal_form(L + limit)]
        (found,) = [each for each in simpler.terms if not isinstance(each, kernels.Linear)]
        assert prior_variance(found, setting) == pytest.approx(prior_variance(term, setting))
    for term, other in ((fading, kernels.Cosine(0.4, 2.0)), (anew, M12)):
        assert normal_form(L + term) in dict(neighbours(L + other, setting))


def test_aspects_are_only_removed(setting):
    aspects = kernels.Aspects(clay=kernels.Constant(0.1), grass=kernels.Constant(0.2))
    found = dict(neighbours(C + aspects, setting))
    assert len(found) > 5
    with_all = {form for form in found if "aspects clay, grass" in form}
    assert set(found) - with_all == {
        ("Constant",),
        ("Constant", "aspects clay"),
        ("Constant", "aspects grass"),
    }
    (grass,) = found["Constant", "aspects grass"]
    assert float(grass.terms[1].kernels[0].variance) == pytest.approx(0.2)


def test_terms_outside_the_grammar_stay(setting):
    kernel = C + kernels.Periodic(0.1, 1.0, 2.0)
    found = list(neighbours(kernel, setting))
    assert len(found) > 5
    assert all("Periodic" in form for form, _ in found)


def test_the_prior_variance_is_that_at_the_matches(data, setting):
    first = {team: data.entries(team).times.min() for team in range(6)}
    entries = [(time, first[team]) for team in range(6) for time in data.entries(team).times]
    times, debuts = np.array(entries).T
    expected = np.mean(1.0 + 0.1 * (times - debuts))
    assert len(setting.times) == len(times)
    assert prior_variance(C + W, setting) == pytest.approx(expected, rel=1e-6)


# The course of a search, with a learner that knows the answer

TARGET = {"skill": ("Constant", "Linear", "Matern32"), "home": ("Constant", "Wiener")}


class Learner:
    """Counts calls, and scores a model by the terms in which it differs from the target."""

    def __init__(self):
        self.looked, self.finished = [], []

    def __call__(self, name, model, data, method, penalty, **limits):
        value = -100.0
        for group, target in TARGET.items():
            form = normal_form(model.kernel_of(group))
            value -= 5.0 * sum(target.count(each) == 0 for each in form)
            value -= 10.0 * sum(form.count(each) == 0 for each in target)
        if limits.get("max_steps") != 0:
            (self.looked if limits else self.finished).append(name)
        return LearntModel(name, model, value, 3, value, 0.0, True)


@pytest.fixture
def learner(monkeypatch):
    learner = Learner()
    monkeypatch.setattr(search, "learn_model", learner)
    return learner


def test_a_search_finds_the_best_structure_and_tries_none_twice(data, learner):
    found = jk.discover(data, likelihoods.Probit(), budget=60.0)
    assert found.complete
    assert found.table.best.name == "skill: Constant + Linear + Matern32; home: Constant + Wiener"
    assert normal_form(found.model.kernel_of("home")) == TARGET["home"]
    assert len(set(learner.looked)) == len(learner.looked) == len(found.table)
    assert len(set(learner.finished)) == len(learner.finished)
    assert found.likelihoods is None
    # The suggested model is the second candidate.
    assert learner.looked[1] == "skill: Constant + Matern12; home: Constant + Matern12"


def test_a_search_continues_where_its_budget_ended(data, learner, monkeypatch):
    whole = jk.discover(data, likelihoods.Probit(), budget=60.0)
    learner.looked.clear()
    clock = itertools.count()
    monkeypatch.setattr(search.time, "perf_counter", lambda: float(next(clock)))
    part = jk.discover(data, likelihoods.Probit(), budget=12.0)
    assert not part.complete
    assert 1 < len(part.table) < len(whole.table)
    assert "stopped at its budget" in repr(part)
    assert "stopped at its budget" in part.describe()
    size = len(part.table)
    done = part.resume(1e9)
    assert done.complete
    assert len(part.table) == size
    assert {row.name for row in done.table} == {row.name for row in whole.table}
    assert done.table.best.name == whole.table.best.name
    assert len(set(learner.looked)) == len(learner.looked)


def test_words_say_what_each_term_is_worth(data, learner):
    lines = jk.discover(data, likelihoods.Probit(), budget=60.0).describe().split("\n")
    skill, home, outcome = lines
    assert skill.startswith("Skill is the sum of ")
    assert "% of the variance)" in skill
    assert "Without the linear trend the log evidence changes by −10.0." in skill
    assert "With another term in place of the fluctuations the log evidence changes: " in skill
    assert "No further term raises the score. Adding one changes the log evidence: " in skill
    assert "a cycle −5.0" in skill
    assert "further fluctuations 0.0" in skill
    assert home.startswith("The home advantage is the sum of ")
    assert outcome == "Outcomes: a lead of 1 wins with probability 84 % (Probit)."


def test_words_for_aspects_and_for_no_effect():
    rows = {
        (("Constant",), (NOTHING,)): -10.0,
        (("Constant", "aspects clay, grass"), (NOTHING,)): -9.0,
        (("Constant",), ("Constant",)): -9.5,
    }
    tried = {each: LearntModel("", None, log_evidence=rows[each]) for each in rows}
    best = next(iter(rows))
    (added,) = words._evidence(tried, best, 0)
    assert added.endswith("Adding one changes the log evidence: aspects clay, grass +1.0.")
    (effect,) = words._evidence(tried, best, 1)
    assert effect == "With a term the log evidence changes: a constant level +0.5."
    (removed,) = words._evidence(tried, list(rows)[1], 0)
    assert removed.startswith("Without the aspects clay, grass the log evidence changes by −1.0,")


def test_failed_candidates_do_not_end_a_search(data, learner, monkeypatch):
    def fail(name, model, *arguments, **limits):
        if "Linear" in name:
            return LearntModel(name, model, note="no fixed point")
        return learner(name, model, *arguments, **limits)

    monkeypatch.setattr(search, "learn_model", fail)
    found = jk.discover(data, likelihoods.Probit(), budget=60.0)
    assert "Linear" not in found.table.best.name
    assert math.isnan(found.table.rows[-1].score)
    monkeypatch.setattr(
        search, "learn_model", lambda name, model, *a, **k: LearntModel(name, model)
    )
    with pytest.raises(jk.DataError, match="No model could be learnt"):
        jk.discover(data, likelihoods.Probit(), budget=60.0)


def test_arguments_are_checked(data):
    for name in ("budget", "beam"):
        with pytest.raises(jk.DataError, match=f"`{name}` is 0, but must be positive"):
            jk.discover(data, **{name: 0})
    with pytest.raises(jk.DataError, match="`terms` has 'Cubic', which is not a term"):
        jk.discover(data, terms=["Constant", "Cubic"])
    with pytest.raises(TypeError, match="`data` must be a `Dataset`"):
        jk.discover("matches")


def players(late=25, lead=-2.0, seed=0):
    """Matches of 25 players who are there from the start with later ones, who are weaker."""
    rng, size = np.random.default_rng(seed), 25 + late
    first = np.concatenate([np.zeros(25), np.linspace(2.0, 6.0, late)])
    skill = rng.normal(0.0, 0.7, size) + np.where(np.arange(size) < 25, 0.0, lead)
    times = np.sort(np.concatenate([np.linspace(0.0, 0.1, 50), rng.uniform(0.1, 10.0, 450)]))
    rows = []
    for number, time in enumerate(times):
        if number < 25:
            one, two = number, (number + 1) % 25
        else:
            one, two = rng.choice(np.flatnonzero(first <= time), 2, replace=False)
        won = skill[one] - skill[two] + rng.normal() > 0
        rows.append((time, one, two, 1.0 if won else -1.0))
    return jk.Dataset.from_pairs(*np.array(rows).T, unit="year")


def test_a_search_tries_priors_of_newcomers(monkeypatch):
    data, looked = players(), []
    values = {"no newcomers": 0.0, "newcomers": 4.0, "fading newcomers": 2.0}

    def learn(name, model, data, method, penalty, **limits):
        looked.append(name)
        value = values[name.split("; ")[1]] - 10.0 * name.count("+")
        return LearntModel(name, model, value, 3, value, 0.0, True)

    monkeypatch.setattr(search, "learn_model", learn)
    found = jk.discover(data, likelihoods.Probit(), budget=60.0)
    assert found.complete
    assert looked[0] == "Constant; fading newcomers"
    assert found.table.best.name == "Constant; newcomers"
    assert found.model.newcomers.fade is None
    assert {"Constant; no newcomers", "Constant; newcomers"} <= {row.name for row in found.table}
    newcomers = found.describe().split("\n")[1]
    assert newcomers.startswith("Skill of newcomers: since ")
    assert "changes: fading newcomers −2.0, no newcomers −4.0." in newcomers
    values["no newcomers"] = 9.0
    found = jk.discover(data, likelihoods.Probit(), budget=60.0)
    assert found.model.newcomers is None
    assert "\nNewcomers have no prior of their own. With another prior" in found.describe()


def test_a_larger_number_of_terms_costs_as_many_nats_as_there_are_choices(data, learner):
    found = jk.discover(data, likelihoods.Probit(), budget=60.0)
    options = found._options
    sums = {
        count: len(list(itertools.combinations_with_replacement(WORDS, count)))
        for count in (1, 2, 3)
    }
    for kernel, count in ((C, 1), (C + M12, 2), (C + M12 + L, 3)):
        model = jk.Model({"skill": kernel, "home": C}, likelihoods.Probit())
        assert options.choice_cost(model) == pytest.approx(math.log(sums[count] * sums[1]))
    best = found.table.best
    assert best.score == pytest.approx(best.log_evidence - math.log(sums[3] * sums[2]))


# A search that learns


class Cut(Exception):
    """The end of a process."""


def cut_after(count):
    """A progress function that ends a search after so many reports."""
    numbers = itertools.count(1)

    def report(text):
        if next(numbers) == count:
            raise Cut

    return report


def test_a_cut_search_continues_from_its_checkpoint_to_the_same_result(tmp_path, monkeypatch):
    data, path = league(home=False), tmp_path / "search.npz"
    arguments = {"budget": 600.0, "terms": ["Constant", "Linear"]}
    whole = jk.discover(data, likelihoods.Probit(), **arguments)
    with pytest.raises(Cut):
        jk.discover(data, likelihoods.Probit(), **arguments, checkpoint=path, progress=cut_after(3))
    # A budget may end in the middle, too, and the best candidate is then learnt to the end.
    short = arguments | {"budget": 1e-9}
    part = jk.discover(data, likelihoods.Probit(), **short, checkpoint=path)
    assert not part.complete
    assert len(part.table) == 2
    learnt = []

    def learn(name, *given, **limits):
        learnt.append((name, bool(limits)))
        return learn_model(name, *given, **limits)

    monkeypatch.setattr(search, "learn_model", learn)
    done = jk.discover(data, likelihoods.Probit(), **arguments, checkpoint=path)
    # What was learnt before is not learnt again.
    assert learnt == [("Constant + Linear", False), ("Linear", True)]
    assert [row.name for row in done.table] == [row.name for row in whole.table]
    for found, wanted in zip(done.table, whole.table, strict=True):
        for name in ("score", "log_evidence", "num_parameters", "converged", "note"):
            assert getattr(found, name) == getattr(wanted, name)
        leaves = map(jax.tree.leaves, (found.model, wanted.model))
        for own, other in zip(*leaves, strict=True):
            np.testing.assert_array_equal(own, other)
    assert done.complete
    # The time of learning before the cut counts.
    assert done.seconds > sum(row.seconds for row in part.table)
    learnt.clear()
    again = jk.discover(data, likelihoods.Probit(), **short, checkpoint=path)
    assert again.complete
    assert not learnt
    assert again.describe() == done.describe() == whole.describe()
    assert [each.name for each in tmp_path.iterdir()] == ["search.npz"]
    for other in ({"terms": ["Constant"]}, {"beam": 3}, {"penalty": 0.5}):
        with pytest.raises(jk.DataError, match="written by a run with another model, data"):
            jk.discover(data, likelihoods.Probit(), **arguments | other, checkpoint=path)
    with pytest.raises(jk.DataError, match="written by a run with another model, data"):
        jk.discover(league(home=False, seed=1), likelihoods.Probit(), **arguments, checkpoint=path)


def test_failures_and_all_numbers_survive_a_journal(tmp_path):
    model = jk.Model(kernels.Constant(1.0) + kernels.Matern12(0.3, 2.0), likelihoods.Probit())
    learnt = jk.Model(kernels.Constant(0.1) + kernels.Matern12(0.7, 1 / 3), likelihoods.Probit())
    rows = {
        "good": LearntModel("a", learnt, -12.3, 3, -15.1, 1.5, True),
        "bad": LearntModel("a", model, note="no fixed point; Umlaut ü\nand more", seconds=0.5),
    }
    file = Checkpoint(tmp_path / "journal.npz", [np.arange(3)])
    assert read_journal(file) == {}
    write_journal(file, {key: Entry.of(row) for key, row in rows.items()})
    for key, entry in read_journal(file).items():
        found, wanted = entry.to_row("a", model), rows.pop(key)
        assert eqx.tree_equal(found.model, wanted.model)
        np.testing.assert_equal(vars(replace(found, model=None)), vars(replace(wanted, model=None)))
    assert not rows


def test_a_search_learns_its_candidates_and_compares_likelihoods():
    data = league(home=False)
    told = []
    found = jk.discover(data, budget=600.0, terms=["Constant", "Linear"], progress=told.append)
    assert found.complete
    assert found.table.best.name == "Constant"
    _, history = jk.learn(jk.Model(kernels.Constant(1.0), likelihoods.Probit()), data)
    assert found.table.best.log_evidence == pytest.approx(history.values.max(), abs=1e-3)
    # Nested, and learnt from its parent's values: next to nothing is gained or lost.
    assert abs(found.table["Constant + Linear"].log_evidence - history.values.max()) < 0.5
    assert {row.name for row in found.table} == {"Constant", "Constant + Linear", "Linear"}
    assert {row.name for row in found.likelihoods} == {"Probit", "Logit"}
    assert isinstance(found.model.likelihood, likelihoods.Probit)
    losses = found.likelihoods["Logit"].log_loss.value - found.likelihoods["Probit"].log_loss.value
    assert "With Logit the log loss of the last fifth of the matches changes by" in found.describe()
    assert abs(losses) < 0.05
    assert len(told) >= 4
    posterior = jk.infer(found.model, data)
    assert float(posterior.log_marginal_likelihood) == pytest.approx(
        found.table.best.log_evidence, abs=0.01
    )
