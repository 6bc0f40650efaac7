"""The snapshot that a cache keeps up to date is the one made from its nodes and pods at once, whatever happened in between."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.intake import NODE, POD
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.observe.files.snapshot_files import encode_snapshot
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.kube.fields import is_gpu_node
from hyperscale.observe.snapshot.build_snapshot import build_snapshot, judged
from tests.unit.observe.objects import NOW, raw_node, raw_pod, reading, series

FIGURES = (
    reading(gpu_utilization=(series(0.5, Hostname="n0", UUID="GPU-0", exported_pod="p0", exported_namespace="ml"),)),
    reading(gpu_utilization=(series(0.9, Hostname="n1", UUID="GPU-1"), series(0.1, Hostname="n2", UUID="GPU-2"))),
)
POLICIES = (PolicySpec(), PolicySpec(topology_levels=("example.com/rack",)))

NODES = st.builds(
    lambda name, gpus, labels, tainted: raw_node(name, gpus, labels, **({"unschedulable": True} if tainted else {})),
    st.sampled_from(["n0", "n1", "n2", "n3"]),
    st.sampled_from([0, 2, 8]),
    st.dictionaries(st.sampled_from(["topology.kubernetes.io/zone", "example.com/rack"]), st.sampled_from(["a", "b"])),
    st.booleans(),
)
PODS = st.builds(
    raw_pod,
    st.sampled_from(["p0", "p1", "p2"]),
    st.sampled_from(["", "n0", "n1", "n9"]),
    st.sampled_from([0, 1, 4]),
    st.sampled_from(["Pending", "Running", "Succeeded"]),
)
STEPS = st.one_of(
    st.tuples(st.just("node"), NODES, st.booleans()),
    st.tuples(st.just("pod"), PODS, st.booleans()),
    st.tuples(st.just("nodes"), st.lists(NODES, max_size=4, unique_by=lambda node: node["metadata"]["name"])),
    st.tuples(st.just("pods"), st.lists(PODS, max_size=3, unique_by=lambda pod: pod["metadata"]["name"])),
    st.tuples(st.just("figures"), st.sampled_from(FIGURES)),
    st.tuples(st.just("look"), st.sampled_from(POLICIES)),
)


def at_once(cache: ClusterCache, policy: PolicySpec) -> bytes:
    nodes, pods = cache.snapshots.names()
    fresh = build_snapshot(nodes, pods, cache.snapshots.reading, policy, NOW, cache.snapshots.releases.by_node())
    return encode_snapshot(fresh)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEPS, max_size=14))
def test_a_kept_snapshot_is_the_one_made_at_once(steps: list[tuple[Any, ...]]) -> None:
    cache, version = ClusterCache(lambda: NOW), 1
    for kind, given_, *more in [*steps, ("look", POLICIES[0])]:
        version += 1
        if kind in ("node", "pod"):
            given_["metadata"]["resourceVersion"] = str(version)
            (cache.see_node if kind == "node" else cache.see_pod)(given_, deleted=more[0])
        elif kind in ("nodes", "pods"):
            for resource in given_:
                resource["metadata"]["resourceVersion"] = str(version)
            cache.replace(NODE if kind == "nodes" else POD, given_, version)
        elif kind == "figures":
            asyncio.run(_take(cache, given_))
        else:
            assert encode_snapshot(cache.snapshot(given_, NOW)) == at_once(cache, given_)


async def _take(cache: ClusterCache, given_: MetricsReading) -> None:
    nodes, pods = cache.snapshots.names()
    figures = judged(given_, NodeIndex(filter(is_gpu_node, nodes), pods), POLICIES[0].limits, NOW)
    await cache.snapshots.publish_metrics(figures, POLICIES[0])
