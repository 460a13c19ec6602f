"""Skill that changes over time: pairwise comparisons with Gaussian-process scores, in JAX.

A `Dataset` holds matches, a `Model` says how scores move (`kernels`) and how outcomes follow
from them (`likelihoods`), `infer` returns the `Posterior` of all scores, and the posterior
predicts. All of it is made of pure functions of pytrees: `jit`, `grad` and `vmap` apply.

The method is that of Maystre, Kristof and Grossglauser, "Pairwise Comparisons with Flexible
Time-Dynamics", KDD 2019.
"""

from jaxkick import datasets, evaluation, kernels, likelihoods, plotting
from jaxkick._parameters import AbstractParameter, Fixed, Ordered, Positive, Real, Tied
from jaxkick.counts import CountsPrediction
from jaxkick.dataset import Dataset
from jaxkick.diagnosis import Finding
from jaxkick.inference import ExpectationPropagation, InferenceError, Result, ReverseKL
from jaxkick.learning import History, learn, suggest_model
from jaxkick.model import Model
from jaxkick.posterior import Posterior, infer, log_marginal_likelihood
from jaxkick.prediction import Prediction
from jaxkick.ranking import Scale
from jaxkick.scores import Scores
from jaxkick.storage import load, save
from jaxkick.stream import Stream

__version__ = "0.1.0"

__all__ = [
    "AbstractParameter",
    "CountsPrediction",
    "Dataset",
    "ExpectationPropagation",
    "Finding",
    "Fixed",
    "History",
    "InferenceError",
    "Model",
    "Ordered",
    "Positive",
    "Posterior",
    "Prediction",
    "Real",
    "Result",
    "ReverseKL",
    "Scale",
    "Scores",
    "Stream",
    "Tied",
    "datasets",
    "evaluation",
    "infer",
    "kernels",
    "learn",
    "likelihoods",
    "load",
    "log_marginal_likelihood",
    "plotting",
    "save",
    "suggest_model",
]
