"""Whether what a file held is a model that computes."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxkick._parameters import AbstractParameter, resolve
from jaxkick.kernels.base import AbstractKernel
from jaxkick.kernels.time import Instant
from jaxkick.likelihoods.base import AbstractLikelihood
from jaxkick.model import Model

__all__ = ["check_model"]


def check_model(model: Any) -> Model:
    """A model whose parts are what they should be.

    Raises:
        ValueError: if a part is something else, or gives no number where it should.
    """
    if not isinstance(model, Model):
        raise ValueError("the file holds no model where one was expected.")
    kernels = model.kernel if isinstance(model.kernel, dict) else {"default": model.kernel}
    means = list(model.mean.values()) if isinstance(model.mean, dict) else [model.mean]
    if not (
        all(isinstance(kernel, AbstractKernel) for kernel in kernels.values())
        and isinstance(model.likelihood, AbstractLikelihood)
        and all(isinstance(mean, AbstractParameter | None) for mean in means)
    ):
        raise ValueError("the file holds a model whose parts are no kernels or likelihoods.")
    most = 0 if isinstance(model.mean, dict) else 1
    if any(mean is not None and np.ndim(mean.value) > most for mean in means):
        raise ValueError("the file holds a prior mean of a wrong shape.")
    now, zero = Instant.at(0.0), jnp.zeros(())
    for group, kernel in kernels.items():
        label = f"kernel of the group {group!r}"
        _check_number(kernel, label, lambda part: part.covariance(now, now))
    _check_number(model.likelihood, "likelihood", lambda part: part.log_prob(zero, zero))
    return model


def _check_number(part: Any, label: str, compute: Callable[[Any], Any]) -> None:
    """Refuse a part that does not give one number, without computing it."""
    try:
        found = eqx.filter_eval_shape(
            lambda part: compute(resolve(part, jnp.zeros(()).dtype)), part
        )
        shape = found.shape
    except (TypeError, ValueError, AttributeError, IndexError, KeyError) as error:
        reason = str(error).partition("\n")[0].removesuffix(".")
        raise ValueError(f"the file holds a {label} that cannot be used ({reason}).") from error
    if shape != ():
        raise ValueError(f"the file holds a {label} with parameters of wrong shapes.")
