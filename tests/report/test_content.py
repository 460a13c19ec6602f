"""The data of a page: the numbers of the library, and names that cannot break the page."""

import json
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxkick as jk
from jaxkick.report import write_report
from jaxkick.report.content import assemble_cast, gather_content, time_span
from jaxkick.report.page import make_page
from tests.report.leagues import HOSTILE, goals_league, hostile_league


class Reader(HTMLParser):
    """The elements of a page, and the texts within those with an id or a program."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self.open = [], {}, None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open = dict(attributes).get("id", tag)

    def handle_data(self, data):
        self.texts[self.open] = self.texts.get(self.open, "") + data


TAGS = Reader(make_page({"title": ""}, "", "1")).tags


@given(st.text(), st.lists(st.text()))
@settings(max_examples=40, deadline=None)
def test_no_text_leaves_its_place(title, names):
    content = {"title": title, "names": [*names, *HOSTILE]}
    page = make_page(content, "", "1")
    reader = Reader(page)
    assert reader.tags == TAGS
    assert json.loads(reader.texts["data"]) == content
    page.encode()


def test_board():
    posterior = hostile_league()
    content = gather_content(posterior, "A league")
    board = posterior.leaderboard()
    assert content["names"] == list(board["name"])
    np.testing.assert_allclose(content["board"]["mean"], board["rating"])
    np.testing.assert_allclose(content["board"]["deviation"], board["deviation"])
    assert content["board"]["matches"] == list(board["matches"])
    np.testing.assert_array_equal(
        np.array(content["board"]["last"], "M8[ms]"), board["last_active"]
    )
    for name in ("rank", "rank_lower", "rank_upper", "best"):
        np.testing.assert_allclose(content["board"]["all"][name], board[name])
    active = posterior.leaderboard(active_within=1.0)
    members = [content["names"][place] for place in content["board"]["active"]["member"]]
    assert members == list(active["name"])
    assert "Zoë" not in members
    np.testing.assert_allclose(content["board"]["active"]["best"], active["best"])
    alone = posterior.leaderboard(joint=False)
    np.testing.assert_allclose(content["widen"], board["deviation"] / alone["deviation"])
    assert content["joint"]
    assert min(content["widen"]) > 1.0
    elo = posterior.leaderboard(scale="elo")["rating"]
    scale = content["scale"]
    np.testing.assert_allclose(scale["centre"] + scale["factor"] * board["rating"], elo)


def test_cast_of_goals():
    cast = assemble_cast(goals_league().data.index)
    assert [part.name for part in cast.features[-2:]] == ["home", "level"]
    roles = [(name, role) for name in ("ant", "bee", "cat") for role in ("attack", "defence")]
    assert {part.name for part in cast.features[:2]} <= {jk.Feature(*each) for each in roles}
    assert not cast.covariates
    content, board = (
        gather_content(goals_league(), ""),
        goals_league().leaderboard(scale="elo", joint=False),
    )
    assert content["names"] == list(board["name"])
    ratings = content["scale"]["centre"] + content["scale"]["factor"] * np.array(
        content["board"]["mean"]
    )
    np.testing.assert_allclose(ratings, board["rating"])


def test_covariates_are_no_competitors():
    matches = {"t": [0.0, 4.0], "a": ["x", "y"], "b": ["y", "z"], "rain": [0.5, 1.0]}
    data = jk.Dataset.from_frame(
        matches, time="t", first="a", second="b", covariates={"rain": "rain", "host": 2.0}
    )
    cast = assemble_cast(data.index)
    assert sorted(cast.competitors.names) == ["x", "y", "z"]
    assert dict(cast.covariates) == {"rain": 0.0, "host": 2.0}
    assert cast.home is None
    named = jk.Dataset.from_pairs(
        [0.0, 4.0], ["x", "y"], ["y", "z"], groups=lambda name: "zed" if name == "z" else "rest"
    )
    cast = assemble_cast(named.index)
    assert sorted(cast.competitors.names) == ["x", "y"]
    assert dict(cast.covariates) == {"z": 0.0}


def test_span():
    data = jk.Dataset.from_pairs(["2000-01-01", "2020-01-01"], ["x", "y"], ["y", "x"])
    span = time_span(data.index)
    assert span.end - span.last == pytest.approx(1.0)
    assert span.last - span.recent == pytest.approx(1.0)
    data = jk.Dataset.from_pairs([0.0, 20.0], ["x", "y"], ["y", "x"])
    assert tuple(time_span(data.index)) == (0.0, 20.0, 22.0, 18.0)


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_of_forecasts(make):
    columns = {
        "date": np.array(["2001-01-01", "2001-02-01T12:00"], "M8[ms]"),
        "who": ["<i>", "b"],
        "p_win": [0.25, float("nan")],
    }
    content = gather_content(hostile_league(), "", make(columns))
    assert content["forecasts"]["columns"] == ["date", "who", "p_win"]
    dates, names, chances = content["forecasts"]["values"]
    assert dates[0] == "2001-01-01"
    assert names == ["<i>", "b"]
    assert chances == [0.25, None]


def test_files(tmp_path, monkeypatch):
    program = tmp_path / "plotly.js"
    program.write_text("var Plotly = 'é';", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match="the folder does not exist"):
        write_report(tmp_path / "no" / "page.html", hostile_league(), library=program)
    # As in a copy that is not installed.
    monkeypatch.delattr("importlib.metadata.version")
    path = write_report(str(tmp_path / "page.html"), hostile_league(), library=program)
    assert path == tmp_path / "page.html"
    page = path.read_text(encoding="utf-8")
    assert "<h1>Ratings</h1>" in page
    assert f"jaxkick {jk.__version__}" in page
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"Install it with `pip install 'jaxkick\[report\]'`"):
        write_report(path, hostile_league())
