import numpy as np
import numpy.typing as npt

def roll(
    gpus: npt.NDArray[np.int32],
    seconds: npt.NDArray[np.float64],
    mixed: npt.NDArray[np.float64],
    figures: npt.NDArray[np.float64],
    rank: npt.NDArray[np.int32],
    held: npt.NDArray[np.int32],
    waits: npt.NDArray[np.uint8],
    free: npt.NDArray[np.int32],
    knobs: npt.NDArray[np.float64],
    ends: npt.NDArray[np.float64],
    starts: npt.NDArray[np.int32],
) -> None: ...
