"""The kernels that `discover` searches: base kernels, their sums, and products with seasons.

A kernel is a sum of terms. Its neighbours add, remove or replace one term, or remove one aspect of
competitors, and keep the values of the others. The normal form of a kernel is the sorted list of
its terms' classes, so that no structure is tried twice.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxkick.data.columns import UNITS
from jaxkick.data.dataset import Dataset
from jaxkick.kernels import (
    AbstractKernel,
    Aspects,
    Constant,
    Cosine,
    Instant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    PiecewiseConstant,
    Product,
    Sum,
    Wiener,
)
from jaxkick.parameters import Fixed
from jaxkick.posterior.components import terms_of

__all__ = [
    "ASPECTS",
    "NOTHING",
    "WORDS",
    "Form",
    "Setting",
    "find_seasons",
    "neighbours",
    "normal_form",
    "prior_variance",
]

Form = tuple[str, ...]
"""The normal form of a kernel."""

WORDS = {
    "Constant": "a constant level",
    "Matern12": "rough fluctuations",
    "Matern32": "fluctuations",
    "Matern52": "smooth fluctuations",
    "Wiener": "a random walk",
    "PiecewiseConstant": "a new level each season",
    "Linear": "a linear trend",
    "Cosine": "a cycle",
    "Cosine*Matern12": "a fading cycle",
    "Matern12*PiecewiseConstant": "rough fluctuations that begin anew each season",
    "Matern32*PiecewiseConstant": "fluctuations that begin anew each season",
}
"""The terms of the grammar in words, the most common ones first, which are tried first."""

# Terms that only replace related ones.
_REPLACING = ("Matern52", "Cosine*Matern12", "Matern32*PiecewiseConstant")
_ADDED = tuple(name for name in WORDS if name not in _REPLACING)
NOTHING = "nothing"
"""The term of a shared feature that has no effect."""
ASPECTS = "aspects "
"""The term of competitors' aspects, before their names."""
_NO_VARIANCE = 1e-8
_MATERN = (Matern12, Matern32, Matern52)
# Classes that are closed under sums, so one term of each is enough.
_CLOSED = {"Constant", "Wiener", "PiecewiseConstant", "Linear"}
_MAX_TERMS = 4
# A new term starts with this share of the prior variance of the whole kernel.
_SHARE = 0.3
# A second term of one class begins on a shorter timescale.
_SHORTER = 0.1
# The evidence has many maxima in the period, about one for each whole number of periods in a span.
_PERIODS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0)
_BINS = 73
# Seasons end in the longest part of the year with at most this share of the matches, if that part
# has at least so many bins (of five days).
_FEW_MATCHES, _FEWEST_BINS = 0.005, 4
# Seasons are continued for so many years after the data.
_AHEAD = 10
_SAMPLE = 256


class Setting(NamedTuple):
    """Times of a group of features.

    Attributes:
        times: times of a sample of its entries, in the data's unit.
        first: the first time of the feature of each.
        span: the time over which a typical feature is observed.
        year: a year in the data's unit; `None` if that is unknown or too long for the data.
        seasons: the ends of seasons.
        shared: whether the group has a single feature, such as the home advantage.
    """

    times: np.ndarray
    first: np.ndarray
    span: float
    year: float | None
    seasons: tuple[float, ...]
    shared: bool

    @staticmethod
    def of(data: Dataset, group: str, seasons: tuple[float, ...]) -> "Setting":
        """Read the times of a group."""
        index = data.index
        mine = np.append(index.feature_group, -1)[index.features] == index.groups.index(group)
        features = index.features[mine]
        times = np.broadcast_to(index.times[:, None], mine.shape)[mine]
        first, last = np.full((2, len(index.names)), [[np.inf], [-np.inf]])
        np.minimum.at(first, features, times)
        np.maximum.at(last, features, times)
        span = float(np.mean((last - first)[features])) if len(features) else 0.0
        chosen = np.linspace(0, len(times) - 1, min(_SAMPLE, len(times))).astype(int)
        year = _year(data)
        year = year if year is not None and 2 * year < span else None
        own = tuple(each for each in seasons if times.min() < each)
        own = own if own and own[0] <= times.max() else ()
        shared = int(np.sum(index.feature_group == index.groups.index(group))) == 1
        return Setting(times[chosen], first[features[chosen]], span, year, own, shared)


def _year(data: Dataset) -> float | None:
    unit = data.index.unit
    return UNITS["year"] / UNITS[unit] if unit in UNITS else None


def find_seasons(data: Dataset) -> tuple[float, ...]:
    """Find the ends of seasons: the middle of the part of each year with hardly any match.

    Seasons go on for some years after the data, so that forecasts expect new levels. The result is
    empty if there is no such part, or the data has no unit of time.
    """
    year, times = _year(data), data.index.times
    if year is None or np.ptp(times) < 2 * year:
        return ()
    phase = np.mod(times / year, 1.0)
    counts, _ = np.histogram(phase, _BINS, (0.0, 1.0))
    longest, begin = 0, 0
    for start in range(_BINS):
        among = np.cumsum(np.roll(counts, -start))
        length = int(np.searchsorted(among, _FEW_MATCHES * len(times), side="right"))
        if length > longest:
            longest, begin = length, start
    if not _FEWEST_BINS <= longest < _BINS:
        return ()
    middle = (begin + 0.5 * longest) / _BINS
    years = np.arange(np.floor(times.min() / year) - 1, np.ceil(times.max() / year) + _AHEAD)
    ends = (years + middle) * year
    return tuple(float(each) for each in ends if times.min() < each)


