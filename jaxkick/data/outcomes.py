"""Read outcomes from numbers, booleans, words, names of winners, or the points of both sides."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxkick.data.columns import (
    as_column,
    holds_texts,
    is_boolean,
    is_missing,
    plain_value,
    to_floats,
    to_list,
)
from jaxkick.data.schema import OUTCOMES, WINNER, WORDS, Meaning
from jaxkick.data.sides import Lineup, match_sides
from jaxkick.errors import Checks, DataError, invalid

_WINS = ("win", "w", "won", "h", "home", "first", "true", "1-0")
_TIES = ("draw", "d", "drawn", "t", "tie", "tied", "1/2-1/2", "½-½", "0.5-0.5")
_LOSSES = ("loss", "l", "lose", "lost", "a", "away", "second", "false", "0-1")
_RESULTS = {
    **dict.fromkeys(_WINS, 1.0),
    **dict.fromkeys(_TIES, 0.0),
    **dict.fromkeys(_LOSSES, -1.0),
}
_TIE_WORDS = {word: _RESULTS[word] for word in _TIES}
_SAMPLE = 100


class Points(NamedTuple):
    """The points of both sides, and their reading: `"result"`, `"difference"` or `"counts"`."""

    reading: str
    first: np.ndarray
    second: np.ndarray


def read_points(points: Points, checks: Checks) -> np.ndarray:
    """Read points as outcomes: one for each match, or for counts two in a row.

    Negative points often mark a match that was not played. Halves occur in chess; differences
    may also be of times or distances.
    """
    reading, *sides = points
    step = {"result": 0.5, "counts": 1.0}.get(reading)
    kind = {"result": "whole or half numbers", "counts": "whole numbers"}.get(reading)
    both = np.stack(sides, axis=1)

    def refuse(bad: np.ndarray, problem: str, remedy: str) -> None:
        values = both[np.arange(len(both)), bad.argmax(axis=1)]
        bad_rows = bad.any(axis=1)
        if reading == "counts":
            # Two counts are two observations, and one of them may be missing.
            bad_rows, values = bad.ravel(), both.ravel()
        checks.refuse(bad_rows, f"{{argument}} {problem}", remedy, reading, values)

    refuse(~np.isfinite(both), "is missing or infinite", "Give the points of both sides")
    both = np.where(np.isfinite(both), both, np.nan)
    remedy = "Correct the points, give other measures as a column of outcomes"
    refuse(both < 0, "is {value}, but points must not be negative", remedy)
    if step is not None:
        refuse(np.mod(both, step) > 0, f"is {{value}}, but points must be {kind}", remedy)
    if reading == "counts":
        return both.ravel()
    difference = both[:, 0] - both[:, 1]
    return np.sign(difference) if reading == "result" else difference


def read_outcomes(
    outcome: Any, meaning: Meaning, sides: Sequence[Any], num_rows: int
) -> tuple[np.ndarray, Meaning]:
    """Read a column of outcomes, or one for all; NaN where missing.

    Returns:
        The outcomes, and their given or detected meaning.
    """
    given = 1.0 if outcome is None else outcome
    if np.isscalar(given):
        outcomes = to_floats(given, "outcome", num_rows)
        return (2.0 * outcomes - 1.0 if is_boolean(given) else outcomes), meaning
    column = as_column(given, "outcome", num_rows)
    if meaning is None and holds_texts(column, mixed=True):
        signs = match_sides(to_list(column), *sides) if sides else None
        meaning = WORDS if signs is None or not signs.any() else WINNER
    if meaning is None:
        outcomes = to_floats(column, "outcome", num_rows)
        if is_boolean(column):
            return 2.0 * outcomes - 1.0, None
        if not sides or not _are_winners(outcomes, sides):
            return outcomes, None
        meaning = WINNER
    cells = to_list(column)
    if meaning == WINNER:
        return _translate_winners(cells, sides), meaning
    if meaning == WORDS:
        remedy = (
            "Write win, draw and loss (or H, D and A), or the name of the winner, or define the "
            f"values with {{{OUTCOMES}}}."
        )
        return _translate(cells, lambda cell: _RESULTS[cell.casefold()], remedy), meaning
    known = {plain_value(key): np.nan if x is None else x for key, x in meaning}
    remedy = f"Define all values, as in {{{OUTCOMES}}}."
    return _translate(cells, lambda cell: known[plain_value(cell)], remedy), meaning


def write_outcomes(outcome: np.ndarray, meaning: Meaning, sides: Sequence[list]) -> Any:
    """Write outcomes as values with this meaning; the inverse of `read_outcomes`."""
    if meaning is None:
        return outcome
    if isinstance(meaning, tuple):
        values = {number: key for key, number in reversed(meaning) if number is not None}
    else:
        values = {1.0: _WINS[0], 0.0: _TIES[0], -1.0: _LOSSES[0]}
    cells = [values.get(number, number) for number in outcome.tolist()]
    if meaning == WINNER:
        pairs = zip(outcome.tolist(), cells, *sides, strict=True)
        cells = [cell if y == 0 else one if y > 0 else other for y, cell, one, other in pairs]
    return np.array(cells, object) if len(set(map(type, cells))) > 1 else np.array(cells)


def _are_winners(numbers: np.ndarray, sides: Sequence[Any]) -> bool:
    """Return whether all numbers, not only 1, 0 and -1, are names of a side of their match."""
    if any(isinstance(side, Lineup) for side in sides):
        return False
    for size in (_SAMPLE, len(numbers)):
        part, *names = numbers[:size], *(as_column(side, "first")[:size] for side in sides)
        there = np.isfinite(part)
        if np.isin(part[there], (-1.0, 0.0, 1.0)).all():
            return False
        signs = match_sides(part.tolist(), *names)
        if signs is None or not signs[there].all():
            return False
    return True


def _translate_winners(cells: list, sides: Sequence[Any]) -> np.ndarray:
    signs = match_sides(cells, *sides) if sides else None
    if signs is None:
        problem = "{argument} holds names of winners, but the sides are not names"
        raise DataError(problem, "Write win, draw and loss.", argument="outcome")
    named = np.flatnonzero(signs)
    ties = [cell if not sign else None for cell, sign in zip(cells, signs, strict=True)]
    remedy = "Write the name of the winner, or draw."
    outcomes = _translate(ties, lambda cell: _TIE_WORDS[cell.casefold()], remedy)
    outcomes[named] = signs[named]
    return outcomes


def _translate(cells: list, number: Callable[[Any], float], remedy: str) -> np.ndarray:
    """Translate each distinct cell once; refuse cells for which `number` fails."""
    known: dict[Any, float] = {}
    for row, cell in enumerate(cells):
        if cell in known:
            continue
        try:
            known[cell] = np.nan if is_missing(cell) else number(cell)
        except (KeyError, AttributeError):
            raise invalid(
                "outcome", cell, "which is not an outcome", remedy, row=row, mentions=[OUTCOMES]
            ) from None
    return np.array([known[cell] for cell in cells], np.float64)
