import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Float64 = npt.NDArray[np.float64]

def simulate(
    kind: Int32,
    law: Float64,
    table: Int32,
    rows: Float64,
    first: Int32,
    law_of: Int32,
    repair: Int32,
    member: Float64,
    key: npt.NDArray[np.uint64],
    period_node: Int32,
    period: Float64,
    figures: Float64,
    counts: Int32,
    seed: int,
    start: int,
    parts: Float64,
    events: Int32,
    delay: Float64,
) -> None: ...
