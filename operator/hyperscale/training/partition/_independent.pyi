import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]
Float64 = npt.NDArray[np.float64]

def greedy(indptr: Int64, indices: Int32, chosen: UInt8) -> int: ...
def gather(indptr: Int64, indices: Int32, edge_weights: Int32, weights: Int64, chosen: UInt8, most: Int64, group: Int32) -> int: ...
def stream(
    indptr: Int64,
    indices: Int32,
    order: Int32,
    capacity: Float64,
    entry_capacity: Float64,
    alpha: float,
    assignment: Int32,
    load: Int64,
    entry_load: Int64,
) -> int: ...
