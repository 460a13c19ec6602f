"""Choosing a model: comparison of given models, and search for kernels that explain the data."""

from jaxkick.discovery.models import LearntModel, ModelTable, compare_models

__all__ = ["LearntModel", "ModelTable", "compare_models"]
