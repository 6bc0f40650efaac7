import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]

def greedy(indptr: Int64, indices: Int32, chosen: UInt8) -> int: ...
def improve(indptr: Int64, indices: Int32, chosen: UInt8, seed: int, kicks: int) -> int: ...
def gather(indptr: Int64, indices: Int32, edge_weights: Int32, weights: Int64, chosen: UInt8, most: Int64, group: Int32) -> int: ...
