"""Approximate inference: expectation propagation and reverse KL on chains of entries."""

from jaxkick.inference.methods import AbstractMethod, ExpectationPropagation, ReverseKL
from jaxkick.inference.status import InferenceError, Status

__all__ = [
    "AbstractMethod",
    "ExpectationPropagation",
    "InferenceError",
    "ReverseKL",
    "Status",
]
