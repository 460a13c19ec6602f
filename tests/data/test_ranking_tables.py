"""Races and tournaments: reading, errors, subsets, joins, tables out and updates."""

from datetime import date

import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import jaxkick as jk
from jaxkick.data.schema import Feature
from tests.data.test_constructors import same

# Spa has a tie for the second place; in Monza, Dan did not finish.
RACES = {
    "date": [date(2024, 7, 28)] * 4 + [date(2024, 9, 1)] * 3,
    "race": ["Spa"] * 4 + ["Monza"] * 3,
    "driver": ["Ada", "Ben", "Cleo", "Dan", "Dan", "Ada", "Cleo"],
    "position": [2, 1, 2, 4, None, 2, 1],
    "points": [18.0, 25.0, 18.0, 0.0, None, 18.0, 25.0],
    "car": ["red", "blue", "red", "blue", "blue", "green", "red"],
    "grid": [1.0, 0.0, 2.5, 0.0, 1.0, 0.0, 0.0],
}
COLUMNS = {"time": "date", "event": "race", "competitor": "driver"}
RANK = {**COLUMNS, "rank": "position"}
WIDE = {
    "date": ["2024-07-28", "2024-09-01"],
    "gold": ["Ben", "Cleo"],
    "silver": ["Ada", "Ada"],
    "bronze": ["Cleo", None],
}
PLACES = {"time": "date", "competitor": ["gold", "silver", "bronze"]}
PAIRS = {
    "t": [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0],
    "event": [1, 1, 1, 1, 2, 2, 2],
    "player": ["ann", "bob", "cid", "dan", "ann", "cid", "eve"],
    "team": ["x", "x", "y", "y", "x", "x", None],
    "rank": [1, 1, 2, 2, 2, 2, 1],
    "sponsor": ["oil", "oil", "tea", "tea", "oil", "oil", "tea"],
}
TEAMS = {"time": "t", "event": "event", "competitor": "player", "team": "team", "rank": "rank"}
ROSTERS = {
    "t": [1.0, 1.0, 2.0, 2.0],
    "event": ["a", "a", "b", "b"],
    "side": [["ann", "bob"], ["cid"], ["ann", "cid"], ["bob"]],
    "rank": [1, 2, 2, 1],
}
LISTS = {"time": "t", "event": "event", "competitor": "side", "rank": "rank"}


def read(table, **arguments):
    return jk.Dataset.from_rankings(table, **{**RANK, **arguments})


def changed(column, row, value):
    return RACES | {column: [*RACES[column][:row], value, *RACES[column][row + 1 :]]}


def sides(data):
    """The place of each side in each event, whatever the order of rows and the names of events."""
    seen = data.observations
    events: dict = {}
    for row, event in enumerate(seen.events.tolist()):
        there = zip(seen.features[row], seen.coefficients[row], strict=True)
        side = frozenset((seen.names[k], float(x)) for k, x in there if k >= 0)
        events.setdefault(event, {})[side] = (seen.times[row], int(seen.outcome[row]))
    return sorted(sorted(map(repr, event.items())) for event in events.values())


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_one_row_for_each_side(make):
    data = read(make(RACES), features={"car": "car", "grid": "grid"})
    seen = data.observations
    assert seen.outcome.tolist() == [2, 1, 2, 3, 0, 2, 1]
    assert (np.diff(seen.events) != 0).tolist() == [False, False, False, True, False, False]
    assert {Feature("red", "car"), Feature("green", "car"), "grid", "Ada"} < set(seen.names)
    number = {name: place for place, name in enumerate(seen.names)}
    first = dict(zip(seen.features[0].tolist(), seen.coefficients[0].tolist(), strict=True))
    assert first == {number["Ada"]: 1, number[Feature("red", "car")]: 1, number["grid"]: 1}
    # A coefficient of zero leaves the feature out.
    assert seen.features[1].tolist().count(number["grid"]) == 0
    assert data.index.scale.to_user(seen.times[[0, 6]]).astype("M8[D]").tolist() == [
        *(date(2024, 7, 28), date(2024, 9, 1))
    ]
    assert data.index.groups == ("car", "skill")


def test_points_are_ranks_the_other_way_round():
    ranked = read(RACES)
    assert same(jk.Dataset.from_rankings(RACES, **COLUMNS, points="points"), ranked)


@pytest.mark.parametrize("ranks", [[2, 1, 2, 3], [2, 1, 2, 4], ["2", "1", " 2", "4"]])
def test_dense_and_competition_ranks(ranks):
    assert same(read(RACES | {"position": [*ranks, None, 2, 1]}), read(RACES))


