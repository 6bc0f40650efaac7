"""What a plan says of a node that it leaves out: the objective with one worker moved there, or that its memory is too small in all."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hyperscale.model.api.job import Balance
from hyperscale.planner.cost.objective import objectives
from hyperscale.planner.search.moved_worker import MAX_POSITIONS, best_replacement
from tests.property.test_kernel_agreement import case

MOST_PERMUTED = 5


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 10), st.sampled_from(["Capacity", "Equal"]), st.floats(0.5, 2.5))
def test_a_node_that_is_left_out_is_judged_by_its_best_position(seed: int, nodes: int, balance: str, room: float) -> None:
    costs, slots, workers, rng = case((seed, nodes, balance, 0.0))
    part = costs.workload.full_graph_bytes / workers / costs.gpus_per_worker
    fixed = costs.workload.parameter_bytes + costs.workload.step_bytes
    costs = replace(costs, memory_bytes=fixed + part * rng.uniform(0.5, room + 0.5, len(slots)))
    order = rng.permutation(np.repeat(np.arange(len(slots)), slots))[:workers]
    unused = np.setdiff1d(np.arange(len(slots)), order)
    assume(len(unused) and np.isfinite(objectives(costs, order[None])[0]))
    used = np.unique(order)
    some, positions = costs.subset(np.concatenate((used, unused))), np.searchsorted(used, order)
    moved = best_replacement(some, positions, np.arange(len(used), len(slots)), np.zeros(workers, dtype=np.bool_))
    for at, stated in zip(range(len(used), len(slots)), moved, strict=True):
        rows = np.repeat(positions[None], workers, axis=0)
        np.fill_diagonal(rows, at)
        best = objectives(some, rows).min()
        assert stated <= best * (1.0 + 1e-9) if np.isfinite(best) else not np.isfinite(stated)
        if np.isfinite(best) and workers <= MOST_PERMUTED:
            least = min(objectives(some, row[None, list(ring)])[0] for row in rows for ring in permutations(range(workers)))
            assert stated >= least * (1.0 - 1e-9), "some order of the ring costs what is stated"


def test_workers_of_different_nodes_are_tried_where_there_are_too_many() -> None:
    """40 workers fill ten nodes; only the last one is slow, and a fast node in its place helps."""
    costs, slots, _, _ = case((4, 12, "Capacity", 0.0))
    order = np.repeat(np.arange(10), 4)
    assert len(order) > MAX_POSITIONS
    speed = np.full(len(slots), 1e15)
    speed[9] = 1e12
    some = replace(costs, flops_per_second=speed, balance=Balance.EQUAL, memory_bytes=np.full(len(slots), np.inf))
    every = []
    for rank in range(len(order)):
        row = order.copy()
        row[rank] = 10
        every.append(objectives(some, row[None])[0])
    (stated,) = best_replacement(some, order, np.array([10]), np.zeros(len(order), dtype=np.bool_))
    assert stated <= min(every) * (1.0 + 1e-9)
