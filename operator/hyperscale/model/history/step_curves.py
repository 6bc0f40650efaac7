"""Measured steps of data-parallel training, and the curve fitted to them: seconds of one step from the GPUs that each node lends."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from hyperscale.model.api.datasets import dataset_size
from hyperscale.model.api.job import JobSpec

NODE_CLASSES: Final = 3
"""All on one node; two nodes; three and more. Two nodes share one path in both directions, three and more each have their own."""

LARGEST_EXPONENT: Final = 20.0
"""An overlap exponent beyond this is the maximum in all but name."""

LARGEST_EFFECT: Final = 3.0
"""Of the logarithm of what one placement's arithmetic or allreduce is multiplied with: twenty times is a fault, not a habit."""

ABSURD_RATIO: Final = 20.0
"""Of measured and predicted seconds: one beyond it, either way, is no measurement and no prediction."""

LARGEST_SPREAD: Final = 1.0
"""Of ln(measured / corrected): a range of e^2 to both sides says that nothing is foretold."""

MOST_REMEMBERED: Final = 64
"""Placements that a curve carries with what their own steps taught."""

MAX_SHAPES: Final = 64
"""Shapes of placements that a curve carries to predict others by."""

Seconds = Annotated[float, Meta(ge=0.0, le=1e9)]
Effect = Annotated[float, Meta(ge=-LARGEST_EFFECT, le=LARGEST_EFFECT)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]


@dataclass(frozen=True)
class Step:
    """One configuration, and what it took where it was measured."""

    gpus: tuple[int, ...]
    """Used on each node, none of them 0; their order has no meaning."""
    batch: float
    """Samples a GPU and step."""
    step_seconds: float = 0.0
    hosts: str = ""
    """Which nodes, in any wording: what their own steps taught is kept under it. Empty: the counts stand for them."""

    @property
    def counts(self) -> tuple[int, ...]:
        """GPUs of each node, most first."""
        return tuple(sorted(self.gpus, reverse=True))

    @property
    def name(self) -> str:
        """The placement's name in `StepTime.effects`."""
        return self.hosts or "-".join(map(str, self.counts))


class LinkClass(msgspec.Struct, frozen=True, rename="camel"):
    """Allreduce over one class of placements: a ring's latency and bandwidth (Patarasuk & Yuan 2009) beside a fixed price."""

    fixed_seconds: Seconds
    hop_seconds: Seconds
    """For each of the ring's k - 1 exchanges there and back."""
    volume_seconds: Seconds
    """Seconds to send the whole gradient once over the slowest hop; the ring sends it 2 (k - 1) / k times."""
    least_gpus: Count = 0
    most_gpus: Count = 0
    """Of the placements of this class that were measured; both 0 where none was."""


class PlaceEffect(msgspec.Struct, frozen=True, rename="camel"):
    """What one placement's own steps taught: its hosts may hold a slow GPU or a busy link that the counts do not show."""

    compute: Effect
    """ln(its arithmetic / the curve's)."""
    sync: Effect
    """ln(its allreduce / the curve's)."""


class ShapeWeight(msgspec.Struct, frozen=True, array_like=True):
    """What the placements of one shape teach about placements of similar shape; a placement's effect is the sum over all shapes.

    Each weight is multiplied by the similarity of the two shapes (planner/cost/shape_effects.py).
    """

    gpus: Annotated[tuple[Annotated[int, Meta(ge=1, le=1_000_000)], ...], Meta(min_length=1)]
    """Of each node, most first."""
    compute: Effect
    """Share of ln(arithmetic / the curve's)."""
    sync: Effect
    """Share of ln(allreduce / the curve's)."""


class StepTime(msgspec.Struct, frozen=True, rename="camel"):
    """A fitted curve of one model on one kind of node."""

    base_seconds: Seconds
    sample_seconds: Seconds
    """Forward and backward of one more sample a GPU."""
    straggle: Annotated[float, Meta(ge=0.0, le=1e6)]
    """Part of its own arithmetic that a GPU waits for the slowest of many, per doubling of their number."""
    exponent: Annotated[float, Meta(ge=1.0, le=LARGEST_EXPONENT)]
    """1: nothing of the allreduce is hidden behind arithmetic; large: all that fits (Pollux, OSDI'21, section 3.2)."""
    links: Annotated[tuple[LinkClass, ...], Meta(min_length=NODE_CLASSES, max_length=NODE_CLASSES)]
    """By `node_class`."""
    node_seconds: Seconds
    """More of an allreduce for each node beyond the third."""
    log_error: Annotated[float, Meta(ge=0.0, le=100.0)]
    """Of ln(measured / predicted): root mean square over the rows of the fit, or the spread over rows held out where `learn` made it."""
    runs: Count = 0
    """Measured steps behind it."""
    effects: Annotated[dict[str, PlaceEffect], Meta(max_length=100_000)] = msgspec.field(default_factory=dict)
    """By `Step.name`, as far as its rows could be believed; on top of what its shape says."""
    shapes: Annotated[tuple[ShapeWeight, ...], Meta(max_length=MAX_SHAPES)] = ()
    """Empty where the rows show no effect of the shape that the curve lacks."""
    most_nodes: Count = 0
    """That two namespaces measured, where several taught the curve: it reaches no further. 0: one namespace taught it."""

    def reaches(self, gpus: Sequence[int]) -> bool:
        """True where placements of this class were measured with as few and with as many GPUs: nothing is extrapolated."""
        link = self.links[node_class(gpus)]
        return 0 < link.least_gpus <= sum(gpus) <= link.most_gpus and (not self.most_nodes or len(gpus) <= self.most_nodes)


def node_class(gpus: Sequence[int]) -> int:
    """Index into `StepTime.links` of a placement's GPUs by node."""
    return min(len(gpus), NODE_CLASSES) - 1


class Workload(NamedTuple):
    """What runs must have in common for one curve: the model, the graph and the kind of GPU."""

    architecture: str
    layers: int
    hidden_size: int
    batch_size: int | None
    """Seeds a GPU and step; None: the full graph."""
    vertices: int
    edges: int
    feature_size: int
    method: str
    """Of partitioning."""
    products: str
    """As in `Calibration.products`; curves are for one product."""


CurveKey = tuple[str, Workload]
"""The namespace whose own runs taught a curve, "" for that of all, and the workload."""


def workload_of(job: JobSpec, products: str) -> Workload:
    """Of a job on GPUs of these products. Raises ValueError where the size of its graph is not known."""
    size, model = dataset_size(job), job.model
    return Workload(
        model.architecture.value,
        model.layers,
        model.hidden_size,
        model.batch_size,
        size.vertices,
        size.edges,
        size.feature_size,
        job.partitioning.method.value,
        products,
    )


def one_kind(products: str) -> bool:
    """True for GPUs of one product: a curve does not say which node of a mix is the slow one."""
    return "+" not in products


def placed(gpus_by_node: Mapping[str, int], vertices: int, batch_size: int | None) -> tuple[Step, int]:
    """The step of a job on these GPUs, and how many of them an epoch takes. The full graph is one step, each GPU's part its batch."""
    names = sorted(gpus_by_node)
    gpus = tuple(gpus_by_node[name] for name in names)
    hosts = hashlib.sha256("\n".join(f"{name} {gpus_by_node[name]}" for name in names).encode()).hexdigest()[:16]
    if batch_size is None:
        return Step(gpus, vertices / sum(gpus), hosts=hosts), 1
    return Step(gpus, float(batch_size), hosts=hosts), max(1, math.ceil(vertices / (batch_size * sum(gpus))))
