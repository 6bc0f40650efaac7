"""All-reduce as the planner predicts it against published runs of nccl-tests (all_reduce_perf).

    python benchmarks/hardware.py [--quick] [--json FILE] [--figures FILE]

Protocol. suites/nccl_tests.csv has what public pages print: out-of-place bus bandwidth of the largest message of a run, and that of
8 MiB where the page prints it. A run needs its GPUs, ranks, nodes, cards, message and address; runs that their authors report as faulty
are left out, and so are changed drivers. The prediction is the product's own code: the fastest of planner/cost/collectives.py, with the
inside of planner/graph/inside.py without an agent, all cards of a node together (cards x Gbit/s / 8, which exporters, the table of
instance types or overrides tell), and the latency that the table of instance types has, else 20 us as nodes on one switch without
measurements have. The columns cards and gbit are 0 inside of a node; sharp is "no" where a page says that NVLink SHARP was off or the GPU
has none.

Peers in the same run: the flat ring of earlier versions (2 (n - 1) hops of the slowest latency, one bandwidth for all hops), the same with
nominal rates, without the 0.8 of SUSTAINED, and with 25 GB/s for every inside.

Split, fixed before any constant of planner/cost/collectives.py was chosen: the kinds in the order of the file are taught and held out by
turns, the first is taught. Constants may look at taught kinds and at NVIDIA's own (NCCL's src/graph/tuning.cc); whole kinds are judged.
The goal is over the held-out kinds. The older, narrower split is printed too: kinds whose GPU is neither of the two that SUSTAINED was
taken from. --quick is the same.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import common
from benchmarks.common import Row
from hyperscale.model.products import longest
from hyperscale.planner.cost.collectives import allreduce
from hyperscale.planner.graph.inside import BOARDS, SUSTAINED, exchange_of, observed
from hyperscale.planner.graph.machines_table import INSTANCE_TYPES
from hyperscale.planner.graph.tiers import RACK

NAME: Final = "hardware"
OURS: Final = "hyperscale"
FIGURES: Final = Path(__file__).parent / "suites" / "nccl_tests.csv"
TAUGHT_KINDS: Final = (
    "A100 x8",
    "H100 x8 plain",
    "V100-SXM2 x8",
    "RTX 5090 x4",
    "A100 x8, 16x100",
    "A100 x8, EFA 4x100 (p4d)",
    "A100 x4, 2x200",
    "H100 x8, 16x200",
    "H200 x8, 8x400",
    "GH200 x4, 4x200",
)
"""Every second kind of nccl_tests.csv, from the first on; every other kind is judged, kinds that are added later too."""
TAUGHT_PRODUCTS: Final = ("A100-SXM4", "H100")
"""Entries of BOARDS that SUSTAINED was taken from."""
SMALL: Final = 8 * 2**20
"""Bytes of the second message of a run."""
CONSTANT: Final = 25e9
"""Bytes a second, one way: the peer's inside of every node."""
LIMIT: Final = 20.0
"""% of median error over held-out kinds."""
COLUMNS: Final = ("kind", "product", "nodes", "gpus", "cards", "gbit", "instance", "bytes", "busbw", "sharp", "source", "note")


@dataclass(frozen=True)
class Point:
    """One published run with one message."""

    kind: str
    product: str
    """As the node label `nvidia.com/gpu.product` has it."""
    nodes: int
    gpus: int
    """Of a node."""
    cards: int
    """Of a node."""
    gbit: float
    """Gbit/s of a card."""
    instance: str
    """Value of node.kubernetes.io/instance-type of a cloud's machine; "" of others."""
    message_bytes: float
    busbw: float
    """GB/s, out of place."""
    sharp: bool
    """True where NVSwitches may add up the data."""
    source: str

    @property
    def held_out(self) -> bool:
        """True where no constant was chosen by this kind of machine."""
        return self.kind not in TAUGHT_KINDS

    @property
    def card_bytes_per_second(self) -> float:
        """Of all cards of a node."""
        return self.cards * self.gbit * 1e9 / 8.0

    @property
    def latency_seconds(self) -> float:
        """Between nodes, without measurements."""
        entry = INSTANCE_TYPES.get(self.instance)
        return RACK.latency_seconds if entry is None or entry.hop_seconds is None else entry.hop_seconds

    @property
    def held_out_product(self) -> bool:
        """True where SUSTAINED was not taken from this GPU."""
        return longest(self.product, BOARDS) not in TAUGHT_PRODUCTS

    @property
    def label(self) -> str:
        """Kind, nodes and message."""
        size = self.message_bytes / 2**20
        message = f"{size / 1024:.3g} GiB" if size >= 1024 else f"{size:.3g} MiB"
        return f"{self.kind}, {self.nodes} node{'s' if self.nodes > 1 else ''}, {message}"