@pytest.mark.parametrize("cell", [None, np.nan, "", "DNF", "dsq", "\\N", " Ret "])
def test_sides_without_a_place(cell):
    table = changed("position", 4, cell)
    assert read(table).observations.outcome.tolist() == [2, 1, 2, 3, 0, 2, 1]
    dropped = read(table, dnf="drop").observations
    assert dropped.outcome.tolist() == [2, 1, 2, 3, 2, 1]
    assert dropped.rows.tolist() == [0, 1, 2, 3, 5, 6]


def test_an_event_with_one_finisher_says_nothing_without_the_others():
    table = changed("position", 5, "DNF")
    assert read(table).observations.outcome.tolist() == [2, 1, 2, 3, 0, 0, 1]
    assert len(read(table, dnf="drop")) == 4
    with pytest.raises(jk.DataError, match="`dnf` is 'drop', but no event has two sides"):
        read({name: column[4:] for name, column in table.items()}, dnf="drop")


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_one_row_for_each_event(make):
    data = jk.Dataset.from_rankings(make(WIDE), **PLACES)
    seen = data.observations
    assert [seen.names[k] for k in seen.features[:, 0]] == ["Ben", "Ada", "Cleo", "Cleo", "Ada"]
    assert seen.outcome.tolist() == [1, 2, 3, 1, 2]
    assert seen.rows.tolist() == [0, 0, 0, 1, 1]
    long = {
        "date": ["2024-07-28"] * 3 + ["2024-09-01"] * 2,
        "race": [1, 1, 1, 2, 2],
        "driver": ["Ben", "Ada", "Cleo", "Cleo", "Ada"],
        "position": [1, 2, 3, 1, 2],
    }
    assert sides(read(long)) == sides(data)


def test_teams_are_sides():
    data = jk.Dataset.from_rankings(PAIRS, **TEAMS, features={"sponsor": "sponsor"})
    seen = data.observations
    assert seen.outcome.tolist() == [1, 2, 2, 1]
    members = [{str(seen.names[k]) for k in row if k >= 0} for row in seen.features]
    assert members[0] == {"ann", "bob", "oil sponsor"}
    assert members[3] == {"eve", "tea sponsor"}
    lists = jk.Dataset.from_rankings(pl.DataFrame(ROSTERS), **LISTS).observations
    assert [(row >= 0).sum() for row in lists.features] == [2, 1, 2, 1]


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_the_order_of_rows_does_not_matter(make):
    order = np.random.default_rng(0).permutation(7)
    mixed = {name: [column[row] for row in order] for name, column in RACES.items()}
    assert sides(read(make(mixed))) == sides(read(RACES))


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("driver", 2, "Ada", r"Row 2: `competitor` \(column 'driver'\) has 'Ada' twice in the "
         r"event 'Spa'. Keep one row for each competitor of an event, or pass `on_inv"),
        ("driver", 2, None, r"Row 2: `competitor` \(column 'driver'\) has a missing name. Name"),
        ("position", 3, 7, r"Row 3: `rank` \(column 'position'\) is 7 in the event 'Spa', but "
         r"no side has the rank before it. Add the missing row, or number the ranks of each "),
        ("position", 1, 1.5, r"Row 1: `rank` \(column 'position'\) is 1.5, but ranks are 1, 2, 3"),
        ("position", 1, 0, r"Row 1: `rank` \(column 'position'\) is 0, but ranks are 1, 2, 3"),
        ("position", 1, np.inf, r"Row 1: `rank` \(column 'position'\) is infinite"),
        ("race", 4, "Imola", r"Row 4: the event 'Imola' has only one side. Leave it out, or"),
        ("race", 4, None, r"Row 4: `event` \(column 'race'\) is missing. Name the event of every"),
        ("date", 5, date(2024, 9, 2), r"Row 5: the event 'Monza' has another `time` \(column "
         r"'date'\) in an earlier row. Keep one time"),
        ("date", 5, None, r"Row 5: `time` \(column 'date'\) is missing"),
        ("car", 1, None, r"Row 1: `features\['car'\]` \(column 'car'\) has a coefficient that is"),
    ],
)  # fmt: skip
def test_invalid_rows(column, row, value, message):
    table = changed(column, row, value)
    features = {"car": "car"}
    with pytest.raises(jk.DataError, match=message):
        read(table, features=features)
    with pytest.warns(UserWarning, match=r"Dropped \d of 7 sides: 1 because "):
        dropped = read(table, features=features, on_invalid="drop")
    # The whole event goes; a row of an event of its own goes alone.
    left = [0, 1, 2, 3, 5, 6] if column == "race" else [0, 1, 2, 3] if row > 3 else [4, 5, 6]
    assert dropped.observations.rows.tolist() == left


