"""Read rankings from tables with one row for each side of an event, or for each event."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxkick.data.columns import (
    NUMBER,
    Column,
    as_column,
    is_missing,
    take_rows,
    to_floats,
    to_list,
)
from jaxkick.data.schema import POINTS
from jaxkick.data.sides import Vocabulary, cell_kind, members_of
from jaxkick.errors import Checks, DataError, invalid, plain

_UNPLACED = {
    "", "-", "\\n", "dnf", "dns", "dnq", "dsq", "dq", "nc", "ret", "r", "d", "w", "wd", "e", "f",
    "n", "cut", "mc", "abandoned", "disqualified", "retired", "withdrawn", "unranked",
}  # fmt: skip


class RankedSides(NamedTuple):
    """The sides of all events.

    Attributes:
        names: a name, or a list of names, for each side.
        events: the number of each side's event.
        rows: the first row of each side in the table.
        sides: the side of each row of the table; `None` if rows have several sides.
        labels: the name of each event.
        teams: the name of each side's team, `None` without one; `None` if there are no teams.
        numbers: the rank of each side, or minus its points; NaN if missing. `None` for future
            events.
        by_points: True if numbers are points, which may have any value.
        uneven: for each argument, the sides with members that differ in it.
    """

    names: list
    events: np.ndarray
    rows: np.ndarray
    sides: np.ndarray | None
    labels: Sequence[Hashable]
    teams: list | None
    numbers: np.ndarray | None
    by_points: bool
    uneven: dict[str, np.ndarray]

    def pick(self, column: Column, argument: str) -> Column:
        """Take the value of each side from a column; note teams with members that differ."""
        num_rows = len(self.labels if self.sides is None else self.sides)
        column = as_column(column, argument, num_rows)
        if self.sides is not None and len(self.sides) > len(self.rows):
            first = to_list(take_rows(column, self.rows[self.sides]))
            pairs = zip(to_list(column), first, strict=True)
            differs = [a != b and not (is_missing(a) and is_missing(b)) for a, b in pairs]
            self.uneven[argument] = np.bincount(self.sides, differs, len(self.rows)) > 0
        return take_rows(column, self.rows)

    def places(self) -> np.ndarray:
        """The place of each side: 1 for the best, equal for ties, 0 without a place."""
        return dense_places(self.events, self.numbers)

    def check(self, checks: Checks, times: np.ndarray) -> None:
        """Refuse repeated competitors, events with one side, and impossible times and ranks."""
        missing = np.array([is_missing(label) for label in self.labels])[self.events]
        checks.refuse(missing, "{argument} is missing", "Name the event of every row", "event")
        for argument, bad in self.uneven.items():
            problem = "{argument} differs between the members of a team"
            checks.refuse(bad, problem, "Give all members of a team the same", argument)
        twice = _repeated(self.events, self.names)
        self._refuse(
            checks,
            np.array([name is not None for name in twice]),
            "{argument} has {value} twice in {event}",
            "Keep one row for each competitor of an event",
            "competitor",
            np.fromiter(twice, object, len(twice)),
        )
        self.check_times(checks, times)
        sizes = np.bincount(self.events, minlength=len(self.labels))
        alone = sizes[self.events] < 2
        self._refuse(checks, alone, "{event} has only one side", "Leave it out", "event")
        if self.numbers is None:
            return
        unknown, argument = np.isnan(self.numbers), "points" if self.by_points else "rank"
        checks.refuse(
            np.isinf(self.numbers), "{argument} is infinite", "Give finite numbers", argument
        )
        if not self.by_points:
            wrong = ~unknown & ((self.numbers < 1) | (self.numbers != np.round(self.numbers)))
            problem = "{argument} is {value}, but ranks are 1, 2, 3, …"
            remedy = f"Count ranks from 1; if larger numbers are better, pass them as {{{POINTS}}}"
            self._refuse(checks, wrong, problem, remedy, "rank", self.numbers)
            self._refuse(
                checks,
                _has_hole(self.events, self.numbers) & ~wrong,
                "{argument} is {value} in {event}, but no side has the rank before it",
                "Add the missing row, or number the ranks of each event again",
                "rank",
                self.numbers,
            )
        placed = np.bincount(self.events, ~unknown, len(self.labels))
        empty = placed[self.events] == 0
        self._refuse(checks, empty, "no side of {event} has a place", "Leave it out", "event")

    def check_times(self, checks: Checks, times: np.ndarray) -> None:
        """Refuse events with two times."""
        _, first, event = np.unique(self.events, return_index=True, return_inverse=True)
        other = np.isfinite(times) & (times != times[first][event])
        problem, remedy = "{event} has another {argument} in an earlier row", "Keep one time"
        self._refuse(checks, other, problem, remedy, "time")

    def _refuse(
        self,
        checks: Checks,
        bad: np.ndarray,
        problem: str,
        remedy: str,
        argument: str,
        values: np.ndarray | None = None,
    ) -> None:
        """Refuse sides; `{event}` in the problem is replaced by the event of the first one."""
        if bad.any():
            label = self.labels[self.events[int(np.argmax(bad))]]
            event = "the event" if self.sides is None else f"the event {label!r}"
            shown = problem.replace("{event}", event)
            checks.refuse(bad, shown, remedy, argument, values, mentions=(POINTS,))


def dense_places(events: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Rank numbers within their events, without gaps; 0 for NaN."""
    order = np.lexsort((numbers, events))
    number, event = numbers[order], events[order]
    opens = np.append(True, event[1:] != event[:-1])
    level = np.cumsum(opens | np.append(True, number[1:] != number[:-1]))
    places = np.empty(len(order))
    places[order] = level - np.maximum.accumulate(np.where(opens, level, 0)) + 1.0
    return np.where(np.isnan(numbers), 0.0, places)


