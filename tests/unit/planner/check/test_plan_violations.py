from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Link, Taint
from hyperscale.model.plan import Plan, Prediction, Rejection
from hyperscale.model.planning import NodeExpression, NodeRule, NodeTerm, PlanRequest, Toleration, node_rule
from hyperscale.planner.check.plan_check import misfits, violations
from tests.builders.placement import GIB, cluster, job, node, plan, request

PLAN = plan("node-a", "node-b", "node-c")
NODES = (node("node-a"), node("node-b"), node("node-c"))
SNAPSHOT = cluster(*NODES)
GOLD = Taint("reserved", "gold", "NoSchedule")


def with_b(**fields: Any) -> ClusterSnapshot:
    return cluster(node("node-a"), node("node-b", **fields), node("node-c"))


def test_a_good_plan_has_no_violations() -> None:
    assert violations(PLAN, request(), SNAPSHOT) == ()
    assert misfits(PLAN, request(), SNAPSHOT) == ()


WRONG_PLANS: list[tuple[str, Plan, PlanRequest, str]] = [
    ("no workers", replace(PLAN, workers=()), request(), "the plan has no workers"),
    ("a worker missing", replace(PLAN, workers=PLAN.workers[1:], partitions=2), request(), "workers must be 0 to 1"),
    ("workers out of order", replace(PLAN, workers=PLAN.workers[::-1]), request(), "workers must be 0 to 2"),
    (
        "a rank that two workers hold",
        replace(PLAN, workers=(*PLAN.workers[:2], replace(PLAN.workers[2], first_rank=1))),
        request(),
        "ranks must be 0 to 2, each once and in the order of the workers",
    ),
    ("ranks on another node", replace(PLAN, ranks_by_node={"node-a": 3}), request(), "ranks by node are {'node-a': 3}, but"),
    ("too many workers", PLAN, request(job(workers={"maxReplicas": 2})), "3 workers planned, but the job allows 1 to 2"),
    ("too few workers", PLAN, request(job(workers={"minReplicas": 4, "maxReplicas": 8})), "3 workers planned, but the job allows 4 to 8"),
    ("another count than the MPIJob's", PLAN, request(workers_fixed=4), "3 workers planned, but the MPIJob has 4"),
    ("partitions of no rank", replace(PLAN, partitions=4), request(), "4 partitions planned for 3 ranks; without a count it is one each"),
    ("other partitions", PLAN, request(job(partitioning={"count": 6})), "3 partitions planned, but the job asks for 6"),
    (
        "partitions that do not divide",
        replace(PLAN, partitions=4),
        request(job(partitioning={"count": 4})),
        "4 partitions cannot be dealt out evenly to 3 ranks",
    ),
    (
        "other GPUs",
        PLAN,
        request(job(workers={"maxReplicas": 4, "resources": {"limits": {"nvidia.com/gpu": 2}}})),
        "worker 0 has 1 GPUs, but the job gives each worker 2",
    ),
    ("a moved pin", PLAN, request(pinned={1: "node-a"}), "worker 1 must stay on node-a, but the plan has it on node-b"),
    ("a dropped pin", PLAN, request(pinned={3: "node-a"}), "worker 3 must stay on node-a, but the plan has it on no node"),
    ("a backward range", replace(PLAN, predicted=replace(PLAN.predicted, low_seconds=9.0)), request(), "which is the wrong way round"),
    ("an objective of its own", replace(PLAN, objective=2.0), request(), "objective 2.0 is not epoch seconds + 0.5 × communication"),
    ("an unknown planner", replace(PLAN, planner="Oracle"), request(), "planner 'Oracle' is not known"),
    ("an odd id", replace(PLAN, plan_id="0123"), request(), "plan id '0123' is not 16 hex digits"),
    ("endless rejections", replace(PLAN, rejected=(Rejection("x", "Cordoned"),) * 33), request(), "33 rejections are more than 32"),
    (
        "another product",
        plan("node-a", "node-b", "node-c", product="T4"),
        request(),
        "worker 0 is planned for GPU T4, but node-a has NVIDIA-A100",
    ),
]


@pytest.mark.parametrize(("wrong", "asked", "sentence"), [entry[1:] for entry in WRONG_PLANS], ids=[entry[0] for entry in WRONG_PLANS])
def test_a_wrong_plan_is_named(wrong: Plan, asked: PlanRequest, sentence: str) -> None:
    found = violations(wrong, asked, SNAPSHOT)
    assert any(sentence in entry for entry in found), found


@pytest.mark.parametrize("share", [0.0, -0.1, math.nan, math.inf, 0.9])
def test_shares_are_positive_and_sum_to_one(share: float) -> None:
    workers = (replace(PLAN.workers[0], share=share), *PLAN.workers[1:])
    assert any("share" in entry for entry in violations(replace(PLAN, workers=workers), request(), SNAPSHOT))


