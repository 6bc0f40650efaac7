import numpy as np
import numpy.typing as npt

from hyperscale.planner.search.kernels._kernel import Kernel

def neighbours(kernel: Kernel, count: int) -> bytes: ...
def anneal(
    kernel: Kernel,
    order: npt.NDArray[np.int32],
    fixed: npt.NDArray[np.uint8],
    near: npt.NDArray[np.int32],
    random: int,
    steps: int,
    hot: float,
    cold: float,
    best: float,
    best_order: npt.NDArray[np.int32],
) -> tuple[float, int]: ...
