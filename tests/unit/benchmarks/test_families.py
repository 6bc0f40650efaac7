"""Benchmark instances: the same seed gives the same problem, and the product sees the very costs that training sees."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.families import NAMES, instance, snapshot_of
from hyperscale.learn import topologies
from hyperscale.model.digest import snapshot_digest

GENERATED = sorted(topologies.FAMILIES)


@pytest.mark.parametrize("family", NAMES)
def test_a_seed_gives_one_problem(family: str) -> None:
    first, second, other = instance(family, 13, 4, 7), instance(family, 13, 4, 7), instance(family, 13, 4, 8)
    assert first.graph.digest == second.graph.digest != other.graph.digest
    assert first.problem.workload == second.problem.workload != other.problem.workload


@pytest.mark.parametrize("family", GENERATED)
def test_the_product_derives_the_costs_that_training_uses(family: str) -> None:
    seen, meant = instance(family, 20, 5, 3), topologies.instance(family, 20, 5, 3)
    for figure in ("flops_per_second", "memory_bytes", "latency_seconds", "seconds_per_byte", "blocked"):
        np.testing.assert_allclose(getattr(seen.costs, figure), getattr(meant.costs, figure), rtol=1e-12)
    assert seen.slots.tolist() == meant.topology.slots.tolist()
    assert seen.costs.balance is meant.balance
    assert seen.problem.workload.epoch_flops == pytest.approx(meant.workload.epoch_flops)


@pytest.mark.parametrize("family", GENERATED)
def test_links_are_alike_in_both_directions_and_finite(family: str) -> None:
    topology = topologies.generate(family, 24, 5)
    for matrix in (topology.latency_seconds, topology.seconds_per_byte, topology.blocked.astype(np.float64)):
        assert np.isfinite(matrix).all()
        np.testing.assert_array_equal(matrix, matrix.T)
    assert (topology.seconds_per_byte > 0).all()


def test_the_order_of_families_does_not_matter() -> None:
    alone = snapshot_of(topologies.generate("zones", 16, 2))
    topologies.generate("random", 16, 2)
    assert snapshot_digest(alone) == snapshot_digest(snapshot_of(topologies.generate("zones", 16, 2)))


def test_a_placement_on_a_taken_slot_costs_infinitely_much() -> None:
    case = instance("geo", 12, 3, 0)
    assert case.score(np.array([0, 0, 1]))[0] == float("inf")