def test_an_event_without_places():
    table = RACES | {"position": [2, 1, 2, 4, None, "DNF", ""]}
    with pytest.raises(
        jk.DataError, match=r"Row 4: no side of the event 'Monza' has a place .3 rows affected.. L"
    ):
        read(table)
    with pytest.warns(UserWarning, match=r"Dropped 3 of 7 sides: 3 because no side"):
        assert len(read(table, on_invalid="drop")) == 4


def test_values_and_columns_that_cannot_be_read():
    with pytest.raises(
        jk.DataError,
        match=r"Row 1: `rank` \(column 'position'\) is 'first'. Write a number, or DNF",
    ):
        read(changed("position", 1, "first"))
    with pytest.raises(
        jk.DataError,
        match=r"`competitor` \(column 'drivers'\) is not in the table. Did you mean 'dr",
    ):
        read(RACES, competitor="drivers")
    for name, argument in {"race": "event", "position": "rank", "date": "time"}.items():
        with pytest.raises(jk.DataError, match=rf"`{argument}` .* has 6 values for 7 observations"):
            read(RACES | {name: RACES[name][:6]})
    with pytest.raises(
        jk.DataError, match=r"`features` has the name 'Ada', which is also the name"
    ):
        read(RACES, features={"Ada": "grid"})
    with pytest.raises(jk.DataError, match="The table is empty"):
        read({name: [] for name in RACES})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"points": "points"}, "Pass one of `rank` .1 is the best. and `points`"),
        ({"rank": None}, "Pass one of `rank` .1 is the best. and `points`"),
        ({"event": None}, "`event` is missing. Name the column of events"),
        ({"dnf": "first"}, "`dnf` is 'first', but must be 'last' or 'drop'"),
        ({"competitor": 3}, "`competitor` is 3, but must be a column, or a list of them"),
        ({"competitor": ["driver", "car"]}, "`event` is given, but a list of columns in"),
        ({**PLACES, "event": None}, "`rank` is given, but a list of columns in"),
        ({"competitor": ["x"], "event": None, "rank": None}, "`competitor` needs at least two co"),
        ({"features": ["car"]}, r"`features` is \['car'\], but must be a mapping from names to co"),
    ],
)
def test_arguments_that_contradict_each_other(arguments, message):
    with pytest.raises(jk.DataError, match=message):
        read(RACES, **arguments)


@pytest.mark.parametrize(
    ("column", "value", "argument"),
    [
        ("rank", 2, "`rank` .column 'rank'."),
        ("t", 3.0, "`time` .column 't'."),
        ("sponsor", "tea", r"`features\['sponsor'\]` .column 'sponsor'."),
    ],
)
def test_members_of_a_team_have_one_rank_time_and_feature(column, value, argument):
    table = PAIRS | {column: [PAIRS[column][0], value, *PAIRS[column][2:]]}
    features = {"sponsor": "sponsor"}
    message = f"Row 0: {argument} differs between the members of a team. Give all members"
    with pytest.raises(jk.DataError, match=message):
        jk.Dataset.from_rankings(table, **TEAMS, features=features)
    with pytest.warns(UserWarning, match="Dropped 2 of 4 sides: 1 because .* differs .* 1 because"):
        data = jk.Dataset.from_rankings(table, **TEAMS, features=features, on_invalid="drop")
    assert data.observations.rows.tolist() == [4, 6]


def test_lists_of_names_and_teams_exclude_each_other():
    with pytest.raises(
        jk.DataError, match=r"`competitor` .* is \['ann', 'bob'\], but `team` joins"
    ):
        jk.Dataset.from_rankings(ROSTERS | {"team": [1, 1, 1, 1]}, **LISTS, team="team")
    repeated = ROSTERS | {"side": [["ann", "bob"], ["bob"], ["ann", "cid"], ["bob"]]}
    with pytest.raises(
        jk.DataError, match=r"Row 1: `competitor` .* has 'bob' twice in the event 'a'"
    ):
        jk.Dataset.from_rankings(repeated, **LISTS)


