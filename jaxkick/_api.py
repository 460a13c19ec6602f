"""The public names of the package, all in one place; `jaxkick` hands them on."""

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
    "infer",
    "learn",
    "load",
    "log_marginal_likelihood",
    "save",
    "suggest_model",
]
