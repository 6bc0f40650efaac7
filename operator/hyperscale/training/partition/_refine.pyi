import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

def cluster(
    indptr: Int64, indices: Int32, edge_weights: Int32, weights: Int64, part: Int32, most: Int64, seed: int, group: Int32
) -> int: ...
def contract(
    indptr: Int64,
    indices: Int32,
    edge_weights: Int32,
    weights: Int64,
    group: Int32,
    groups: int,
    coarse_indptr: Int64,
    coarse_indices: Int32,
    coarse_edge_weights: Int32,
    coarse_weights: Int64,
) -> int: ...
def improve(
    indptr: Int64,
    indices: Int32,
    edge_weights: Int32,
    weights: Int64,
    limits: Int64,
    price: Int64,
    part: Int32,
    seed: int,
    passes: int,
    starts: int,
    patience: int,
) -> int: ...
def balance(
    indptr: Int64,
    indices: Int32,
    edge_weights: Int32,
    weights: Int64,
    limits: Int64,
    part: Int32,
    seed: int,
) -> bool: ...
def boundary(indptr: Int64, indices: Int32, edge_weights: Int32, part: Int32, parts: int) -> tuple[int, Int64]: ...
def weigh(weights: Int64, part: Int32, parts: int) -> Int64: ...
