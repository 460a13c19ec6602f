"""Predictions: the distribution of a match's outcome, or of both sides' counts."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import ArrayLike

from jaxkick._typing import Array, Float
from jaxkick._xla import call_compiled, call_padded, is_known, on_host
from jaxkick.data.tables import AbstractTable, make_table
from jaxkick.errors import DataError, invalid
from jaxkick.likelihoods import AbstractLikelihood, Distribution

__all__ = ["AbstractPrediction", "CountsPrediction", "Prediction", "RankPrediction"]

_NODES = 20
_TAIL = 1e-6


class AbstractPrediction(AbstractTable, eqx.Module):
    """The predicted outcome of one match or of many; a table with one row for each match."""

    library: eqx.AbstractVar[str | None]

    @property
    def p_win(self) -> Float[Array, "..."]:
        """The probability that the first side wins; a scalar for one match."""
        return on_host(lambda x: x[..., 2], self.results)

    @property
    def p_tie(self) -> Float[Array, "..."]:
        """The probability of a tie; zero under a likelihood without ties."""
        return on_host(lambda x: x[..., 1], self.results)

    @property
    def p_loss(self) -> Float[Array, "..."]:
        """The probability that the first side loses."""
        return on_host(lambda x: x[..., 0], self.results)

    @property
    @abc.abstractmethod
    def results(self) -> Float[Array, "... 3"]:
        """The probabilities of loss, tie and win of the first side, along the last axis."""

    @abc.abstractmethod
    def _columns(self) -> dict[str, ArrayLike]:
        """Collect the arrays of the table by name."""

    def columns(self) -> dict[str, np.ndarray]:
        return {name: np.atleast_1d(np.asarray(part)) for name, part in self._columns().items()}

    def __repr__(self) -> str:
        title, mean = type(self).__name__, jax.tree.leaves(self)[0]
        if not is_known(mean):
            return f"{title} of shape {mean.shape}"
        matches = "1 match" if mean.size == 1 else f"{mean.size:,} matches"
        return self._show(f"{title} of {matches}")


class Prediction(AbstractPrediction):
    """The combined score f of each match, and the distribution of its outcome.

    Attributes:
        mean: posterior mean of f; a scalar for one match.
        variance: posterior variance of f.
        likelihood: the likelihood of an outcome given f.
        library: the library of the user's tables, for `to_frame`.
    """

    mean: Float[Array, "..."]
    variance: Float[Array, "..."]
    likelihood: AbstractLikelihood
    library: str | None = eqx.field(default=None, static=True)

    @property
    def probabilities(self) -> Float[Array, "... L"]:
        """The probability of each outcome, in the order of `likelihood.levels`."""
        return call_padded(self.likelihood.probabilities, self.mean, self.variance)

    def log_prob(self, outcome: ArrayLike) -> Float[Array, "..."]:
        """Return the log probability (or log density) of an outcome of each match.

        Raises:
            DataError: if an outcome is not valid for the likelihood.
        """
        self._check(outcome, "outcome")
        library = np if is_known(outcome) else jnp
        outcome = library.broadcast_to(library.asarray(outcome, self.mean.dtype), self.mean.shape)
        method = self.likelihood.predictive_log_prob
        return call_padded(method, outcome, self.mean, self.variance)

    @property
    def outcome_mean(self) -> Float[Array, "..."]:
        """The expected outcome, if outcomes are numbers; NaN if it does not exist."""
        return call_padded(self.likelihood.predictive_mean, self.mean, self.variance)

    @property
    def outcome_variance(self) -> Float[Array, "..."]:
        """The variance of the outcome, if outcomes are numbers; NaN if it does not exist."""
        return call_padded(self.likelihood.predictive_variance, self.mean, self.variance)

    def outcome_quantile(self, probability: ArrayLike) -> Float[Array, "..."]:
        """Return a quantile of the outcome, if outcomes are numbers.

        Raises:
            DataError: if `probability` is not between zero and one.
        """
        if is_known(probability) and not np.all(np.abs(np.asarray(probability) - 0.5) < 0.5):
            raise invalid("probability", probability, "but must be between 0 and 1")
        return self.likelihood.predictive_quantile(probability, self.mean, self.variance)

    def distribution(self, outcomes: ArrayLike | None = None) -> Distribution:
        """Return the probability of each outcome, if outcomes are numbers.

        Args:
            outcomes: the outcomes to evaluate; if `None`, all but one in a million on either
                side.

        Raises:
            DataError: if an outcome is not valid for the likelihood.
        """
        if outcomes is not None:
            self._check(outcomes, "outcomes")
        return self.likelihood.distribution(self.mean, self.variance, outcomes)

    def _check(self, outcome: ArrayLike, argument: str) -> None:
        """Refuse outcomes outside the likelihood's domain, as far as they are known."""
        if not is_known(outcome):
            return
        values = np.atleast_1d(np.asarray(outcome))
        numeric = values.dtype.kind in "biuf"
        wrong = values[self.likelihood.check(values)] if numeric else values
        if wrong.size:
            name = type(self.likelihood).__name__
            raise DataError(
                f"{{argument}} {{value}} is not valid for {name}, which needs "
                f"{self.likelihood.domain}",
                argument=argument,
                value=wrong.ravel()[0].item(),
            )

    @property
    def results(self) -> Float[Array, "... 3"]:
        return call_padded(self.likelihood.result_probabilities, self.mean, self.variance)

    def _columns(self) -> dict[str, ArrayLike]:
        likelihood = self.likelihood
        columns = {"score_mean": self.mean, "score_deviation": np.sqrt(self.variance)}
        if not likelihood.levels:
            moments = {
                "expected": self.outcome_mean,
                "expected_deviation": np.sqrt(self.outcome_variance),
            }
            # Moments that do not exist are left out.
            columns |= {
                name: x for name, x in moments.items() if not (x.size and np.isnan(x).all())
            }
        if likelihood.has_results:
            loss, tie, win = np.moveaxis(np.asarray(self.results), -1, 0)
            ties = {"p_tie": tie} if likelihood.has_ties else {}
            return {**columns, "p_win": win, **ties, "p_loss": loss}
        if likelihood.levels:
            probabilities = np.asarray(self.probabilities)
            for place, level in enumerate(likelihood.levels):
                columns[f"p_{level:g}"] = probabilities[..., place]
        return columns


