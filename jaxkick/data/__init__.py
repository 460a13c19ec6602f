"""Read, check and encode the user's tables.

The way of a match from `Dataset.from_frame` to a chain:

1. `schema.Schema.of` stores the meaning of the columns.
2. `reading.read_frame` takes these columns from the table; `columns` converts them to arrays.
3. `reading.read_observations` reads times, the competitors of both sides (`sides`) and outcomes
   (`outcomes`). `errors.Checks` raises an error for invalid rows, or drops them. The result is
   `observations.Observations`: NumPy arrays and the sorted names.
4. `encoding.encode` sorts the entries by group, feature and time, and places them in a `Chain`
   for each group. Its `Index` finds names and times.
5. `Dataset.from_observations` pads the arrays and moves them to the device.

In the other direction, `queries` reads the names and times of predictions, and `tables` writes
tables.
"""

from jaxkick.data.columns import TimeScale
from jaxkick.data.dataset import Dataset, concat
from jaxkick.data.encoding import Entries, Index, Location
from jaxkick.data.observations import Observations
from jaxkick.data.schema import Feature, Schema

__all__ = [
    "Dataset",
    "Entries",
    "Feature",
    "Index",
    "Location",
    "Observations",
    "Schema",
    "TimeScale",
    "concat",
]
