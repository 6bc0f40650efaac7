"""Speeds that jobs of one kind have measured in Sia's simulator, for the others of the kind.

Sia fits the speeds of every job to what this job has measured. Here a job also takes the speed of a shape that another job of its kind
ran on. A kind is the one-GPU profile by type; with a fixed batch size, jobs of a kind with the same batch size have the same speeds, up to
the statistical efficiency, which stays each job's own. All of it is in what the simulator gives Sia.
"""

# ruff: noqa: ANN401 - the simulator has no types

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

Kind = tuple[float, ...]
"""One-GPU profile of a job by type: jobs with the same profile are of one kind."""
Shape = tuple[int, int]
"""Pool and GPUs."""
Shapes = Sequence[tuple[str, int, int, int]]
"""Type, its GPUs a node, nodes, GPUs."""
SAME: Final = 1e-3
"""A speed that differs by less from the one that is kept is the same."""


def kind_of(info: Any) -> Kind:
    """Kind of a job."""
    return tuple(float(speed) for speed in info.cluster_throughputs.values())


@dataclass
class _Batch:
    """What the jobs of one kind and batch size have measured."""

    rates: dict[Shape, float] = field(default_factory=dict)
    """Examples a second of each shape that one of them ran on."""
    models: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """By type: shapes that the best informed job ran on, and its model."""
    efficiency: float = 1.0

    def learn_rate(self, shape: Shape, rate: float) -> bool:
        """Keep the rate of a shape; whether it is another than before."""
        new = 0.0 < rate < np.inf and abs(rate / self.rates.get(shape, np.inf) - 1.0) > SAME
        if new:
            self.rates[shape] = rate
        return new


@dataclass
class Speeds:
    """What all jobs have measured so far."""

    batches: dict[Kind, dict[float, _Batch]] = field(default_factory=dict)
    versions: dict[Kind, int] = field(default_factory=dict)

    def measured(self, info: Any, name: str, shape: Shape, per_node: int, ran: set[Shape]) -> None:
        """Keep what a job that holds `shape` of type `name` has measured; `ran`: all shapes that it ran on."""
        model = info.speedup_fn[name]
        if model is None:
            return
        kind = kind_of(info)
        kept = self.batches.setdefault(kind, {}).setdefault(float(model._max_batch_size), _Batch())
        kept.efficiency = efficiency(model)
        rate = float(_rates(model, per_node, [shape[1]])[0])
        changed = kept.learn_rate(shape, rate)
        on_type = sum(pool == shape[0] for pool, _ in ran)
        before = kept.models.get(name, (0, None))[0]
        if on_type >= before:
            kept.models[name] = (on_type, model)
        if changed or on_type > before:
            self.versions[kind] = self.versions.get(kind, 0) + 1

    def shared(self, info: Any, own: dict[Shape, float], ran: set[Shape], shapes: Shapes) -> dict[Shape, float]:
        """Rates of a job: its own where it ran, then those of its kind, then its own predictions."""
        model = next((model for model in info.speedup_fn.values() if model is not None), None)
        batch = self._batch(info, model)
        if batch is None:
            return own
        if model is None:
            return _running({shape: rate * batch.efficiency for shape, rate in _of_kind(info, batch, shapes, project=True).items()})
        factor = efficiency(model)
        rates = _of_kind(info, batch, shapes, project=False)
        return _running(own | {shape: rate * factor for shape, rate in rates.items() if shape not in ran})

    def _batch(self, info: Any, model: Any) -> _Batch | None:
        """What is known of jobs of the kind and batch size; of the best known batch size where the job never ran."""
        batches = self.batches.get(kind_of(info), {})
        if model is not None:
            return batches.get(float(model._max_batch_size))
        return max(batches.values(), key=lambda kept: len(kept.rates), default=None)


def _of_kind(info: Any, batch: _Batch, shapes: Shapes, *, project: bool) -> dict[Shape, float]:
    """Examples a second on each shape of the types that are known, with `project` on all."""
    names = list(dict.fromkeys(name for name, *_ in shapes))
    answer: dict[Shape, float] = {}
    for pool, name in enumerate(names):
        sources = [name, *names] if project else [name]
        source = next((other for other in sources if other in batch.models), None)
        if source is not None:
            answer |= _of_type(info, batch, pool, name, source, shapes)
    return answer


def _running(rates: dict[Shape, float]) -> dict[Shape, float]:
    """Shapes on which the job can run."""
    return {shape: rate for shape, rate in rates.items() if 0.0 < rate < np.inf}


def _of_type(info: Any, batch: _Batch, pool: int, name: str, source: str, shapes: Shapes) -> dict[Shape, float]:
    """Examples a second on each shape of type `name`: measured, or by the model of type `source`."""
    per_node = next(size for kind, size, *_ in shapes if kind == source)
    gpus = [count for kind, _, _, count in shapes if kind == name]
    ratio = 1.0 if name == source else info.cluster_throughput_ratios[name][source]
    rates = _rates(batch.models[source][1], per_node, gpus) * ratio
    return {(pool, count): float(batch.rates.get((pool, count), rate)) for count, rate in zip(gpus, rates, strict=True)}


def efficiency(model: Any) -> float:
    """Useful examples an example, at the fixed batch size; 1 where batch sizes are tuned, as it depends on the shape there."""
    return 1.0 if model.tune_bsz else float(model._goodput_fn.efficiency(model._max_batch_size))


def _rates(model: Any, per_node: int, gpus: Sequence[int]) -> Any:
    """(k,) examples a second by a model; useful examples where batch sizes are tuned."""
    counts = np.asarray(gpus)
    goodput = model.get_goodput(np.ceil(counts / per_node).astype(np.float32), counts.astype(np.float32))
    return np.asarray(goodput, dtype=np.float64) / efficiency(model)
