"""The user's tables in; validated, encoded arrays out."""

from jaxkick.dataset.dataset import Dataset
from jaxkick.dataset.index import Entries, Index
from jaxkick.dataset.location import Location
from jaxkick.dataset.times import TimeScale

__all__ = ["Dataset", "Entries", "Index", "Location", "TimeScale"]
