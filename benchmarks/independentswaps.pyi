import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]

def improve(indptr: Int64, indices: Int32, chosen: UInt8, seed: int, kicks: int) -> int: ...
