"""Two counts of one match: goals of either side, and all that follows from them."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxkick._typing import Array, Float
from jaxkick.outcomes import Distribution, outcome_chances, quantile
from jaxkick.prediction import Prediction, show_prediction
from jaxkick.tables import make_table

__all__ = ["CountsPrediction"]

_NODES = 20


class CountsPrediction(eqx.Module):
    """The counts of both sides of every match.

    Given the scores the two counts are independent. The scores are not quite: they share the
    features of all counts, such as the level.

    Attributes:
        first: the count of the first side.
        second: the count of the second side.
        covariance: posterior covariance of the two scores.
        library: the library of the user's tables, for `to_frame`.
    """

    first: Prediction
    second: Prediction
    covariance: Float[Array, "..."]
    library: str | None = eqx.field(default=None, static=True)

    def grid(self, largest: int | None = None) -> Float[Array, "... G G"]:
        """The joint probability of all pairs of counts.

        Args:
            largest: the largest count; if `None` one that is hardly ever exceeded.

        Returns:
            Probabilities with the first side's count along the rows and the second side's
            along the columns, both from zero.
        """
        top = self._largest() if largest is None else largest
        counts = jnp.arange(top + 1, dtype=self.first.mean.dtype)
        along, across = self._shared()
        return _join(self.first, self.second, along, across, counts)

    @property
    def result(self) -> Float[Array, "... 3"]:
        """The probabilities that the first side loses, ties and wins."""
        grid = self.grid()
        order = np.sign(np.subtract.outer(*[np.arange(grid.shape[-1])] * 2))
        total = jnp.sum(grid, axis=(-2, -1))
        parts = [jnp.sum(jnp.where(order == sign, grid, 0.0), axis=(-2, -1)) for sign in (-1, 0, 1)]
        return jnp.stack(parts, axis=-1) / total[..., None]

    def difference(self) -> Distribution:
        """The distribution of the first side's count less the second's."""
        grid = self.grid()
        top = grid.shape[-1] - 1
        sums = [jnp.trace(grid, -shift, axis1=-2, axis2=-1) for shift in range(-top, top + 1)]
        return Distribution(np.arange(-top, top + 1.0), jnp.stack(sums, axis=-1))

    def columns(self) -> dict[str, np.ndarray]:
        """What there is to say of every match, by column."""
        loss, tie, win = jnp.moveaxis(self.result, -1, 0)
        columns = {
            "first_expected": self.first.outcome_mean,
            "second_expected": self.second.outcome_mean,
            "first_wins": win,
            "tie": tie,
            "second_wins": loss,
        }
        return {name: np.atleast_1d(np.asarray(column)) for name, column in columns.items()}

    def to_frame(self, library: str | None = None) -> Any:
        """The predictions as a table, one row for each match.

        Args:
            library: `"pandas"`, `"polars"` or `"pyarrow"`; that of the data if `None`.
        """
        return make_table(self.columns(), library or self.library)

    def __repr__(self) -> str:
        return show_prediction(self, self.first.mean)

    def _largest(self) -> int:
        wanted = jnp.asarray(1.0 - 1e-6, self.first.mean.dtype)
        tops = [
            jnp.max(quantile(side.likelihood, wanted, side.mean, side.variance), initial=0.0)
            for side in (self.first, self.second)
        ]
        return int(max(tops)) + 1

    def _shared(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """How far both scores follow a common standard normal number."""
        known = (self.first.variance == 0) | (self.second.variance == 0)
        ratio = jnp.sqrt(self.first.variance / jnp.where(known, 1.0, self.second.variance))
        ratio = jnp.where(known, 1.0, ratio)
        size = jnp.abs(self.covariance)
        along = jnp.sqrt(jnp.minimum(size * ratio, self.first.variance))
        across = jnp.sqrt(jnp.minimum(size / ratio, self.second.variance))
        return along, jnp.sign(self.covariance) * across


def _join(
    first: Prediction,
    second: Prediction,
    along: Float[Array, "..."],
    across: Float[Array, "..."],
    counts: Float[Array, " G"],
) -> Float[Array, "... G G"]:
    """Joint probabilities: independent given what both scores share, which is integrated out."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    places = jnp.asarray(nodes, counts.dtype)
    shares = jnp.asarray(weights / weights.sum(), counts.dtype)
    slopes = jnp.stack([along, across])[..., None]
    mean = jnp.stack([first.mean, second.mean])[..., None] + slopes * places
    variance = jnp.stack([first.variance, second.variance])[..., None] - slopes**2
    variance = jnp.broadcast_to(jnp.maximum(variance, 0.0), mean.shape)
    own, other = outcome_chances(first.likelihood, counts, mean, variance)
    return jnp.einsum("j,...ja,...jb->...ab", shares, own, other)
