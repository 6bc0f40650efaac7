"""Tables of an allreduce's algorithms leave out those that never win, and no other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hyperscale.learn.topologies import instance
from hyperscale.planner.cost.collectives import allreduce
from hyperscale.planner.cost.costs import Costs, compiled_tables, volumes
from hyperscale.planner.cost.objective import objectives, predict


@pytest.mark.parametrize("gradient_bytes", [0.0, 1e4, 1e6, 1e9])
@pytest.mark.parametrize("sharp", [0.0, 0.9])
def test_the_table_has_the_fastest_algorithm_for_every_hop_that_may_be(gradient_bytes: float, sharp: float) -> None:
    drawn = instance("zones", 12, 6, 3)
    workload = replace(drawn.costs.workload, gradient_bytes=gradient_bytes)
    costs = replace(drawn.costs, workload=workload, gpus_per_worker=2, sharp_efficiency=np.full(12, sharp))
    volume, rng = volumes(costs, 6), np.random.default_rng(7)
    for nodes in range(1, 7):
        for _ in range(50):
            least, most = costs.hop_range(6)
            hop = least + (most - least) * rng.uniform(0.0, 1.0, 4)
            between = (0.0, 0.0) if nodes == 1 else (hop[0], hop[2])
            ways = [way.seconds(gradient_bytes, between, (hop[1], hop[3])) for way in allreduce(12, nodes, sharp)]
            figures = (np.array([figure]) for figure in (between[0], hop[1], between[1], hop[3]))
            assert volume.allreduce_seconds(np.array([nodes]), *figures)[0] == pytest.approx(volume.steps * min(ways), rel=1e-12)
            assert compiled(costs, nodes, between[0], hop[1], between[1], hop[3]) == pytest.approx(volume.steps * min(ways), rel=1e-12)


def test_small_gradients_leave_fewer_algorithms() -> None:
    drawn = instance("zones", 12, 6, 3)
    small = replace(drawn.costs, workload=replace(drawn.costs.workload, gradient_bytes=0.0))
    assert np.isfinite(compiled_tables(small, 6)[0][1:, :, 4]).sum(axis=(1, 2)).max() < len(allreduce(6, 6))


def compiled(costs: Costs, nodes: int, between: float, inside: float, per_byte: float, inside_per_byte: float) -> float:
    """The fastest algorithm of the compiled table."""
    terms = np.moveaxis(compiled_tables(costs, 6)[0][nodes], 1, 0)
    seconds = terms[4] + terms[0] * between + terms[1] * inside + np.maximum(terms[2] * per_byte, terms[3] * inside_per_byte)
    return float(seconds.min())


def test_switches_add_up_only_where_those_of_all_members_do() -> None:
    drawn = instance("zones", 12, 6, 3)
    workload = replace(drawn.costs.workload, gradient_bytes=1e9)
    mixed = replace(drawn.costs, workload=workload, gpus_per_worker=8, sharp_efficiency=np.array([0.74] * 4 + [0.85] * 4 + [0.0] * 4))
    for members, efficiency in (((4, 5), 0.85), ((0, 1), 0.74), ((0, 4), 0.74), ((4, 8), 0.0), ((8, 9), 0.0)):
        alike = replace(mixed, sharp_efficiency=np.full(12, efficiency))
        order = np.array([members])
        assert objectives(mixed, order)[0] == pytest.approx(objectives(alike, order)[0], rel=1e-12)
        assert predict(mixed, order[0]).objective == pytest.approx(objectives(alike, order)[0], rel=1e-12)
