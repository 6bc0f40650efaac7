"""Part of the vertices that each worker holds: by speed or equal, and no more than its GPUs' memory. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.api.job import Balance
from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.cost.costs import Costs

SHARE_ROUNDS: Final = 16
"""Rounds in which vertices that do not fit move to workers with room; each fills at least one worker."""


LEAST_SHARE: Final = 1e-6
"""A worker with less of the vertices is one too many."""


def largest_shares(costs: Costs, workers: int) -> FloatArray:
    """(m,) part of the vertices that fits one worker on each candidate; may exceed 1, negative where not even the model fits."""
    return largest_parts(costs.workload, costs.memory_bytes, costs.ranks(workers), costs.gpus_per_worker)


def largest_parts(workload: WorkloadProfile, memory_bytes: FloatArray, ranks: int, gpus: int) -> FloatArray:
    """The same for workers of `gpus` GPUs that have `memory_bytes` (m,) each to use, among `ranks` ranks."""
    room = memory_bytes - workload.parameter_bytes - workload.step_bytes
    dataset_bytes = workload.gpu_bytes(1.0, ranks, gpus) - workload.parameter_bytes - workload.step_bytes
    if dataset_bytes <= 0.0:
        return np.where(room >= 0.0, np.inf, -1.0)
    shares: FloatArray = room / dataset_bytes
    return shares


def shares(costs: Costs, orders: IntArray) -> tuple[FloatArray, BoolArray]:
    """Part of the vertices of each rank, (B, k), rows summing to 1, and whether they fit the GPUs' memory, (B,).

    By speed (Capacity) or equal. Under Capacity a worker takes no more than its memory holds; the others take the rest.
    """
    limit = largest_shares(costs, orders.shape[1])[orders]
    weight = np.ones(orders.shape) if costs.balance is Balance.EQUAL else costs.flops_per_second[orders]
    share = weight / weight.sum(axis=1, keepdims=True)
    if not np.any(share > limit):
        return share, np.ones(len(orders), dtype=np.bool_)
    if costs.balance is Balance.EQUAL:
        return share, np.all(share <= limit, axis=1)
    full = np.zeros(orders.shape, dtype=np.bool_)
    for _ in range(SHARE_ROUNDS):
        over = share > limit
        if not over.any():
            break
        full |= over
        fixed = np.where(full, np.maximum(limit, 0.0), 0.0)
        open_weight = np.where(full, 0.0, weight)
        total = open_weight.sum(axis=1, keepdims=True)
        rest = 1.0 - fixed.sum(axis=1, keepdims=True)
        share = np.where(full, fixed, np.divide(open_weight * rest, total, out=np.zeros_like(weight), where=total > 0))
    fits = np.all((share <= limit + 1e-12) & (share > LEAST_SHARE), axis=1) & (np.abs(share.sum(axis=1) - 1.0) < 1e-9)
    return share, fits
