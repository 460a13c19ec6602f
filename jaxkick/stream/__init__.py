"""Ratings live: every match is seen once, and what is kept of a feature does not grow."""

from jaxkick.stream.stream import Stream

__all__ = ["Stream"]