def read(file: Path) -> list[Point]:
    """Points of a table. SystemExit names the file, the line and what to write instead of a bad figure."""
    try:
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
    except OSError as error:
        raise SystemExit(f"{file}: {error.strerror}; name a table with the columns of {FIGURES.name}") from error
    if not rows or set(COLUMNS) - set(rows[0]):
        raise SystemExit(f"{file}: no rows with the columns {', '.join(COLUMNS)}; write them as in {FIGURES.name}")
    return [_point(row, f"{file}, line {number}") for number, row in enumerate(rows, start=2)]


def _point(row: dict[str, str], place: str) -> Point:
    """One row. SystemExit where a figure is none, or a run of several nodes lacks cards."""
    nodes, gpus, cards = (int(_figure(row, column, place)) for column in ("nodes", "gpus", "cards"))
    gbit, message_bytes, busbw = (_figure(row, column, place) for column in ("gbit", "bytes", "busbw"))
    if min(nodes, gpus, message_bytes, busbw) <= 0 or nodes * gpus < 2 or (nodes > 1 and cards * gbit <= 0):
        raise SystemExit(f"{place}: write nodes, gpus, bytes and busbw above 0, two ranks or more, and cards and gbit for several nodes")
    return Point(
        row["kind"], row["product"], nodes, gpus, cards, gbit, row["instance"], message_bytes, busbw, row["sharp"] == "yes", row["source"]
    )


def _figure(row: dict[str, str], column: str, place: str) -> float:
    """A finite number of a row. SystemExit where it is none."""
    try:
        figure = float(row[column] or "")
    except (TypeError, ValueError):
        figure = math.nan
    if not math.isfinite(figure):
        raise SystemExit(f"{place}: {column} is {row[column]!r}; write a number")
    return figure


def flat(point: Point) -> tuple[float, float]:
    """Latency and bandwidth of a hop inside: those of a pair."""
    return observed(point.product)


def nominal(point: Point) -> tuple[float, float]:
    """The same without SUSTAINED."""
    latency, bandwidth = observed(point.product)
    return latency, bandwidth / SUSTAINED


def constant(point: Point) -> tuple[float, float]:
    """One bandwidth for every product."""
    return observed(point.product)[0], CONSTANT


def ring(point: Point, inside: Callable[[Point], tuple[float, float]]) -> float:
    """Bus bandwidth of a flat ring, GB/s: the peers' formula."""
    ranks = point.nodes * point.gpus
    latency, bandwidth = inside(point) if point.gpus > 1 else (0.0, math.inf)
    if point.nodes > 1:
        latency = max(latency, RACK.latency_seconds)
        bandwidth = min(bandwidth, point.card_bytes_per_second)
    volume = 2.0 * (ranks - 1) / ranks * point.message_bytes
    return volume / (2.0 * (ranks - 1) * latency + volume / bandwidth) / 1e9


def ours(point: Point) -> float:
    """Bus bandwidth of the planner's fastest collective, GB/s, as plans count it: any two GPUs of a node exchange at one rate."""
    return busbw(point, exchange_of(point.product, None, point.gpus).bandwidth)


def with_rings(point: Point) -> float:
    """The same where a ring uses all NVLinks of a board that joins its GPUs without switches; plans do not count that."""
    return busbw(point, exchange_of(point.product, None, point.gpus).ring)


