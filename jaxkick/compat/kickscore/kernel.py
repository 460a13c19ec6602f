"""Kernels with kickscore's names and arguments. Items with equal kernels form one group."""

from dataclasses import dataclass, fields, make_dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

import jaxkick as jk

__all__ = ["Affine", "Constant", "Exponential", "Kernel", "Matern32", "Matern52"]
__all__ += ["PeriodicExponential", "PiecewiseConstant", "Wiener"]


class Kernel:
    """A kernel of jaxkick with kickscore's name and arguments."""

    native: ClassVar[Any]

    def to_jaxkick(self) -> jk.kernels.AbstractKernel:
        """Return the equivalent kernel of jaxkick."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        # A variance of zero is allowed, but cannot be learnt.
        zero = {name: jk.Fixed(0.0) for name in values if name[:3] == "var" and not values[name]}
        return self.native(*(values | zero).values())

    def k_mat(self, ts1: np.ndarray, ts2: np.ndarray | None = None) -> np.ndarray:
        """Compute the covariance matrix of scores at two arrays of times."""
        return self._covariance(np.reshape(ts1, (-1, 1)), ts1 if ts2 is None else ts2)

    def k_diag(self, ts: np.ndarray) -> np.ndarray:
        """Compute the variances of scores at an array of times."""
        return self._covariance(ts, ts)

    def simulate(self, ts: np.ndarray) -> np.ndarray:
        """Draw from the prior at sorted times, seeded by NumPy's global random state."""
        with jax.enable_x64(True):
            key = jax.random.key(np.random.randint(2**31))  # noqa: NPY002
            return np.array(jk.kernels.sample_prior(self.to_jaxkick(), np.sort(ts), key))

    def __add__(self, other: "Kernel") -> "Add":
        return Add(self, other)

    def _covariance(self, ts1: np.ndarray, ts2: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            kernel, at = self.to_jaxkick(), jk.kernels.Instant.at
            elementwise = jnp.vectorize(lambda t, u: kernel.covariance(at(t), at(u)))
            return np.array(elementwise(np.asarray(ts1, float), np.asarray(ts2, float)))


@dataclass(frozen=True)
class Add(Kernel):
    """The sum of two kernels."""

    first: Kernel
    second: Kernel

    def to_jaxkick(self):
        return self.first.to_jaxkick() + self.second.to_jaxkick()


def _renamed(name: str, native: Any, *arguments: Any) -> Any:
    """Make a class with kickscore's names from a kernel of jaxkick."""
    space = {"native": staticmethod(native), "__module__": __name__, "__doc__": native.__doc__}
    return make_dataclass(name, arguments, bases=(Kernel,), namespace=space, frozen=True)


Constant = _renamed("Constant", jk.kernels.Constant, "var")
Exponential = _renamed("Exponential", jk.kernels.Matern12, "var", "lscale")
Matern32 = _renamed("Matern32", jk.kernels.Matern32, "var", "lscale")
Matern52 = _renamed("Matern52", jk.kernels.Matern52, "var", "lscale")
Affine = _renamed("Affine", jk.kernels.Affine, "var_offset", "var_slope", "t0")
Wiener = _renamed("Wiener", jk.kernels.Wiener, "var", "t0", ("var_t0", float, 0.0))


@dataclass(frozen=True)
class PiecewiseConstant(Kernel):
    """A score with a new, independent value after each bound; at a bound the old value applies."""

    var: float
    bounds: tuple[float, ...]

    def __post_init__(self):
        object.__setattr__(self, "bounds", tuple(np.sort(self.bounds).tolist()))

    def native(self, var, bounds):
        # In jaxkick the new value applies at a boundary, so move each bound a little later.
        after = [bound + 1e-10 * max(1.0, abs(bound)) for bound in bounds]
        return jk.kernels.PiecewiseConstant(var, after)


def PeriodicExponential(var: float, lscale: float, period: float) -> Kernel:
    """Raise an error, because this kernel has no state-space form in kickscore or jaxkick."""
    raise NotImplementedError(
        "PeriodicExponential has no state-space form; use `jaxkick.kernels.Periodic`."
    )
