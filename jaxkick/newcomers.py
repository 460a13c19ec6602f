"""Newcomers: a separate prior for competitors with a late first match."""

from collections.abc import Iterable, Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxkick._math.small_matrices import AbstractMatrix, adapt
from jaxkick._typing import Array, Float, Scalar
from jaxkick.errors import DataError
from jaxkick.kernels import AbstractKernel, Instant, Interval
from jaxkick.kernels.base import Matrix
from jaxkick.parameters import AbstractParameter, named, positive, real

__all__ = ["Entering", "Newcomers", "read_newcomers"]


class Newcomers(eqx.Module):
    """The prior of competitors with a first match at or after a time.

    The kernel and mean of the model describe established competitors, who play from the start of
    the data. Later arrivals, such as juniors or promoted teams, tend to be weaker and may differ
    more or less from each other. The prior depends only on the time of the first match, so that
    it uses no information about the future.

    Up to the first match, the covariance of a newcomer's score is `variance_ratio` times the
    covariance of the kernel. From then on its state evolves according to the kernel: the
    difference persists in a constant part of the kernel, and fades in a part that reverts to its
    mean. An unknown name is a newcomer at the time of the prediction.

    Attributes:
        since: start of each cohort of newcomers, in the data's unit of time; increasing.
        mean: prior mean of newcomers minus the prior mean of others: one number, or one for each
            cohort.
        variance_ratio: prior variance of newcomers at their first match, divided by the variance
            of the kernel: one number, or one for each cohort.
        fade: time since the first match after which `mean` has shrunk to 1/e of its value; if
            `None`, it does not shrink.
    """

    since: tuple[float, ...] = eqx.field(static=True)
    mean: AbstractParameter
    variance_ratio: AbstractParameter
    fade: AbstractParameter | None

    def __init__(
        self,
        since: float | Iterable[float],
        mean: ArrayLike | AbstractParameter = 0.0,
        variance_ratio: ArrayLike | AbstractParameter = 1.0,
        fade: ArrayLike | AbstractParameter | None = None,
    ):
        """Set the cohorts and the starting values of their parameters.

        `learn` learns `mean`, `variance_ratio` and `fade`, unless they are `Fixed(...)`.

        Args:
            since: the time from which new competitors are newcomers, or several times that each
                start a cohort, in the data's unit of time.
            mean: see the attributes.
            variance_ratio: see the attributes; positive.
            fade: see the attributes; positive.

        Raises:
            DataError: if `since` does not increase, or an argument has a wrong shape.
        """
        starts = np.atleast_1d(np.asarray(since, np.float64))
        if starts.ndim != 1 or not len(starts) or not np.isfinite(starts).all():
            raise DataError(
                "{argument} must be a finite number, or a sequence of finite numbers",
                argument="since",
            )
        if (np.diff(starts) <= 0).any():
            raise DataError("{argument} must increase", argument="since")
        self.since = tuple(starts.tolist())
        self.mean = self._read("mean", mean, real)
        self.variance_ratio = self._read("variance_ratio", variance_ratio, positive)
        self.fade = None if fade is None else named("fade", positive)(fade)
        if self.fade is not None and self.fade.value.ndim:
            raise DataError("{argument} must be a number", argument="fade")

    def _read(self, name: str, value, constrain) -> AbstractParameter:
        parameter, cohorts = named(name, constrain)(value), len(self.since)
        if parameter.value.shape not in ((), (cohorts,)):
            raise DataError(
                f"{{argument}} has the shape {parameter.value.shape}, but must be a number or one "
                f"for each of the {cohorts} cohorts",
                argument=name,
            )
        return parameter

    def mean_at(self, instant: Instant) -> Float[Array, "..."]:
        """The addition to the prior mean of features at instants of their lives."""
        mean = self._by_cohort(self.mean, instant, 0.0)
        if self.fade is None:
            return mean
        fade = self.fade.value.astype(mean.dtype)
        return mean * jnp.exp(-jnp.maximum(instant.age, 0.0) / fade)

    def ratio_at(self, instant: Instant) -> Float[Array, "..."]:
        """The factor of the prior variance of features, by the times of their first matches."""
        return self._by_cohort(self.variance_ratio, instant, 1.0)

    def _by_cohort(
        self, parameter: AbstractParameter, instant: Instant, otherwise: float
    ) -> Float[Array, "..."]:
        dtype = instant.offset.dtype
        values = jnp.broadcast_to(parameter.value.astype(dtype), (len(self.since),))
        born = Instant(instant.offset - instant.age, jnp.zeros_like(instant.age), instant.epoch)
        # A first match at the start of a cohort belongs to it, whatever was rounded.
        slack = 4.0 * jnp.finfo(dtype).eps * (jnp.abs(instant.offset) + jnp.abs(instant.age))
        found = jnp.full(born.offset.shape, otherwise, dtype)
        for cohort, start in enumerate(self.since):
            found = jnp.where(born.since(start) >= -slack, values[cohort], found)
        return found

    def describe(self, unit: str | None = None) -> str:
        """Describe the newcomers in words; see `Model.describe`."""
        means, ratios = (
            np.broadcast_to(np.asarray(each.value), len(self.since))
            for each in (self.mean, self.variance_ratio)
        )
        texts = [
            f"since {start:.6g} mean {mean:+.3g}, {ratio:.3g} times the variance"
            for start, mean, ratio in zip(self.since, means, ratios, strict=True)
        ]
        if self.fade is not None:
            units = f"{unit}s" if unit else "units of time"
            texts.append(f"the mean fades within {float(self.fade):.3g} {units}")
        return "; ".join(texts)


