"""The model: kernels for the scores and a likelihood for the outcomes."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import ArrayLike

from jaxkick._typing import Array, Float, Int
from jaxkick.errors import DataError
from jaxkick.kernels import AbstractKernel, Instant
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.likelihoods.likelihood import observation_count
from jaxkick.newcomers import Entering, Newcomers, read_newcomers
from jaxkick.parameters import AbstractParameter, Fixed, named, real

__all__ = ["Model"]


class Model(eqx.Module):
    """Gaussian-process scores and a likelihood of outcomes (paper, section 2).

    The score (skill) s_m(t) of feature m is a Gaussian process with the kernel of its group and a
    constant prior mean. The outcome of a match depends on the combined score f = Σ x_m s_m(t).

    Attributes:
        kernel: one kernel for all features, or a dictionary of kernels by group.
        likelihood: the likelihood of an outcome given f, or a dictionary of likelihoods by the
            kind of observation.
        mean: the prior mean: one for all scores, a dictionary by group, or an array of shape
            (features,) in the order of `Dataset.names`; zero if `None`.
        newcomer_mean: the prior mean of features that are not in the data, if each feature has
            its own mean.
        newcomers: the prior of competitors with a late first match: one, or a dictionary by
            group. `None` if all competitors have the same prior.
    """

    kernel: AbstractKernel | dict[str, AbstractKernel]
    likelihood: AbstractLikelihood | dict[str, AbstractLikelihood]
    mean: AbstractParameter | dict[str, AbstractParameter] | None = None
    newcomer_mean: AbstractParameter | None = None
    newcomers: Newcomers | dict[str, Newcomers] | None = None

    def __init__(
        self,
        kernel: AbstractKernel | Mapping[str, AbstractKernel],
        likelihood: AbstractLikelihood | Mapping[str, AbstractLikelihood],
        mean: Mapping[str, ArrayLike | AbstractParameter]
        | ArrayLike
        | AbstractParameter
        | None = None,
        newcomer_mean: ArrayLike | AbstractParameter | None = None,
        newcomers: Newcomers | Mapping[str, Newcomers] | None = None,
    ):
        """Combine kernels, a likelihood and prior means.

        Args:
            kernel: one kernel for all features, or a mapping from group names to kernels.
            likelihood: the likelihood of an outcome given the combined score f. A mapping from
                kinds to likelihoods for data with several kinds of observations; see `concat`.
            mean: the prior mean of the scores: a number, a mapping from groups to numbers (zero
                for missing groups), or an array of shape (features,) in the order of
                `data.names`, such as the output of a neural network. It is learnt like any
                other parameter, unless it is `Fixed(...)`. A mean that both sides of a match
                share cancels out. Default: zero.
            newcomer_mean: the prior mean of features that are not in the data, if `mean` is an
                array. Without it such features cannot be predicted or added. If `mean` is not
                an array, a newcomer has the mean of its group, and this must be `None`.
            newcomers: the prior mean and variance of competitors with a late first match; see
                `Newcomers`. A mapping from groups if `kernel` is a mapping. Default: all
                competitors have the same prior.

        Raises:
            TypeError: if a kernel, the likelihood or `newcomers` has the wrong type.
            DataError: if `mean` has the wrong shape, `newcomer_mean` is given and `mean` is not an
                array, or `mean` or `newcomers` has a group without a kernel.
        """
        kernels = dict(kernel) if isinstance(kernel, Mapping) else {"skill": kernel}
        for group, part in kernels.items():
            if not isinstance(part, AbstractKernel):
                raise TypeError(
                    f"`kernel` must be a kernel or a mapping from groups to kernels, but "
                    f"{group!r} is {type(part).__name__}. See `jaxkick.kernels`."
                )
        parts = list(likelihood.values()) if isinstance(likelihood, Mapping) else [likelihood]
        for part in parts:
            if not isinstance(part, AbstractLikelihood):
                raise TypeError(
                    f"`likelihood` must be a likelihood, not {type(part).__name__}. "
                    "See `jaxkick.likelihoods`."
                )
        self.kernel = kernels if isinstance(kernel, Mapping) else kernel
        self.likelihood = dict(likelihood) if isinstance(likelihood, Mapping) else likelihood
        self.mean = _read_mean(mean, kernels if isinstance(kernel, Mapping) else None)
        self.newcomer_mean = None if newcomer_mean is None else _as_constant(newcomer_mean)
        self.newcomers = read_newcomers(newcomers, kernels if isinstance(kernel, Mapping) else None)
        if newcomer_mean is not None and not self.has_feature_means:
            raise DataError(
                "{argument} is given, but {mean} has no number for each feature",
                "A newcomer has the mean of its group: set it with {mean}.",
                argument="newcomer_mean",
                mentions=["mean"],
            )

    @property
    def has_feature_means(self) -> bool:
        """True if each feature has its own prior mean."""
        return isinstance(self.mean, AbstractParameter) and self.mean.value.ndim > 0

    def check_newcomers(self) -> None:
        """Refuse features that are not in the data if their prior mean is unknown.

        Raises:
            DataError: if each feature has its own prior mean and there is no `newcomer_mean`.
        """
        if self.has_feature_means and self.newcomer_mean is None:
            raise DataError(
                "The model has one prior mean for each feature of the data, and none for others",
                "Pass `newcomer_mean=` to `Model`.",
            )

    def kernel_of(self, group: str) -> AbstractKernel:
        """Return the kernel of a group of features, without the prior of its newcomers.

        Args:
            group: the name of the group.

        Raises:
            DataError: if the model has kernels by group and this group has none.
        """
        if isinstance(self.kernel, AbstractKernel):
            return self.kernel
        if group not in self.kernel:
            known = ", ".join(repr(name) for name in self.kernel)
            raise DataError(
                f"the data has features of the group {group!r}, but the model has kernels for "
                f"{known} only",
                f"Add a kernel for {group!r} to `Model(kernel={{...}})`, or put its features into "
                "another group with `groups=` of the data set.",
            )
        return self.kernel[group]

    def process_of(self, group: str) -> AbstractKernel:
        """Return the kernel of a group of features, with the prior of its newcomers."""
        kernel, newcomers = self.kernel_of(group), self.newcomers_of(group)
        return kernel if newcomers is None else Entering(kernel, newcomers)

    def newcomers_of(self, group: str) -> Newcomers | None:
        """Return the prior of a group's newcomers; `None` if they have the group's prior."""
        return self.newcomers.get(group) if isinstance(self.newcomers, dict) else self.newcomers

    def likelihood_of(self, kind: str) -> AbstractLikelihood:
        """Return the likelihood of a kind of observation.

        Args:
            kind: the name of the kind; `""` in data of one kind.

        Raises:
            DataError: if the model has likelihoods by kind and none for this one.
        """
        if isinstance(self.likelihood, AbstractLikelihood):
            return self.likelihood
        if kind not in self.likelihood:
            known = ", ".join(map(repr, self.likelihood))
            shown = f"of the kind {kind!r}" if kind else "without a kind"
            raise DataError(
                f"the data has observations {shown}, but the model has likelihoods for {known}",
                "Use the same names for both: `jk.concat({'duels': ..., 'races': ...})` sets the "
                "kinds of observations.",
            )
        return self.likelihood[kind]

    @property
    def duel(self) -> AbstractLikelihood:
        """The likelihood of a match of two sides, given the difference of their scores.

        The first one, if the model has several kinds of observations.
        """
        duels = [likelihood.duel() for likelihood in self.likelihoods.values()]
        return next((each for each in duels if each.num_predictors == 1), duels[0])

    @property
    def kernels(self) -> dict[str, AbstractKernel]:
        """The kernels by group; that of `"skill"` if one serves all groups."""
        return self.kernel if isinstance(self.kernel, dict) else {"skill": self.kernel}

    @property
    def likelihoods(self) -> dict[str, AbstractLikelihood]:
        """The likelihoods by the kind of observation; `""` if one serves all kinds."""
        return self.likelihood if isinstance(self.likelihood, dict) else {"": self.likelihood}

    def describe(self, unit: str | None = None) -> str:
        """Describe the model in words.

        The half-life of a kernel is the time after which the autocorrelation of a skill has
        fallen to one half.

        Args:
            unit: the unit of time of the data, such as `"year"`; see `Posterior.describe`.

        Returns:
            One line for each group of features, and one for the outcome.
        """
        means = self.mean if isinstance(self.mean, dict) else {}
        lines = []
        for group, kernel in self.kernels.items():
            text = f"{group}: {kernel.describe(unit)}"
            if group in means:
                text += f", with mean {float(means[group].value):.3g}"
            lines.append(text)
        if isinstance(self.mean, AbstractParameter):
            single = self.mean.value.ndim == 0
            mean = f"{float(self.mean.value):.3g}" if single else "one for each feature"
            lines.append(f"prior mean: {mean}")
        parts = self.newcomers if isinstance(self.newcomers, dict) else {"": self.newcomers}
        for group, newcomers in parts.items():
            if newcomers is not None:
                label = f"newcomers of {group}" if group else "newcomers"
                lines.append(f"{label}: {newcomers.describe(unit)}")
        for kind, likelihood in self.likelihoods.items():
            if observation_count(likelihood) is None:
                words = likelihood.describe()
            else:
                words = f"{type(likelihood).__name__} with one number for each observation"
            lines.append(f"{kind or 'outcome'}: {words}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        names = ("mean", "newcomer_mean", "newcomers")
        further = {name: getattr(self, name) for name in names}
        shown = "".join(f", {name}={each!r}" for name, each in further.items() if each is not None)
        return f"Model(kernel={self.kernel!r}, likelihood={self.likelihood!r}{shown})"

    def mean_of(
        self, group: str, features: Int[ArrayLike, "..."], instant: Instant, dtype: jnp.dtype
    ) -> Float[Array, "..."]:
        """Return the prior means of features of one group at instants of their lives.

        Args:
            group: the name of the group.
            features: integer indices of features; -1 for an unknown feature, whose mean is that
                of its group, or `newcomer_mean` if each feature has its own.
            instant: times since the epoch and since each feature's first match, in the shape of
                `features`.
            dtype: floating-point type of the result.
        """
        features, newcomers = jnp.asarray(features), self.newcomers_of(group)
        added = 0.0 if newcomers is None else newcomers.mean_at(instant).astype(dtype)
        mean = self.mean.get(group) if isinstance(self.mean, dict) else self.mean
        if mean is None:
            return jnp.broadcast_to(jnp.asarray(added, dtype), features.shape)
        values = mean.value.astype(dtype)
        if values.ndim == 0:
            return jnp.broadcast_to(values + added, features.shape)
        newcomer = 0.0 if self.newcomer_mean is None else self.newcomer_mean.value.astype(dtype)
        return jnp.where(features < 0, newcomer, jnp.take(values, features, mode="clip")) + added


def _read_mean(
    mean: object, kernels: Mapping[str, AbstractKernel] | None
) -> AbstractParameter | dict[str, AbstractParameter] | None:
    if mean is None:
        return None
    if not isinstance(mean, Mapping):
        parameter = named("mean", real)(mean)
        _check_shape("mean", parameter, 1, "a number or one number for each feature")
        return parameter
    means = {group: named(f"mean[{group!r}]", real)(value) for group, value in mean.items()}
    for group, parameter in means.items():
        _check_shape(f"mean[{group!r}]", parameter, 0, "a number")
        if kernels is not None and group not in kernels:
            known = ", ".join(map(repr, kernels))
            raise DataError(
                f"{{argument}} has the group {group!r}, but the kernels are for {known}",
                "Use the same names for both.",
                argument="mean",
            )
    return means


def _as_constant(value: ArrayLike | AbstractParameter) -> AbstractParameter:
    """Convert the mean of newcomers. Numbers are fixed: the data has no newcomers."""
    given = isinstance(value, AbstractParameter)
    parameter = named("newcomer_mean", real)(value if given else Fixed(value))
    _check_shape("newcomer_mean", parameter, 0, "a number")
    return parameter


def _check_shape(argument: str, parameter: AbstractParameter, most: int, wanted: str) -> None:
    shape = parameter.value.shape
    if len(shape) > most:
        raise DataError(
            f"{{argument}} has the shape {shape}, but must be {wanted}", argument=argument
        )