def test_rows_of_events_that_cannot_be_read():
    gap = WIDE | {"silver": [None, "Ada"]}
    with pytest.raises(jk.DataError, match="Row 0: `competitor` has a missing name"):
        jk.Dataset.from_rankings(gap, **PLACES)
    alone = WIDE | {"silver": ["Ada", None]}
    with pytest.raises(jk.DataError, match=r"Row 1: the event has only one side. Leave it out"):
        jk.Dataset.from_rankings(alone, **PLACES)
    with pytest.warns(UserWarning, match=r"Dropped 1 of 4 sides: 1 because .* \(row 1\)"):
        assert len(jk.Dataset.from_rankings(alone, **PLACES, on_invalid="drop")) == 3


CASES = {
    "ranks": (RACES, RANK),
    "points": (RACES, COLUMNS | {"points": "points"}),
    "features": (RACES, RANK | {"features": {"car": "car", "grid": "grid", "bias": 0.5}}),
    "without DNF": (RACES, RANK | {"dnf": "drop"}),
    "aspects": (
        RACES | {"weather": ["wet"] * 4 + ["dry"] * 3},
        RANK | {"aspects": {"weather": "weather", "weight": "grid"}},
    ),
    "wide": (WIDE, PLACES),
    "teams": (PAIRS, TEAMS | {"features": {"sponsor": "sponsor"}}),
    "lists": (ROSTERS, LISTS),
}


