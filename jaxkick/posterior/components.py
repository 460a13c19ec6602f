"""The parts of a skill: the posterior of each summand of a competitor's kernel.

The state of a sum of kernels stacks their states, so one smoothing pass gives all parts. A part is
the same process, measured by its own entries of the vector h.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxkick._math.small_matrices import as_matrix
from jaxkick._typing import Array, Float, Scalar
from jaxkick.data.queries import Query
from jaxkick.data.tables import AbstractTable
from jaxkick.errors import plain
from jaxkick.kernels import AbstractKernel, Instant, Interval, Sum
from jaxkick.kernels.base import Matrix
from jaxkick.model import Model
from jaxkick.posterior.scores import Scores, score_combinations

if TYPE_CHECKING:
    from jaxkick.posterior.posterior import Posterior

__all__ = ["Components", "components_of", "label_terms", "terms_of"]

_MEAN = "prior mean"


class Components(AbstractTable, eqx.Module):
    """The score of one feature, split into the summands of its kernel.

    `components["Matern12"]` is the `Scores` of one summand. The means of the parts add up to the
    mean of the whole. Their variances do not add up: matches determine the sum better than its
    parts, which are therefore negatively correlated. The table has the columns name, part, time,
    mean and deviation.

    Attributes:
        parts: the scores of each part by its label: the class of the kernel, with a number if
            there are several; `"prior mean"` if the model has one.
        whole: the score.
        descriptions: the kernel of each part in words.
    """

    parts: dict[str, Scores]
    whole: Scores
    descriptions: dict[str, str] = eqx.field(static=True)

    @property
    def times(self) -> np.ndarray:
        """The times as in the data."""
        return self.whole.times

    @property
    def library(self) -> str | None:
        """The library of the user's tables."""
        return self.whole.library

    def columns(self) -> dict[str, np.ndarray]:
        parts = [part.columns() for part in self.parts.values()]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        joined["group"] = np.repeat(np.array(list(self.parts)), len(self.whole.numbers))
        return {"part" if name == "group" else name: x for name, x in joined.items()}

    def __getitem__(self, label: str) -> Scores:
        if label not in self.parts:
            known = ", ".join(map(repr, self.parts))
            raise KeyError(f"There is no part {label!r}. The parts are {known}.")
        return self.parts[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __repr__(self) -> str:
        title = f"Components of {self.whole.name!r} at {len(self.whole.numbers):,} times"
        return "\n".join([title, *(f"  {label}: {t}" for label, t in self.descriptions.items())])


class _Measured(AbstractKernel):
    """A kernel whose score counts only some components of its state.

    The weights are an array, so that one program serves all parts.
    """

    kernel: AbstractKernel
    weights: Float[Array, " K"]

    @property
    def state_dim(self) -> int:
        return self.kernel.state_dim

    @property
    def aspects(self) -> tuple[str, ...]:
        return self.kernel.aspects

    def measurement(self) -> Matrix:
        return self.measurement_at(None)

    def measurement_at(self, aspects: Mapping[str, Scalar] | None) -> Matrix:
        h = as_matrix(self.kernel.measurement_at(aspects))
        return h.filled(self.weights.dtype).to_array()[:, 0] * self.weights

    def state_cov(self, instant: Instant) -> Matrix:
        return self.kernel.state_cov(instant)

    def transition(self, interval: Interval) -> Matrix:
        return self.kernel.transition(interval)

    def noise_cov(self, interval: Interval) -> Matrix:
        return self.kernel.noise_cov(interval)


def terms_of(kernel: AbstractKernel) -> tuple[AbstractKernel, ...]:
    """The summands of a kernel: itself unless it is a sum."""
    return kernel.terms if isinstance(kernel, Sum) else (kernel,)


def label_terms(terms: tuple[AbstractKernel, ...]) -> list[str]:
    """A label for each summand: its class, with a number if there are several of it."""
    names = [_class_name(term) for term in terms]
    counts = {name: names.count(name) for name in names}
    labels = []
    for place, name in enumerate(names):
        number = names[: place + 1].count(name)
        labels.append(f"{name} {number}" if counts[name] > 1 else name)
    return labels


def _class_name(term: AbstractKernel) -> str:
    factors = getattr(term, "factors", None)
    return type(term).__name__ if factors is None else " * ".join(map(_class_name, factors))


def components_of(
    posterior: "Posterior",
    name: Hashable,
    query: Query,
    joint: bool | None,
    aspects: Mapping[str, float] | None,
) -> Components:
    """Split the score of a feature, at the times of a query; see `Posterior.components`."""
    index, dtype = posterior.data.index, posterior.data.coefficients.dtype
    numbers, model, group = query.times, posterior.model, index.group_of(name)
    terms = terms_of(model.kernel_of(group))

    def scores(mean: Any, variance: Any) -> Scores:
        found = (jnp.asarray(mean), jnp.asarray(variance))
        return Scores(numbers, *found, plain(name), group, index.scale, index.library)

    def measure(weights: np.ndarray) -> Scores:
        seen = _Measured(model.process_of(group), jnp.asarray(weights, dtype))
        own = Model({group: seen}, model.likelihood)
        mean, variance = posterior._score_query(query, own)
        ratio = posterior._joint_ratio([name], [numbers], joint, aspects, own)
        return scores(mean, variance * ratio)

    sizes = [term.state_dim for term in terms]
    owner = np.repeat(np.arange(len(terms)), sizes)
    labels = label_terms(terms)
    parts = {label: measure(owner == place) for place, label in enumerate(labels)}
    words = {label: term.describe(index.unit) for label, term in zip(labels, terms, strict=True)}
    whole = measure(np.ones(len(owner)))
    has_mean = model.mean is not None and (not isinstance(model.mean, dict) or group in model.mean)
    if has_mean or model.newcomers_of(group) is not None:
        mean = score_combinations(model, posterior.data, None, query).mean
        parts[_MEAN] = scores(mean, jnp.zeros_like(mean))
        low, high = float(np.min(mean)), float(np.max(mean))
        span = f"{low:.3g} at all times" if low == high else f"between {low:.3g} and {high:.3g}"
        words[_MEAN] = span
        whole = scores(whole.mean + mean, whole.variance)
    return Components(parts, whole, words)
