"""What each fusion rule gains on the CPU, forward and backward pass, against DGL's own layers as a user writes them; and that figures stay.

Run: python benchmarks/fusion.py [--quick] [--keep-memory] [--json FILE]

Peers and ours take turns within one process on one thread: CPU milliseconds are medians over turns, ratios medians of the turns' ratios.
Goals:
  time      fused / DGL at most 1 / 1.1 for GCN, GraphSAGE and GAT on every graph of 1 M edges or more
  outputs   largest difference to DGL's at most 1e-5 of the largest output
  gradients error against float64 at most 1e-5 of the largest figure of each gradient, or DGL's own error where that is larger; sums that
            are 0 up to rounding lie now on one side of a ReLU or leaky ReLU, now on the other, so the float64 pass takes the sides of the
            pass it judges (benchmarks/fusion_exact.py); rows `other side` count them
  worker    an epoch of the training worker with fused layers, against the same worker without (benchmarks/fusion_worker.py)
`constant aggregate` is measured apart and not part of the goal: it skips work that full-graph training repeats, it does not fuse.
A process keeps what it frees only where malloc is set so, as the training worker does (hyperscale.training.runtime.allocator); else every
tensor above 32 MiB is paged in again, which a fused pass writes fewer of. `--keep-memory` sets it so for both sides: what is left is the
gain without that.
Rows `loss` count cases in which a fused form was slower.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import sys  # noqa: E402 - threads are set before numpy is imported
import time  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, Final  # noqa: E402

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
warnings.filterwarnings("ignore", category=SyntaxWarning)
warnings.filterwarnings("ignore", category=DeprecationWarning)

import dgl  # noqa: E402
import dgl.nn as dglnn  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from benchmarks import common, fusion_exact, fusion_worker  # noqa: E402 - a script's own folder, not the repository, is on the path
from hyperscale.training.modelgraph.fuse import fuse  # noqa: E402
from hyperscale.training.modelgraph.fusion_rules import (  # noqa: E402
    ATTENTION,
    DROPOUT,
    EPILOGUE,
    EVERY,
    HOIST,
    KERNEL,
    LINEAR,
    ORDER,
    GraphStatistics,
)
from hyperscale.training.runtime import allocator  # noqa: E402

BENCHMARK: Final = "fusion"
DGL: Final = "DGL"
FUSED: Final = "fused"
SPEEDUP: Final = 1.1
CLOSE: Final = 1e-5
SLACK: Final = 1.1
"""Two roundings of the same sum are not equally far from the truth."""
TURNS: Final = 9
WIDE, HIDDEN, CLASSES, HEADS = 128, 64, 16, 4
LADDERS: Final[dict[str, list[tuple[str, frozenset[str]]]]] = {
    "GCN": [
        (KERNEL, frozenset({KERNEL})),
        (f"+ {EPILOGUE}", frozenset({KERNEL, EPILOGUE})),
    ],
    "GraphSAGE": [
        (KERNEL, frozenset({KERNEL})),
        (f"+ {EPILOGUE}", frozenset({KERNEL, EPILOGUE})),
    ],
    "GAT": [(ATTENTION, frozenset({ATTENTION})), (f"+ {EPILOGUE}", frozenset({ATTENTION, EPILOGUE}))],
}
"""Rules added one after the other."""


class Model(nn.Module):
    """Two layers as DGL's examples write them."""

    def __init__(self, kind: str, wide: int = WIDE, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = _layers(kind, wide)
        self.dropout = nn.Dropout(dropout)
        self.attention = kind == "GAT"

    def forward(self, graph: Any, x: Tensor) -> Tensor:  # noqa: ANN401 - DGL ships no types
        """(n, features) -> (n, classes)."""
        hidden = self.first(graph, x)
        hidden = functional.elu(hidden.flatten(1)) if self.attention else functional.relu(hidden)
        out: Tensor = self.second(graph, self.dropout(hidden))
        return out.mean(1) if self.attention else out


def _layers(kind: str, wide: int) -> tuple[nn.Module, nn.Module]:
    if kind == "GCN":
        return dglnn.GraphConv(wide, HIDDEN), dglnn.GraphConv(HIDDEN, CLASSES)
    if kind == "GraphSAGE":
        return dglnn.SAGEConv(wide, HIDDEN, "mean"), dglnn.SAGEConv(HIDDEN, CLASSES, "mean")
    return dglnn.GATConv(wide, HIDDEN // HEADS, HEADS), dglnn.GATConv(HIDDEN, CLASSES, 1)


def main() -> int:
    """Measure, print, and fail where a goal is missed."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--worker", action="store_true", help="the worker's epochs with --quick too")
    parser.add_argument("--keep-memory", action="store_true", help="neither side gives freed memory back, as in the training worker")
    arguments = parser.parse_args()
    if arguments.keep_memory and not allocator.keep({}):
        parser.error("--keep-memory: this C library has no mallopt; leave the option out")
    repeats = 3 if arguments.quick else TURNS
    rows: list[common.Row] = []
    for name, graph in graphs(arguments.quick).items():
        for kind in LADDERS:
            rows += model_rows(name, graph, kind, repeats)
        if name.startswith("R-MAT, 1 M"):
            rows += apart_rows(name, graph, repeats)
    if not arguments.quick or arguments.worker:
        rows += fusion_worker.rows(BENCHMARK)
    return common.report([*rows, losses(rows)], arguments.json)


def losses(rows: list[common.Row]) -> common.Row:
    """In how many cases a fused form was slower than DGL."""
    ratios = [row.value for row in rows if row.metric == f"{DGL} / this" and not row.method.startswith(DGL)]
    lost = float(sum(ratio < 1.0 for ratio in ratios))
    return common.Row(BENCHMARK, f"all {len(ratios)} ratios", FUSED, "loss", lost, "cases")


def graphs(quick: bool) -> dict[str, Any]:
    """With self loops, both directions of every edge."""
    made = {"R-MAT, 1 M edges": rmat(16, 8, seed=1)}
    if not quick:
        made["R-MAT, 4 M edges"] = rmat(17, 16, seed=2)
        made["grid, 1.25 M edges"] = grid(500)
    return made


def rmat(scale: int, factor: int, seed: int) -> Any:  # noqa: ANN401
    """2^scale vertices, R-MAT of Chakrabarti et al. (SDM 2004) with Graph500's probabilities and shuffled names."""
    rng = np.random.default_rng(seed)
    count = factor << scale
    source, destination = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for _ in range(scale):
        drawn = rng.random(count)
        source = 2 * source + (drawn >= 0.76)
        destination = 2 * destination + (((drawn >= 0.57) & (drawn < 0.76)) | (drawn >= 0.95))
    names = rng.permutation(1 << scale)
    return _looped(dgl.graph((names[source], names[destination]), num_nodes=1 << scale))


def grid(side: int) -> Any:  # noqa: ANN401
    """A square of side × side vertices with their four neighbours."""
    numbers = np.arange(side * side).reshape(side, side)
    source = np.concatenate([numbers[:, :-1].ravel(), numbers[:-1].ravel()])
    destination = np.concatenate([numbers[:, 1:].ravel(), numbers[1:].ravel()])
    return _looped(dgl.graph((source, destination), num_nodes=side * side))


def _looped(graph: Any) -> Any:  # noqa: ANN401
    made = dgl.add_self_loop(dgl.remove_self_loop(dgl.to_bidirected(graph)))
    made.create_formats_()
    return made


def model_rows(case: str, graph: Any, kind: str, repeats: int) -> list[common.Row]:  # noqa: ANN401
    """One model on one graph: every step of its ladder, DGL with 32-bit graphs, what is constant kept, equality."""
    case = f"{kind}, {case}"
    torch.manual_seed(0)
    count = graph.num_nodes()
    statistics = GraphStatistics(count, graph.num_edges())
    model, x, labels = Model(kind), torch.randn(count, WIDE), torch.randint(0, CLASSES, (count,))
    short = graph.int()
    short.create_formats_()
    every = EVERY - {HOIST}
    variants = {label: fuse(model, statistics, rules).model for label, rules in LADDERS[kind]}
    variants[FUSED] = fuse(model, statistics, every).model
    steps = {DGL: stepper(model, graph, x, labels), "DGL, 32-bit graph": stepper(model, short, x, labels)}
    steps |= {label: stepper(variant, graph, x, labels) for label, variant in variants.items()}
    if kind != "GAT":
        kept = fuse(model, GraphStatistics(count, graph.num_edges(), constant_input=True)).model
        steps[f"{FUSED} + {HOIST}"] = stepper(kept, graph, x, labels)
    rows, ratios = timed(case, steps, repeats)
    if graph.num_edges() >= 1_000_000:
        rows.append(common.goal(BENCHMARK, f"{case}: fused / DGL", FUSED, 1 / ratios[FUSED], 1 / SPEEDUP, "ratio"))
    plain = steps[DGL]()
    expected, elsewhere = fusion_exact.gradients(model, model, graph, x, labels)
    theirs = error(plain[1:], expected)
    forms = {FUSED: variants[FUSED]} | ({} if kind == "GAT" else {f"{FUSED} + {HOIST}": kept})
    for label, form in forms.items():
        given = steps[label]()
        rows.append(common.goal(BENCHMARK, f"{case}: outputs", label, error(given[:1], plain[:1]), CLOSE, "relative"))
        expected, apart = fusion_exact.gradients(model, form, graph, x, labels)
        rows.append(common.goal(BENCHMARK, f"{case}: gradients", label, error(given[1:], expected), max(CLOSE, SLACK * theirs), "relative"))
        rows.append(common.Row(BENCHMARK, case, label, "other side than float64", float(apart), "sums"))
    rows.append(common.Row(BENCHMARK, case, DGL, "error of gradients", theirs, "relative"))
    rows.append(common.Row(BENCHMARK, case, DGL, "other side than float64", float(elsewhere), "sums"))
    return rows


def apart_rows(case: str, graph: Any, repeats: int) -> list[common.Row]:  # noqa: ANN401
    """Rules that do not stand in the ladders: dropout, linear layers, and a graph convolution that grows."""
    torch.manual_seed(0)
    count = graph.num_nodes()
    statistics = GraphStatistics(count, graph.num_edges())
    x, labels = torch.randn(count, WIDE), torch.randint(0, CLASSES, (count,))
    thinned = Model("GCN", dropout=0.5)
    perceptron = nn.Sequential(nn.Linear(WIDE, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, CLASSES))
    narrow = Model("GCN", wide=96)
    pairs: list[tuple[str, nn.Module, frozenset[str], frozenset[str], Tensor]] = [
        ("GCN with dropout", thinned, EVERY - {DROPOUT, HOIST}, EVERY - {HOIST}, x),
        ("GCN, 96 to 64", narrow, EVERY - {ORDER, HOIST}, EVERY - {HOIST}, x[:, :96].contiguous()),
        ("perceptron", perceptron, frozenset(), frozenset({LINEAR}), x),
    ]
    rows = []
    for (name, model, without, rules, given), rule in zip(pairs, (DROPOUT, ORDER, LINEAR), strict=True):
        fed: Any = Fed(model) if name == "perceptron" else model
        fused = fuse(fed, statistics, rules).model
        steps = {
            DGL: stepper(fed, graph, given, labels),
            f"without {rule}": stepper(fuse(fed, statistics, without).model, graph, given, labels),
            f"with {rule}": stepper(fused, graph, given, labels),
        }
        rows += timed(f"{name}, {case}", steps, repeats)[0]
    return rows


class Fed(nn.Module):
    """A model that needs no graph, called as the others are."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, graph: Any, x: Tensor) -> Tensor:  # noqa: ANN401
        """Without the graph."""
        out: Tensor = self.inner(x)
        return out


def stepper(model: nn.Module, graph: Any, x: Tensor, labels: Tensor) -> Callable[[], list[Tensor]]:  # noqa: ANN401
    """One forward and backward pass; returns the output and all gradients."""
    parameters = list(model.parameters())

    def step() -> list[Tensor]:
        out = model(graph, x)
        gradients = torch.autograd.grad(functional.cross_entropy(out, labels), parameters)
        return [out.detach(), *gradients]

    return step


def timed(case: str, steps: dict[str, Callable[[], list[Tensor]]], repeats: int) -> tuple[list[common.Row], dict[str, float]]:
    """Rows of each, and DGL's time over each's."""
    taken: dict[str, list[float]] = {label: [] for label in steps}
    for step in steps.values():
        step()  # formats, weights and what is constant are made once
    for _ in range(repeats):
        for label, step in steps.items():
            started = time.process_time()
            step()
            taken[label].append(time.process_time() - started)
    medians = {label: common.median(values) for label, values in taken.items()}
    ratios = {label: common.median([peer / ours for peer, ours in zip(taken[DGL], values, strict=True)]) for label, values in taken.items()}
    rows = [common.Row(BENCHMARK, case, label, "forward + backward", value * 1e3, "ms CPU") for label, value in medians.items()]
    rows += [common.Row(BENCHMARK, case, label, f"{DGL} / this", value, "ratio") for label, value in ratios.items() if label != DGL]
    return rows, ratios


def error(given: list[Tensor], expected: list[Tensor]) -> float:
    """The largest difference in any tensor, of the largest figure there."""
    return max(float((one - other).abs().max() / other.abs().max()) for one, other in zip(given, expected, strict=True))


if __name__ == "__main__":
    sys.exit(main())
