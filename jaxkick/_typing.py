"""Array aliases, and the axes and letters used in annotations.

Axes:
    N: observations, in the order of the user's rows
    P: slots of an observation (the largest number of features in one observation)
    C: steps of a chain's rows
    R: rows of a chain, over which the smoother is vectorised
    K: dimension of a feature's state
    J: quadrature nodes

Letters, as in the state-space formulas: ``A`` transition, ``Q`` noise covariance,
``h`` measurement vector, ``m`` and ``P`` mean and covariance of the state,
``phi`` = P h, ``r`` and ``N`` the adjoints of the backward pass.
"""

from typing import TypeAlias

from jaxtyping import Array, Bool, Float, Int, Key, Real

__all__ = ["Array", "Bool", "Float", "Int", "Key", "Real", "Scalar", "Values"]

Scalar: TypeAlias = Float[Array, ""]
Values: TypeAlias = Float[Array, "..."]
