"""From the user's tables to chains: read, check, encode.

How a match gets from `Dataset.from_frame` to a chain:

1. `schema.Schema.of` keeps what the columns of the table mean.
2. `reading.read_frame` takes these columns out of the table; `columns` converts them to arrays.
3. `reading.read_observations` reads the times, with `sides` the competitors of both sides as codes
   and coefficients, and with `outcomes` who won. `errors.Checks` raises for rows that cannot be
   used, or drops them. The result is `Observations`: NumPy arrays and the sorted names.
4. `encoding.encode` sorts the entries by group, feature and time and places them in a `Chain`
   for each group. Its `Index` finds names and times again.
5. `Dataset.from_observations` pads the arrays, puts them on the device and holds them together.

Back again: `queries` reads what predictions ask by name, and `tables` writes tables.
"""

from jaxkick.data.columns import TimeScale
from jaxkick.data.dataset import Dataset, concat
from jaxkick.data.encoding import Entries, Index, Location
from jaxkick.data.reading import Observations
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
