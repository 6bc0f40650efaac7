"""The smallest contradiction of a job that fits nowhere, in words."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from hyperscale.evaluate.verify.contradiction import Contradiction, contradiction
from hyperscale.evaluate.verify.solver import SolverMissingError
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Link
from hyperscale.model.planning import NodeExpression, NodeRule, NodeTerm, PlanRequest
from tests.builders.clusters import LEVELS, both_ways, gpu_node, measured, snapshot, training

NODES = [gpu_node(f"n{at}", free=8, domain=f"eu/{at // 2}", labels={"zone": "a" if at < 2 else "b"}) for at in range(6)]
NAMES = [node.name for node in NODES]
CLUSTER = snapshot(*NODES)


def asked(count: int, gpus: int = 8, **fields: Any) -> PlanRequest:
    """A job for that many workers; `fields` of spec, or of the question where it has them."""
    question = {name: fields.pop(name) for name in list(fields) if name in PlanRequest.__struct_fields__}
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
    wanted = {"minReplicas": count, "maxReplicas": count, "resources": limits, **fields.pop("workers", {})}
    return PlanRequest(job_key="team-a/gnn", job=training(workers=wanted, **fields), **question)


def answer(request: PlanRequest, whole: ClusterSnapshot = CLUSTER, quota: int | None = None) -> Contradiction:
    pytest.importorskip("z3")
    given = contradiction(request, whole, quota)
    assert given is not None
    return given


def fields_of(given: Contradiction) -> list[str]:
    return [clash.field for clash in given.clashes]


def test_a_job_that_fits_has_no_contradiction() -> None:
    pytest.importorskip("z3")
    assert contradiction(asked(6), CLUSTER) is None


def test_a_zone_with_too_few_gpus_is_named_with_all_figures() -> None:
    given = answer(asked(3, placement={"nodeSelector": {"zone": "a"}}))
    assert given.sentence == (
        "no placement exists: 3 workers of 8 GPUs each need 24 GPUs (spec.workers.minReplicas); "
        "2 of 6 nodes carry zone=a (spec.placement.nodeSelector); "
        "the 2 nodes left have 16 GPUs free (8 + 8), room for 2 workers (node free nvidia.com/gpu)"
    )


def test_what_does_not_matter_is_left_out() -> None:
    given = answer(asked(4, placement={"nodeSelector": {"zone": "b"}}, workers={"gpuMemory": "24Gi"}), quota=8)
    assert fields_of(given) == ["spec.workers.minReplicas", "ResourceQuota requests.nvidia.com/gpu"]


def test_only_the_label_that_closes_nodes_is_named() -> None:
    given = answer(asked(1, placement={"nodeSelector": {"zone": "a", "absent": "yes"}}))
    assert [clash.sentence for clash in given.clashes[1:]] == ["0 of 6 nodes carry absent=yes"]


def test_gpu_memory_that_no_node_has_is_named() -> None:
    given = answer(asked(1, workers={"gpuMemory": "100Gi"}))
    assert given.clashes[1].sentence == "0 of 6 nodes have GPUs with at least 100 GiB"


def test_a_domain_that_is_too_small_is_named() -> None:
    given = answer(asked(3, placement={"topology": {"required": LEVELS[1]}}))
    assert given.clashes[-1].sentence == (
        "all workers must be in one of 3 domains of topology.kubernetes.io/zone, the largest has 16 GPUs free"
    )


def test_workers_that_keep_apart_need_a_node_each() -> None:
    given = answer(asked(7, gpus=1, apart=True))
    assert given.clashes[1].sentence == "the workers keep apart, 6 nodes can take one each"


def test_dead_links_that_split_the_cluster_are_named() -> None:
    dead = tuple(Link(one, other, measured(1e-4), measured(0.0)) for one in NAMES[:3] for other in NAMES[3:])
    given = answer(asked(4), snapshot(*NODES, links=dead))
    assert "links with bandwidth 0" in fields_of(given)


def test_groups_of_nodes_without_a_path_are_counted() -> None:
    links = both_ways(NAMES[:3]) + both_ways(NAMES[3:])
    given = answer(asked(4), snapshot(*NODES, links=links, absent=AbsentLink.UNREACHABLE))
    assert given.clashes[-1].sentence == "the nodes form 2 groups that cannot reach each other"


def test_partitions_that_no_worker_count_divides_contradict_the_workers() -> None:
    given = answer(asked(3, partitioning={"count": 25}))
    assert given.sentence == (
        "no placement exists: the job allows 3 to 3 workers of 8 GPUs (spec.workers); "
        "25 partitions are no multiple of the ranks of any such number of workers (spec.partitioning.count)"
    )


def test_a_worker_that_runs_beyond_the_allowed_number_is_named() -> None:
    given = answer(asked(3, pinned={4: "n0"}))
    assert given.clashes[1].sentence == "worker 4 runs already and must stay"


def test_node_affinity_is_named_by_its_source() -> None:
    rule = NodeRule((NodeTerm((NodeExpression("zone", "In", ("c",)),)),))
    given = answer(asked(1, node_rules=(rule,)))
    assert given.clashes[1].sentence == "0 of 6 nodes meet the node affinity of spec.workers.template"


def test_a_cpu_request_that_no_node_has_is_named() -> None:
    small = snapshot(*(gpu_node(name, free=8, allocatable_cpu_cores=4.0) for name in NAMES))
    given = answer(asked(2, resources={"cpu": 5.0}), small)
    assert given.clashes[1] == type(given.clashes[1])(
        "spec.workers.resources.requests.cpu", "a worker requests 5 cpu, the 6 nodes have room for 0 workers"
    )


def test_a_job_whose_workers_all_run_has_no_contradiction() -> None:
    pytest.importorskip("z3")
    cordoned = snapshot(gpu_node("n0", free=0, schedulable=False))
    assert contradiction(asked(1, pinned={0: "n0"}), cordoned) is None


def test_without_z3_the_stage_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(SolverMissingError, match=r"pip install '\.\[evaluate\]'"):
        contradiction(asked(7), CLUSTER)
