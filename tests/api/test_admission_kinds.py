"""Examples, policies and topologies as the API server takes them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from e2e.cluster.api import Api, ApiError, Object
from hyperscale.model.api.topology import topology_status
from hyperscale.model.cluster import ClusterSnapshot, Gpu, Link, MetricsState, Node, Quality, Sample
from hyperscale.spec.crd import REPOSITORY
from hyperscale.spec.parse import SpecError, parse_job, parse_policy

GROUP = "/apis/hyperscale.dev/v1alpha1"
JOBS = f"{GROUP}/namespaces/default/gnntrainingjobs"
POLICIES = f"{GROUP}/plannerpolicies"
TOPOLOGIES = f"{GROUP}/clustertopologies"
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_admitted_and_parses_to_the_same_after_defaults(api: Api, path: Path) -> None:
    resource = yaml.safe_load(path.read_text(encoding="utf-8"))
    is_policy = resource["kind"] == "PlannerPolicy"
    stored = api.create(f"{POLICIES if is_policy else JOBS}?fieldValidation=Strict&dryRun=All", resource)
    parse = parse_policy if is_policy else parse_job
    assert parse(stored) == parse(resource)


def policy(spec: Object) -> Object:
    return {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "tried"}, "spec": spec}


def test_an_empty_policy_gets_every_figure(api: Api) -> None:
    spec = api.create(f"{POLICIES}?dryRun=All", policy({}))["spec"]
    assert spec["communicationWeight"] == "0.1"
    assert [spec[name] for name in ("planDeadlineSeconds", "metricsTimeoutSeconds", "schedulingTimeoutSeconds")] == [5, 5, 300]
    assert spec["queries"]["gpuUtilization"] == "DCGM_FI_DEV_GPU_UTIL"
    assert spec["limits"]["maxAgeSeconds"] == 120
    assert spec["limits"]["maxBandwidthBytesPerSecond"] == "10T"
    assert parse_policy(policy(spec)) == parse_policy(policy({}))


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"communicationWeight": "-0.1"}, "spec.communicationWeight"),
        ({"communicationWeight": "1000.1"}, "spec.communicationWeight"),
        ({"communicationWeight": 0.1}, "spec.communicationWeight"),
        ({"communicationWeight": 1}, "spec.communicationWeight"),
        ({"queue": {"maxStartSlowdown": "0.9"}}, "spec.queue.maxStartSlowdown"),
        ({"queue": {"startSlowdownSizeExponent": "1.1"}}, "spec.queue.startSlowdownSizeExponent"),
        ({"queue": {"communicationFactor": "-1"}}, "spec.queue.communicationFactor"),
        ({"queue": {"minScalingExponent": "50%"}}, "spec.queue.minScalingExponent"),
        ({"queue": {"minScalingExponentAlone": "NaN"}}, "spec.queue.minScalingExponentAlone"),
        ({"queue": {"starvationSeconds": 0.5}}, "spec.queue.starvationSeconds"),
        ({"queue": {"preemption": {"mode": False}}}, "spec.queue.preemption.mode"),
        ({"queue": {"preemption": {"mode": "Act"}}}, "spec.queue.preemption.mode"),
        ({"queue": {"preemption": {"minGainPercent": 0.5}}}, "spec.queue.preemption.minGainPercent"),
        ({"migration": {"mode": False}}, "spec.migration.mode"),
        ({"migration": {"mode": True}}, "spec.migration.mode"),
        ({"migration": {"mode": "Off"}}, "spec.migration.mode"),
        ({"migration": {"minGainPercent": 100}}, "spec.migration.minGainPercent"),
        ({"seed": 2**31}, "spec.seed"),
        ({"planners": ["Auto", "Magic"]}, "spec.planners[1]"),
        ({"planners": ["Auto", "Auto"]}, "spec.planners"),
        ({"planners": []}, "spec.planners"),
        ({"planDeadlineSeconds": 0}, "spec.planDeadlineSeconds"),
        ({"planDeadlineSeconds": 2.5}, "spec.planDeadlineSeconds"),
        ({"planDeadlineSeconds": 3600}, "spec.planDeadlineSeconds"),
        ({"metricsTimeoutSeconds": 61}, "spec.metricsTimeoutSeconds"),
        ({"schedulingTimeoutSeconds": 0}, "spec.schedulingTimeoutSeconds"),
        ({"queries": {"xid": "x" * 1025}}, "spec.queries.xid"),
        ({"queries": {"latency": "x"}}, "spec.queries.latency"),
        ({"limits": {"maxAgeSeconds": "2m"}}, "spec.limits.maxAgeSeconds"),
        ({"limits": {"jumpRatio": 1}}, "spec.limits.jumpRatio"),
        ({"limits": {"maxBandwidthBytesPerSecond": "10 Gb/s"}}, "spec.limits.maxBandwidthBytesPerSecond"),
        ({"limits": {"maxBandwidthBytesPerSecond": "0"}}, "spec.limits.maxBandwidthBytesPerSecond"),
        ({"limits": {"maxBandwidthBytesPerSecond": -1}}, "spec.limits.maxBandwidthBytesPerSecond"),
        ({"limits": {"maxBandwidthBytesPerSecond": "1e16"}}, "spec.limits.maxBandwidthBytesPerSecond"),
        ({"limits": {"maxBandwidthBytesPerSecond": "1e1.5"}}, "spec.limits.maxBandwidthBytesPerSecond"),
        ({"overrides": {"nodes": [{"name": "a", "gpuMemory": "17Ti"}]}}, "spec.overrides.nodes[0].gpuMemory"),
        ({"overrides": {"nodes": [{"name": "a", "gpuMemory": "24GB"}]}}, "spec.overrides.nodes[0].gpuMemory"),
        ({"overrides": {"nodes": [{"name": "a"}, {"name": "a", "gpuMemory": "24Gi"}]}}, "spec.overrides.nodes"),
        (
            {"overrides": {"links": [{"source": "a", "destination": "b", "latencyNanoseconds": 0.5}]}},
            "spec.overrides.links[0].latencyNanoseconds",
        ),
        ({"overrides": {"nodes": [{"name": "a", "networkCards": 0}]}}, "spec.overrides.nodes[0].networkCards"),
        ({"overrides": {"uplinks": [{"level": "rack"}]}}, "spec.overrides.uplinks[0]"),
        ({"overrides": {"uplinks": [{"level": "rack", "bytesPerSecond": "1G", "oversubscription": "2"}]}}, "spec.overrides.uplinks[0]"),
        ({"overrides": {"uplinks": [{"level": "rack", "oversubscription": "0.5"}]}}, "spec.overrides.uplinks[0].oversubscription"),
        ({"overrides": {"uplinks": [{"level": "a rack", "oversubscription": "2"}]}}, "spec.overrides.uplinks[0].level"),
        (
            {"overrides": {"uplinks": [{"level": "rack", "oversubscription": "2"}, {"level": "rack", "bytesPerSecond": 1}]}},
            "spec.overrides.uplinks[1]",
        ),
        ({"topologyLevels": ["a zone"]}, "spec.topologyLevels[0]"),
        ({"gpus": [{"product": "T4"}]}, "spec.gpus[0]"),
        ({"gpus": [{"product": "T4", "gigaflops": 0}]}, "spec.gpus[0].gigaflops"),
        ({"gpus": [{"product": "T4", "gigaflops": 8100.5}]}, "spec.gpus[0].gigaflops"),
        ({"gpus": [{"product": "T4", "pricePerHour": 0.35}]}, "spec.gpus[0].pricePerHour"),
        ({"gpus": [{"product": "T4", "gigaflops": 8}, {"product": "T4", "gigaflops": 9}]}, "spec.gpus"),
    ],
    ids=str,
)
def test_a_bad_policy_is_refused_by_both_with_its_path(api: Api, spec: Object, path: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_policy(policy(spec))
    assert refused.value.path == path
    with pytest.raises(ApiError) as refusal:
        api.create(f"{POLICIES}?fieldValidation=Strict", policy(spec))
    assert path in str(refusal.value)


def figure(value: float) -> Sample:
    return Sample(value, 1.5, Quality.MEASURED)


def cluster(node_count: int, neighbours: int) -> ClusterSnapshot:
    names = [f"gpu-node-{index:05}.eu-west-1.compute.internal" for index in range(node_count)]
    nodes = tuple(
        Node(name, "NVIDIA-A100-SXM4-80GB", 80 * 2**30, 8, 3, domains=("eu-west-1", "eu-west-1a"), gpus=(Gpu("u"),)) for name in names
    )
    links = sorted((names[i], names[(i + step) % node_count]) for i in range(node_count) for step in range(1, neighbours + 1))
    return ClusterSnapshot(
        taken_at=1_800_000_000.0,
        nodes=nodes,
        links=tuple(Link(source, destination, figure(0.00123456), figure(1.25e9)) for source, destination in links),
        levels=("topology.kubernetes.io/region", "topology.kubernetes.io/zone"),
        metrics=MetricsState(True, "MetricsAvailable", "x" * 5000, tuple(f"figure-{index}" for index in range(50))),
    )


@pytest.mark.parametrize(("nodes", "neighbours"), [(12, 11), (5000, 4), (6000, 10)], ids=["12 nodes", "5,000 nodes", "6,000 nodes"])
def test_a_topology_of_any_size_is_stored(api: Api, nodes: int, neighbours: int) -> None:
    status = topology_status(cluster(nodes, neighbours))
    name = f"of-{nodes}"
    api.create(TOPOLOGIES, {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "ClusterTopology", "metadata": {"name": name}})
    stored = api.patch(f"{TOPOLOGIES}/{name}/status", {"status": msgspec.to_builtins(status)})["status"]
    assert stored["nodeCount"] == nodes
    assert stored["linkCount"] == nodes * neighbours
    assert len(stored["nodes"]) == min(nodes, 5000)
    assert len(stored["links"]) == min(nodes * neighbours, len(status.links)) > 0
    assert stored["snapshotTime"] == "2027-01-15T08:00:00Z"
