"""Problems of the slow references in the package's own terms."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

import jaxkick as jk
from jaxkick.kernels import AbstractKernel
from jaxkick.likelihoods import AbstractLikelihood
from tests import reference as ref

__all__ = ["StudentT", "dataset_of", "kernel_of", "likelihood_of", "model_of"]

GROUPS = {"home": "home"}


class StudentT(AbstractLikelihood):
    """A likelihood as a user would write it, by `log_prob` alone."""

    degrees: float
    scale: float

    def log_prob(self, outcome, score):
        """log p(outcome | score)."""
        n, scale = self.degrees, self.scale
        constant = gammaln((n + 1) / 2) - gammaln(n / 2) - 0.5 * jnp.log(n * jnp.pi * scale**2)
        tail = jnp.log1p(((outcome - score) / scale) ** 2 / n)
        return constant.astype(score.dtype) - 0.5 * (n + 1) * tail


def kernel_of(covariance: ref.Covariance) -> AbstractKernel:
    """The kernel with a dense covariance function; exact kernels only."""
    if covariance.parts:
        first, second = map(kernel_of, covariance.parts)
        return first + second if covariance.name == "sum" else first * second
    parameters = dict(covariance.parameters)
    if covariance.name == "piecewise_constant":
        # The reference has a time at a boundary in the piece before it, the package after it.
        return jk.kernels.PiecewiseConstant(parameters["variance"], parameters["bounds"])
    if np.isinf(parameters.get("lengthscale", 1.0)):
        del parameters["lengthscale"]
    name = "".join(word.capitalize() for word in covariance.name.split("_"))
    return getattr(jk.kernels, name)(**parameters)


def likelihood_of(likelihood: ref.Likelihood) -> AbstractLikelihood:
    """The likelihood with the name and parameters of a reference."""
    if likelihood.name == "student_t":
        return StudentT(**likelihood.parameters)
    name = "".join(word.capitalize() for word in likelihood.name.split("_"))
    return getattr(jk.likelihoods, name)(**likelihood.parameters)


def dataset_of(problem: ref.SmallProblem, weighted: bool | None = None, **options: Any):
    """The data set of a problem, with the feature "home" in a group of its own.

    Args:
        problem: the observations.
        weighted: whether to give weights; only where they differ from one if `None`.
        options: further arguments of `Dataset.from_mappings`.
    """
    weighted = bool(np.any(problem.weights != 1.0)) if weighted is None else weighted
    return jk.Dataset.from_mappings(
        problem.times,
        problem.features,
        problem.outcomes,
        weight=problem.weights if weighted else None,
        **{"groups": GROUPS, **options},
    )


def model_of(problem: ref.SmallProblem) -> jk.Model:
    """The model of a problem whose teams share a covariance function."""
    covariances = problem.covariances
    kernels = {"skill": kernel_of(covariances["team0"]), "home": kernel_of(covariances["home"])}
    return jk.Model(kernels, likelihood_of(problem.likelihood))