class Entering(AbstractKernel):
    """A kernel with another prior variance for newcomers; made by `Model.process_of`."""

    kernel: AbstractKernel
    newcomers: Newcomers

    @property
    def state_dim(self) -> int:
        return self.kernel.state_dim

    @property
    def aspects(self) -> tuple[str, ...]:
        return self.kernel.aspects

    def measurement(self) -> Matrix:
        return self.kernel.measurement()

    def measurement_at(self, aspects: Mapping[str, Scalar] | None) -> Matrix:
        return self.kernel.measurement_at(aspects)

    def state_cov(self, instant: Instant) -> Matrix:
        lived = jnp.maximum(instant.age, 0.0)
        entry = Instant(instant.offset - lived, instant.age - lived, instant.epoch)
        P, A = self.kernel.state_cov(entry), self.kernel.transition(Interval(entry, instant, lived))
        P, A, now = (self._adapt(each) for each in (P, A, self.kernel.state_cov(instant)))
        return now + (A @ P @ A.T).symmetric() * (self.newcomers.ratio_at(instant) - 1.0)

    def transition(self, interval: Interval) -> Matrix:
        return self.kernel.transition(interval)

    def noise_cov(self, interval: Interval) -> Matrix:
        ratio = self.newcomers.ratio_at(interval.end)
        factor = jnp.where(interval.end.age > 0.0, jnp.ones_like(ratio), ratio)
        return self._adapt(self.kernel.noise_cov(interval)) * factor

    def _adapt(self, small: Matrix) -> AbstractMatrix:
        return adapt(small, self.state_dim, self.newcomers.mean.value.dtype)


def read_newcomers(
    newcomers: Newcomers | Mapping[str, Newcomers] | None,
    groups: Iterable[str] | None,
) -> Newcomers | dict[str, Newcomers] | None:
    """Check the argument of `Model`; `groups` are those of its kernels, `None` for one kernel."""
    if newcomers is None:
        return None
    parts = newcomers if isinstance(newcomers, Mapping) else {"": newcomers}
    for part in parts.values():
        if not isinstance(part, Newcomers):
            raise TypeError(f"`newcomers` must be `Newcomers`, not {type(part).__name__}.")
    if not isinstance(newcomers, Mapping) and groups is None:
        return newcomers
    known = [] if groups is None else list(groups)
    if not isinstance(newcomers, Mapping) or not set(newcomers) <= set(known):
        shown = ", ".join(map(repr, known)) if known else "no group: it is one kernel"
        raise DataError(
            f"{{argument}} must name groups of {{kernel}}, which has {shown}",
            "Pass `Newcomers(...)` for one kernel, else a mapping such as {'skill': "
            "Newcomers(...)}.",
            argument="newcomers",
            mentions=["kernel"],
        )
    return dict(newcomers)
