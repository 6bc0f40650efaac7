"""What a piece of a model really runs: every tensor operation with the size of its result and how many operations each number takes.

Dense operations are seen by a dispatch mode and counted by torch's own formulas (torch.utils.flop_counter). Those of DGL happen behind
torch's back; they are seen by standing in for the functions that all of them go through, while a recorder is open.

Some modules run as one opaque kernel whose cost neither torch's formulas nor the size of its result tells: LSTM in oneDNN, transformer
layers in their fast path. `taken_apart` has them run as the products and elementwise operations that they are made of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

SOFTMAX_COMPLEXITY: Final = 5.0
"""Maximum, difference, exponential, sum, quotient."""
SPECIAL: Final[dict[str, float]] = {
    "_safe_softmax": SOFTMAX_COMPLEXITY,
    "_softmax": SOFTMAX_COMPLEXITY,
    "_log_softmax": SOFTMAX_COMPLEXITY,
    "native_group_norm": 5.0,
    "native_layer_norm": 5.0,
    "native_batch_norm": 4.0,
    "native_dropout": 2.0,
    "elu": 2.0,
    "gelu": 8.0,
    "leaky_relu": 2.0,
}
"""Operations a number of the result; all others take 1 a number of the largest tensor that they read or write."""
BY_INPUT: Final[dict[str, Callable[[Sequence[Any]], float]]] = {
    "_cdist_forward": lambda args: 3.0 * args[0].shape[-1],
    "_embedding_bag": lambda args: args[1].numel() / max(args[2].numel(), 1),
    "_trilinear": lambda args: 2.0 * args[0].shape[-1] * args[2].shape[-1],
    "addmv": lambda args: 2.0 * args[1].shape[-1],
    "dot": lambda args: 2.0 * args[0].shape[-1],
    "mv": lambda args: 2.0 * args[0].shape[-1],
}
"""The same where the widths of the inputs decide: distances of all pairs, bags of rows, nn.Bilinear, products with a vector."""
FREE: Final = frozenset(
    {
        "_local_scalar_dense",
        "_to_copy",
        "_to_dense",
        "_to_sparse",
        "_to_sparse_csr",
        "_unsafe_view",
        "arange",
        "bernoulli_",
        "cat",
        "clone",
        "constant_pad_nd",
        "copy_",
        "detach",
        "embedding",
        "empty",
        "empty_like",
        "empty_strided",
        "eye",
        "fill_",
        "flip",
        "full",
        "full_like",
        "gather",
        "index",
        "index_copy",
        "index_copy_",
        "index_put",
        "index_put_",
        "index_select",
        "lift_fresh",
        "new_empty",
        "new_full",
        "new_ones",
        "new_zeros",
        "ones",
        "ones_like",
        "repeat",
        "roll",
        "scalar_tensor",
        "squeeze_",
        "stack",
        "transpose_",
        "tril",
        "triu",
        "unsafe_chunk",
        "unsafe_split",
        "unsqueeze_",
        "zero_",
        "zeros",
        "zeros_like",
    }
)
"""They move or make numbers without arithmetic; so do all views."""


@dataclass(frozen=True)
class Part:
    """One operation j of a node, with its share of the node's weight."""

    operation: str
    shapes: tuple[tuple[int, ...], ...]
    """It grows as the first of these that has a dimension of the graph: the result and what it was made of."""
    flops: float
    """Layer size × operation complexity: numbers in the result, times operations for each of them."""
    dense: bool
    """Counted by torch's formulas."""
    by_edge: bool = False
    """Grows with the edges of the graph, whatever the shapes say."""


class OperationRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's own __init_subclass__
    """Collects the parts of whatever runs while it is open."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch ships no types for it
        self.parts: list[Part] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - torch's own interface
        """Run the operation and write down what it cost."""
        named = kwargs or {}
        out = func(*args, **named)
        packet = func._overloadpacket
        name = packet.__name__
        first = next(iter(tensors(out)), None)
        if first is None or func.is_view or name in FREE or not _computed(first):
            return out
        touched = [one for one in (first, *tensors(args)) if _strided(one)]
        if packet in flop_registry:
            flops = float(flop_registry[packet](*args, **named, out_val=out))
        elif name in SPECIAL or name in BY_INPUT:
            flops = first.numel() * _operations(name, args)
        else:  # elementwise the result is the largest; of sums and scatters what is read
            touched.sort(key=lambda one: -one.numel())
            flops = float(touched[0].numel())
        self.parts.append(Part(name, tuple(tuple(one.shape) for one in touched), flops, packet in flop_registry))
        return out


def _operations(name: str, args: Any) -> float:  # noqa: ANN401 - what torch hands over
    """For each number of the result."""
    return SPECIAL[name] if name in SPECIAL else BY_INPUT[name](args)


def _computed(result: Tensor) -> bool:
    """Whether the numbers of a result were computed: not those of indices or of a sparse layout."""
    return result.is_floating_point() and _strided(result)


def _strided(tensor: Tensor) -> bool:
    """Its numbers are written out, not those of a sparse layout."""
    return tensor.layout == torch.strided


def without_compiler(mode: type[TorchDispatchMode]) -> None:
    """Let the first call of a mode not import torch's compiler, which takes 3 s and compiles nothing here.

    torch imports it to keep it out of dispatch modes (torch._disable_dynamo), unless the mode says that this was done.
    """
    wrapped: Any = getattr(mode.__torch_dispatch__, "__wrapped__", None)
    if wrapped is not None and "torch._dynamo" not in sys.modules:
        wrapped.__dynamo_disable = wrapped


without_compiler(OperationRecorder)


def tensors(value: Any) -> Iterator[Tensor]:  # noqa: ANN401 - whatever an operation or a module returns
    """The tensors of a result, those inside of tuples and lists too, in their order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from tensors(one)


@contextmanager
def taken_apart() -> Iterator[None]:
    """No autograd, and no kernel that hides what a module is made of; torch's settings come back at the end."""
    fast, onednn = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(False)  # torch.backends.mkldnn.flags sets TF32 as well, and warns where no Intel GPU is
    try:
        with torch.no_grad():
            yield
    finally:
        torch._C._set_mkldnn_enabled(onednn)
        torch.backends.mha.set_fastpath_enabled(fast)


@contextmanager
def recording() -> Iterator[OperationRecorder]:
    """Parts of everything that runs inside, DGL's sparse operations among them."""
    recorder = OperationRecorder()
    with taken_apart(), _sparse_seen(recorder), recorder:
        yield recorder


@contextmanager
def _sparse_seen(recorder: OperationRecorder) -> Iterator[None]:
    """Stand in for the functions through which all of DGL's sparse operations go; what was there comes back at the end."""
    import dgl.core
    import dgl.ops  # noqa: F401 - its modules hide behind functions of the same names

    places: list[tuple[str, str, Callable[..., list[Part]]]] = [
        ("dgl.ops.spmm", "gspmm_internal", _gathered),
        ("dgl.ops.sddmm", "gsddmm_internal", _by_edge),
        ("dgl.ops.edge_softmax", "edge_softmax_internal", _softmax),
        ("dgl.core", "invoke_udf_reduce", _reduced),
    ]
    before = [(sys.modules[module], name, getattr(sys.modules[module], name)) for module, name, _ in places]
    for (module, name, real), (_, _, describe) in zip(before, places, strict=True):
        setattr(module, name, _standing_in(recorder, real, describe))
    try:
        yield
    finally:
        for module, name, real in before:
            setattr(module, name, real)


def _standing_in(recorder: OperationRecorder, real: Callable[..., Any], describe: Callable[..., list[Part]]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as DGL calls it
        before = len(recorder.parts)
        out = real(*args, **kwargs)
        recorder.parts[before:] = describe(recorder.parts[before:], out, *args)
        return out

    return run


def _gathered(_: list[Part], out: Tensor, graph: Any, operation: str, reducer: str, *__: Any) -> list[Part]:  # noqa: ANN401
    """What DGL does inside with torch belongs to the operation itself, here and in the next two."""
    each = 1.0 if operation.startswith("copy") else 2.0
    width = out.numel() // max(len(out), 1)
    return [Part(f"gspmm {operation} {reducer}", (tuple(out.shape),), each * graph.number_of_edges(0) * width, dense=False, by_edge=True)]


def _by_edge(_: list[Part], out: Tensor, graph: Any, operation: str, left: Tensor, *__: Any) -> list[Part]:  # noqa: ANN401
    each = 2.0 * left.shape[-1] if operation == "dot" else 1.0
    return [Part(f"gsddmm {operation}", (tuple(out.shape),), each * out.numel(), dense=False)]


def _softmax(_: list[Part], out: Tensor, *__: Any) -> list[Part]:  # noqa: ANN401
    return [Part("edge softmax", (tuple(out.shape),), SOFTMAX_COMPLEXITY * out.numel(), dense=False)]


def _reduced(inside: list[Part], *_: Any) -> list[Part]:  # noqa: ANN401
    """A reducer in Python (an LSTM over neighbours) runs once for all vertices of one degree: together once for each message."""
    return [replace(part, by_edge=True) for part in inside]
