"""Models, posteriors and streams in one file: no pickle, versioned, written at once."""

from jaxkick.storage.store import load, save

__all__ = ["load", "save"]
