"""The model: how scores move, and how outcomes follow from them."""

from collections.abc import Mapping

import equinox as eqx

from jaxkick.kernels.base import AbstractKernel
from jaxkick.likelihoods.base import AbstractLikelihood

__all__ = ["Model"]


class Model(eqx.Module):
    """Gaussian-process scores and a likelihood of outcomes (paper, section 2).

    Every feature m has a score process s_m(t) with the kernel of its group; an outcome
    depends on the scores through their linear combination f = Σ x_m s_m(t).

    Attributes:
        kernel: one kernel for all features, or one for each group by name.
        likelihood: how an outcome follows from f.
    """

    kernel: AbstractKernel | dict[str, AbstractKernel]
    likelihood: AbstractLikelihood

    def __init__(
        self,
        kernel: AbstractKernel | Mapping[str, AbstractKernel],
        likelihood: AbstractLikelihood,
    ):
        """Join kernels and a likelihood.

        Args:
            kernel: one kernel for all features, or a mapping from the names of groups to
                kernels.
            likelihood: how an outcome follows from the combined score.

        Raises:
            TypeError: if a kernel or the likelihood is something else.
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
