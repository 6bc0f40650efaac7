"""What holds for every plan on every cluster."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.model.plan import MAX_REJECTED, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.artifact import rounded_shares, to_json
from hyperscale.planner.check.plan_check import violations
from hyperscale.planner.cost.objective import Costs, objectives, predict
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.search.local_search_batch import replacement_estimates
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, answer, planned, random_cluster, training

SEEDS = st.integers(0, 10_000)
MODELS = st.sampled_from(
    [
        {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256},
        {"architecture": "GCN", "layers": 2, "hiddenSize": 64, "batchSize": 1024, "fanouts": [10, 5]},
        {"architecture": "GAT", "layers": 2, "hiddenSize": 32, "heads": 4},
        {"architecture": "Custom", "parameters": 1_000_000},
    ]
)
BALANCES = st.sampled_from(["Capacity", "Equal"])


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, nodes=st.integers(1, 14), most=st.integers(1, 10), gpus=st.integers(1, 3), model=MODELS, balance=BALANCES)
def test_every_plan_passes_the_check_and_asks_no_node_for_more_gpus_than_it_has_free(
    seed: int, nodes: int, most: int, gpus: int, model: dict[str, object], balance: str
) -> None:
    seen = random_cluster(seed, nodes, free_max=4, unreachable=0.2)
    job = training(
        model=model,
        workers={"minReplicas": 1, "maxReplicas": most, "resources": {"limits": {"nvidia.com/gpu": gpus}}},
        partitioning={"balance": balance},
    )
    plan = answer(seen, job)
    if not isinstance(plan, Plan):
        assert plan.reason
        assert plan.message
        return
    free = {node.name: node.free_gpus for node in seen.nodes}
    assert all(taken <= free[name] for name, taken in plan.gpus_by_node().items())
    assert violations(plan, PlanRequest(job_key="team-a/gnn", job=job), seen) == ()
    assert len(plan.rejected) <= MAX_REJECTED
    low, high = plan.predicted.low_seconds, plan.predicted.high_seconds
    assert low is not None
    assert high is not None
    assert low <= plan.predicted.epoch_seconds <= high


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, nodes=st.integers(2, 30), order=st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_links_does_not_change_a_byte_but_the_snapshot_digest(seed: int, nodes: int, order: object) -> None:
    seen = random_cluster(seed, nodes, free_max=2)
    members, links = list(seen.nodes), list(seen.links)
    order.shuffle(members)  # type: ignore[attr-defined] # hypothesis types its Random as object
    order.shuffle(links)  # type: ignore[attr-defined] # hypothesis types its Random as object
    straight, shuffled = planned(seen), planned(replace(seen, nodes=tuple(members), links=tuple(links)))
    assert to_json(replace(straight, snapshot="", plan_id="")) == to_json(replace(shuffled, snapshot="", plan_id=""))


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, nodes=st.integers(2, 40))
def test_the_same_question_gives_the_same_bytes_and_survives_json(seed: int, nodes: int) -> None:
    seen = random_cluster(seed, nodes)
    first, second = planned(seen), planned(seen)
    assert to_json(first) == to_json(second)
    assert msgspec.json.decode(to_json(first), type=Plan) == first


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, workers=st.integers(1, 9), model=MODELS, balance=BALANCES, unreachable=st.sampled_from([0.0, 0.1]))
def test_the_batch_objective_and_the_estimates_agree_with_the_reference(
    seed: int, workers: int, model: dict[str, object], balance: str, unreachable: float
) -> None:
    costs = costs_of(seed, 10, unreachable, model, balance)
    rng = np.random.default_rng(seed)
    orders = np.array([rng.permutation(10)[:workers] for _ in range(5)])
    expected = [predict(costs, order).objective for order in orders]
    np.testing.assert_allclose(objectives(costs, orders), expected, rtol=1e-9)
    position = int(rng.integers(workers))
    estimates = replacement_estimates(costs, orders[0], position)
    moves = np.repeat(orders[:1], 10, axis=0)
    moves[:, position] = np.arange(10)
    np.testing.assert_allclose(estimates, objectives(costs, moves), rtol=1e-9)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, pinned=st.integers(1, 3), workers=st.integers(3, 6))
def test_pinned_ranks_stay_where_they_are(seed: int, pinned: int, workers: int) -> None:
    seen = random_cluster(seed, 12)
    rng = np.random.default_rng(seed)
    ranks, names = rng.permutation(workers)[:pinned], rng.permutation(12)[:pinned]
    pins = {int(rank): f"n{name:03d}" for rank, name in zip(ranks, names, strict=True)}
    free = dict.fromkeys(pins.values(), 0)
    plan = planned(seen, training(workers={"minReplicas": 1, "maxReplicas": 6}), pinned=pins, workers_fixed=workers, free_gpus=free)
    assert {rank: plan.node_of(rank) for rank in pins} == pins
    assert len({worker.node for worker in plan.workers}) == workers


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=50))
def test_rounded_shares_sum_to_one_exactly_in_billionths(weights: list[float]) -> None:
    total = sum(weights)
    rounded = rounded_shares([weight / total for weight in weights])
    assert sum(round(share * 10**9) for share in rounded) == 10**9
    assert all(abs(share - weight / total) < 1e-8 for share, weight in zip(rounded, weights, strict=True))


def costs_of(seed: int, nodes: int, unreachable: float, model: dict[str, object], balance: str) -> Costs:
    job = training(model=model, partitioning={"balance": balance})
    problem = pose(
        PlanRequest(job_key="a/b", job=job), build(random_cluster(seed, nodes, unreachable=unreachable), POLICY), profile(job), POLICY
    )
    return problem.costs(np.arange(nodes))
