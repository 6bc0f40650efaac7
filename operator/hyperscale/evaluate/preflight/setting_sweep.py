"""The largest batch, hidden size and fan-out that fit each GPU product, by the planner's count of tensors over a grid of settings. Pure.

The grid is (hidden sizes, batch sizes, fan-outs). A sampled step's bytes are a part that is linear in the sizes of its frontier, with the
widths as coefficients, and a part of its drawn edges, which knows no width. So every setting costs a few operations of arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, cast

import numpy as np
from msgspec.structs import replace

from hyperscale.model.api.datasets import DatasetSize, dataset_size, train_vertices
from hyperscale.model.api.job import Architecture, JobSpec
from hyperscale.model.evaluation import ProductFit
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.workload import training_memory
from hyperscale.planner.workload.layer_costs import layers
from hyperscale.planner.workload.profile import network_of, profile
from hyperscale.planner.workload.sampled_steps import effective_fanouts, frontier

MAX_HIDDEN: Final = 4096
WIDTH_STEP: Final = 16
"""Hidden sizes are multiples: others waste lanes of a tensor core."""
BATCH_SIZES: Final = 64
MIN_BATCH: Final = 16
FANOUTS: Final = 80
"""With 256 hidden sizes 1,310,720 settings; a few less where there are fewer training vertices than batch sizes."""
USUAL_BATCH: Final = 1024
USUAL_FANOUT: Final = 10
"""Where the job trains on the whole graph and states neither."""


class SweepAxes(NamedTuple):
    """Ascending settings."""

    hidden_sizes: IntArray
    batch_sizes: IntArray
    fanouts: IntArray
    """Neighbours of every layer."""

    @property
    def settings(self) -> int:
        """Of the grid."""
        return len(self.hidden_sizes) * len(self.batch_sizes) * len(self.fanouts)


class Sweep(NamedTuple):
    """Predicted memory of every setting."""

    axes: SweepAxes
    bytes: FloatArray
    """(hidden sizes, batch sizes, fan-outs) peak of one GPU."""


def axes_of(job: JobSpec) -> SweepAxes:
    """Return a grid around a job: up to all training vertices at once, up to a width of 4096, up to 80 neighbours."""
    model, most = job.model, max(MIN_BATCH, train_vertices(job))
    batches = np.geomspace(min(MIN_BATCH, most), most, BATCH_SIZES).round()
    widths = np.arange(WIDTH_STEP, MAX_HIDDEN + 1, WIDTH_STEP)
    return SweepAxes(
        _with(widths, [model.hidden_size]),
        _with(batches, [min(model.batch_size or USUAL_BATCH, most)]),
        _with(np.arange(1, FANOUTS + 1), [model.fanouts[0] if model.fanouts else USUAL_FANOUT]),
    )


def _with(values: FloatArray | IntArray, own: list[int]) -> IntArray:
    """Ascending, each once, with the job's own."""
    return np.unique(np.concatenate([values.astype(np.int64), np.array(own, dtype=np.int64)]))


def sweep(job: JobSpec, axes: SweepAxes, share: float, ranks: int) -> Sweep:
    """Return the peak of a GPU with `share` of the vertices for every setting. Raises ValueError for architecture Custom."""
    if job.model.architecture is Architecture.CUSTOM:
        raise ValueError("spec.model.architecture: a sweep counts the tensors of built-in models; Custom has none that it knows")
    size, depth = dataset_size(job), job.model.layers
    drawn, sizes = _frontiers(axes, size, depth)
    edges = _edge_bytes(job, axes, size, drawn)
    total = np.empty((len(axes.hidden_sizes), len(axes.batch_sizes), len(axes.fanouts)))
    for row, hidden in enumerate(axes.hidden_sizes):
        wide = _with_hidden(job, int(hidden))
        network = network_of(wide.model, layers(wide.model, size.feature_size, size.classes))
        step = training_memory.batch(network, cast("tuple[float, ...]", sizes), (0.0,) * depth, size.edges)
        total[row] = _fixed_bytes(wide, size, share, ranks) + step + edges
    return Sweep(axes, total)


def full_graph_bytes(job: JobSpec, hidden_sizes: IntArray, share: float, ranks: int) -> FloatArray:
    """Return the peak (h,) of a GPU that trains on its whole part, by hidden size."""
    return np.array([profile(_with_hidden(job, int(hidden), batch=None)).gpu_bytes(share, ranks, 1) for hidden in hidden_sizes])