def prior_variance(kernel: AbstractKernel, setting: Setting) -> float:
    """The mean prior variance of scores at the times of a group's matches."""

    def at(time: jax.Array, first: jax.Array) -> jax.Array:
        instant = Instant.at(time, first)
        return jnp.asarray(kernel.covariance(instant, instant))

    return float(jnp.mean(jax.vmap(at)(jnp.asarray(setting.times), jnp.asarray(setting.first))))


def normal_form(kernel: AbstractKernel) -> Form:
    """The sorted classes of a kernel's terms; the same for kernels of the same structure."""
    return tuple(sorted(map(_signature, terms_of(kernel))))


def _signature(term: AbstractKernel) -> str:
    if isinstance(term, Product):
        return "*".join(sorted(map(_signature, term.factors)))
    if isinstance(term, Cosine) and term.lengthscale is not None:
        return "Cosine*Matern12"
    if isinstance(term, Constant) and isinstance(term.variance, Fixed):
        return NOTHING
    if isinstance(term, Aspects):
        return ASPECTS + ", ".join(term.names)
    return type(term).__name__


def add_up(terms: list[AbstractKernel]) -> AbstractKernel:
    """The sum of terms in a fixed order, so that one program serves a structure."""
    ordered = sorted(terms, key=_signature)
    return ordered[0] if len(ordered) == 1 else Sum(*ordered)


def neighbours(
    kernel: AbstractKernel, setting: Setting
) -> Iterator[tuple[Form, list[AbstractKernel]]]:
    """Yield neighbouring structures, each with the kernels to start learning from.

    Additions come first, then removals, then replacements. Aspects are only removed, and terms
    outside the grammar stay.
    """
    terms = list(terms_of(kernel))
    found: dict[Form, list[AbstractKernel]] = {}

    def propose(kernels: list[list[AbstractKernel]]) -> None:
        for each in kernels:
            known = [_signature(term) for term in each if _signature(term) in _CLOSED]
            if len(known) == len(set(known)) and len(each) <= _MAX_TERMS:
                total = add_up(each)
                found.setdefault(normal_form(total), []).append(total)

    variance = _SHARE * prior_variance(kernel, setting)
    for name in _ADDED:
        propose([[*terms, new] for new in _start(name, variance, setting, terms)])
    for place, term in enumerate(terms):
        others = terms[:place] + terms[place + 1 :]
        if isinstance(term, Aspects) and others:
            propose([[*others, *fewer] for fewer in _fewer_aspects(term)])
        if _signature(term) not in WORDS:
            continue
        if others:
            propose([others])
        for other in _replacements(term, setting):
            propose([[*others, other]])
    if setting.shared and normal_form(kernel) != (NOTHING,):
        propose([[Constant(Fixed(_NO_VARIANCE))]])
    found.pop(normal_form(kernel), None)
    yield from found.items()


def _start(
    name: str, variance: float, setting: Setting, terms: list[AbstractKernel]
) -> list[AbstractKernel]:
    """Starting kernels of a new term; none if the data does not allow it."""
    span, classes = setting.span, {each.__name__: each for each in _MATERN}
    if name == "Constant":
        return [Constant(variance)]
    if span <= 0:
        return []
    same: list = [term for term in terms if _signature(term) == name]
    if name in classes:
        usual = float(classes[name].from_scale(variance, span).lengthscale)
        length = min([usual, *(_SHORTER * float(each.lengthscale) for each in same)])
        return [classes[name](variance, length)] if len(same) < 2 else []
    if name in ("Wiener", "Linear"):
        return [{"Wiener": Wiener, "Linear": Linear}[name].from_scale(variance, span)]
    if name == "Cosine":
        periods = [span / count for count in _PERIODS] + ([setting.year] if setting.year else [])
        return [] if same else [Cosine(variance, period) for period in periods]
    if not setting.seasons:
        return []
    if name == "PiecewiseConstant":
        return [PiecewiseConstant(variance, setting.seasons)]
    matern = classes[name.partition("*")[0]]
    return [] if same else [_by_season(matern.from_scale(variance, span), setting)]


def _fewer_aspects(term: Aspects) -> Iterator[list[AbstractKernel]]:
    """No aspects, and all but one of them."""
    yield []
    named = dict(zip(term.names, term.kernels, strict=True))
    for name in term.aspects if len(named) > 1 else ():
        yield [Aspects(**{other: kernel for other, kernel in named.items() if other != name})]


def _by_season(term: AbstractKernel, setting: Setting) -> AbstractKernel:
    return Product(PiecewiseConstant(Fixed(1.0), setting.seasons), term)


def _replacements(term: AbstractKernel, setting: Setting) -> list[AbstractKernel]:
    """Related terms of about the same size and timescale, among them simpler ones that are limits.

    Without these a search may end with a lengthscale beyond all bounds in place of a constant.
    """
    if isinstance(term, _MATERN):
        variance, length = float(term.variance), float(term.lengthscale)
        order = term.smoothness
        found: list[AbstractKernel] = [
            each(variance, length) for each in _MATERN if abs(each.smoothness - order) == 1
        ]
        found += [Wiener(variance / length), Constant(variance)]
        if setting.seasons and not isinstance(term, Matern52):
            found.append(_by_season(term, setting))
        return found
    size = prior_variance(term, setting)
    if isinstance(term, Cosine):
        fades = () if term.lengthscale is not None else (setting.span,)
        return [Cosine(float(term.variance), float(term.period), *fades)]
    if isinstance(term, Wiener | Linear):
        return [each.from_scale(size, setting.span) for each in (*_MATERN[:2], Wiener, Linear)]
    if isinstance(term, Constant) and setting.seasons:
        return [PiecewiseConstant(size, setting.seasons)]
    if isinstance(term, PiecewiseConstant):
        return [Constant(size)]
    if isinstance(term, Product):
        return [factor for factor in term.factors if isinstance(factor, _MATERN)]
    return []