class CountsPrediction(AbstractPrediction):
    """The counts of both sides of each match, such as goals.

    The scores of the two counts are correlated, because they share the features of all counts,
    such as the level. Given the scores, the counts are independent, unless the likelihood is one
    of both counts.

    Attributes:
        first: the count of the first side.
        second: the count of the second side.
        covariance: posterior covariance of the two scores.
        library: the library of the user's tables, for `to_frame`.
        likelihood: the likelihood of both counts; `None` for that of `first` for each.
    """

    first: Prediction
    second: Prediction
    covariance: Float[Array, "..."]
    library: str | None = eqx.field(default=None, static=True)
    likelihood: AbstractLikelihood | None = None

    def grid(self, largest: int | None = None) -> Float[Array, "... G G"]:
        """Return the joint probability of all pairs of counts.

        Args:
            largest: the largest count; if `None`, one that is exceeded once in a million.

        Returns:
            Probabilities with the first side's count along the rows and the second side's
            along the columns, both from zero.
        """
        top = self._largest() if largest is None else largest
        return _mix_grids(self.likelihood or self.first.likelihood, *self._given_shared(), top)

    def difference(self) -> Distribution:
        """Return the distribution of the first side's count minus the second's."""
        grid = self.grid()
        top = grid.shape[-1] - 1
        sums = [jnp.trace(grid, -shift, axis1=-2, axis2=-1) for shift in range(-top, top + 1)]
        return Distribution(np.arange(-top, top + 1.0), jnp.stack(sums, axis=-1))

    def log_prob(self, counts: ArrayLike) -> Float[Array, "..."]:
        """Return the log probability of two counts of each match, [..., 2]."""
        counts = jnp.asarray(counts, self.first.mean.dtype)
        mean, variance, shares = self._given_shared()
        likelihood = self.likelihood or self.first.likelihood
        log_probs = call_compiled(likelihood.joint_log_prob, counts, mean, variance)
        return jax.nn.logsumexp(jnp.moveaxis(log_probs, 0, -1), axis=-1, b=shares)

    @property
    def results(self) -> Float[Array, "... 3"]:
        grid = self.grid()
        tie = jnp.trace(grid, axis1=-2, axis2=-1)
        loss = jnp.sum(jnp.triu(grid, 1), axis=(-2, -1))
        win = jnp.sum(jnp.tril(grid, -1), axis=(-2, -1))
        return jnp.stack([loss, tie, win], axis=-1) / (loss + tie + win)[..., None]

    def _columns(self) -> dict[str, ArrayLike]:
        loss, tie, win = np.moveaxis(np.asarray(self.results), -1, 0)
        expected = {
            "first_expected": self.first.outcome_mean,
            "second_expected": self.second.outcome_mean,
        }
        return {**expected, "p_win": win, "p_tie": tie, "p_loss": loss}

    def _largest(self) -> int:
        wanted = jnp.asarray(1.0 - _TAIL, self.first.mean.dtype)
        tops = [
            call_compiled(side.likelihood.predictive_quantile, wanted, side.mean, side.variance)
            for side in (self.first, self.second)
        ]
        return int(max(jnp.max(top, initial=0.0) for top in tops)) + 1

    def _given_shared(
        self,
    ) -> tuple[Float[Array, "J ... 2"], Float[Array, "J ... 2"], Float[Array, " J"]]:
        """Moments of both scores given what they share, at nodes of it, and the nodes' weights."""
        first, second = self.first, self.second
        known = (first.variance == 0) | (second.variance == 0)
        ratio = jnp.sqrt(first.variance / jnp.where(known, 1.0, second.variance))
        ratio = jnp.where(known, 1.0, ratio)
        size = jnp.abs(self.covariance)
        along = jnp.sqrt(jnp.minimum(size * ratio, first.variance))
        across = jnp.sqrt(jnp.minimum(size / ratio, second.variance))
        slopes = jnp.stack([along, jnp.sign(self.covariance) * across], axis=-1)
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        places = jnp.asarray(nodes, slopes.dtype).reshape(-1, *[1] * slopes.ndim)
        mean = jnp.stack([first.mean, second.mean], axis=-1) + slopes * places
        variance = jnp.stack([first.variance, second.variance], axis=-1) - slopes**2
        variance = jnp.broadcast_to(jnp.maximum(variance, 0.0), mean.shape)
        return mean, variance, jnp.asarray(weights / weights.sum(), slopes.dtype)


