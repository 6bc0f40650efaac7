"""Plans on small made machines, against seconds worked out by hand: docs/explanation/machine-cases.md has the arithmetic of each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import pytest

from hyperscale.model.api.policy import GpuModel, NodeOverride, Overrides, PolicySpec
from hyperscale.model.cluster import Link
from hyperscale.model.graph import ClusterGraph, plain_machine
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.workload import WorkloadProfile
from hyperscale.observe.snapshot.build_snapshot import build_snapshot
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from tests.builders.clusters import GIB, LEVELS, gpu_node, link, snapshot, training
from tests.unit.observe.objects import NOW, raw_node, reading

POLICY = PolicySpec(
    gpus=(GpuModel(product="made", gigaflops=10_000, intra_node_bytes_per_second=100_000_000_000, intra_node_latency_nanoseconds=10_000),)
)
"""A GPU with 10 TFLOP/s; two of one node exchange 100 GB/s with a latency of 10 µs."""


@dataclass(frozen=True)
class Case:
    """A made machine, a job, and what its plan must be."""

    gpus: dict[str, int]
    """Free GPUs of each node."""
    workers: int
    epoch_seconds: float
    communication_seconds: float
    nodes: tuple[str, ...]
    """Of the plan's workers, sorted."""
    bound_by: str
    gpus_per_worker: int = 1
    latency_seconds: float = 1e-4
    bytes_per_second: float = 1e9
    gradient_bytes: float = 0.0
    slower: dict[tuple[str, str], float] = field(default_factory=dict)
    """Bytes a second of single pairs."""
    rails: int = 1
    left: dict[str, float] = field(default_factory=dict)
    """Part of a node's cards that running jobs leave."""
    racks: dict[str, int] = field(default_factory=dict)
    uplink_bytes_per_second: float = np.inf
    memory_gib: dict[str, int] = field(default_factory=dict)
    sharp: dict[str, float] = field(default_factory=dict)
    """Efficiency of NVLink SHARP of nodes whose switches add up."""


def workload(case: Case) -> WorkloadProfile:
    """10^13 operations an epoch, 4 exchanges, and (ranks − 1) GB of boundary data: a blind cut of a dense graph copies everything."""
    return WorkloadProfile(
        vertices=1_000_000,
        edges=1_000_000_000,
        epoch_flops=1e13,
        step_overhead_seconds=0.0,
        gradient_bytes=case.gradient_bytes,
        parameter_bytes=0.0,
        batch_size=None,
        exchanges_per_step=4,
        halo_bytes_per_copy=1000.0,
        fetch_bytes_per_step=0.0,
        full_graph_bytes=92.0 * GIB,
        step_bytes=0.0,
        random_partition=True,
    )


def machine(case: Case) -> ClusterGraph:
    members = [
        gpu_node(name, free=count, product="made", gpu_memory_bytes=case.memory_gib.get(name, 1000) * GIB)
        for name, count in case.gpus.items()
    ]
    links: list[Link] = []
    for one in case.gpus:
        for other in case.gpus:
            if one != other:
                speed = case.slower.get((one, other), case.slower.get((other, one), case.bytes_per_second))
                links.append(link(one, other, case.latency_seconds, speed))
    graph = build(snapshot(*members, links=tuple(links)), POLICY)
    names = [node.name for node in graph.nodes]
    whole = plain_machine(len(names))
    whole = replace(whole, rails=np.full(len(names), case.rails), cards_left_ratio=np.array([case.left.get(name, 1.0) for name in names]))
    if case.racks:
        racks = max(case.racks.values()) + 1
        whole = replace(
            whole,
            uplink_domains=np.array([[case.racks[name] for name in names]]),
            uplink_bytes_per_second=np.full((1, racks), case.uplink_bytes_per_second),
            uplink_names=(tuple(f"leaf/rack-{number}" for number in range(racks)),),
        )
    sharp = np.array([case.sharp.get(name, 0.0) for name in names])
    return replace(graph, machine=whole, inside=replace(graph.inside, sharp_efficiency=sharp))


