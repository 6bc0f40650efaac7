"""The plan as an object and as bytes: identity, rounding, deterministic JSON (docs/reference/plan-schema.md). Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import msgspec

from hyperscale.model.plan import Plan, WorkerPlacement
from hyperscale.model.planning import PlanRequest

DIGITS = 9
"""Significant digits of predicted figures: far below any measurement, above what the order of a sum may change."""

_ENCODER = msgspec.json.Encoder(order="deterministic")


def plan_id(request: PlanRequest, snapshot_digest: str, planner: str, workers: Sequence[WorkerPlacement]) -> str:
    """First 16 hex digits of the sha256 over everything that makes two plans different ones.

    The job's name does not, nor does who chose the number of workers: a preview of a job has the id of its plan.
    """
    job = request.job
    identity = {
        "demand": [job.model, job.dataset, job.workers.demand(), job.partitioning, job.allreduce, job.placement],
        "fixed": [sorted(request.pinned.items()), sorted(request.excluded_nodes)],
        "snapshot": snapshot_digest,
        "planner": planner,
        "seed": request.seed,
        "placement": [[worker.index, worker.node, worker.gpus, worker.share] for worker in workers],
    }
    return hashlib.sha256(_ENCODER.encode(identity)).hexdigest()[:16]


def to_json(plan: Plan) -> bytes:
    """`plan` as canonical JSON: keys in the order of the type, indented by two, one newline at the end; equal plans, equal bytes."""
    return msgspec.json.format(_ENCODER.encode(plan), indent=2) + b"\n"


def rounded(figure: float) -> float:
    """`figure` to DIGITS significant digits."""
    if figure == 0.0 or not math.isfinite(figure):
        return figure
    return float(f"{figure:.{DIGITS}g}")


def rounded_shares(shares: Sequence[float]) -> tuple[float, ...]:
    """Shares in whole billionths that sum to exactly one billion of them; the remainder goes to the largest fractions first."""
    units = [math.floor(share * 1e9) for share in shares]
    missing = 10**9 - sum(units)
    by_fraction = sorted(range(len(shares)), key=lambda rank: (units[rank] - shares[rank] * 1e9, rank))
    for rank in by_fraction[:missing]:
        units[rank] += 1
    return tuple(unit / 1e9 for unit in units)
