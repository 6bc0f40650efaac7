from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Link, Node, Taint
from hyperscale.model.plan import Plan, WorkerPlacement
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.plan_check import misfits, violations
from tests.builders.placement import GIB, cluster, job, node, plan, request

Case = tuple[Plan, PlanRequest, ClusterSnapshot]


@st.composite
def valid_cases(draw: st.DrawFn) -> Case:
    """A plan that fits exactly: every planned node has just the GPUs, cores and bytes that its ranks need."""
    gpus = draw(st.integers(1, 4))
    hosts = draw(st.lists(st.sampled_from([f"node-{index}" for index in range(6)]), min_size=1, max_size=8))
    parts_each = draw(st.integers(1, 3))
    auto = draw(st.booleans())
    workers = {
        "minReplicas": 1,
        "maxReplicas": 8,
        "resources": {"limits": {"nvidia.com/gpu": gpus, "memory": "4Gi"}, "requests": {"cpu": "2"}},
        "gpuMemory": "40Gi",
        "gpuProducts": ["NVIDIA-A100"],
    }
    asked = job(
        workers=workers,
        partitioning={} if auto else {"count": parts_each * len(hosts) * gpus},
        placement={"nodeSelector": {"pool": "gnn"}, "topology": {"required": "rack"}, "communicationWeight": "0.5"},
    )
    nodes = []
    for name in sorted({*hosts, "node-spare"}):
        ranks = hosts.count(name)
        nodes.append(node(name, allocatable_gpus=gpus * ranks, allocatable_cpu_cores=2.0 * ranks, allocatable_memory_bytes=4 * GIB * ranks))
    pairs = sorted({(a, b) for a in hosts for b in hosts if a != b})
    links = tuple(Link(source, destination) for source, destination in pairs)
    snapshot = cluster(*nodes, links=links, absent_links=AbsentLink.UNREACHABLE)
    chosen = plan(*hosts, gpus=gpus, partitions=len(hosts) * gpus * (1 if auto else parts_each))
    return chosen, request(asked), snapshot


def change_worker(case: Case, of: int, /, **fields: object) -> Case:
    chosen, asked, seen = case
    workers = tuple(replace(worker, **fields) if worker.index == of else worker for worker in chosen.workers)
    return replace(chosen, workers=workers), asked, seen


def change_node(case: Case, rank: int, change: Callable[[Node], Node]) -> Case:
    chosen, asked, seen = case
    name = chosen.workers[rank].node
    nodes = tuple(change(entry) if entry.name == name else entry for entry in seen.nodes)
    return chosen, asked, replace(seen, nodes=nodes)


def drop(case: Case, rank: int) -> Case:
    chosen, asked, seen = case
    return replace(chosen, workers=tuple(worker for worker in chosen.workers if worker.index != rank)), asked, seen


def repeat(case: Case, rank: int) -> Case:
    chosen, asked, seen = case
    return replace(chosen, workers=(*chosen.workers, chosen.workers[rank])), asked, seen


def cut(case: Case, rank: int) -> Case:
    """Break the hop behind the rank; where it stays on one node, take the node away instead."""
    chosen, asked, seen = case
    here, there = chosen.workers[rank].node, chosen.workers[(rank + 1) % len(chosen.workers)].node
    if here == there:
        return chosen, asked, replace(seen, nodes=tuple(entry for entry in seen.nodes if entry.name != here))
    return chosen, asked, replace(seen, links=tuple(link for link in seen.links if (link.source, link.destination) != (here, there)))


