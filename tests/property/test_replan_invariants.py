"""What holds for every plan that is made from another one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.cost.objective import objectives, shares
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.repair.fixed_shares import held_objectives, held_replacements
from hyperscale.planner.repair.replan import LOST_ONLY, Move, Prices, replan
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, answer, random_cluster, training

SEEDS = st.integers(0, 10_000)


def posed(seen: ClusterSnapshot, job: JobSpec, workers: int) -> Problem:
    return pose(PlanRequest(job_key="team-a/gnn", job=job, workers_fixed=workers), build(seen, POLICY), profile(job), POLICY)


def without(seen: ClusterSnapshot, gone: set[str]) -> ClusterSnapshot:
    return replace(seen, nodes=tuple(node for node in seen.nodes if node.name not in gone))


def cost(move: Move, prices: Prices) -> float:
    restart = prices.restart_seconds if move.moved and not move.lost else 0.0
    return move.candidate.objective * prices.remaining_epochs + restart + len(move.moved) * prices.move_seconds


class Case(NamedTuple):
    """A plan, a later cluster that lost nodes of it and changed its links, and the terms of a new plan."""

    old: Plan
    gone: set[str]
    fresh: ClusterSnapshot
    prices: Prices
    move: Move | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    seed, nodes, workers = draw(SEEDS), draw(st.integers(6, 24)), draw(st.integers(1, 6))
    seen = random_cluster(seed, nodes, free_max=2)
    job = training(workers={"minReplicas": workers, "maxReplicas": workers})
    old = answer(seen, job)
    assert isinstance(old, Plan)
    used = sorted({worker.node for worker in old.workers})
    gone = set(used[: draw(st.integers(0, 3))])
    fresh = replace(without(seen, gone), links=random_cluster(seed + 1, nodes, free_max=2).links)
    epochs, limit = draw(st.sampled_from([1.0, 100.0, 10_000.0])), draw(st.none() | st.integers(0, 4))
    prices = Prices(remaining_epochs=epochs, move_seconds=0.5, restart_seconds=2.0, max_moves=limit)
    move = replan(posed(fresh, job, workers), old, prices, keep_shares=draw(st.booleans()))
    return Case(old, gone, fresh, prices, move)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_a_new_plan_uses_no_gone_node_and_no_more_gpus_than_are_free(case: Case) -> None:
    if case.move is None:
        return
    names = case.move.candidate.names
    assert len(names) == len(case.old.workers)
    assert not case.gone & set(names)
    free = {node.name: node.free_gpus for node in case.fresh.nodes}
    assert all(names.count(name) <= free[name] for name in names)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_lost_workers_move_and_no_more_others_than_allowed(case: Case) -> None:
    if case.move is None:
        return
    names, limit = case.move.candidate.names, case.prices.max_moves
    lost = {worker.index for worker in case.old.workers if worker.node in case.gone}
    moved = {worker.index for worker in case.old.workers if names[worker.index] != worker.node}
    assert set(case.move.lost) == lost
    assert lost <= set(case.move.moved) == moved
    assert limit is None or len(case.move.moved) <= max(limit, len(lost))


@settings(max_examples=40, deadline=None)
@given(cases())
def test_a_new_plan_is_never_dearer_than_to_stay(case: Case) -> None:
    if case.move is not None and not case.move.lost:
        assert cost(case.move, case.prices) <= case.move.stay_objective * case.prices.remaining_epochs * (1 + 1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, nodes=st.integers(6, 24), workers=st.integers(2, 6))
def test_lost_ranks_alone_move_by_default_and_nothing_moves_where_nothing_is_lost(seed: int, nodes: int, workers: int) -> None:
    seen = random_cluster(seed, nodes, free_max=2)
    job = training(workers={"minReplicas": workers, "maxReplicas": workers})
    old = answer(seen, job)
    assert isinstance(old, Plan)
    same = replan(posed(seen, job, workers), old)
    assert same is not None
    assert (same.moved, same.lost) == ((), ())
    assert same.gain_seconds_per_epoch == 0.0
    fresh = without(seen, {old.workers[-1].node})
    repaired = replan(posed(fresh, job, workers), old, LOST_ONLY)
    if repaired is not None:
        assert repaired.moved == repaired.lost
        assert replan(posed(fresh, job, workers), old, LOST_ONLY) == repaired


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, workers=st.integers(1, 7), position=st.integers(0, 6), balance=st.sampled_from(["Capacity", "Equal"]))
def test_held_shares_cost_what_the_reference_says_where_they_are_the_same(seed: int, workers: int, position: int, balance: str) -> None:
    job = training(workers={"minReplicas": 1, "maxReplicas": 8}, partitioning={"balance": balance})
    problem = posed(random_cluster(seed, 9, unreachable=0.1), job, 8)
    costs = problem.costs(np.arange(len(problem.nodes)))
    rng = np.random.default_rng(seed)
    order = rng.choice(9, workers, replace=False)
    share = shares(costs, order[None, :])[0][0]
    expected = objectives(costs, order[None, :])
    assert held_objectives(costs, order[None, :], share) == pytest.approx(expected, rel=1e-9)
    place = position % workers
    each = np.repeat(order[None, :], 9, axis=0)
    each[:, place] = np.arange(9)
    distinct = [candidate for candidate in range(9) if candidate == order[place] or candidate not in order]
    exact, quick = held_objectives(costs, each, share), held_replacements(costs, order, place, share)
    assert quick[distinct] == pytest.approx(exact[distinct], rel=1e-9)
