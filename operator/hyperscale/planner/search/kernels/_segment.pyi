from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hyperscale.planner.search.kernels._kernel import Kernel

def segments(
    kernel: Kernel,
    order: npt.NDArray[np.int32],
    fixed: npt.NDArray[np.uint8],
    random: int,
    work: int,
    heat: float,
    best: float,
    best_order: npt.NDArray[np.int32],
    expired: Callable[[], bool] | None = None,
) -> tuple[float, int, int]: ...
