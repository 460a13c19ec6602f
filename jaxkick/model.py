"""The model: kernels for the scores and a likelihood for the outcomes."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import ArrayLike

from jaxkick._typing import Array, Float, Int
from jaxkick.errors import DataError
from jaxkick.kernels import AbstractKernel
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.parameters import AbstractParameter, named, real

__all__ = ["Model"]


class Model(eqx.Module):
    """Gaussian-process scores and a likelihood of outcomes (paper, section 2).

    The score (skill) s_m(t) of feature m is a Gaussian process with the kernel of its group and a
    constant prior mean. The outcome of a match depends on the combined score f = Σ x_m s_m(t).

    Attributes:
        kernel: one kernel for all features, or a dictionary of kernels by group.
        likelihood: the likelihood of an outcome given f.
        mean: the prior mean: one for all scores, a dictionary by group, or an array of shape
            (features,) in the order of `Dataset.names`; zero if `None`.
    """

    kernel: AbstractKernel | dict[str, AbstractKernel]
    likelihood: AbstractLikelihood
    mean: AbstractParameter | dict[str, AbstractParameter] | None = None

    def __init__(
        self,
        kernel: AbstractKernel | Mapping[str, AbstractKernel],
        likelihood: AbstractLikelihood,
        mean: Mapping[str, ArrayLike | AbstractParameter]
        | ArrayLike
        | AbstractParameter
        | None = None,
    ):
        """Combine kernels, a likelihood and prior means.

        Args:
            kernel: one kernel for all features, or a mapping from group names to kernels.
            likelihood: the likelihood of an outcome given the combined score f.
            mean: the prior mean of the scores: a number, a mapping from groups to numbers (zero
                for missing groups), or an array of shape (features,) in the order of
                `data.names`, such as the output of a neural network. It is learnt like any
                other parameter, unless it is `Fixed(...)`. A mean that both sides of a match
                share cancels out. Default: zero.

        Raises:
            TypeError: if a kernel or the likelihood has the wrong type.
            DataError: if `mean` has the wrong shape, or a group that has no kernel.
        """
        kernels = dict(kernel) if isinstance(kernel, Mapping) else {"skill": kernel}
        for group, part in kernels.items():
            if not isinstance(part, AbstractKernel):
                raise TypeError(
                    f"`kernel` must be a kernel or a mapping from groups to kernels, but "
                    f"{group!r} is {type(part).__name__}. See `jaxkick.kernels`."
                )
        if not isinstance(likelihood, AbstractLikelihood):
            raise TypeError(
                f"`likelihood` must be a likelihood, not {type(likelihood).__name__}. "
                "See `jaxkick.likelihoods`."
            )
        self.kernel = kernels if isinstance(kernel, Mapping) else kernel
        self.likelihood = likelihood
        self.mean = _read_mean(mean, kernels if isinstance(kernel, Mapping) else None)

    def kernel_of(self, group: str) -> AbstractKernel:
        """Return the kernel of a group of features.

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

    def describe(self, unit: str | None = None) -> str:
        """Describe the model in words.

        The half-life of a kernel is the time after which the autocorrelation of a skill has
        fallen to one half.

        Args:
            unit: the unit of time of the data, such as `"year"`; see `Posterior.describe`.

        Returns:
            One line for each group of features, and one for the outcome.
        """
        kernels = self.kernel if isinstance(self.kernel, dict) else {"skill": self.kernel}
        means = self.mean if isinstance(self.mean, dict) else {}
        lines = []
        for group, kernel in kernels.items():
            text = f"{group}: {kernel.describe(unit)}"
            if group in means:
                text += f", with mean {float(means[group].value):.3g}"
            lines.append(text)
        if isinstance(self.mean, AbstractParameter):
            single = self.mean.value.ndim == 0
            mean = f"{float(self.mean.value):.3g}" if single else "one for each feature"
            lines.append(f"prior mean: {mean}")
        return "\n".join([*lines, f"outcome: {self.likelihood.describe()}"])

    def __repr__(self) -> str:
        mean = "" if self.mean is None else f", mean={self.mean!r}"
        return f"Model(kernel={self.kernel!r}, likelihood={self.likelihood!r}{mean})"

    def mean_of(
        self, group: str, features: Int[ArrayLike, "..."], dtype: jnp.dtype
    ) -> Float[Array, "..."]:
        """Return the prior means of features of one group.

        Args:
            group: the name of the group.
            features: integer indices of features; -1 for an unknown feature, whose mean is that
                of its group, or zero if each feature has its own mean.
            dtype: floating-point type of the result.
        """
        features = jnp.asarray(features)
        mean = self.mean.get(group) if isinstance(self.mean, dict) else self.mean
        if mean is None:
            return jnp.zeros(features.shape, dtype)
        values = mean.value.astype(dtype)
        if values.ndim == 0:
            return jnp.broadcast_to(values, features.shape)
        return jnp.where(features < 0, 0.0, jnp.take(values, features, mode="clip"))


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


def _check_shape(argument: str, parameter: AbstractParameter, most: int, wanted: str) -> None:
    shape = parameter.value.shape
    if len(shape) > most:
        raise DataError(
            f"{{argument}} has the shape {shape}, but must be {wanted}", argument=argument
        )
