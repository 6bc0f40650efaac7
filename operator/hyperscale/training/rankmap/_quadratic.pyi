import numpy as np
import numpy.typing as npt

def tabu_search(
    flow: npt.NDArray[np.float64],
    cost: npt.NDArray[np.float64],
    kind: npt.NDArray[np.int64],
    start: npt.NDArray[np.int64],
    steps: int,
    seed: int,
) -> npt.NDArray[np.int64]: ...
