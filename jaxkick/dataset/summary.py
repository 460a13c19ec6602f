"""What a data set says of itself: enough to see that it was understood."""

from collections.abc import Sequence

import jax
import numpy as np

from jaxkick._tracing import is_known
from jaxkick.dataset.index import Index
from jaxkick.dataset.times import look_like_dates
from jaxkick.statespace.chain import Chain

__all__ = ["summarise"]

_FEW = 10
_SAMPLE = 100_000


def summarise(index: Index, chains: Sequence[Chain], outcome: object, weight: object) -> str:
    """A few lines of text: sizes, time span, groups, outcomes and chains.

    Args:
        index: the data's index.
        chains: the chains.
        outcome: the outcomes, if they are known values.
        weight: the weights, if there are any.
    """
    lines = [
        f"Dataset of {_plural(len(index.times), 'observation')} and "
        f"{_plural(len(index.names), 'feature')}",
        *([] if index.recipe is None else [f"  read     {index.recipe.describe()}"]),
        f"  time     {_describe_times(index)}",
        *(f"  group    {_describe_group(index, number)}" for number in range(len(chains))),
        f"  outcome  {_describe_values(outcome, signed=True)}",
    ]
    if weight is not None:
        lines.append(f"  weight   {_describe_values(weight, signed=False)}")
    return "\n".join(lines)


def _describe_times(index: Index) -> str:
    span = np.array([index.times.min(), index.times.max()])
    unit = f", in {index.unit}s" if index.unit else ""
    if not index.scale.dates:
        likely = ", numbers that look like dates" if look_like_dates(index.times) else ""
        return f"{span[0]:.10g} to {span[1]:.10g}{unit}{likely}"
    first, last = (str(time).removesuffix("T00:00:00.000") for time in index.scale.to_user(span))
    return f"{first} to {last}{unit}"


def _describe_group(index: Index, number: int) -> str:
    counts = index.counts[(index.feature_group == number) & (index.counts > 0)]
    steps, rows = index.shapes[number]
    entries = int(counts.sum())
    once = int((counts == 1).sum())
    padding = 100.0 * (1.0 - entries / (steps * rows))
    return (
        f"{index.groups[number]!r}: {_plural(len(counts), 'feature')} ({once:,} seen once), "
        f"{_plural(entries, 'entry', 'entries')} in {_plural(rows, 'row')} of "
        f"{_plural(steps, 'step')} ({padding:.1f} % padding)"
    )


def _describe_values(values: object, signed: bool) -> str:
    """The different values and how often each is there, or their range if they are many."""
    if not isinstance(values, (np.ndarray, jax.Array)) or not is_known(values):
        return "not known here"
    known = np.asarray(values)
    # A sample tells at once that there are many different values.
    if known.size and len(np.unique(known[:_SAMPLE])) <= _FEW:
        distinct, counts = np.unique(known, return_counts=True)
        if len(distinct) <= _FEW:
            results = distinct[0] < 0 or distinct[-1] == 1
            sign = "+" if signed and results else ""
            pairs = zip(distinct[::-1], counts[::-1], strict=True)
            return ", ".join(f"{_show(value, sign)} ({count:,})" for value, count in pairs)
    return f"{known.min():.6g} to {known.max():.6g}, mean {known.mean(dtype=np.float64):.6g}"


def _show(value: float, sign: str) -> str:
    return f"{value:{sign}g}" if value else "0"


def _plural(number: int, word: str, words: str | None = None) -> str:
    return f"{number:,} {word if number == 1 else words or word + 's'}"