class RankPrediction(AbstractTable, eqx.Module):
    """The places of all sides of one event; a table with one row for each side.

    Without `covariance`, the scores of sides count as independent. Where sides share a feature,
    such as a car, `predict` of two of them is then more exact than `p_ahead`.

    With it, `p_ahead` is exact, and the probabilities of places are nearly so: where correlations
    differ much from side to side, errors are about 0.01, in extreme cases a few hundredths.

    Attributes:
        mean: posterior mean of each side's score.
        variance: posterior variance of each side's score.
        likelihood: the likelihood of a ranking given the scores.
        names: a label for each side.
        library: the library of the user's tables, for `to_frame`.
        covariance: posterior covariance of the scores; `None` if they are independent.
    """

    mean: Float[Array, " S"]
    variance: Float[Array, " S"]
    likelihood: AbstractLikelihood
    names: tuple[str, ...] = eqx.field(static=True)
    library: str | None = eqx.field(default=None, static=True)
    covariance: Float[Array, "S S"] | None = None

    @property
    def probabilities(self) -> Float[Array, "S S"]:
        """The probability that each side (rows) finishes in each place (columns), without ties."""
        if self.covariance is None:
            return call_compiled(self.likelihood.rank_probabilities, self.mean, self.variance)
        return _places(self.likelihood, self.mean, self.covariance)

    @property
    def p_win(self) -> Float[Array, " S"]:
        """The probability that each side wins."""
        return self.probabilities[:, 0]

    @property
    def p_podium(self) -> Float[Array, " S"]:
        """The probability that each side is among the first three."""
        return self.p_top(3)

    def p_top(self, places: int) -> Float[Array, " S"]:
        """Return the probability that each side is among the first `places`."""
        return jnp.sum(self.probabilities[:, :places], axis=1)

    @property
    def expected_rank(self) -> Float[Array, " S"]:
        """The expected place of each side."""
        return self.probabilities @ jnp.arange(1.0, len(self.names) + 1, dtype=self.mean.dtype)

    def p_ahead(self, first: Any, second: Any) -> Float[Array, ""]:
        """Return the probability that one side finishes ahead of another.

        Args:
            first: the label of a side, as in `names`.
            second: the label of another side.
        """
        one, other = (self._place(name) for name in (first, second))
        variance = self.variance[one] + self.variance[other]
        if self.covariance is not None:
            variance = variance - 2.0 * self.covariance[one, other]
        mean = self.mean[one] - self.mean[other]
        _, tie, win = self.likelihood.duel().result_probabilities(mean, variance)
        return win + 0.5 * tie

    def _place(self, name: Any) -> int:
        if str(name) not in self.names:
            raise DataError(
                "{value} is not in this event",
                f"Its sides are {', '.join(self.names)}.",
                value=name,
            )
        return self.names.index(str(name))

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of `to_frame`, as NumPy arrays in the order of the sides."""
        table = self.probabilities
        places = np.arange(1.0, len(self.names) + 1)
        return {
            "name": np.array(self.names),
            "score_mean": np.asarray(self.mean),
            "score_deviation": np.sqrt(np.asarray(self.variance)),
            "p_win": np.asarray(table[:, 0]),
            "p_podium": np.asarray(jnp.sum(table[:, :3], axis=1)),
            "expected_rank": np.asarray(table) @ places,
        }

    def to_frame(self, library: str | None = None) -> Any:
        """Return the table with the favourite first; `library` as for any other table."""
        columns = self.columns()
        order = np.argsort(columns["expected_rank"], kind="stable")
        return make_table({name: x[order] for name, x in columns.items()}, library or self.library)

    def __repr__(self) -> str:
        if not is_known(self.mean):
            return f"RankPrediction of {len(self.names)} sides"
        return f"RankPrediction of {len(self.names)} sides\n{self.to_frame(None)!r}"


@eqx.filter_jit
def _places(
    likelihood: AbstractLikelihood, mean: Float[Array, " S"], covariance: Float[Array, "S S"]
) -> Float[Array, "S S"]:
    """The probabilities of places if the scores of sides are correlated.

    Places depend on differences of scores. The nearest independent scores have variances whose
    sums are those of the differences, by least squares. What is left, R, changes probabilities p
    by ½ Σ R_ij ∂²p/∂m_i∂m_j to first order: the derivative of a normal expectation in its
    covariance. It is taken along the eigenvectors of R, by differences whose steps make them
    Gauss–Hermite quadratures.

    Args:
        likelihood: the likelihood of a ranking.
        mean: means of the scores.
        covariance: their covariance.
    """
    count = len(mean)
    single = jnp.diagonal(covariance)
    apart = jnp.sum(single[:, None] + single - 2.0 * covariance, axis=1)
    variance = 0.5 * apart
    if count > 2:
        variance = (apart - 0.5 * jnp.sum(apart) / (count - 1)) / (count - 2)
    variance = jnp.maximum(variance, 0.0)
    # What all scores share does not matter.
    centre = jnp.eye(count, dtype=mean.dtype) - 1.0 / count
    rest = centre @ (covariance - jnp.diag(variance)) @ centre
    values, vectors = jnp.linalg.eigh(rest)
    shifts = jnp.sqrt(3.0 * jnp.abs(values))[:, None] * vectors.T
    shifts = jnp.concatenate([jnp.zeros((1, count), mean.dtype), shifts, -shifts])
    found = likelihood.rank_probabilities(mean + shifts, variance)
    signs = jnp.sign(values)[:, None, None]
    change = jnp.sum(signs * (found[1 : count + 1] + found[count + 1 :] - 2.0 * found[0]), axis=0)
    return jnp.clip(found[0] + change / 6.0, 0.0, 1.0)


@eqx.filter_jit
def _mix_grids(
    likelihood: AbstractLikelihood,
    mean: Float[Array, "J ... 2"],
    variance: Float[Array, "J ... 2"],
    shares: Float[Array, " J"],
    largest: int,
) -> Float[Array, "... G G"]:
    """Average the joint probabilities of both counts over what their scores share."""

    def add(total: Array, node: tuple[Array, Array, Array]) -> tuple[Array, None]:
        mean, variance, share = node
        return total + share * likelihood.joint_probabilities(mean, variance, largest), None

    nothing = jnp.zeros((*mean.shape[1:-1], largest + 1, largest + 1), mean.dtype)
    return lax.scan(add, nothing, (mean, variance, shares))[0]
