"""A plan in force and a cluster that has changed: who moves, where to, and when it is worth it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import ClusterSnapshot, Link, Node
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.observe.files.snapshot_files import read_snapshot
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.repair.replan import LOST_ONLY, Prices, replan
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, PRODUCTS, both_ways, gpu_node, measured, planned, refused, snapshot, training

NAMES = ["a1", "a2", "a3", "a4", "a5", "a6"]
JOB = training(workers={"minReplicas": 4, "maxReplicas": 4})
HULK = Path(__file__).resolve().parents[3] / "../shared/data/hulk"
ADDED = "machine-45"
LONG = Prices(remaining_epochs=10_000.0, move_seconds=5.0, restart_seconds=60.0)


def cluster(*nodes: Node, slow: str = "") -> ClusterSnapshot:
    """Six like nodes and some more; `slow` has links a hundred times slower."""
    members = (*(gpu_node(name) for name in NAMES), *nodes)
    links = both_ways([node.name for node in members], latency_seconds=1e-4, bandwidth_bytes_per_second=1e9)
    return snapshot(*members, links=tuple(_slower(entry) if slow in (entry.source, entry.destination) else entry for entry in links))


def _slower(entry: Link) -> Link:
    latency, bandwidth = entry.latency_seconds.value, entry.bandwidth_bytes_per_second.value
    assert latency is not None
    assert bandwidth is not None
    return Link(entry.source, entry.destination, measured(latency * 100), measured(bandwidth / 100))


def problem(seen: ClusterSnapshot, job: JobSpec = JOB, **asked: Any) -> Problem:
    request = PlanRequest(job_key="team-a/gnn", job=job, workers_fixed=4)
    return pose(replace(request, **asked), build(seen, POLICY), profile(job), POLICY)


def plan_on(*names: str) -> Plan:
    """A plan with equal parts on these nodes."""
    base = planned(cluster(), JOB)
    return replace(base, workers=tuple(replace(worker, node=name) for worker, name in zip(base.workers, names, strict=True)))


def test_a_removed_node_moves_its_rank_and_no_other() -> None:
    seen = cluster()
    gone = replace(seen, nodes=tuple(node for node in seen.nodes if node.name != "a2"))
    move = replan(problem(gone), plan_on("a1", "a2", "a3", "a4"))
    assert move is not None
    assert (move.moved, move.lost) == ((1,), (1,))
    assert move.candidate.names[1] in ("a5", "a6")
    assert move.gain_seconds_per_epoch == 0.0


def test_a_cordoned_node_counts_as_lost() -> None:
    seen = cluster()
    nodes = tuple(replace(node, schedulable=node.name != "a3") for node in seen.nodes)
    move = replan(problem(replace(seen, nodes=nodes)), plan_on("a1", "a2", "a3", "a4"))
    assert move is not None
    assert move.lost == (2,)


def test_the_replacement_is_the_nearest_and_fastest() -> None:
    far = gpu_node("b1", product="Tesla-T4")
    seen = cluster(far)
    gone = replace(seen, nodes=tuple(node for node in seen.nodes if node.name not in ("a2", "a5")))
    move = replan(problem(gone), plan_on("a1", "a2", "a3", "a4"))
    assert move is not None
    assert move.candidate.names == ("a1", "a6", "a3", "a4")


def test_a_slow_link_moves_one_rank_where_much_is_left_and_none_where_little_is() -> None:
    seen, old = cluster(slow="a2"), plan_on("a1", "a2", "a3", "a4")
    move = replan(problem(seen), old, LONG, keep_shares=True)
    assert move is not None
    assert (move.moved, move.lost) == ((1,), ())
    assert move.gain_seconds_per_epoch > 0.0
    stay = replan(problem(seen), old, replace_epochs(LONG, 1e-3), keep_shares=True)
    assert stay is not None
    assert stay.moved == ()


def replace_epochs(prices: Prices, epochs: float) -> Prices:
    return Prices(epochs, prices.move_seconds, prices.restart_seconds, prices.max_moves)


def test_nothing_moves_where_nothing_changed() -> None:
    move = replan(problem(cluster()), plan_on("a1", "a2", "a3", "a4"), LONG, keep_shares=True)
    assert move is not None
    assert move.moved == ()


def test_a_far_better_node_that_was_added_is_taken() -> None:
    added = gpu_node("z9", product="NVIDIA-H100-80GB-HBM3")
    seen = cluster(added)
    slowed = tuple(replace(node, gpus=gpu_node(node.name, load=0.9).gpus) if node.name == "a1" else node for node in seen.nodes)
    move = replan(problem(replace(seen, nodes=slowed)), plan_on("a1", "a2", "a3", "a4"), LONG, keep_shares=True)
    assert move is not None
    assert 0 in move.moved
    assert "a1" not in move.candidate.names


def test_pinned_ranks_stay_whatever_it_costs() -> None:
    seen, old = cluster(slow="a2"), plan_on("a1", "a2", "a3", "a4")
    asked: dict[str, Any] = {"pinned": {0: "a1", 1: "a2", 2: "a3"}, "free_gpus": {"a1": 0, "a2": 0, "a3": 0}}
    move = replan(problem(seen, **asked), old, LONG)
    assert move is not None
    assert move.candidate.names[:3] == ("a1", "a2", "a3")


@pytest.mark.skipif(not HULK.is_dir(), reason="../shared/data/hulk is absent")
def test_hulks_added_machine_is_taken_by_one_move_or_not_at_all() -> None:
    job = training(workers={"minReplicas": 6, "maxReplicas": 6})
    whole = read_snapshot(HULK)
    before = replace(
        whole,
        nodes=tuple(node for node in whole.nodes if node.name != ADDED),
        links=tuple(entry for entry in whole.links if ADDED not in (entry.source, entry.destination)),
    )
    old = planned(before, job)
    asked = PlanRequest(job_key="team-a/gnn", job=job, workers_fixed=6)
    move = replan(pose(asked, build(whole, POLICY), profile(job), POLICY), old, Prices(1000.0, 5.0, 60.0, max_moves=1))
    assert move is not None
    assert len(move.moved) <= 1
    assert all(move.candidate.names[rank] == ADDED for rank in move.moved)
    assert move.candidate.objective <= move.stay_objective


def test_all_ranks_lost_takes_a_whole_new_plan() -> None:
    seen = cluster(gpu_node("c1"), gpu_node("c2"))
    gone = replace(seen, nodes=tuple(node for node in seen.nodes if node.name not in ("a1", "a2", "a3", "a4")))
    move = replan(problem(gone), plan_on("a1", "a2", "a3", "a4"))
    assert move is not None
    assert move.lost == (0, 1, 2, 3)
    assert set(move.candidate.names) == {"a5", "a6", "c1", "c2"}


def test_without_room_there_is_no_answer() -> None:
    seen = cluster()
    gone = replace(seen, nodes=tuple(node for node in seen.nodes if node.name in ("a1", "a3", "a4")))
    assert replan(problem(gone), plan_on("a1", "a2", "a3", "a4")) is None


def test_a_required_domain_is_kept() -> None:
    job = training(workers={"minReplicas": 4, "maxReplicas": 4}, placement={"topology": {"required": "topology.kubernetes.io/zone"}})
    other = [gpu_node(f"b{index}", domain="eu/b", product="NVIDIA-H100-80GB-HBM3") for index in range(6)]
    seen = cluster(*other)
    gone = replace(seen, nodes=tuple(node for node in seen.nodes if node.name != "a2"))
    move = replan(problem(gone, job), plan_on("a1", "a2", "a3", "a4"))
    assert move is not None
    assert move.candidate.names[1] in ("a5", "a6")


def test_a_large_cluster_is_cut_to_what_is_near_and_fast() -> None:
    seen = snapshot(
        *(gpu_node(f"n{at:03d}", load=at % 7 / 10, product=PRODUCTS[at % 4], domain=f"eu/{'abcdefgh'[at % 8]}") for at in range(300))
    )
    job = training(workers={"minReplicas": 6, "maxReplicas": 6})
    old = planned(seen, job)
    gone = replace(seen, nodes=tuple(node for node in seen.nodes if node.name != old.workers[2].node))
    posed = pose(PlanRequest(job_key="team-a/gnn", job=job, workers_fixed=6), build(gone, POLICY), profile(job), POLICY)
    move = replan(posed, old, LOST_ONLY)
    assert move is not None
    assert move.moved == (2,)
    assert move.candidate.objective < 1.5 * planned(gone, job).objective


def test_pinned_ranks_of_a_plan_are_repaired_around_and_it_says_so() -> None:
    seen = cluster(gpu_node("b1", product="Tesla-T4"))
    gone = replace(seen, nodes=tuple(replace(node, requested_gpus=int(node.name in ("a1", "a3", "a4"))) for node in seen.nodes))
    plan = planned(gone, JOB, workers_fixed=4, pinned={0: "a1", 2: "a3", 3: "a4"}, excluded_nodes=("a2",))
    assert [worker.node for worker in plan.workers][::2] == ["a1", "a3"]
    assert plan.workers[3].node == "a4"
    assert plan.workers[1].node in ("a5", "a6")
    assert plan.planner == "Heuristic"
    assert plan.optimality_gap is None


def test_a_repair_that_finds_no_node_is_told_like_any_other_lack_of_room() -> None:
    seen = cluster()
    held = replace(seen, nodes=tuple(replace(node, requested_gpus=1) for node in seen.nodes))
    refusal = refused(held, JOB, workers_fixed=4, pinned={0: "a1", 2: "a3", 3: "a4"})
    assert refusal.reason == "InsufficientGPUs"


def test_a_job_of_hundreds_of_workers_is_repaired_within_seconds() -> None:
    nodes = [gpu_node(f"n{at:03d}", free=4, domain=f"eu/{'abcdefgh'[at % 8]}") for at in range(120)]
    job = training(workers={"minReplicas": 300, "maxReplicas": 300})
    pinned = {rank: f"n{rank // 4:03d}" for rank in range(200)}
    taken = tuple(replace(node, requested_gpus=4 * int(at < 50)) for at, node in enumerate(nodes))
    plan = planned(snapshot(*taken), job, workers_fixed=300, pinned=pinned)
    assert [worker.node for worker in plan.workers[:200]] == [pinned[rank] for rank in range(200)]
