"""What a piece of a model really runs: every tensor operation with the size of its result and how many operations each number takes.

Dense operations are seen by a dispatch mode and counted by torch's own formulas (torch.utils.flop_counter). Those of DGL happen behind
torch's back; they are seen by standing in for the three functions that all of them go through, while a recorder is open.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

SOFTMAX_COMPLEXITY: Final = 5.0
"""Maximum, difference, exponential, sum, quotient."""
SPECIAL: Final[dict[str, float]] = {
    "_softmax": SOFTMAX_COMPLEXITY,
    "_log_softmax": SOFTMAX_COMPLEXITY,
    "native_layer_norm": 5.0,
    "native_batch_norm": 4.0,
    "native_dropout": 2.0,
    "elu": 2.0,
    "gelu": 8.0,
    "leaky_relu": 2.0,
}
"""Operations a number of the result that are not 1."""
FREE: Final = frozenset(
    {
        "_local_scalar_dense",
        "_to_copy",
        "arange",
        "bernoulli_",
        "cat",
        "clone",
        "copy_",
        "detach",
        "embedding",
        "empty",
        "empty_like",
        "empty_strided",
        "fill_",
        "full",
        "full_like",
        "index",
        "index_select",
        "lift_fresh",
        "new_empty",
        "new_full",
        "new_ones",
        "new_zeros",
        "ones",
        "ones_like",
        "scalar_tensor",
        "stack",
        "zeros",
        "zeros_like",
    }
)
"""They move or make numbers without arithmetic; so do all views."""
REDUCING: Final = frozenset({"sum", "mean", "amax", "amin", "max", "min", "any", "all", "prod", "norm", "var", "std"})
"""One operation a number of their input."""


@dataclass(frozen=True)
class Part:
    """One operation j of a node: size × complexity is its share of the node's weight."""

    operation: str
    size: int
    """Numbers in the result."""
    complexity: float
    """Operations for each of them."""
    dense: bool
    """Counted by torch's formulas."""
    rows: int
    """First dimension of the result, by which the size grows with the graph; 0 where it has none."""

    @property
    def flops(self) -> float:
        """Operations altogether."""
        return self.size * self.complexity


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's own __init_subclass__
    """Collects the parts of whatever runs while it is open."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch ships no types for it
        self.parts: list[Part] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - torch's own interface
        """Run the operation and write down what it cost."""
        out = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        name = packet.__name__
        first = next((value for value in (out if isinstance(out, tuple | list) else (out,)) if isinstance(value, Tensor)), None)
        if first is None or not first.is_floating_point() or func.is_view or name in FREE:
            return out
        if packet in flop_registry:
            flops = flop_registry[packet](*args, **(kwargs or {}), out_val=out)
            self.add(name, first, flops / max(first.numel(), 1), dense=True)
        elif name in REDUCING and args and isinstance(args[0], Tensor):
            self.add(name, first, args[0].numel() / max(first.numel(), 1))
        else:
            self.add(name, first, SPECIAL.get(name, 1.0))
        return out

    def add(self, name: str, result: Tensor, complexity: float, *, dense: bool = False) -> None:
        """Write down one operation."""
        self.parts.append(Part(name, result.numel(), complexity, dense, result.shape[0] if result.dim() else 0))


@contextmanager
def recording() -> Iterator[Recorder]:
    """Parts of everything that runs inside, DGL's sparse operations among them."""
    recorder = Recorder()
    with torch.no_grad(), _sparse_seen(recorder), recorder:
        yield recorder


@contextmanager
def _sparse_seen(recorder: Recorder) -> Iterator[None]:
    """Stand in for the functions through which all of DGL's sparse operations go; what was there comes back at the end."""
    import dgl.ops  # noqa: F401 - its modules hide behind functions of the same names

    places: list[tuple[str, str, Callable[..., tuple[str, float]]]] = [
        ("dgl.ops.spmm", "gspmm_internal", _gathered),
        ("dgl.ops.sddmm", "gsddmm_internal", _by_edge),
        ("dgl.ops.edge_softmax", "edge_softmax_internal", _softmax),
    ]
    before = [(sys.modules[module], name, getattr(sys.modules[module], name)) for module, name, _ in places]
    for (module, name, real), (_, _, describe) in zip(before, places, strict=True):
        setattr(module, name, _standing_in(recorder, real, describe))
    try:
        yield
    finally:
        for module, name, real in before:
            setattr(module, name, real)


def _standing_in(recorder: Recorder, real: Callable[..., Any], describe: Callable[..., tuple[str, float]]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as DGL calls it
        before = len(recorder.parts)
        out = real(*args, **kwargs)
        del recorder.parts[before:]  # what DGL does inside with torch belongs to the operation itself
        name, complexity = describe(out, *args)
        recorder.add(name, out, complexity)
        return out

    return run


def _gathered(out: Tensor, graph: Any, operation: str, reducer: str, *_: Any) -> tuple[str, float]:  # noqa: ANN401
    edges = graph.number_of_edges(0)
    each = 1.0 if operation.startswith("copy") else 2.0
    return f"gspmm {operation} {reducer}", each * edges / max(len(out), 1)


def _by_edge(out: Tensor, graph: Any, operation: str, left: Tensor, *_: Any) -> tuple[str, float]:  # noqa: ANN401
    return f"gsddmm {operation}", 2.0 * left.shape[-1] if operation == "dot" else 1.0


def _softmax(out: Tensor, *_: Any) -> tuple[str, float]:  # noqa: ANN401
    return "edge softmax", SOFTMAX_COMPLEXITY
