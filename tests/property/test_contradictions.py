"""A contradiction is named exactly where no placement exists: against all placements of small jobs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.evaluate.verify.contradiction import contradiction, posed
from hyperscale.evaluate.verify.job_rules import rules_of
from hyperscale.evaluate.verify.normal_form import PlacedWorker, PlanFacts, PlanLimits
from hyperscale.evaluate.verify.plan_checker import broken_constraints
from hyperscale.evaluate.verify.plan_constraints import limits_of
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Link
from hyperscale.model.planning import PlanRequest
from tests.builders.clusters import GIB, LEVELS, gpu_node, measured, snapshot, training

pytest.importorskip("z3")
NODES = 3


@st.composite
def jobs(draw: st.DrawFn) -> tuple[PlanRequest, ClusterSnapshot, int | None]:
    """A job of up to three workers on three nodes, with a few of all demands."""
    names = [f"n{at}" for at in range(NODES)]
    nodes = [
        gpu_node(
            name,
            free=draw(st.integers(0, 3)),
            domain=draw(st.sampled_from(["eu/a", "eu/b"])),
            gpu_memory_bytes=draw(st.sampled_from([16 * GIB, 80 * GIB])),
            ready=draw(st.sampled_from([True, True, True, False])),
            labels={"pool": draw(st.sampled_from(["blue", "blue", "green"]))},
            allocatable_cpu_cores=draw(st.sampled_from([None, 2.0, 9.0])),
        )
        for name in names
    ]
    pairs = [(one, other) for one in names for other in names if one != other]
    dead = draw(st.lists(st.sampled_from(pairs), max_size=2, unique=True))
    whole = snapshot(*nodes, links=tuple(Link(*pair, measured(1e-4), measured(0.0 if pair in dead else 1e9)) for pair in pairs))
    workers = draw(st.integers(1, 3))
    fields: dict[str, Any] = {"minReplicas": workers, "maxReplicas": workers + draw(st.integers(0, 1))}
    if draw(st.booleans()):
        fields["gpuMemory"] = "24Gi"
    if draw(st.booleans()):
        fields["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
    placement: dict[str, Any] = {"nodeSelector": {"pool": "blue"}} if draw(st.booleans()) else {}
    if draw(st.booleans()):
        placement["topology"] = {"required": LEVELS[1]}
    request = PlanRequest(
        job_key="team-a/gnn",
        job=training(workers=fields, placement=placement),
        apart=draw(st.booleans()),
        resources=draw(st.sampled_from([{}, {"cpu": 2.0}])),
        pinned=draw(st.sampled_from([{}, {}, {}, {0: "n1"}, {1: "n2"}, {3: "n0"}])),
    )
    return request, whole, draw(st.sampled_from([None, None, 1, 3]))


def placements(limits: PlanLimits) -> Iterator[PlanFacts]:
    """Every plan, with every ring."""
    for count in range(limits.workers_min, limits.workers_max + 1):
        yield from placements_of(count, limits)


def placements_of(count: int, limits: PlanLimits) -> Iterator[PlanFacts]:
    """Every plan of that many workers."""
    gpus = limits.gpus_each
    total = count * gpus
    for nodes in product(range(len(limits.nodes)), repeat=count):
        workers = tuple(
            PlacedWorker(at, node, tuple(range(at * gpus, (at + 1) * gpus)), gpus, 10**9 // count) for at, node in enumerate(nodes)
        )
        tally = tuple(sorted({node: nodes.count(node) * gpus for node in nodes}.items()))
        for ring in permutations(range(count)):
            yield PlanFacts(workers, ring, total, tuple((part,) for part in range(total)), tuple(range(limits.tensors)), tally)


@settings(max_examples=60, deadline=None)
@given(jobs())
def test_a_job_has_a_contradiction_exactly_where_no_placement_satisfies_all_constraints(
    drawn: tuple[PlanRequest, ClusterSnapshot, int | None],
) -> None:
    limits = limits_of(*drawn)
    exists = any(not broken_constraints(limits, facts) for facts in placements(limits))
    answer = contradiction(*drawn)
    assert (answer is None) == exists


@settings(max_examples=30, deadline=None)
@given(jobs(), st.lists(st.integers(0, NODES * (NODES - 1) - 1), unique=True))
def test_where_links_are_missing_a_contradiction_still_means_that_no_placement_exists(
    drawn: tuple[PlanRequest, ClusterSnapshot, int | None], missing: list[int]
) -> None:
    request, whole, quota = drawn
    links = tuple(link for at, link in enumerate(whole.links) if at not in missing)
    sparse = snapshot(*whole.nodes, links=links, absent=AbsentLink.UNREACHABLE)
    limits = limits_of(request, sparse, quota)
    exists = any(not broken_constraints(limits, facts) for facts in placements(limits))
    answer = contradiction(request, sparse, quota)
    assert answer is None or not exists


@settings(max_examples=60, deadline=None)
@given(jobs())
def test_no_smaller_set_of_rules_is_contradictory(drawn: tuple[PlanRequest, ClusterSnapshot, int | None]) -> None:
    answer, job = contradiction(*drawn), rules_of(*drawn)
    if answer is None or job.impossible:
        return
    solver = posed(job)
    names = [rule.name for rule in job.rules]
    for subset in combinations(names, len(answer.clashes) - 1):
        assert solver.satisfiable(subset)


@settings(max_examples=15, deadline=None)
@given(jobs())
def test_a_contradiction_is_the_same_every_time(drawn: tuple[PlanRequest, ClusterSnapshot, int | None]) -> None:
    assert contradiction(*drawn) == contradiction(*drawn)
