"""Skill curves from match results: pairwise comparisons with Gaussian-process scores, in JAX.

A `Dataset` holds the matches. A `Model` combines priors of the scores (`kernels`) with a
likelihood of the outcomes (`likelihoods`). `infer` returns the `Posterior` of all scores, which
makes predictions. All functions are pure functions of pytrees, so `jit`, `grad` and `vmap` apply.

The method is that of Maystre, Kristof and Grossglauser, "Pairwise Comparisons with Flexible
Time-Dynamics", KDD 2019.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxkick import datasets, evaluation, kernels, likelihoods, plotting, simulation
    from jaxkick._api import (
        AbstractParameter,
        Components,
        Correlation,
        CountsPrediction,
        DataError,
        Dataset,
        Diagnostic,
        Difference,
        Discovery,
        ExpectationPropagation,
        Explanation,
        Feature,
        Fixed,
        History,
        InferenceError,
        LearntModel,
        MatchSuggestions,
        Model,
        ModelTable,
        Newcomers,
        Ordered,
        Positive,
        Posterior,
        Prediction,
        Predictive,
        RankPrediction,
        Real,
        ReverseKL,
        Scale,
        Scores,
        Status,
        Stream,
        Tied,
        compare_models,
        concat,
        discover,
        enable_compilation_cache,
        infer,
        learn,
        load,
        log_marginal_likelihood,
        save,
        suggest_model,
    )

__version__ = "0.1.0"

__all__ = [
    "AbstractParameter",
    "Components",
    "Correlation",
    "CountsPrediction",
    "DataError",
    "Dataset",
    "Diagnostic",
    "Difference",
    "Discovery",
    "ExpectationPropagation",
    "Explanation",
    "Feature",
    "Fixed",
    "History",
    "InferenceError",
    "LearntModel",
    "MatchSuggestions",
    "Model",
    "ModelTable",
    "Newcomers",
    "Ordered",
    "Positive",
    "Posterior",
    "Prediction",
    "Predictive",
    "RankPrediction",
    "Real",
    "ReverseKL",
    "Scale",
    "Scores",
    "Status",
    "Stream",
    "Tied",
    "compare_models",
    "concat",
    "datasets",
    "discover",
    "enable_compilation_cache",
    "evaluation",
    "infer",
    "kernels",
    "learn",
    "likelihoods",
    "load",
    "log_marginal_likelihood",
    "plotting",
    "save",
    "simulation",
    "suggest_model",
]

_MODULES = ("datasets", "evaluation", "kernels", "likelihoods", "plotting", "simulation")


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `jaxkick --help` does not import JAX."""
    if name in _MODULES:
        return import_module(f"jaxkick.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'jaxkick' has no attribute {name!r}")
    value = getattr(import_module("jaxkick._api"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
