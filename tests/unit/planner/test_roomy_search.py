"""Where memory may limit shares, the compiled search goes first and the limits judge what it found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hyperscale.model.api.job import Balance
from hyperscale.planner.cost.bounds import memory_may_limit
from hyperscale.planner.cost.objective import largest_shares
from hyperscale.planner.search import memory_relaxation
from hyperscale.planner.search.kernels.kernel import COMPILED
from tests.property.test_kernel_agreement import case


def test_memory_that_never_limits_needs_one_search() -> None:
    costs, slots, workers, _ = case((3, 12, "Capacity", 0.0))
    costs = replace(costs, memory_bytes=np.full(len(slots), np.inf))
    ((found, room),) = memory_relaxation.ways(costs, slots, workers)
    assert found is costs
    assert room is slots


def test_the_last_search_is_with_the_limits_and_the_first_skips_who_cannot_hold_an_equal_part() -> None:
    for balance in ("Capacity", "Equal"):
        costs, slots, workers, _ = case((3, 12, balance, 0.0))
        workload = replace(costs.workload, full_graph_bytes=1e12)
        share = 0.5 / workers
        held = workload.gpu_bytes(1.0, costs.ranks(workers), costs.gpus_per_worker)
        memory = np.full(len(slots), np.inf)
        memory[0] = workload.parameter_bytes + workload.step_bytes + share * (held - workload.parameter_bytes - workload.step_bytes)
        tight = replace(costs, workload=workload, memory_bytes=memory)
        assert largest_shares(tight, workers)[0] < 1.0 / workers
        found = memory_relaxation.ways(tight, slots, workers)
        assert found[-1][0] is tight
        if COMPILED:
            assert len(found) == 2
            assert not memory_may_limit(found[0][0], np.arange(len(slots)), workers)
            assert found[0][1][0] == (0 if tight.balance is Balance.EQUAL else slots[0])
