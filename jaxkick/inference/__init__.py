"""Approximate inference: expectation propagation and reverse KL on chains of entries."""

from jaxkick.inference.ending import InferenceError, Result
from jaxkick.inference.ep import ExpectationPropagation
from jaxkick.inference.kl import ReverseKL
from jaxkick.inference.method import AbstractMethod

__all__ = [
    "AbstractMethod",
    "ExpectationPropagation",
    "InferenceError",
    "Result",
    "ReverseKL",
]
