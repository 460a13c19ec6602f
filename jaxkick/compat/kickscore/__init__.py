"""The interface of kickscore 0.2.0, implemented by jaxkick: change the import to use it.

    import jaxkick.compat.kickscore as ks

Names, arguments, defaults, exceptions and results are those of kickscore. In addition, models take
`kernel=`, a default kernel for items that were not added; `observe` takes `weight=`; observations
may come in any order; and `to_jaxkick` returns the model and the data, for example to learn
parameters. All computations use float64, regardless of JAX's settings.
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
