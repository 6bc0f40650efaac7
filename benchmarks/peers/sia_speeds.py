"""Speeds that jobs of one kind have measured in Sia's simulator, for the others of the kind.

Sia fits the speeds of every job to what this job has measured. Here a job also takes the speed of a shape that another job of its kind
ran on. A kind is the one-GPU profile by type; with a fixed batch size, jobs of a kind with the same batch size have the same speeds, up to
the statistical efficiency, which stays each job's own. All of it is in what the simulator gives Sia.
"""

# ruff: noqa: ANN401 - the simulator has no types

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        on_type = sum(pool == shape[0] for pool, _ in ran)
        changed = False
        if 0.0 < rate < np.inf and abs(rate / kept.rates.get(shape, np.inf) - 1.0) > SAME:
            kept.rates[shape] = rate
            changed = True
        if on_type >= kept.models.get(name, (0, None))[0]:
            changed |= on_type > kept.models.get(name, (0, None))[0]
            kept.models[name] = (on_type, model)
        if changed:
            self.versions[kind] = self.versions.get(kind, 0) + 1

    def shared(self, info: Any, own: dict[Shape, float], ran: set[Shape], shapes: Shapes) -> dict[Shape, float]:
        """Rates of a job: its own where it ran, then those of its kind, then its own predictions."""
        batches = self.batches.get(kind_of(info))
        if not batches:
            return own
        learned = [model for model in info.speedup_fn.values() if model is not None]
        if learned:
            batch = batches.get(float(learned[0]._max_batch_size))
            factor = efficiency(learned[0])
        else:
            batch = max(batches.values(), key=lambda kept: len(kept.rates))
            factor = batch.efficiency
        if batch is None:
            return own
        answer = dict(own) if learned else {}
        names = list(dict.fromkeys(name for name, *_ in shapes))
        sizes = {name: size for name, size, *_ in shapes}
        scales = self._scales(info, batch, names, sizes)
        for pool, name in enumerate(names):
            gpus = [count for kind, _, _, count in shapes if kind == name]
            if name in batch.models:
                rates = _rates(batch.models[name][1], sizes[name], gpus)
            elif scales and not learned:
                source, ratio = scales[name]
                rates = _rates(batch.models[source][1], sizes[source], gpus) * ratio
            else:
                continue
            for count, rate in zip(gpus, rates, strict=True):
                if (pool, count) not in ran:
                    answer[pool, count] = float(batch.rates.get((pool, count), rate)) * factor
        return {shape: rate for shape, rate in answer.items() if 0.0 < rate < np.inf}

    def _scales(self, info: Any, batch: _Batch, names: Sequence[str], sizes: Mapping[str, int]) -> dict[str, tuple[str, float]]:
        source = next((name for name in names if name in batch.models), None)
        if source is None:
            return {}
        return {name: (source, 1.0 if name == source else info.cluster_throughput_ratios[name][source]) for name in names}


def efficiency(model: Any) -> float:
    """Useful examples an example, at the fixed batch size; 1 where batch sizes are tuned, as it depends on the shape there."""
    return 1.0 if model.tune_bsz else float(model._goodput_fn.efficiency(model._max_batch_size))


def _rates(model: Any, per_node: int, gpus: Sequence[int]) -> Any:
    """(k,) examples a second by a model; useful examples where batch sizes are tuned."""
    counts = np.asarray(gpus)
    goodput = model.get_goodput(np.ceil(counts / per_node).astype(np.float32), counts.astype(np.float32))
    return np.asarray(goodput, dtype=np.float64) / efficiency(model)
