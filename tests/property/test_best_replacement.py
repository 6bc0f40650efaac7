"""What a plan says of a node that it leaves out: the objective with it in the best position, or that its memory is too small in all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hyperscale.planner.choice.reasons import _best_replacement
from hyperscale.planner.cost.objective import objectives
from tests.property.test_kernel_agreement import case


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
    for at, stated in zip(range(len(used), len(slots)), _best_replacement(some, positions, np.arange(len(used), len(slots))), strict=True):
        rows = np.repeat(positions[None], workers, axis=0)
        np.fill_diagonal(rows, at)
        best = objectives(some, rows).min()
        assert np.isclose(stated, best, rtol=1e-9) if np.isfinite(best) else not np.isfinite(stated)