def observed(case: Case, nodes: dict[str, dict[str, str]], policy: PolicySpec) -> ClusterGraph:
    """The graph that the operator makes of these nodes: their GPUs are those of the case, their labels are given by name."""
    shared = {"nvidia.com/gpu.product": "made", "nvidia.com/gpu.memory": str(1000 * 1024), LEVELS[0]: "eu", LEVELS[1]: "a"}
    raw = [raw_node(name, case.gpus[name], labels=shared | labels) for name, labels in nodes.items()]
    return build(build_snapshot(raw, [], reading(), policy, NOW), policy)


def plan_of(case: Case, graph: ClusterGraph | None = None, policy: PolicySpec = POLICY, device: str = "") -> Plan:
    limits: dict[str, Any] = {"limits": {"nvidia.com/gpu": case.gpus_per_worker} | ({device: 1} if device else {})}
    job = training(workers={"minReplicas": case.workers, "maxReplicas": case.workers, "resources": limits})
    plan = make_plan(PlanRequest(job_key="team-a/made", job=job), graph or machine(case), workload(case), policy)
    assert isinstance(plan, Plan), plan
    return plan


FOUR = {"a": 1, "b": 1, "c": 1, "d": 1}
EIGHT = dict.fromkeys("abcdefgh", 1)
RACKS = {"a": 0, "b": 0, "c": 1, "d": 1}
CASES = {
    "1 one GPU": Case({"a": 1, "b": 1}, 1, 1.0, 0.0, ("a",), "compute of a"),
    "2 two nodes": Case({"a": 1, "b": 1}, 2, 0.750622, 0.250622, ("a", "b"), "compute of a", bytes_per_second=2e9),
    "3 inside of a node": Case({"a": 1, "b": 2}, 2, 0.505059, 0.005059, ("b", "b"), "compute of b"),
    "4 eight ranks inside": Case({"a": 8}, 8, 0.133839, 0.008839, ("a",) * 8, "compute of a"),
    "5 one GPU drives one of four cards": Case(
        {"a": 1, "b": 1}, 2, 1.500622, 1.000622, ("a", "b"), "network card of a", bytes_per_second=2e9, rails=4
    ),
    "6 four GPUs fill four cards": Case(
        {"a": 4, "b": 4}, 2, 0.629396, 0.504396, ("a", "b"), "network card of a", gpus_per_worker=4, bytes_per_second=4e9, rails=4
    ),
    "7 two workers share a card": Case({"a": 2, "b": 2}, 4, 1.253136, 1.003136, ("a", "a", "b", "b"), "network card of a"),
    "8 spread rather than shared": Case({"a": 2, "b": 2, "c": 2, "d": 2}, 4, 1.000848, 0.750848, ("a", "b", "c", "d"), "network card of a"),
    "9 an uplink shared by a rack": Case(
        FOUR, 4, 2.250848, 2.000848, ("a", "b", "c", "d"), "uplink leaf/rack-0", racks=RACKS, uplink_bytes_per_second=5e8
    ),
    "10 gradients over an uplink": Case(
        FOUR,
        4,
        5.2510924,
        5.0010924,
        ("a", "b", "c", "d"),
        "uplink leaf/rack-0",
        racks=RACKS,
        uplink_bytes_per_second=5e8,
        gradient_bytes=1e9,
    ),
    "11 an uplink avoided": Case(
        FOUR,
        2,
        1.125622,
        0.625622,
        ("a", "b"),
        "network card of a",
        slower={("a", "b"): 8e8, ("c", "d"): 5e8},
        racks=RACKS,
        uplink_bytes_per_second=1e8,
    ),
    "12 a busy node avoided": Case(
        {"a": 1, "b": 1, "c": 1}, 2, 0.750622, 0.250622, ("b", "c"), "compute of b", bytes_per_second=2e9, left={"a": 0.25}
    ),
    "13 a busy node that is needed": Case(
        {"a": 1, "b": 1}, 2, 1.500622, 1.000622, ("a", "b"), "network card of a", bytes_per_second=2e9, left={"a": 0.25}
    ),
    "14 a tree where hops are long": Case(
        EIGHT, 8, 0.412565, 0.287565, tuple("abcdefgh"), "latency", latency_seconds=0.02, bytes_per_second=1e10
    ),
    "15 a ring for large gradients": Case(
        EIGHT, 8, 0.9145044, 0.7895044, tuple("abcdefgh"), "link ", gradient_bytes=4e9, bytes_per_second=1e10
    ),
    "16 a tree over two nodes": Case({"a": 2, "b": 2}, 4, 2.3401089, 2.0901089, ("a", "a", "b", "b"), "link ", gradient_bytes=1e9),
    "17 memory limits a share": Case(
        {"a": 1, "b": 1}, 2, 1.000622, 0.250622, ("a", "b"), "compute of b", bytes_per_second=2e9, memory_gib={"a": 25}
    ),
    "18 switches add up beside a node without them": Case(
        {"a": 8, "b": 1}, 8, 0.1470503, 0.0220503, ("a",) * 8, "compute of a", gradient_bytes=1e9, sharp={"a": 0.85}
    ),
    "19 switches of two nodes": Case(
        {"a": 4, "b": 4, "c": 4},
        8,
        3.1294168,
        3.0044168,
        (*"aaaa", *"bbbb"),
        "network card of a",
        gradient_bytes=1e9,
        slower={("a", "c"): 1.02e9},
        sharp={"a": 0.85, "b": 0.85},
    ),
    "20 switches of one of two nodes": Case(
        {"a": 4, "b": 4}, 8, 3.2163909, 3.0913909, (*"aaaa", *"bbbb"), "network card of a", gradient_bytes=1e9, sharp={"a": 0.85}
    ),
}
LABELLED = Case({"a": 8, "b": 8}, 2, 0.087541, 0.025041, ("a", "b"), "compute of a", gpus_per_worker=8)
STATED = Case({"a": 4, "b": 4}, 2, 1.170641, 1.0039743, ("a", "b"), "network card of a", gpus_per_worker=3)