@pytest.mark.parametrize(("table", "arguments"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_a_table_is_read_back_as_the_same_data(make, table, arguments):
    data = jk.Dataset.from_rankings(make(table), **arguments)
    again = jk.Dataset.from_rankings(data.to_frame(), **arguments)
    assert sides(again) == sides(data)
    assert again.observations.outcome.tolist() == data.observations.outcome.tolist()
    for name in ("aspect_names", "event_names", "team_names"):
        assert getattr(again.observations, name) == getattr(data.observations, name)
    np.testing.assert_equal(again.observations.aspects, data.observations.aspects)
    if make is not dict:
        assert isinstance(data.to_frame(), type(make(table)))


def test_events_and_teams_keep_their_names(tmp_path):
    table = read(RACES).to_frame()
    assert table["race"].tolist() == RACES["race"]
    data = jk.Dataset.from_rankings(PAIRS, **TEAMS)
    table = data.to_frame()
    assert table["event"].tolist() == PAIRS["event"]
    assert table["team"].tolist() == PAIRS["team"]
    assert data.subset(slice(2, 4)).to_frame()["event"].tolist() == [2, 2, 2]
    model = jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Ranking())
    jk.save(tmp_path / "teams.jk", jk.infer(model, data))
    again = jk.load(tmp_path / "teams.jk").data
    assert again.index == data.index
    assert again.to_frame()["team"].tolist() == PAIRS["team"]
    other = jk.Dataset.from_rankings(PAIRS | {"event": ["a"] * 4 + ["b"] * 3}, **TEAMS)
    assert other.index != data.index
    joined = jk.concat([data, other]).to_frame()
    assert joined["event"].tolist() == ["1"] * 4 + ["2"] * 3 + ["a"] * 4 + ["b"] * 3
    assert joined["team"].tolist() == PAIRS["team"] * 2
    # Events with the same name are numbered.
    assert (
        jk.concat([data, data]).to_frame()["event"].tolist()
        == np.repeat(np.arange(4), [4, 3, 4, 3]).tolist()
    )
    kinds = jk.concat({"duels": jk.Dataset.from_pairs([0.0], ["a"], ["b"]), "races": other})
    assert kinds.of_kind("races").to_frame()["event"].tolist() == ["a"] * 4 + ["b"] * 3
    # Events may be dates.
    dated = jk.Dataset.from_rankings(RACES, **RANK | {"event": "date"})
    assert sides(jk.Dataset.from_rankings(dated.to_frame(), **RANK | {"event": "date"}))
    assert dated.index.event_names == ("2024-07-28", "2024-09-01")


def test_dropped_rows_are_read_back():
    with pytest.warns(UserWarning, match="Dropped 4 of 7 sides"):
        data = read(changed("driver", 2, "Ada"), on_invalid="drop")
    assert sides(read(data.to_frame())) == sides(data)


def test_subsets_and_joins():
    data = read(RACES)
    assert len(data) == 7
    assert repr(data).startswith("Dataset of 7 observations in 2 events and 4 features\n")
    assert "competitor 'driver', event 'race', rank 'position'" in repr(data)
    spa, monza = data.subset(slice(0, 4)), data.subset(np.arange(4, 7))
    assert sorted(sides(spa) + sides(monza)) == sides(data)
    with pytest.raises(jk.DataError, match=r"Row 0: `chosen` has only a part .* \(3 rows"):
        data.subset([0, 2, 3, 4, 5, 6])
    # Events of the parts stay apart, even if their numbers are the same.
    twice = jk.concat([data, data])
    assert len(np.unique(twice.observations.events)) == 4
    assert sides(twice) == sorted(sides(data) * 2)


def test_duels_and_races_in_one_data_set():
    races = read(RACES)
    duels = jk.Dataset.from_frame(
        {"date": ["2024-08-01", "2024-08-02"], "a": ["Ada", "Eve"], "b": ["Ben", "Ada"]},
        time="date", first="a", second="b", outcome=1.0, home=True,
    )  # fmt: skip
    for parts in ({"duels": duels, "races": races}, {"races": races, "duels": duels}):
        both = jk.concat(parts)
        assert both.index.kind_names == tuple(parts)
        assert {block.kind: block.members.shape[1] for block in both.events.blocks} == {
            "duels": 1, "races": 4,
        }  # fmt: skip
        assert both.index.group_of("home") == "home"
    with pytest.raises(jk.DataError, match="Rankings and matches cannot be joined without a kind"):
        jk.concat([duels, races])
    pairs = jk.Dataset.from_pairs(["2024-08-01"], ["Ada"], ["Ben"])
    with pytest.raises(jk.DataError, match="Rankings and matches cannot be joined without a kind"):
        jk.concat([races, pairs])
    with pytest.raises(jk.DataError, match="Rankings and matches cannot be joined without a kind"):
        jk.concat([jk.concat({"a": races}), jk.concat({"a": pairs})])
    with pytest.raises(jk.DataError, match="already has the kinds 'races', 'duels'"):
        jk.concat({"all": both})
    with pytest.raises(jk.DataError, match="Only some of the observations have a kind"):
        jk.concat([both, races])
    twice = jk.concat([both, jk.concat({"races": races})])
    assert len(twice) == 16
    assert sides(twice.of_kind("races")) == sorted(sides(races) * 2)
    # Rows of the second table of races continue those of the first.
    assert twice.of_kind("races").index.rows.tolist() == list(range(14))
    assert both.of_kind("races").schema == races.schema
    assert both.of_kind("duels").schema == duels.schema
    assert "kind     'races': 7 observations: competitor 'driver'" in repr(both)
    with pytest.raises(jk.DataError, match="Its kinds: 'races', 'duels'"):
        both.of_kind("rallies")


@pytest.fixture(scope="module")
def posterior():
    model = jk.Model(jk.kernels.Matern12(1.0, 2.0), jk.likelihoods.Ranking())
    return jk.infer(model, read(changed("position", 2, 3)))


def test_update(posterior):
    later = {
        "date": ["2024-09-15"] * 3,
        "race": ["Baku"] * 3,
        "driver": ["Ben", "Ada", "Cleo"],
        "position": [1, 2, 3],
    }
    updated = posterior.update(later)
    whole = jk.infer(posterior.model, jk.concat([posterior.data, read(later)]), tol=1e-3)
    found, truth = (
        jax.numpy.stack(each.linear_combination(["Ada", "Ben", "Cleo", "Dan"], "2024-10-01"))
        for each in (updated, whole)
    )
    np.testing.assert_allclose(found, truth, atol=0.02)
    assert len(np.unique(updated.data.observations.events)) == 3


def test_repeated_events_are_refused(posterior):
    monza = {name: column[4:] for name, column in RACES.items()}
    with pytest.raises(
        jk.DataError, match=r"Row 0: the data already has a match .* `allow_repeats"
    ):
        posterior.update(monza)
    # A race of others on the same day is another race.
    other = monza | {"race": ["sprint"] * 3, "driver": ["Ada", "Ben", "Cleo"]}
    jk.data.observations.refuse_repeats(posterior.data.observations, read(other).observations)


def test_forecasts_of_wide_tables():
    data = jk.Dataset.from_rankings(pd.DataFrame(WIDE), **PLACES)
    fit = jk.infer(jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Ranking()), data)
    table = fit.forecast(pd.DataFrame(WIDE))
    wanted = fit.predict_ranking(["Ben", "Ada", "Cleo"], "2024-07-28")
    columns = [f"p_win[{name}]" for name in PLACES["competitor"]]
    np.testing.assert_allclose(table[columns].iloc[0].to_numpy(float), wanted.p_win)
    np.testing.assert_allclose(table["expected_rank[silver]"][0], wanted.expected_rank[1])
    assert np.isnan(table["p_win[bronze]"][1])
    np.testing.assert_allclose(table[columns].iloc[1].to_numpy(float)[:2].sum(), 1.0, atol=1e-6)
