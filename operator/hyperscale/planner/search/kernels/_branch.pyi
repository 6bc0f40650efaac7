from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hyperscale.planner.search.kernels._kernel import Kernel

def branch_and_bound(
    kernel: Kernel,
    pinned: npt.NDArray[np.int32],
    order: npt.NDArray[np.int32],
    upper: float,
    most: int,
    expired: Callable[[], bool],
) -> tuple[float, float, int]: ...
