"""Every peer of the placement benchmark answers with a placement that the cluster can host."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.families import Instance, instance
from benchmarks.methods import planned
from benchmarks.peers.placement import proofs
from benchmarks.peers.placement.schedulers import SCHEDULERS
from benchmarks.peers.placement.search import GREEDY, TIMED, long_search
from benchmarks.peers.placement.wide import wide_search
from hyperscale.model.graph import IntArray

CASES = [instance("zones", 14, 4, 2), instance("fattree", 14, 5, 3)]


def assert_feasible(case: Instance, order: IntArray) -> None:
    assert order.shape == (case.workers,)
    assert (np.bincount(order, minlength=len(case.slots)) <= case.slots).all()
    assert math.isfinite(case.score(order)[0])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.case)
@pytest.mark.parametrize("method", [*SCHEDULERS, *GREEDY])
def test_a_peer_gives_a_feasible_placement(method: str, case: Instance) -> None:
    peer = {**SCHEDULERS, **GREEDY}[method]
    assert_feasible(case, peer(case, 1))
    assert peer(case, 1).tolist() == peer(case, 1).tolist()


@pytest.mark.parametrize("method", TIMED)
def test_a_timed_search_gives_a_feasible_placement_even_without_time(method: str) -> None:
    assert_feasible(CASES[0], TIMED[method](CASES[0], 1, 0.0))


def test_long_searches_are_never_worse_than_what_they_start_from() -> None:
    case = CASES[1]
    known = SCHEDULERS["random"](case, 3)
    for found in (long_search(case, 0, 0.0, [known]), wide_search(case, 0, 0.0, [known])):
        assert_feasible(case, found)
        assert case.score(found)[0] <= case.score(known)[0]


def test_kueue_takes_the_smallest_domain_with_room() -> None:
    case = instance("fattree", 40, 4, 3)
    order = SCHEDULERS["label tiers (Kueue)"](case, 0)
    racks = case.graph.domains[case.problem.nodes[order], -1]
    assert len(set(racks.tolist())) == 1


@pytest.mark.parametrize(
    ("family", "nodes", "workers", "seed"),
    [("geo", 9, 3, 1), ("wan", 9, 3, 1), pytest.param("geo", 15, 4, 5, id="switches that add up on one node only")],
)
def test_both_proofs_agree_with_the_plan(family: str, nodes: int, workers: int, seed: int) -> None:
    case = instance(family, nodes, workers, seed, memory_free=True)
    answer = planned(case)
    assert proofs.can_model(case)
    cost, bound = proofs.by_cp_sat(case, answer.order, 20.0)
    assert cost == pytest.approx(proofs.by_trial(case), rel=1e-6)
    assert bound == pytest.approx(cost, rel=1e-6)
    assert answer.plan.objective >= cost * (1 - 1e-6)
