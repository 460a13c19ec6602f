"""Choosing a model: comparison of given models, and search for kernels that explain the data."""

from jaxkick.discovery.model_comparison import LearntModel, ModelTable, compare_models
from jaxkick.discovery.search import Discovery, discover

__all__ = ["Discovery", "LearntModel", "ModelTable", "compare_models", "discover"]