def fits(job: JobSpec, memory: Mapping[str, float], share: float, ranks: int, axes: SweepAxes | None = None) -> tuple[ProductFit, ...]:
    """Return, for each product with its usable memory, the largest settings that fit; each with the job's other two settings.

    The job's own batch and fan-out are the usual ones where it trains on the whole graph.
    """
    grid = axes_of(job) if axes is None else axes
    whole = sweep(job, grid, share, ranks)
    full = full_graph_bytes(job, grid.hidden_sizes, share, ranks) if job.model.batch_size is None else None
    return tuple(_fit(job, product, usable, whole, full) for product, usable in sorted(memory.items()))


def _fit(job: JobSpec, product: str, usable: float, whole: Sweep, full: FloatArray | None) -> ProductFit:
    grid, fitting = whole.axes, whole.bytes <= usable
    model = job.model
    hidden = int(np.searchsorted(grid.hidden_sizes, model.hidden_size))
    batch = int(np.searchsorted(grid.batch_sizes, min(model.batch_size or USUAL_BATCH, int(grid.batch_sizes[-1]))))
    fanout = int(np.searchsorted(grid.fanouts, model.fanouts[0] if model.fanouts else USUAL_FANOUT))
    return ProductFit(
        product=product,
        usable_bytes=int(usable),
        settings=grid.settings,
        fitting=int(fitting.sum()),
        batch_size=_largest(grid.batch_sizes, fitting[hidden, :, fanout]),
        hidden_size=_largest(grid.hidden_sizes, fitting[:, batch, fanout]),
        fanout=_largest(grid.fanouts, fitting[hidden, batch, :]),
        full_graph_hidden_size=None if full is None else _largest(grid.hidden_sizes, full <= usable),
    )


def _largest(values: IntArray, fitting: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int | None:
    """The last of ascending values before the first that does not fit; None where none fits. Peaks rise with every setting."""
    count = len(values) if fitting.all() else int(fitting.argmin())
    return int(values[count - 1]) if count else None


def _with_hidden(job: JobSpec, hidden: int, batch: int | None = 1) -> JobSpec:
    fanouts = (1,) * job.model.layers if batch is not None else ()
    return replace(job, model=replace(job.model, hidden_size=hidden, batch_size=batch, fanouts=fanouts, parameters=None))


def _fixed_bytes(job: JobSpec, size: DatasetSize, share: float, ranks: int) -> float:
    """Everything but the step of a batch: a job with a batch of one, less the step of that batch."""
    network = network_of(job.model, layers(job.model, size.feature_size, size.classes))
    fan = effective_fanouts(job.model.fanouts, job.model.layers, size.edges / size.vertices)
    sizes = frontier(1, fan, size.vertices)
    drawn = tuple(vertices * fanout for vertices, fanout in zip(sizes, fan, strict=False))
    return profile(job).gpu_bytes(share, ranks, 1) - training_memory.batch(network, sizes, drawn, size.edges)


def _frontiers(axes: SweepAxes, size: DatasetSize, depth: int) -> tuple[list[FloatArray], tuple[FloatArray, ...]]:
    """Edges of each hop and vertices at each depth, (batch sizes, fan-outs) each: sampled_steps.frontier for arrays."""
    degree = size.edges / size.vertices
    fan = np.minimum(axes.fanouts.astype(np.float64), degree)[None, :]
    sizes = [np.broadcast_to(np.minimum(axes.batch_sizes, size.vertices).astype(np.float64)[:, None], (len(axes.batch_sizes), fan.size))]
    drawn: list[FloatArray] = []
    for _ in range(depth):
        drawn.append(sizes[-1] * fan)
        reached = -size.vertices * np.expm1(-(sizes[-1] + drawn[-1]) / size.vertices)
        sizes.append(np.maximum(sizes[-1], reached))
    return drawn, tuple(sizes)


def _edge_bytes(job: JobSpec, axes: SweepAxes, size: DatasetSize, drawn: list[FloatArray]) -> FloatArray:
    """(batch sizes, fan-outs) bytes of drawn edges, which depend on no width; counted one by one, since attention takes heads in turns."""
    network = network_of(job.model, layers(job.model, size.feature_size, size.classes))
    nothing = (0.0,) * (job.model.layers + 1)
    total: FloatArray = np.empty((len(axes.batch_sizes), len(axes.fanouts)))
    for place in np.ndindex(total.shape):
        total[place] = training_memory.batch(network, nothing, tuple(float(hop[place]) for hop in drawn), size.edges)
    return total
