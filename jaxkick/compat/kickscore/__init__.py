"""kickscore 0.2.0's interface on top of jaxkick: change the import and keep the program.

    import jaxkick.compat.kickscore as ks

Names, arguments, defaults, exceptions and results are those of kickscore. In addition, models
take `kernel=`, the kernel of items that were never added; `observe` takes `weight=`;
observations may come in any order; and `to_jaxkick` returns model and data, to learn from for
example. All computations are in float64, whatever JAX is set to.
"""

from jaxkick.compat.kickscore import kernel
from jaxkick.compat.kickscore.models import (
    BinaryModel,
    CountDiffModel,
    CountModel,
    DifferenceModel,
    Item,
    TernaryModel,
)

__all__ = ["BinaryModel", "CountDiffModel", "CountModel", "DifferenceModel", "Item"]
__all__ += ["TernaryModel", "kernel"]