@pytest.mark.parametrize("field", ["epoch_seconds", "communication_seconds", "low_seconds", "high_seconds", "cost_per_epoch"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_predictions_are_figures(field: str, value: float) -> None:
    predicted: Prediction = replace(PLAN.predicted, **{field: value})
    assert any("is not a figure" in entry for entry in violations(replace(PLAN, predicted=predicted), request(), SNAPSHOT))


RDMA = "rdma/hca"
RULE = node_rule({"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["r2"]}]}]})
ZONAL = node_rule(
    {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}]},
    reason="Volume",
    source='PersistentVolumeClaim "state"',
)
ANY_NODE = NodeRule((NodeTerm(labels=(NodeExpression("kubernetes.io/hostname", "Exists"),)),))

UNFIT: list[tuple[str, ClusterSnapshot, PlanRequest, str]] = [
    ("NotReady", with_b(ready=False), request(), "node-b is not ready"),
    ("NotReady", cluster(node("node-a"), node("node-c")), request(), "node-b is not in the cluster"),
    ("Cordoned", with_b(schedulable=False), request(), "node-b is cordoned"),
    ("Tainted", with_b(taints=(GOLD,)), request(), "node-b has the taint reserved=gold:NoSchedule"),
    (
        "Tainted",
        with_b(taints=(GOLD,)),
        request(
            tolerations=(Toleration(key="reserved", value="silver"), Toleration(key="reserved", operator="Exists", effect="NoExecute"))
        ),
        "node-b has the taint",
    ),
    ("Constraint", SNAPSHOT, request(excluded_nodes=("node-b",)), "node-b is excluded from this plan"),
    (
        "NodeSelector",
        with_b(labels={"pool": "other"}),
        request(job(placement={"nodeSelector": {"pool": "gnn"}})),
        "node-b does not have the label pool=gnn",
    ),
    ("NodeSelector", with_b(labels={}), request(required_labels={"rack": "r1"}), "node-b does not have the label rack=r1"),
    ("SharedGPU", with_b(labels={"nvidia.com/gpu.product": "T4-SHARED"}), request(), "node-b offers GPUs that several pods share"),
    ("SharedGPU", with_b(labels={"nvidia.com/gpu.replicas": "4"}), request(), "node-b offers GPUs that several pods share"),
    ("SharedGPU", with_b(labels={"nvidia.com/gpu.product": "A100-MIG-1g.5gb"}), request(), "node-b offers slices of GPUs"),
    ("SharedGPU", with_b(labels={"nvidia.com/gpu.product": "NVIDIA-A10-4Q"}), request(), "node-b offers parts of GPUs by vGPU"),
    ("SharedGPU", with_b(labels={"nvidia.com/gpu.product": "GRID-X9-80C"}), request(), "node-b offers parts of GPUs by vGPU"),
    (
        "GPUProduct",
        with_b(gpu_product="T4"),
        request(job(workers={"maxReplicas": 4, "gpuProducts": ["NVIDIA-A100"]})),
        "node-b has GPU T4, which is not one of NVIDIA-A100",
    ),
    ("GPUMemory", with_b(gpu_memory_bytes=16 * GIB), request(job(workers={"maxReplicas": 4, "gpuMemory": "24Gi"})), "less than 24Gi"),
    (
        "GPUMemory",
        with_b(gpu_memory_bytes=None),
        request(job(workers={"maxReplicas": 4, "gpuMemory": "24Gi"})),
        "does not say how much memory",
    ),
    ("NoFreeGPUs", with_b(requested_gpus=2), request(), "node-b has 0 free GPUs for 1 of the plan"),
    ("NoFreeGPUs", SNAPSHOT, request(free_gpus={"node-b": 0}), "node-b has 0 free GPUs for 1 of the plan"),
    (
        "CPU",
        with_b(requested_cpu_cores=15.0),
        request(job(workers={"maxReplicas": 4, "resources": {"requests": {"cpu": "1500m"}}})),
        "node-b has 1 CPU cores free, the plan needs 1.5 CPU cores",
    ),
    (
        "Memory",
        with_b(requested_memory_bytes=60 * GIB),
        request(job(workers={"maxReplicas": 4, "resources": {"limits": {"memory": "8Gi"}}})),
        "node-b has 4 GiB of memory free, the plan needs 8 GiB",
    ),
    ("CPU", with_b(requested_cpu_cores=15.0), request(resources={"cpu": 1.5}), "node-b has 1 CPU cores free"),
    ("CPU", SNAPSHOT, request(resources={"cpu": 2.0}, reserved_amounts={"node-b": {"cpu": 15.0}}), "node-b has 1 CPU cores free"),
    (
        "NodeAffinity",
        with_b(labels={"rack": "r2"}),
        request(node_rules=(RULE,)),
        "does not meet the node affinity of spec.workers.template",
    ),
    ("Resource", with_b(allocatable={"pods": 110.0}), request(resources={RDMA: 1.0}), "node-b has 0 rdma/hca free, the plan needs 1"),
    ("Resource", with_b(allocatable={"pods": 8.0}, requested={"pods": 8.0}), request(), "node-b has 0 pods free, the plan needs 1"),
    (
        "Resource",
        with_b(allocatable={"ephemeral-storage": 8.0 * GIB, "pods": 9.0}, requested={"ephemeral-storage": 4.0 * GIB}),
        request(resources={"ephemeral-storage": 5.0 * GIB}),
        "node-b has 4 GiB of ephemeral-storage free, the plan needs 5 GiB",
    ),
]


@pytest.mark.parametrize(("reason", "seen", "asked", "sentence"), UNFIT, ids=[f"{entry[0]}: {entry[3]}" for entry in UNFIT])
def test_a_node_that_does_not_take_its_rank_is_a_violation_and_a_misfit(
    reason: str, seen: ClusterSnapshot, asked: PlanRequest, sentence: str
) -> None:
    assert any(sentence in entry for entry in violations(PLAN, asked, seen))
    (misfit,) = misfits(PLAN, asked, seen)
    assert (misfit.node, misfit.reason) == ("node-b", reason)
    assert sentence in misfit.message


def test_a_volume_that_is_elsewhere_rules_out_every_node_that_cannot_reach_it() -> None:
    assert [(each.node, each.reason) for each in misfits(PLAN, request(node_rules=(ZONAL,)), SNAPSHOT)] == [
        ("node-b", "Volume"),
        ("node-c", "Volume"),
    ]
    assert violations(PLAN, request(node_rules=(ANY_NODE,)), SNAPSHOT) == ()


def test_a_node_that_tells_of_no_further_resources_may_have_any() -> None:
    assert violations(PLAN, request(resources={RDMA: 1.0}), SNAPSHOT) == ()


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration(key="reserved", value="gold"),
        Toleration(key="reserved", value="gold", effect="NoSchedule"),
        Toleration(key="reserved", operator="Exists"),
        Toleration(operator="Exists"),
    ],
)
def test_a_tolerated_taint_is_no_obstacle(toleration: Toleration) -> None:
    assert violations(PLAN, request(tolerations=(toleration,)), with_b(taints=(GOLD,))) == ()


