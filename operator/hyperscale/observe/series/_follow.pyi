import numpy as np
from numpy.typing import NDArray

def follow(
    body: bytes | bytearray,
    start: int,
    identities: tuple[bytes, ...],
    cuts: NDArray[np.int32],
    row: int,
    stamp: bytes,
    values: NDArray[np.float64],
) -> tuple[int, int]: ...
