"""The model: how scores move, and how outcomes follow from them."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import ArrayLike

from jaxkick._parameters import AbstractParameter, named, real
from jaxkick._typing import Array, Float, Int
from jaxkick.describe import describe_kernel, describe_likelihood
from jaxkick.kernels.base import AbstractKernel
from jaxkick.likelihoods.base import AbstractLikelihood

__all__ = ["Model"]


class Model(eqx.Module):
    """Gaussian-process scores and a likelihood of outcomes (paper, section 2).

    Every feature m has a score process s_m(t) with the kernel of its group around a constant
    prior mean; an outcome depends on the scores through their linear combination
    f = Σ x_m s_m(t).

    Attributes:
        kernel: one kernel for all features, or one for each group by name.
        likelihood: how an outcome follows from f.
        mean: the prior mean of all scores, those of groups by name, or those of all features
            in the order of `Dataset.names`; `None` for zero.
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
        """Join kernels, a likelihood and prior means.

        Args:
            kernel: one kernel for all features, or a mapping from the names of groups to
                kernels.
            likelihood: how an outcome follows from the combined score.
            mean: the prior mean of scores: a number, a mapping from groups to numbers (zero
                for groups that it lacks), or an array with one number for each feature in
                the order of `data.names`, such as the output of a network. Learnt like any
                parameter; `Fixed(...)` is not. A mean that both sides of a match share
                cancels out of it.

        Raises:
            TypeError: if a kernel or the likelihood is something else.
            ValueError: if `mean` has a wrong shape, or groups without a kernel.
        """
        kernels = dict(kernel) if isinstance(kernel, Mapping) else {"kernel": kernel}
        for group, part in kernels.items():
            if not isinstance(part, AbstractKernel):
                raise TypeError(
                    f"`kernel` must be a kernel or a mapping from groups to kernels, but "
                    f"{group!r} is {type(part).__name__}; see `jaxkick.kernels`."
                )
        if not isinstance(likelihood, AbstractLikelihood):
            raise TypeError(
                f"`likelihood` must be a likelihood, not {type(likelihood).__name__}; "
                "see `jaxkick.likelihoods`."
            )
        self.kernel = kernels if isinstance(kernel, Mapping) else kernel
        self.likelihood = likelihood
        self.mean = _read_mean(mean, kernels if isinstance(kernel, Mapping) else None)

    def kernel_of(self, group: str) -> AbstractKernel:
        """The kernel of a group of features.

        Args:
            group: the name of the group.

        Raises:
            ValueError: if the model has kernels by group and none for this one.
        """
        if isinstance(self.kernel, AbstractKernel):
            return self.kernel
        if group not in self.kernel:
            known = ", ".join(repr(name) for name in self.kernel)
            raise ValueError(
                f"the data has features of the group {group!r}, but the model has kernels for "
                f"{known} only; add a kernel for {group!r} to `Model(kernel={{...}})`, or put "
                "its features into another group with `groups=` of the data set."
            )
        return self.kernel[group]

    def describe(self, unit: str | None = None) -> str:
        """What the model says, in plain words.

        Sizes after "±" are standard deviations of scores. "Fade over" is the time over which
        the correlation of a score with itself falls to 37 %.

        Args:
            unit: the unit of time of the data, such as `"year"`; see `Posterior.describe`.

        Returns:
            A few lines of text.
        """
        kernels = self.kernel if isinstance(self.kernel, dict) else {"scores": self.kernel}
        means = self.mean if isinstance(self.mean, dict) else {}
        lines = []
        for group, kernel in kernels.items():
            text = f"{group}: {describe_kernel(kernel, unit)}"
            if group in means:
                text += f", around {float(means[group].value):.3g}"
            lines.append(text)
        if isinstance(self.mean, AbstractParameter):
            single = self.mean.value.ndim == 0
            around = f"{float(self.mean.value):.3g}" if single else "a mean of its own"
            lines.append(
                f"all scores around {around}" if single else f"every score around {around}"
            )
        return "\n".join([*lines, f"outcomes: {describe_likelihood(self.likelihood)}"])

    def __repr__(self) -> str:
        mean = "" if self.mean is None else f", mean={self.mean!r}"
        return f"Model(kernel={self.kernel!r}, likelihood={self.likelihood!r}{mean})"

    def mean_of(
        self, group: str, features: Int[ArrayLike, "..."], dtype: jnp.dtype
    ) -> Float[Array, "..."]:
        """The prior means of features of one group.

        Args:
            group: the name of the group.
            features: numbers of features; -1 for one that the data lacks, which has the mean
                of its group, or zero where every feature has its own.
            dtype: floating-point type of the means.
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
        _check_shape("`mean`", parameter, 1, "a number or one for each feature")
        return parameter
    means = {group: named(f"mean[{group!r}]", real)(value) for group, value in mean.items()}
    for group, parameter in means.items():
        _check_shape(f"`mean[{group!r}]`", parameter, 0, "a number")
        if kernels is not None and group not in kernels:
            known = ", ".join(map(repr, kernels))
            raise ValueError(
                f"`mean` has the group {group!r}, but the kernels are for {known}; use the same "
                "names for both."
            )
    return means


def _check_shape(label: str, parameter: AbstractParameter, most: int, wanted: str) -> None:
    shape = parameter.value.shape
    if len(shape) > most:
        raise ValueError(f"{label} has the shape {shape}, but must be {wanted}.")
