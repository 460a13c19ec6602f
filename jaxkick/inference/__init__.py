"""Approximate inference: expectation propagation and reverse KL on chains of entries."""

from jaxkick.inference.ep import ExpectationPropagation
from jaxkick.inference.kl import ReverseKL
from jaxkick.inference.loop import Result
from jaxkick.inference.method import AbstractMethod

__all__ = ["AbstractMethod", "ExpectationPropagation", "Result", "ReverseKL"]
