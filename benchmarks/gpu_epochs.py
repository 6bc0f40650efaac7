"""Seconds of an epoch, or of a step of drawn neighbours, as the planner predicts them and as GPUs took them, over many shapes.

    python -m benchmarks.gpu_epochs [--quick] [--json FILE] [--figures FILE]
    PYTHONPATH=operator python3 -m benchmarks.gpu_epochs --measure FILE [--minutes M]

suites/gpu_epochs.csv has what one H100 and one H200 took; `--measure` measures the shapes of the H200. Generated graphs with hubs
(benchmarks/gpu_cases.py), two layers of the worker's own code, dropout 0.5, 16 classes; the median of 5 epochs after 2, and of sampled
jobs the mean step of the second epoch. Both machines had 16 cores; a step's host work (draws, features) is theirs, not the GPU's.
The prediction is the product's own: planner/workload/profile.py and planner/problem/speeds.py. Its constants were fitted to these figures
and to published epochs on an A100 (docs/explanation/planner.md): this shows how well ten constants fit, not a forecast.

Peer in the same run: the count of earlier versions, three forward passes with a weight of 12 for neighbour sums and 360 for attention,
1.5 ms a layer and nothing for the host.

`--measure` needs a GPU, torch and numpy; it writes the file again after each case. --quick is the same as none.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "operator"))
sys.path.insert(0, str(ROOT))

from benchmarks.common import Row, goal, median, parser, report  # noqa: E402 - a script's own folder is not on the path

BENCHMARK: Final = "gpu_epochs"
FIGURES: Final = Path(__file__).parent / "suites" / "gpu_epochs.csv"
OURS: Final = "planner"
FORMER: Final = "12 for sums, 360 for attention, 1.5 ms a layer"
CLASSES: Final = 16
LAYERS: Final = 2
WARM, COUNTED = 2, 5
FACTOR: Final = 1.5
STATED_RANGE: Final = (0.75, 1.35)


class Measured(NamedTuple):
    """One line of the file."""

    gpu: str
    """Its product label."""
    architecture: str
    edges: int
    vertices: int
    features: int
    hidden: int
    """Of all heads together."""
    heads: int
    batch: str
    """Seeds of a step; empty: the whole graph."""
    fanouts: str
    seconds: float
    """Of an epoch over the whole graph, else of a step."""
    peak_mib: str
    """torch's own; empty where it was not taken."""

    @property
    def kind(self) -> str:
        """What is summed up together."""
        return "drawn neighbours" if self.batch else ("GAT" if self.architecture == "GAT" else "GCN and GraphSAGE")