def busbw(point: Point, inside_bytes_per_second: float) -> float:
    """Bus bandwidth of the fastest collective, GB/s: 2 (n - 1) / n of the message over the time, as nccl-tests has it."""
    ranks = point.nodes * point.gpus
    inside = exchange_of(point.product, None, point.gpus)
    algorithms = allreduce(ranks, point.nodes, inside.sharp if point.sharp else 0.0)
    between = point.latency_seconds, 1.0 / point.card_bytes_per_second if point.nodes > 1 else 0.0
    hops = inside.latency_seconds, 1.0 / inside_bytes_per_second
    seconds = min(each.seconds(point.message_bytes, between, hops) for each in algorithms)
    return 2.0 * (ranks - 1) / ranks * point.message_bytes / seconds / 1e9


METHODS: Final[dict[str, Callable[[Point], float]]] = {
    OURS: ours,
    "rings of boards": with_rings,
    "flat ring": lambda point: ring(point, flat),
    "nominal rates": lambda point: ring(point, nominal),
    "25 GB/s": lambda point: ring(point, constant),
}


def predicted(point: Point, method: str = OURS) -> float:
    """Bus bandwidth of a method, GB/s."""
    return METHODS[method](point)


def error(point: Point, method: str = OURS) -> float:
    """Percent of the published figure, without sign."""
    return 100.0 * abs(predicted(point, method) / point.busbw - 1.0)


def point_rows(points: Sequence[Point]) -> list[Row]:
    """Every point: published, predicted by each method, and the errors."""
    rows = []
    for point in points:
        rows.append(Row(NAME, point.label, "published", "bus bandwidth", point.busbw, "GB/s"))
        for method in METHODS:
            rows.append(Row(NAME, point.label, method, "bus bandwidth", predicted(point, method), "GB/s"))
            rows.append(Row(NAME, point.label, method, "error", error(point, method), "%"))
    return rows


PARTS: Final[dict[str, Callable[[Point], bool]]] = {
    "all": lambda _: True,
    "inside of a node": lambda point: point.nodes == 1,
    "between nodes": lambda point: point.nodes > 1,
    "largest messages": lambda point: point.message_bytes != SMALL,
    "8 MiB": lambda point: point.message_bytes == SMALL,
    "without NVLink SHARP": lambda point: not point.sharp,
    "with NVLink SHARP": lambda point: point.sharp,
    "taught kinds": lambda point: not point.held_out,
    "held-out kinds": lambda point: point.held_out,
    "kinds of other GPUs than A100-SXM4 and H100": lambda point: point.held_out_product,
}


def _medians(part: str, points: Sequence[Point]) -> list[Row]:
    """Median error of every method over some points; no row where there are none."""
    if not points:
        return []
    case = f"{part} ({len(points)})"
    return [Row(NAME, case, method, "median error", common.median([error(each, method) for each in points]), "%") for method in METHODS]


def summary_rows(points: Sequence[Point]) -> list[Row]:
    """Median errors of parts of the points, and of every kind; then the goal where a kind is held out."""
    rows = []
    for part, belongs in PARTS.items():
        rows += _medians(part, [point for point in points if belongs(point)])
    for kind in dict.fromkeys(point.kind for point in points):
        rows += _medians(f"kind {kind}", [point for point in points if point.kind == kind])
    held_out = [error(point) for point in points if point.held_out]
    if held_out:
        rows.append(common.goal(NAME, "median error of held-out kinds", OURS, common.median(held_out), LIMIT, "%"))
    return rows


def shown(points: Sequence[Point]) -> str:
    """A line for every point: published, then predicted and its signed error by each method."""
    lines = []
    for point in points:
        figures = [predicted(point, method) for method in METHODS]
        cells = [f"{figure:.1f} ({100.0 * (figure / point.busbw - 1.0):+.0f} %)" for figure in figures]
        lines.append([point.label, "yes" if point.sharp else "", "yes" if point.held_out else "", f"{point.busbw:.2f}", *cells])
    return common.table(("GB/s", "SHARP", "held out", "published", *METHODS), lines)


def main() -> int:
    """Run as said above."""
    arguments = common.parser(__doc__ or "")
    arguments.add_argument("--figures", type=Path, metavar="FILE", default=FIGURES, help="a table with the columns of nccl_tests.csv")
    options = arguments.parse_args()
    points = read(options.figures)
    summary = summary_rows(points)
    print(shown(points))
    print(f"\n{len(points)} points, {len({point.kind for point in points})} kinds of machine\n")
    code = common.report(summary, None)
    if options.json is not None:
        common.write([*point_rows(points), *summary], options.json)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
