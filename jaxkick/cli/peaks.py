"""The best of all time: everybody at the height of their score."""

from statistics import NormalDist
from typing import Any

import numpy as np

from jaxkick import Posterior
from jaxkick.competitors import choose_competitors
from jaxkick.ranking import as_scale

__all__ = ["best_peaks"]


def best_peaks(posterior: Posterior, scale: Any = None, interval: float = 0.9) -> dict[str, Any]:
    """Competitors by their highest score at any of their matches, the best first.

    Args:
        posterior: the fitted posterior, of competitors with one score each.
        scale: how ratings are shown, as in `Posterior.leaderboard`.
        interval: the probability of the intervals.

    Returns:
        Columns rank, name, rating, lower, upper, peak (when it was) and matches.
    """
    data, chosen = posterior.data, as_scale(scale)
    names = choose_competitors(data.index, None, None, None, 1, None).names
    means, variances = (
        np.concatenate([np.asarray(part).ravel() for part in parts])
        for parts in zip(*posterior.entries, strict=True)
    )
    places, times, matches = [], [], []
    for name in names:
        entries = data.entries(name)
        highest = int(np.argmax(means[entries.positions]))
        places.append(entries.positions[highest])
        times.append(entries.times[highest])
        matches.append(len(entries.times))
    order = np.argsort(-means[places], kind="stable")
    factor = 1.0 if chosen is None else chosen.factor(posterior.model.likelihood)
    centre = 0.0 if chosen is None else chosen.centre
    rating = centre + factor * means[places][order]
    deviation = factor * np.sqrt(variances[places][order])
    reach = NormalDist().inv_cdf(0.5 + 0.5 * interval) * deviation
    return {
        "rank": np.arange(1, len(order) + 1),
        "name": np.array([str(name) for name in names])[order],
        "rating": rating,
        "lower": rating - reach,
        "upper": rating + reach,
        "peak": data.index.scale.to_user(np.array(times))[order],
        "matches": np.array(matches)[order],
    }
