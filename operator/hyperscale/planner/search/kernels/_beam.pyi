import numpy as np
import numpy.typing as npt

from hyperscale.planner.search.kernels._kernel import Kernel

def beam(kernel: Kernel, orders: npt.NDArray[np.int32], typical: float) -> int: ...
