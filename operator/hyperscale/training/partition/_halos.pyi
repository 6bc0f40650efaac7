import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

def anneal(
    indptr: Int64,
    indices: Int32,
    edge_weights: Int32,
    weights: Int64,
    limits: Int64,
    part: Int32,
    seed: int,
    work: int,
    hot: float,
    cut_worth: float,
    over_worth: float,
    budget: int,
) -> tuple[int, Int64]: ...