def read_sides(competitor: Column, event: Any, team: Any, rank: Any, points: Any) -> RankedSides:
    """Read sides of events: each row is one, or all rows of a team; `None` for absent columns."""
    names, vocabulary = to_list(competitor), Vocabulary()
    events = vocabulary.encode(as_column(event, "event", len(names)), "event")
    rows = sides = np.arange(len(names))
    team_names = None
    if team is not None:
        teams = to_list(as_column(team, "team", len(names)))
        sides, names = _join_teams(events, names, teams)
        rows = np.unique(sides, return_index=True)[1]
        team_names = [None if is_missing(teams[row]) else plain(teams[row]) for row in rows]
    labels = vocabulary.names()
    ranked = RankedSides(
        names, events[rows], rows, sides, labels, team_names, None, rank is None, uneven={}
    )
    if rank is None and points is None:
        return ranked
    argument, column = ("points", points) if rank is None else ("rank", rank)
    numbers = _read_numbers(column, argument, len(sides))
    numbers = np.asarray(ranked.pick(numbers, argument))
    return ranked._replace(numbers=-numbers if rank is None else numbers)


def read_wide(columns: Sequence[Column]) -> RankedSides:
    """Read one event from each row, with competitors from the first place to the last."""
    places = [to_list(as_column(each, "competitor", len(columns[0]))) for each in columns]
    cells = []
    for row in zip(*places, strict=True):
        there = [not is_missing(name) for name in row]
        # Empty cells between names are kept, and refused as missing names.
        cells.append(row[: max(1, len(there) - there[::-1].index(True) if any(there) else 0)])
    sizes = list(map(len, cells))
    rows = np.repeat(np.arange(len(cells)), sizes)
    numbers = np.concatenate([np.arange(size) for size in sizes]) + 1.0
    names = [name for row in cells for name in row]
    return RankedSides(
        names, rows, rows, None, range(len(cells)), None, numbers, by_points=False, uneven={}
    )


def _read_numbers(column: Any, argument: str, num_rows: int) -> np.ndarray:
    """Read numbers; NaN for missing cells and words such as "DNF"."""
    column = as_column(column, argument, num_rows)
    try:
        return to_floats(column, argument, num_rows)
    except DataError:
        cells = to_list(column)
    numbers = np.full(num_rows, np.nan)
    for row, cell in enumerate(cells):
        text = "" if is_missing(cell) else str(cell).strip()
        if NUMBER.fullmatch(text):
            numbers[row] = float(text)
        elif text.casefold() not in _UNPLACED:
            raise DataError(
                "{argument} is {value}",
                "Write a number, or DNF (or nothing) for a side without a place.",
                argument=argument,
                row=row,
                value=cell,
            )
    return numbers


def _join_teams(events: np.ndarray, names: list, teams: list) -> tuple[np.ndarray, list[list]]:
    """Number the side of each row and list its names; a row without a team is a side."""
    keys = [
        (event, row if is_missing(team) else (team,))
        for row, (event, team) in enumerate(zip(events.tolist(), teams, strict=True))
    ]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    side = np.array([numbers[key] for key in keys])
    members: list[list] = [[] for _ in numbers]
    for row, (number, name) in enumerate(zip(side.tolist(), names, strict=True)):
        if cell_kind(type(name)) is not Hashable:
            raise invalid(
                "competitor",
                name,
                "but `team` joins the names of several rows",
                "Pass one of the two: lists of names, or a column of teams.",
                row=row,
            )
        members[number].append(name)
    return side, members


def _repeated(events: np.ndarray, names: list) -> list:
    """Find for each side a competitor that occurs earlier in the event; `None` if none does."""
    seen: set[tuple] = set()
    repeated = []
    for event, cell in zip(events.tolist(), names, strict=True):
        found = None
        for name in members_of(cell):
            key = (event, plain(name))
            if not is_missing(name):
                found = plain(name) if found is None and key in seen else found
                seen.add(key)
        repeated.append(found)
    return repeated


def _has_hole(events: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return whether the rank before this one is missing, and no tie explains it.

    After two sides of rank 2, the next rank may be 3 or 4.
    """
    order = np.lexsort((ranks, events))
    order = order[np.isfinite(ranks[order])]
    event, rank, place = events[order], ranks[order], np.arange(len(order))
    opens = np.append(True, event[1:] != event[:-1])[: len(order)]
    before = np.where(opens, 0.0, np.append(0.0, rank[:-1])[: len(order)])
    start = np.maximum.accumulate(np.where(opens, place, 0))
    right = (rank == before) | (rank == before + 1) | (rank == place - start + 1)
    hole = np.zeros(len(ranks), bool)
    hole[order] = ~right
    return hole
