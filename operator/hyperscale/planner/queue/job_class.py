"""When two pending jobs are placed alike. Pure; without arrays, since the operator's own process asks too."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from hyperscale.model.api.hyperparameters import StatedHyperparameters
from hyperscale.model.api.job import ModelSpec
from hyperscale.model.plan import Calibration
from hyperscale.model.planning import PlanRequest

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


def kind_of(request: PlanRequest) -> bytes:
    """All that a plan depends on beside the cluster and what is free: jobs of one kind are planned alike, however long they run."""
    job = request.job
    model = replace(job.model, epochs=1, script="own" if job.model.script else None, hyperparameters=None)
    workload = (model, _built(job.model), job.dataset, job.workers.demand(), job.partitioning, job.allreduce, job.placement, job.planner)
    pods = (request.required_labels, request.tolerations, request.node_rules, request.resources, request.apart)
    taught = request.corrections, [_shown(one) for one in request.calibration]
    fixed = (request.workers_fixed, request.pinned, request.excluded_nodes, request.refused_nodes, *pods, request.seed, *taught)
    return _ENCODER.encode((workload, fixed))


def _built(model: ModelSpec) -> tuple[object, ...]:
    """What of the hyperparameters decides work and memory, as `planner.workload` reads them."""
    stated = model.hyperparameters or StatedHyperparameters()
    return (stated.aggregator, stated.output_heads, stated.dropout == 0.0, stated.attention_dropout == 0.0)


def _shown(one: Calibration) -> tuple[object, ...]:
    """What of a calibration tells it from another one of the same workload: a namespace's own runs may have taught it."""
    curve = None if one.curve is None else (one.curve.base_seconds, one.curve.sample_seconds, one.curve.log_error)
    return one.products, one.factor, one.spread, one.runs, curve
