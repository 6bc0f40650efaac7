"""What a pod asks for, at a cost that no pod can drive up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.observe.kube.demand import MAX_CONTAINERS, MAX_RESOURCES, pod_demand
from hyperscale.observe.kube.owned_objects import mpijob_view

NAMES = ("cpu", "memory", "nvidia.com/gpu", "rdma/hca")
REQUESTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9).map(str), max_size=3)
INIT = st.fixed_dictionaries({"resources": st.fixed_dictionaries({"requests": REQUESTS})}, optional={"restartPolicy": st.just("Always")})
MAIN = st.fixed_dictionaries({"resources": st.fixed_dictionaries({"requests": REQUESTS})})
META = {"name": "n", "namespace": "x", "uid": "u", "resourceVersion": "5"}


def asking(names: int, first: int = 0) -> dict[str, Any]:
    return {"resources": {"requests": {f"a.b/{number}": "1" for number in range(first, first + names)}}}


def reckoned(containers: list[dict[str, Any]], init: list[dict[str, Any]]) -> dict[str, float]:
    """As kube-scheduler's PodRequests does: phase by phase, the largest of them."""
    ask = [Counter({name: int(text) for name, text in each["resources"]["requests"].items()}) for each in containers]
    sidecars, phases = Counter[str](), list[Counter[str]]()
    for each in init:
        own = Counter({name: int(text) for name, text in each["resources"]["requests"].items()})
        if each.get("restartPolicy") == "Always":
            sidecars.update(own)
            phases.append(Counter(sidecars))
        else:
            phases.append(sidecars + own)
    phases.append(sum(ask, Counter(sidecars)))
    return {name: float(max(phase[name] for phase in phases)) for name in NAMES}


@given(st.lists(MAIN, max_size=3), st.lists(INIT, max_size=5))
def test_a_pod_asks_for_its_largest_phase(containers: list[dict[str, Any]], init: list[dict[str, Any]]) -> None:
    demand = pod_demand({"containers": containers, "initContainers": init})
    assert {name: demand.get(name, 0.0) for name in NAMES} == reckoned(containers, init)


ENDLESS = {
    "names of a sidecar": {"initContainers": [{"restartPolicy": "Always", **asking(MAX_RESOURCES + 1)}, *[{}] * 200]},
    "names of many sidecars": {"initContainers": [{"restartPolicy": "Always", **asking(1, number)} for number in range(MAX_RESOURCES + 1)]},
    "names of many init containers": {"initContainers": [asking(1, number) for number in range(MAX_RESOURCES + 1)]},
    "names of a container": {"containers": [asking(MAX_RESOURCES + 1)]},
    "names of many containers": {"containers": [asking(1, number) for number in range(MAX_RESOURCES + 1)]},
    "limits": {"containers": [{"resources": {"limits": {f"a{number}": "1" for number in range(MAX_RESOURCES + 1)}}}]},
    "requests beside a limit": {
        "containers": [{"resources": {"limits": {"cpu": "1"}, "requests": {f"a{number}": "1" for number in range(MAX_RESOURCES + 1)}}}]
    },
    "names of the pod": asking(MAX_RESOURCES + 1),
    "names of its overhead": {"overhead": {f"a.b/{number}": "1" for number in range(MAX_RESOURCES + 1)}},
    "containers": {"containers": [{}] * (MAX_CONTAINERS + 1)},
    "init containers": {"initContainers": [{}] * (MAX_CONTAINERS + 1)},
}


@pytest.mark.parametrize("spec", ENDLESS.values(), ids=ENDLESS)
def test_a_pod_without_end_closes_its_node_and_is_counted(spec: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="more than"):
        pod_demand(spec)
    world = ClusterCache()
    _, view = world.see_pod({"kind": "Pod", "metadata": META, "spec": {"nodeName": "v", **spec}, "status": {"phase": "Running"}})
    assert view is not None
    assert (view.unreadable, view.node, view.holds_resources) == (True, "v", True)
    assert world.intake.counts()["Pod"] == 1


@pytest.mark.parametrize("spec", ENDLESS.values(), ids=ENDLESS)
def test_the_workers_of_an_mpijob_without_end_ask_for_nothing(spec: dict[str, Any]) -> None:
    workers = {"replicas": 1, "template": {"spec": spec}}
    assert mpijob_view({"metadata": META, "spec": {"mpiReplicaSpecs": {"Worker": workers}}}).worker_amounts == {}


def test_a_pod_may_have_as_many_of_both_as_the_limits_say() -> None:
    whole = asking(MAX_RESOURCES)
    demand = pod_demand({"containers": [whole] * MAX_CONTAINERS, "initContainers": [whole] * MAX_CONTAINERS})
    assert demand == {f"a.b/{number}": float(MAX_CONTAINERS) for number in range(MAX_RESOURCES)}
