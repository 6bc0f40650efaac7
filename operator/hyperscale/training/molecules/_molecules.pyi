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
    offsets: _Longs, indptr: _Longs, sources: _Ints, kinds: _Ints, weights: _Floats, x: _Floats, table: _Floats, grad: _Floats, heads: int,
    depth: int, relu: bool, x_grad: _Floats, table_grad: _Doubles, weights_grad: _Floats | None,
) -> None: ...  # fmt: skip
def scores(table: _Floats, left: _Floats, heads: int, depth: int, out: _Floats) -> None: ...
def attend(
    indptr: _Longs, sources: _Ints, kinds: _Ints, ends: _Floats, of_kind: _Floats, heads: int, slope: float, parts: _Floats
) -> None: ...
def attend_back(
    offsets: _Longs, indptr: _Longs, sources: _Ints, kinds: _Ints, ends: _Floats, of_kind: _Floats, parts: _Floats, grad: _Floats,
    table: _Floats, left: _Floats, heads: int, depth: int, slope: float, ends_grad: _Floats, table_grad: _Doubles, left_grad: _Doubles,
) -> None: ...  # fmt: skip
def linear(x: _Floats, weights: _Floats, bias: _Floats | None, inputs: int, outputs: int, out: _Floats) -> None: ...
def weights_back(
    offsets: _Longs, x: _Floats, grad: _Floats, inputs: int, outputs: int, weights_grad: _Doubles, bias_grad: _Doubles | None
) -> None: ...
def lookup_back(kind_of: _Longs, grad: _Floats, width: int, table_grad: _Doubles) -> None: ...
def pool(offsets: _Longs, x: _Floats, width: int, out: _Floats) -> None: ...
def binary_loss(logits: _Floats, labels: _Floats, weight: float, grad: _Floats) -> float: ...
def class_loss(logits: _Floats, labels: _Longs, classes: int, weight: float, grad: _Floats) -> float: ...
def sums(offsets: _Longs, x: _Floats, width: int, out: _Doubles) -> None: ...
def norm(
    x: _Floats, width: int, scale: _Floats, shift: _Floats, relu: bool, ids: _Longs, seed: int, drop: int, grow: float, out: _Floats
) -> None: ...
def norm_inner(
    offsets: _Longs, grad: _Floats, x: _Floats, width: int, scale: _Floats, shift: _Floats, mean: _Floats, relu: bool, ids: _Longs,
    seed: int, drop: int, grow: float, inner: _Floats, out: _Doubles,
) -> None: ...  # fmt: skip
def norm_outer(inner: _Floats, x: _Floats, width: int, scale: _Floats, mean: _Floats, first: _Floats, second: _Floats) -> None: ...