def main() -> int:
    """Measure, or judge what was measured."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--figures", type=Path, default=FIGURES, help="judge these instead, e.g. what --measure wrote")
    arguments.add_argument("--measure", type=Path, metavar="FILE", help="measure on this machine's GPU and write FILE")
    arguments.add_argument("--minutes", type=float, default=6.0, help="begin no further case after this number of minutes (6)")
    asked = arguments.parse_args()
    if asked.measure is not None:
        return measure(asked.measure, asked.minutes)
    return judged(read(asked.figures), asked)


def read(file: Path) -> list[Measured]:
    """Raises SystemExit naming what the file lacks."""
    try:
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        return [_measured(row) for row in rows]
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise SystemExit(f"{file}: {error!r}; name a file with the columns {','.join(Measured._fields)}") from error


def _measured(row: dict[str, str]) -> Measured:
    edges, vertices, features, hidden, heads = (int(row[name]) for name in ("edges", "vertices", "features", "hidden", "heads"))
    shape = row["architecture"], edges, vertices, features, hidden, heads
    return Measured(row["gpu"], *shape, row["batch"], row["fanouts"], float(row["seconds"]), row["peak_mib"])


def judged(figures: Sequence[Measured], asked: argparse.Namespace) -> int:
    """Predicted over measured, by GPU and kind."""
    groups: dict[str, list[Measured]] = {}
    for each in figures:
        groups.setdefault(f"{each.gpu}, {each.kind}", []).append(each)
    rows = [row for case, chosen in groups.items() for row in summary(case, chosen)]
    rows += _goal("whole graph", [each for each in figures if not each.batch])
    rows += _goal("drawn neighbours", [each for each in figures if each.batch])
    return report(rows, asked.json)


def _goal(case: str, chosen: Sequence[Measured]) -> list[Row]:
    what = f"{OURS}, more than {FACTOR:g} times off"
    return [goal(BENCHMARK, case, what, share_off(chosen, predicted), 0.05, "share")] if chosen else []


def summary(case: str, chosen: Sequence[Measured]) -> list[Row]:
    """Of some figures: how far predictions are off."""
    rows = [Row(BENCHMARK, case, OURS, "figures", float(len(chosen)), "")]
    for name, method in ((OURS, predicted), (FORMER, formerly)):
        ratios = [method(each) / each.seconds for each in chosen]
        mean = math.exp(sum(abs(math.log(ratio)) for ratio in ratios) / len(ratios)) - 1.0
        rows += [
            Row(BENCHMARK, case, name, "mean error", 100.0 * mean, "%"),
            Row(BENCHMARK, case, name, "least predicted / measured", min(ratios), "ratio"),
            Row(BENCHMARK, case, name, "largest predicted / measured", max(ratios), "ratio"),
            Row(BENCHMARK, case, name, f"more than {FACTOR:g} times off", 100.0 * share_off(chosen, method), "%"),
            Row(BENCHMARK, case, name, "within the range that plans state", 100.0 * _in_range(ratios), "%"),
        ]
    return rows


def _in_range(ratios: Sequence[float]) -> float:
    """Share (0..1) of measured / predicted within what plans state of compute where every figure is known (planner/choice/trust.py)."""
    return sum(STATED_RANGE[0] <= 1.0 / ratio <= STATED_RANGE[1] for ratio in ratios) / len(ratios)


def share_off(figures: Sequence[Measured], method: Any) -> float:  # noqa: ANN401 - a function of one figure
    """Share (0..1) whose prediction is more than FACTOR times off."""
    return sum(abs(math.log(method(each) / each.seconds)) > math.log(FACTOR) for each in figures) / len(figures)


def predicted(figure: Measured) -> float:
    """Seconds by the product's own model."""
    from hyperscale.planner.workload.profile import profile

    work = profile(_job(figure))
    steps = work.steps(1, 1)
    return (work.epoch_flops / _speed(figure) + work.host_seconds) / steps + work.step_overhead_seconds


def formerly(figure: Measured) -> float:
    """Seconds by the count of earlier versions."""
    from hyperscale.planner.workload.sampled_steps import effective_fanouts, frontier

    degree = figure.edges / figure.vertices
    fanouts = effective_fanouts(tuple(map(int, figure.fanouts.split())), LAYERS, degree)
    sizes = frontier(int(figure.batch), fanouts, figure.vertices) if figure.batch else (float(figure.vertices),) * (LAYERS + 1)
    work, projections = 0.0, 2.0 if figure.architecture == "GraphSAGE" else 1.0
    widths = (figure.features, figure.hidden, CLASSES)
    for layer in range(LAYERS):
        depth = LAYERS - 1 - layer
        inputs, outputs, vertices = widths[layer], widths[layer + 1], sizes[depth]
        edges = vertices * fanouts[depth]
        if figure.architecture == "GAT":
            heads = figure.heads if layer < LAYERS - 1 else 1
            work += 2.0 * vertices * inputs * outputs + 12.0 * edges * (2.0 * outputs + 360.0 * heads)
        else:
            work += 2.0 * projections * vertices * inputs * outputs + 24.0 * edges * min(inputs, outputs)
    return 3.0 * work / _speed(figure) + LAYERS * 1.5e-3


