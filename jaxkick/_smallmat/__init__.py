"""Small matrices that compile to fused arithmetic: tuples of scalars with structural zeros.

Two classes with the same operators, so that a formula such as ``A @ P @ A.T + Q`` is
written once. `Unrolled` keeps each entry as a scalar of its own (`None` is a zero that
costs nothing); XLA fuses a filter step made of such scalars into a few loops. Compile
time grows with the number of entries, so beyond `MAX_UNROLLED` dimensions `Dense` holds
one array instead. Vectors are matrices with one column.
"""

from jaxkick._smallmat.algebra import conditioned, dot, frobenius, semidefinite_factor, solve
from jaxkick._smallmat.build import (
    MAX_UNROLLED,
    adapt,
    block_diagonal,
    column,
    diagonal,
    identity,
    kronecker,
    lower_toeplitz,
    matrix,
    select,
    stack_columns,
    zeros,
)
from jaxkick._smallmat.matrices import AbstractMatrix, Dense, Unrolled

__all__ = [
    "MAX_UNROLLED",
    "AbstractMatrix",
    "Dense",
    "Unrolled",
    "adapt",
    "block_diagonal",
    "column",
    "conditioned",
    "diagonal",
    "dot",
    "frobenius",
    "identity",
    "kronecker",
    "lower_toeplitz",
    "matrix",
    "select",
    "semidefinite_factor",
    "solve",
    "stack_columns",
    "zeros",
]