PLAN_MUTATIONS: dict[str, Callable[[Case, int], Case]] = {
    "one GPU more": lambda case, rank: change_worker(case, rank, gpus=case[0].workers[rank].gpus + 1),
    "one GPU fewer": lambda case, rank: change_worker(case, rank, gpus=case[0].workers[rank].gpus - 1),
    "a node without room": lambda case, rank: change_worker(case, rank, node="node-spare"),
    "a node that is not there": lambda case, rank: change_worker(case, rank, node="node-99"),
    "another index": lambda case, rank: change_worker(case, rank, index=rank + 1),
    "another rank": lambda case, rank: change_worker(case, rank, first_rank=case[0].workers[rank].first_rank + 1),
    "a negative rank": lambda case, rank: change_worker(case, rank, first_rank=-1),
    "half the share": lambda case, rank: change_worker(case, rank, share=case[0].workers[rank].share / 2),
    "no share": lambda case, rank: change_worker(case, rank, share=0.0),
    "a share that is no number": lambda case, rank: change_worker(case, rank, share=float("nan")),
    "another product": lambda case, rank: change_worker(case, rank, product="T4"),
    "a rank dropped": drop,
    "a rank repeated": repeat,
    "a partition more": lambda case, _: (replace(case[0], partitions=case[0].partitions + 1), *case[1:]),
    "a better objective": lambda case, _: (replace(case[0], objective=case[0].objective * 0.99), *case[1:]),
    "another worker count": lambda case, _: (case[0], replace(case[1], workers_fixed=len(case[0].workers) + 1), case[2]),
    "a hop cut": cut,
}
NODE_MUTATIONS: dict[str, Callable[[Node], Node]] = {
    "not ready": lambda entry: replace(entry, ready=False),
    "cordoned": lambda entry: replace(entry, schedulable=False),
    "tainted": lambda entry: replace(entry, taints=(Taint("x"),)),
    "evicting": lambda entry: replace(entry, taints=(Taint("x", effect="NoExecute"),)),
    "a GPU taken": lambda entry: replace(entry, requested_gpus=entry.requested_gpus + 1),
    "a GPU broken": lambda entry: replace(entry, allocatable_gpus=entry.allocatable_gpus - 1),
    "a core taken": lambda entry: replace(entry, requested_cpu_cores=0.1),
    "a byte taken": lambda entry: replace(entry, requested_memory_bytes=1),
    "out of the pool": lambda entry: replace(entry, labels=entry.labels | {"pool": "x"}),
    "without labels": lambda entry: replace(entry, labels={}),
    "a smaller GPU": lambda entry: replace(entry, gpu_memory_bytes=40 * GIB - 1),
}


@settings(max_examples=50, deadline=None)
@given(valid_cases())
def test_a_plan_that_fits_exactly_is_accepted(case: Case) -> None:
    assert violations(*case) == ()
    assert misfits(*case) == ()


@pytest.mark.parametrize("mutation", sorted(PLAN_MUTATIONS))
@settings(max_examples=15, deadline=None)
@given(case=valid_cases(), rank=st.integers(0, 7))
def test_every_change_to_a_valid_plan_is_found(mutation: str, case: Case, rank: int) -> None:
    assert violations(*PLAN_MUTATIONS[mutation](case, rank % len(case[0].workers))) != ()


@pytest.mark.parametrize("mutation", sorted(NODE_MUTATIONS))
@settings(max_examples=15, deadline=None)
@given(case=valid_cases(), rank=st.integers(0, 7))
def test_every_worsening_of_a_planned_node_is_found_and_only_that_node_is_blamed(mutation: str, case: Case, rank: int) -> None:
    rank %= len(case[0].workers)
    changed = change_node(case, rank, NODE_MUTATIONS[mutation])
    assert violations(*changed) != ()
    assert [misfit.node for misfit in misfits(*changed)] == [case[0].workers[rank].node]


@settings(max_examples=50, deadline=None)
@given(valid_cases(), st.sampled_from(sorted(NODE_MUTATIONS)))
def test_what_happens_to_other_nodes_does_not_matter(case: Case, mutation: str) -> None:
    chosen, asked, seen = case
    nodes = tuple(NODE_MUTATIONS[mutation](entry) if entry.name == "node-spare" else entry for entry in seen.nodes)
    assert violations(chosen, asked, replace(seen, nodes=nodes)) == ()


@settings(max_examples=50, deadline=None)
@given(valid_cases())
def test_once_all_ranks_run_where_they_were_planned_the_full_nodes_do_not_matter(case: Case) -> None:
    chosen, asked, seen = case
    full = replace(seen, nodes=tuple(replace(entry, requested_gpus=entry.allocatable_gpus, schedulable=False) for entry in seen.nodes))
    assert violations(chosen, replace(asked, pinned={worker.index: worker.node for worker in chosen.workers}), full) == ()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.builds(
            WorkerPlacement,
            index=st.integers(-2, 9),
            first_rank=st.integers(-2, 9),
            node=st.sampled_from(["node-a", "node-b", "x", ""]),
            gpus=st.integers(-1, 3),
            product=st.none() | st.just("NVIDIA-A100"),
            share=st.floats(),
        ),
        max_size=5,
    ),
    st.integers(-1, 9),
    st.floats(),
)
def test_no_plan_however_odd_makes_the_check_fail(workers: list[WorkerPlacement], partitions: int, objective: float) -> None:
    odd = replace(plan("node-a"), workers=tuple(workers), partitions=partitions, objective=objective)
    found = violations(odd, request(), cluster(node("node-a"), node("node-b")))
    assert all(isinstance(sentence, str) and sentence for sentence in found)
