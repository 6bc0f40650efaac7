import numpy as np
import numpy.typing as npt

from hyperscale.planner.search.kernels._kernel import Kernel

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

def anneal(
    kernels: list[Kernel],
    node_of: Ints,
    back: Ints,
    partners: Ints,
    weight: Doubles,
    limit: Doubles,
    demand: Doubles,
    most: Ints,
    left: Doubles,
    order: Ints,
    seconds: Doubles,
    seed: int,
    steps: int,
    hot: float,
    cold: float,
) -> float: ...
