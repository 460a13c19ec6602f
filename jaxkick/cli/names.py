"""Names that somebody may have meant."""

import difflib
from collections.abc import Iterable

__all__ = ["nearest", "suggest"]

_SHOWN = 3
_MANY = 12


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three known names that are close to a name, the closest first.

    A name that holds the other, whatever its case, counts as close: "bayern" is near
    "FC Bayern München".

    Args:
        name: what was asked for.
        known: what there is.
    """
    folded = {each.casefold(): each for each in known}
    wanted = name.casefold()
    close = difflib.get_close_matches(wanted, folded, n=_SHOWN)
    within = [each for each in folded if wanted and (wanted in each or (each and each in wanted))]
    within.sort(key=lambda each: abs(len(each) - len(wanted)))
    return [folded[each] for each in dict.fromkeys([*close, *within])][:_SHOWN]


def suggest(name: str, known: Iterable[str], what: str) -> str:
    """The end of an error: what may have been meant, or else what there is.

    Args:
        name: what was asked for.
        known: what there is.
        what: what known names are called, in the plural.
    """
    known = list(known)
    close = nearest(name, known)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    more = f" and {len(known) - _MANY:,} more" if len(known) > _MANY else ""
    return f"the {what} are {', '.join(map(repr, known[:_MANY]))}{more}."
