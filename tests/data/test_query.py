"""The forms in which a prediction may be asked for, and what is refused."""

import numpy as np
import pytest

import jaxkick as jk
from jaxkick.data.queries import read_query

DATA = jk.Dataset.from_pairs(
    ["2024-01-01", "2024-03-01", "2024-05-01"],
    ["ann", "bob", "cat"],
    ["bob", "cat", "ann"],
    covariates={"home": [1.0, 0.0, -1.0]},
    groups={"home": "advantage"},
)
DAY = "2024-02-01"


def ask(first, second=None, time=DAY, covariates=None, **options):
    sides = {"first": (first, 1.0)}
    if second is not None:
        sides["second"] = (second, -1.0)
    return read_query(DATA.index, time, sides, covariates or {}, **options)


def rows(query):
    """The coefficients of every query by name."""
    return [
        {DATA.names[number]: x for number, x in zip(*row, strict=True) if number >= 0}
        for row in zip(query.features, query.coefficients.tolist(), strict=True)
    ]


def test_one_of_each():
    query = ask("ann", "bob")
    assert query.shape == ()
    assert rows(query) == [{"ann": 1.0, "bob": -1.0}]
    np.testing.assert_allclose(query.times, 1970 + 19754 / 365.25)
    assert set(query.groups.ravel()) == {"skill"}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (["ann", "bob"], "cat", [{"ann": 1, "cat": -1}, {"bob": 1, "cat": -1}]),
        (np.array(["ann", "bob"]), "cat", [{"ann": 1, "cat": -1}, {"bob": 1, "cat": -1}]),
        ({"ann": 0.5, "bob": 0.25}, "cat", [{"ann": 0.5, "bob": 0.25, "cat": -1}]),
        ([["ann", "bob"]], [["cat"]], [{"ann": 1, "bob": 1, "cat": -1}]),
        ([("ann", "bob")], "cat", [{"ann": 1, "bob": 1, "cat": -1}]),
        ([{"ann": 2.0}, ["bob", "cat"]], None, [{"ann": 2}, {"bob": 1, "cat": 1}]),
        ({"ann": 1.0, "bob": 0.0}, "cat", [{"ann": 1, "cat": -1}]),
        ({"ann": 1.0}, {"ann": 0.25, "bob": 1.0}, [{"ann": 0.75, "bob": -1}]),
    ],
    ids=["names", "arrays", "mapping", "line-up", "tuple", "mixed", "zero", "both sides"],
)
def test_forms_of_sides(first, second, expected):
    assert rows(ask(first, second)) == expected


def test_many_times_or_many_sides():
    assert ask("ann", "bob", [DAY, "2024-04-01"]).shape == (2,)
    query = ask(["ann", "bob"], "cat", [DAY, "2024-04-01"])
    assert query.shape == (2,)
    assert query.times[1] > query.times[0]
    # The answer to a list is a list, also to a list of one or none.
    assert ask(["ann"], "bob").shape == (1,)
    assert ask([], "bob").features.shape[0] == 0


def test_covariates():
    query = ask(["ann", "bob"], "cat", covariates={"home": [1.0, 0.0]})
    assert rows(query) == [{"ann": 1, "cat": -1, "home": 1}, {"bob": 1, "cat": -1}]
    assert "advantage" in query.groups[0]
    assert rows(ask("ann", "cat", covariates={"home": -1.0}))[0]["home"] == -1


def test_unseen_features_keep_their_group():
    query = ask("zoe", "ann", covariates={"rain": 2.0}, allow_unknown=True)
    assert rows(query) == [{"ann": -1.0}]
    unseen = (query.features < 0) & (query.groups != "")
    assert sorted(query.coefficients[unseen]) == [1.0, 2.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"first": ["ann", "bob"], "second": ["ann"] * 3}, "`first` has 2, `second` has 3"),
        (
            {"first": ["ann", "bob"], "second": ["cat"]},
            r"`first` has 2, `second` has 1\. .* For the line-up of one match pass a mapping",
        ),
        ({"first": ("ann", "bob"), "second": "cat"}, "`first` is a tuple, which could be one"),
        ({"first": {}, "second": "bob"}, "^`first` has no competitor"),
        ({"first": [["ann"], []], "second": "bob"}, "^Row 1: `first` has no competitor"),
        ({"first": {"ann", "bob"}, "second": "cat"}, "`first` is a set, which could be one"),
        (
            {"first": "bbo"},
            r"^'bbo' in `first` is not in the data\. Did you mean 'bob'\? For a new",
        ),
        (
            {"first": ["ann", "Bob"], "second": "cat"},
            "^Row 1: 'Bob' in `first` is not in the data. Did you mean 'bob'",
        ),
        ({"first": "ann", "covariates": {"hmoe": 1.0}}, "'hmoe' in `covariates` is .* 'home'"),
        ({"first": ["ann", "bob"], "time": [DAY] * 3}, "`first` has 2, `time` has 3"),
        ({"first": [], "second": ["ann", "bob"]}, "`first` has 0, `second` has 2"),
        ({"first": None, "second": "bob"}, "A name is missing. Name every"),
        ({"first": ["ann", None], "second": "bob"}, "Row 1: a name is missing"),
        ({"first": {"ann": "much"}}, "Row 0: `first` has the coefficient 'much' for 'ann'"),
        ({"first": {"ann": np.nan}}, "A coefficient is missing or infinite"),
        ({"first": "ann", "covariates": {"ann": 1.0}}, "also the name of a competitor"),
        ({"first": "ann", "time": 2024.5}, "`time` holds numbers, but the times of"),
        ({"first": "ann", "time": "soon"}, "Row 0: `time` is 'soon', which is not a date"),
    ],
)
def test_says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        ask(**arguments)


def test_arrays_without_dimensions_stand_for_all():
    query = ask(np.array("ann"), ["bob", "cat"], np.datetime64(DAY), {"home": np.array(2.0)})
    assert rows(query) == [{"ann": 1, "bob": -1, "home": 2}, {"ann": 1, "cat": -1, "home": 2}]
    assert ask(np.array("ann"), np.array("bob")).shape == ()
