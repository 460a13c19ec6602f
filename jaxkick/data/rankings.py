"""Rankings from tables: one row for each side of an event, or one row for each event."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxkick.data.columns import NUMBER, as_column, is_missing, to_floats, to_list
from jaxkick.data.schema import POINTS
from jaxkick.data.sides import Vocabulary
from jaxkick.errors import Checks, DataError, plain

__all__ = ["RankedSides", "read_sides", "read_wide"]

_UNPLACED = {
    "", "-", "\\n", "dnf", "dns", "dnq", "dsq", "dq", "nc", "ret", "r", "d", "w", "wd", "e", "f",
    "n", "cut", "mc", "abandoned", "disqualified", "retired", "withdrawn", "unranked",
}  # fmt: skip


class RankedSides(NamedTuple):
    """The sides of all events.

    Attributes:
        names: a name, or a list of names, for each side.
        events: the number of each side's event.
        rows: the row of the table that each side starts at.
        sides: the side of each row of the table.
        labels: the name of each event.
        numbers: the rank of each side, or minus its points; NaN where there is none, and `None`
            for events of the future.
        by_points: whether numbers are points, of which any are possible.
    """

    names: list
    events: np.ndarray
    rows: np.ndarray
    sides: np.ndarray
    labels: Sequence[Hashable]
    numbers: np.ndarray | None
    by_points: bool

    def places(self) -> np.ndarray:
        """The place of each side: 1 for the best, equal for ties, 0 where it has none."""
        order = np.lexsort((self.numbers, self.events))
        numbers, event = self.numbers[order], self.events[order]
        opens = np.append(True, event[1:] != event[:-1])
        level = np.cumsum(opens | np.append(True, numbers[1:] != numbers[:-1]))
        places = np.empty(len(order))
        places[order] = level - np.maximum.accumulate(np.where(opens, level, 0)) + 1.0
        return np.where(np.isnan(self.numbers), 0.0, places)

    def check(self, checks: Checks) -> None:
        """Refuse sides that stand in an event twice or alone, and impossible ranks."""
        self._refuse(
            checks,
            _is_repeated(self.events, self.names),
            "{value} is in the event {label} twice",
            "Keep one row for each competitor of an event",
            "competitor",
            np.fromiter(self.names, object, len(self.names)),
        )
        sizes = np.bincount(self.events, minlength=len(self.labels))
        alone = sizes[self.events] < 2
        self._refuse(checks, alone, "the event {label} has one side only", "Leave it out", "event")
        if self.numbers is None:
            return
        known = np.isfinite(self.numbers)
        if not self.by_points:
            wrong = known & ((self.numbers < 1) | (self.numbers != np.round(self.numbers)))
            problem = "{argument} is {value}, but ranks are 1, 2, 3, …"
            remedy = f"Pass numbers of which the larger are better as {{{POINTS}}}"
            self._refuse(checks, wrong, problem, remedy, "rank", self.numbers)
            self._refuse(
                checks,
                _has_hole(self.events, self.numbers) & ~wrong,
                "{argument} is {value} in the event {label}, but nobody has the rank before",
                "Add the missing row; or, if only the order counts, pass numbers of which the "
                f"larger are better as {{{POINTS}}}",
                "rank",
                self.numbers,
            )
        placed = np.bincount(self.events, known, len(self.labels))
        empty = placed[self.events] == 0
        problem = "no side of the event {label} has a place"
        self._refuse(checks, empty, problem, "Leave it out", "event")

    def _refuse(
        self,
        checks: Checks,
        bad: np.ndarray,
        problem: str,
        remedy: str,
        argument: str,
        values: np.ndarray | None = None,
    ) -> None:
        if bad.any():
            label = self.labels[self.events[int(np.argmax(bad))]]
            shown = problem.replace("{label}", repr(label))
            checks.refuse(bad, shown, remedy, argument, values, mentions=(POINTS,))


def read_sides(
    competitor: Any, event: Any, team: Any, rank: Any, points: Any, num_rows: int
) -> RankedSides:
    """Read one side of an event for each row, or for each team.

    Args:
        competitor: the name of the competitor in each row, or the names of a side.
        event: the event of each row.
        team: the team of each row, whose members are one side; or `None`.
        rank: the rank of each row, or `None`.
        points: the points of each row, or `None`.
        num_rows: the number of rows.

    Raises:
        DataError: if an event is missing, or a number cannot be read.
    """
    names, vocabulary = to_list(as_column(competitor, "competitor")), Vocabulary()
    events = vocabulary.encode(as_column(event, "event"), "event")
    missing = vocabulary.missing()[events]
    if missing.any():
        remedy = "Name the event of every row."
        row = int(np.argmax(missing))
        raise DataError("{argument} is missing", remedy, argument="event", row=row)
    numbers = None
    if rank is not None:
        numbers = _read_numbers(rank, "rank", num_rows)
    elif points is not None:
        numbers = -_read_numbers(points, "points", num_rows)
    rows = side = np.arange(num_rows)
    if team is not None:
        side, names = _join_teams(events, names, to_list(as_column(team, "team")))
        rows = np.unique(side, return_index=True)[1]
        if numbers is not None:
            _refuse_different(numbers, numbers[rows][side], "points" if rank is None else "rank")
            numbers = numbers[rows]
        events = events[rows]
    return RankedSides(names, events, rows, side, vocabulary.names(), numbers, rank is None)


def read_wide(columns: Sequence[Any]) -> RankedSides:
    """Read one event from each row, with its competitors from the first place to the last."""
    table = list(zip(*(to_list(as_column(part, "competitor")) for part in columns), strict=True))
    cells = [[name for name in row if not is_missing(name)] for row in table]
    sizes = list(map(len, cells))
    rows = np.repeat(np.arange(len(cells)), sizes)
    numbers = np.concatenate([np.arange(size) for size in sizes]) + 1.0
    names = [name for row in cells for name in row]
    labels = [f"in row {row}" for row in range(len(cells))]
    return RankedSides(names, rows, rows, rows, labels, numbers, by_points=False)


def _read_numbers(column: Any, argument: str, num_rows: int) -> np.ndarray:
    """Numbers; NaN for missing cells and words such as "DNF"."""
    try:
        return to_floats(column, argument, num_rows)
    except DataError:
        cells = to_list(as_column(column, argument))
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
    """The side of each row, and the names of each side; a row without a team is a side."""
    keys = [
        (event, row if is_missing(team) else (team,))
        for row, (event, team) in enumerate(zip(events.tolist(), teams, strict=True))
    ]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    side = np.array([numbers[key] for key in keys])
    members: list[list] = [[] for _ in numbers]
    for number, name in zip(side.tolist(), names, strict=True):
        members[number].append(name)
    return side, members


def _refuse_different(numbers: np.ndarray, first: np.ndarray, argument: str) -> None:
    bad = ~((numbers == first) | (np.isnan(numbers) & np.isnan(first)))
    if bad.any():
        raise DataError(
            "{argument} differs between the members of a team",
            "Give all members of a team the same.",
            argument=argument,
            row=int(np.argmax(bad)),
            count=int(bad.sum()),
        )


def _is_repeated(events: np.ndarray, names: list) -> np.ndarray:
    """Whether a side has a competitor who was in the event before."""
    seen: set[tuple] = set()
    repeated = np.zeros(len(names), bool)
    for side, (event, cell) in enumerate(zip(events.tolist(), names, strict=True)):
        members = cell if isinstance(cell, (list, tuple, dict, set)) else [cell]
        keys = [(event, plain(name)) for name in members if not is_missing(name)]
        repeated[side] = len(set(keys)) < len(keys) or not seen.isdisjoint(keys)
        seen.update(keys)
    return repeated


def _has_hole(events: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Whether a rank comes after one that nobody has, which no tie explains.

    After a tie of two for rank 2 comes rank 3 or rank 4.
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