def test_taints_that_only_prefer_and_the_gpu_taint_are_no_obstacle() -> None:
    taints = (Taint("spot", "", "PreferNoSchedule"), Taint("nvidia.com/gpu", "present", "NoSchedule"))
    assert violations(PLAN, request(), with_b(taints=taints)) == ()


def test_two_ranks_on_one_node_need_room_for_both() -> None:
    together = plan("node-a", "node-a")
    assert violations(together, request(), SNAPSHOT) == ()
    (misfit,) = misfits(together, request(), cluster(node("node-a", requested_gpus=1)))
    assert misfit.message == "node-a has 1 free GPUs for 2 of the plan"


def test_a_rank_that_stays_needs_no_free_gpu_and_no_willing_node() -> None:
    full = with_b(requested_gpus=2, schedulable=False, taints=(GOLD,))
    assert violations(PLAN, request(pinned={1: "node-b"}, excluded_nodes=("node-b",)), full) == ()


def test_a_rank_beside_one_that_stays_needs_a_gpu_of_its_own() -> None:
    together = plan("node-b", "node-b")
    (misfit,) = misfits(together, request(pinned={0: "node-b"}), with_b(requested_gpus=2))
    assert misfit.message == "node-b has 0 free GPUs for 1 of the plan beside 1 that stay"
    assert misfits(together, request(pinned={0: "node-b"}), with_b(requested_gpus=1)) == ()


def test_a_node_cannot_have_more_free_gpus_than_gpus() -> None:
    assert misfits(plan("node-b", "node-b"), request(free_gpus={"node-b": 9}), with_b(allocatable_gpus=1)) != ()


RACKED = job(placement={"topology": {"required": "rack"}})


def test_a_required_domain_is_not_left() -> None:
    apart = with_b(labels={"rack": "r2"})
    assert violations(PLAN, request(RACKED), SNAPSHOT) == ()
    assert "the topology requires one domain of rack; the plan spans r1, r2" in violations(PLAN, request(RACKED), apart)
    assert "a planned node has no label rack, which the topology requires" in violations(PLAN, request(RACKED), with_b(labels={}))


def test_domains_of_the_snapshot_count_as_labels_do() -> None:
    def racked(*racks: str) -> ClusterSnapshot:
        nodes = (node(f"node-{name}", labels={}, domains=("zone", rack)) for name, rack in zip("abc", racks, strict=True))
        return cluster(*nodes, levels=("zone", "rack"))

    assert violations(PLAN, request(RACKED), racked("r1", "r1", "r1")) == ()
    assert violations(PLAN, request(RACKED), racked("r1", "r2", "r1")) != ()


def test_every_rank_reaches_the_next_where_all_links_are_known() -> None:
    ring = [("node-a", "node-b"), ("node-b", "node-c"), ("node-c", "node-a")]
    links = tuple(Link(source, destination) for source, destination in ring)
    whole = cluster(*NODES, links=links, absent_links=AbsentLink.UNREACHABLE)
    assert violations(PLAN, request(), whole) == ()
    broken = replace(whole, links=links[1:])
    assert violations(PLAN, request(), broken) == ("node-a cannot reach node-b, its neighbour in the ring",)
    assert violations(PLAN, request(), replace(broken, absent_links=AbsentLink.ESTIMATE)) == ()
    assert violations(plan("node-a"), request(), replace(whole, links=())) == ()
