import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float32]
_Doubles = NDArray[np.float64]
_Longs = NDArray[np.int64]
_Ints = NDArray[np.int32]

def gather(
    indptr: _Longs, sources: _Ints, kinds: _Ints, weights: _Floats, x: _Floats, table: _Floats, heads: int, depth: int, relu: bool,
    out: _Floats,
) -> None: ...  # fmt: skip
def gather_back(
    indptr: _Longs, sources: _Ints, kinds: _Ints, weights: _Floats, x: _Floats, table: _Floats, grad: _Floats, heads: int, depth: int,
    relu: bool, x_grad: _Floats, table_grad: _Doubles, weights_grad: _Floats | None,
) -> None: ...  # fmt: skip
def attend(
    indptr: _Longs, sources: _Ints, kinds: _Ints, ends: _Floats, of_kind: _Floats, heads: int, slope: float, parts: _Floats
) -> None: ...
def attend_back(
    indptr: _Longs, sources: _Ints, kinds: _Ints, ends: _Floats, of_kind: _Floats, parts: _Floats, grad: _Floats, heads: int, slope: float,
    ends_grad: _Floats, kind_grad: _Doubles,
) -> None: ...  # fmt: skip
def sums(x: _Floats, width: int, out: _Doubles) -> None: ...
def norm(
    x: _Floats, width: int, scale: _Floats, shift: _Floats, relu: bool, ids: _Longs, seed: int, drop: int, grow: float, out: _Floats
) -> None: ...
def norm_inner(
    grad: _Floats, x: _Floats, width: int, scale: _Floats, shift: _Floats, mean: _Floats, relu: bool, ids: _Longs, seed: int, drop: int,
    grow: float, inner: _Floats, out: _Doubles,
) -> None: ...  # fmt: skip
def norm_outer(inner: _Floats, x: _Floats, width: int, scale: _Floats, mean: _Floats, first: _Floats, second: _Floats) -> None: ...