@pytest.mark.parametrize("name", CASES)
def test_a_plan_takes_the_seconds_that_were_worked_out_by_hand(name: str) -> None:
    assert_worked_out(CASES[name], plan_of(CASES[name]))


def test_21_cards_come_from_the_label_of_an_instance_type() -> None:
    labels = {name: {"node.kubernetes.io/instance-type": "Standard_ND96asr_v4"} for name in "ab"}
    graph = observed(LABELLED, labels, POLICY)
    assert graph.machine.rails.tolist() == [8, 8]
    assert_worked_out(LABELLED, plan_of(LABELLED, graph, device="rdma/ib"))


def test_22_cards_come_from_an_override_of_the_policy() -> None:
    nodes = tuple(NodeOverride(name=name, network_bytes_per_second=5e8, network_cards=4) for name in "ab")
    policy = msgspec.structs.replace(POLICY, overrides=Overrides(nodes=nodes))
    graph = observed(STATED, {"a": {}, "b": {}}, policy)
    assert graph.machine.rails.tolist() == [4, 4]
    assert_worked_out(STATED, plan_of(STATED, graph, policy))


def assert_worked_out(case: Case, plan: Plan) -> None:
    assert tuple(sorted(worker.node for worker in plan.workers)) == case.nodes
    assert plan.predicted.epoch_seconds == pytest.approx(case.epoch_seconds, rel=1e-6)
    assert plan.predicted.communication_seconds == pytest.approx(case.communication_seconds, rel=1e-6)
    assert plan.predicted.bound_by.startswith(case.bound_by)
    assert f"An epoch waits longest for {plan.predicted.bound_by}." in plan.reasons