def _job(figure: Measured) -> Any:  # noqa: ANN401 - JobSpec, imported where it is needed
    from hyperscale.model.constants import API_VERSION
    from hyperscale.spec.parse import parse_job

    heads = {"heads": figure.heads} if figure.architecture == "GAT" else {}
    drawn = {"batchSize": int(figure.batch), "fanouts": [int(fanout) for fanout in figure.fanouts.split()]} if figure.batch else {}
    spec = {
        "workers": {"minReplicas": 1, "maxReplicas": 1},
        "dataset": {
            "source": {"persistentVolumeClaim": {"claimName": "g"}},
            "vertices": figure.vertices,
            "edges": figure.edges,
            "featureSize": figure.features,
            "classes": CLASSES,
        },
        "model": {"architecture": figure.architecture, "layers": LAYERS, "hiddenSize": figure.hidden // figure.heads, **heads, **drawn},
    }
    return parse_job({"apiVersion": API_VERSION, "kind": "GNNTrainingJob", "metadata": {"name": "j", "namespace": "d"}, "spec": spec})


def _speed(figure: Measured) -> float:
    from hyperscale.model.products import longest
    from hyperscale.planner.problem.speeds import TERAFLOPS

    product = longest(figure.gpu, TERAFLOPS)
    if product is None:
        raise SystemExit(f"{figure.gpu}: no speed in planner/problem/speeds.py; name a product of its table in the column gpu")
    return TERAFLOPS[product] * 1e12


SHAPES: Final = (
    (1_000_000, 50_000),
    (5_000_000, 1_000_000),
    (20_000_000, 200_000),
    (100_000, 5_000),
    (20_000_000, 1_000_000),
    (60_000_000, 2_000_000),
    (10_000_000, 3_000_000),
)
"""Edges and vertices."""
WIDTHS: Final = ((64, 16), (128, 128), (256, 256), (16, 256), (512, 512), (602, 64))
"""Features, hidden."""


def measure(file: Path, minutes: float) -> int:
    """Write a line for each case that there is time for; the exit code."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("torch sees no GPU here; measure on a machine with one, or leave --measure out to judge recorded figures")
    lines: list[Measured] = []
    device, began = torch.device("cuda", 0), time.monotonic()
    gpu = torch.cuda.get_device_name(device).replace(" ", "-")
    for case, batch, fanouts in _cases():
        if time.monotonic() - began > 60.0 * minutes:
            sys.stderr.write(f"{minutes:g} minutes are over: {len(lines)} cases\n")
            break
        seconds, peak = _drawn(case, device, batch, fanouts) if batch else _whole(case, device)
        heads = case.heads if case.attends else 1
        shape = case.architecture, case.edges, case.vertices, case.features, case.hidden, heads
        lines.append(Measured(gpu, *shape, str(batch or ""), " ".join(map(str, fanouts)), round(seconds, 6), peak))
        sys.stderr.write(f"[{time.monotonic() - began:4.0f} s] {case.name}: {1e3 * seconds:.2f} ms\n")
        with file.open("w", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows([Measured._fields, *lines])
    return 0


def _cases() -> Iterator[tuple[Any, int, tuple[int, ...]]]:
    from benchmarks.gpu_cases import ARCHITECTURES, Case

    gcn, sage, gat = ARCHITECTURES
    for edges, vertices in SHAPES:
        for features, hidden in WIDTHS:
            widest = max(features, hidden)
            if vertices * widest > (7.7e8 if widest <= 256 else 2.6e8):
                continue
            yield from ((Case(architecture, edges, vertices, features, hidden), 0, ()) for architecture in (gcn, sage))
            if (features, hidden) in WIDTHS[:3:2] and edges < 5e7:
                yield Case(gat, edges, vertices, features, hidden, 1 if hidden < 256 else 4), 0, ()
    for case in (
        Case(sage, 5_000_000, 250_000, 128, 128),
        Case(gcn, 5_000_000, 250_000, 128, 128),
        Case(sage, 20_000_000, 1_000_000, 256, 256),
    ):
        yield from ((case, batch, fanouts) for batch, fanouts in ((1024, (10, 5)), (256, (15, 10))))


def _whole(case: Any, device: Any) -> tuple[float, str]:  # noqa: ANN401 - types of torch, which judging goes without
    import torch

    from benchmarks.gpu_cases import graph_of, trainer_of

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    trainer = trainer_of(case, graph_of(case), device)
    seconds = median([trainer.epoch(number).seconds for number in range(1, WARM + COUNTED + 1)][WARM:])
    trainer.evaluate()
    return seconds, str(round(torch.cuda.max_memory_allocated(device) / 2**20))


def _drawn(case: Any, device: Any, batch: int, fanouts: tuple[int, ...]) -> tuple[float, str]:  # noqa: ANN401 - as above
    import numpy as np

    from benchmarks.gpu_cases import graph_of, sampled_of

    part = graph_of(case)
    some = part.train & (np.arange(case.vertices) % 16 == 0)  # fewer steps; a step is as long
    trainer = sampled_of(case, dataclasses.replace(part, train=some, train_total=int(some.sum())), device, batch, fanouts)
    trainer.epoch(1)
    return trainer.epoch(2).seconds / trainer.steps, ""


if __name__ == "__main__":
    sys.exit(main())
