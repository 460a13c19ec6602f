"""kickscore 0.2.0's interface over jaxkick: change the import and keep the program.

    import jaxkick.compat.kickscore as ks

Names, arguments, defaults, exceptions and results are kickscore's. Beyond it, models take
`kernel=`, the kernel of items that were never added, `observe` takes `weight=`, observations
come in any order, and `to_jaxkick` gives model and data to learn from. All is computed in
float64, whatever JAX is set to.
"""

from jaxkick.compat.kickscore import kernel
from jaxkick.compat.kickscore.model import Item
from jaxkick.compat.kickscore.outcomes import (
    BinaryModel,
    CountDiffModel,
    CountModel,
    DifferenceModel,
    TernaryModel,
)

__all__ = ["BinaryModel", "CountDiffModel", "CountModel", "DifferenceModel", "Item"]
__all__ += ["TernaryModel", "kernel"]
