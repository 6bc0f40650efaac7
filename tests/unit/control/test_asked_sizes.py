"""Sizes that a cluster is asked for: every pod with GPUs counts once, and every question about a job states them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.cache.asked_sizes import HALF_LIFE_SECONDS, MAX_AGES, MAX_SIZES, MIN_CAPPED_GPUS, AskedSizes
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.model.constants import GPU_RESOURCE
from hyperscale.model.planning import AskedSize
from hyperscale.model.pods import PodView
from hyperscale.planner.choice.stranding import size_demand
from hyperscale.util.rfc3339 import timestamp
from tests.corpus.queue_stage import Stage

GIB = 2**30
BEGIN = 1_800_000_000.0


def sized(gpus: int, age: float = 0.0, namespace: str = "team", cores: float = 4.0) -> PodView:
    """A pod that was made `age` half-lives after the beginning."""
    created = timestamp(BEGIN + age * HALF_LIFE_SECONDS)
    return PodView(namespace, "pod", gpus=gpus, cpu_cores=cores, memory_bytes=8 * GIB, created=created)


def shares(asked: AskedSizes) -> dict[int, float]:
    """Part of all GPUs asked for, by the number of GPUs of a pod."""
    demand = size_demand(asked.sizes())
    assert demand is not None
    return dict(zip(demand.gpus.tolist(), demand.shares.tolist(), strict=True))


def pod(name: str, gpus: int, cores: str = "4", version: int = 1, phase: str = "Running") -> dict[str, Any]:
    limits = {GPU_RESOURCE: str(gpus)} if gpus else {}
    container = {"name": "main", "resources": {"limits": limits, "requests": {"cpu": cores, "memory": "8Gi", **limits}}}
    metadata = {"namespace": "team", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"nodeName": "node-a", "containers": [container]}, "status": {"phase": phase}}


def test_a_pod_counts_once_however_often_it_is_heard_of_and_after_it_is_gone() -> None:
    seen = ClusterCache()
    for version in (1, 2, 3):
        seen.see_pod(pod("one", 1, version=version))
    seen.see_pod(pod("two", 1, cores="8"))
    seen.see_pod(pod("large", 8, cores="64"))
    seen.see_pod(pod("without", 0))
    expected = (AskedSize(1, 6.0, 8.0 * GIB, 2.0), AskedSize(8, 64.0, 8.0 * GIB, 1.0))
    assert seen.snapshots.asked.sizes() == expected
    seen.see_pod(pod("large", 8, cores="64", version=4), deleted=True)
    assert seen.snapshots.asked.sizes() == expected
    assert seen.snapshots.asked.sizes() is seen.snapshots.asked.sizes()


def test_a_pod_counts_when_it_is_on_its_node_and_not_while_it_fits_none() -> None:
    cache = ClusterCache()
    waiting = pod("waits", 4096, phase="Pending")
    del waiting["spec"]["nodeName"]
    cache.see_pod(waiting)
    assert cache.snapshots.asked.sizes() == ()
    cache.see_pod(pod("waits", 4, version=2))
    assert cache.snapshots.asked.sizes() == (AskedSize(4, 4.0, 8.0 * GIB, 1.0),)


def test_a_pod_that_had_ended_when_it_was_first_heard_of_asks_for_nothing() -> None:
    seen = ClusterCache()
    seen.see_pod(pod("over", 4, phase="Succeeded"))
    assert seen.snapshots.asked.sizes() == ()


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 64), st.integers(0, 2**40)), min_size=1, max_size=30))
def test_means_by_number_of_gpus_give_the_demand_of_all_pods(pods: list[tuple[int, int, int]]) -> None:
    asked = AskedSizes()
    for gpus, cores, memory in pods:
        asked.count(PodView("team", "pod", gpus=gpus, cpu_cores=float(cores), memory_bytes=memory))
    short = size_demand(asked.sizes())
    full = size_demand([AskedSize(gpus, float(cores), float(memory)) for gpus, cores, memory in pods])
    assert short is not None
    assert full is not None
    assert abs(short.per_gpu[0] - full.per_gpu[0]) <= 1e-3
    assert abs(short.per_gpu[1] - full.per_gpu[1]) <= 1.0
    assert short.gpus.tolist() == full.gpus.tolist()
    assert abs(short.shares - full.shares).max() <= 1e-12


def test_the_numbers_with_the_fewest_gpus_asked_for_are_left_out() -> None:
    asked = AskedSizes()
    for gpus in range(1, MAX_SIZES + 3):
        asked.count(PodView("team", f"pod-{gpus}", gpus=gpus))
    assert [size.gpus for size in asked.sizes()] == list(range(3, MAX_SIZES + 3))


async def test_a_question_about_pending_jobs_states_the_sizes() -> None:
    stage = Stage()
    stage.cache.see_pod(pod("other", 2))
    keys = [stage.add(f"job-{number}", epochs=100 * (5 - number)) for number in range(3)]
    await stage.ask(keys[0])
    assert [question.asked_sizes for question in stage.planner.questions] == [(AskedSize(2, 4.0, 8.0 * GIB, 1.0),)]


def test_a_pod_counts_half_after_a_half_life_and_nearly_nothing_after_twenty() -> None:
    asked = AskedSizes()
    asked.count(sized(8))
    asked.count(sized(1, age=1.0))
    assert shares(asked) == pytest.approx({1: 1 / 5, 8: 4 / 5})
    asked.count(sized(1, age=20.0))
    assert shares(asked)[8] < 1e-5


def test_pods_count_by_their_own_time_in_whatever_order_they_are_listed() -> None:
    pods = [sized(1, 0.5), sized(2, 3.0), sized(8, 1.7), sized(4, 0.0)]
    listed, reverse = AskedSizes(), AskedSizes()
    for pod_ in pods:
        listed.count(pod_)
    for pod_ in reversed(pods):
        reverse.count(pod_)
    assert shares(listed) == pytest.approx(shares(reverse))


def test_a_time_in_the_future_is_no_newer_than_now() -> None:
    asked = AskedSizes()
    asked.count(sized(8), BEGIN)
    asked.count(sized(1, age=500.0), BEGIN)
    assert shares(asked) == pytest.approx({1: 1 / 9, 8: 8 / 9})


def test_weights_stay_numbers_however_long_the_operator_runs() -> None:
    asked = AskedSizes()
    for step in range(30):
        asked.count(sized(1 + step % 2, age=step * MAX_AGES * 0.9, namespace=f"team-{step}"))
    assert [size.gpus for size in asked.sizes()] == [1, 2]
    assert asked.sizes()[1].weight == pytest.approx(1.0)
    assert len(asked._sums) < 5


def test_a_namespace_counts_for_no_more_than_all_others_together() -> None:
    asked = AskedSizes()
    for _ in range(1000):
        asked.count(sized(8, namespace="loud"))
    for name in ("a", "b"):
        for _ in range(100):
            asked.count(sized(1, namespace=name))
    assert shares(asked) == pytest.approx({1: 0.5, 8: 0.5})


def test_few_pods_of_a_second_namespace_are_not_half_of_the_demand() -> None:
    asked = AskedSizes()
    for _ in range(1000):
        asked.count(sized(8, namespace="large"))
    asked.count(sized(1, namespace="small"))
    assert shares(asked)[1] == pytest.approx(1.0 / (1.0 + MIN_CAPPED_GPUS))


def test_a_single_namespace_is_not_capped() -> None:
    asked = AskedSizes()
    for _ in range(1000):
        asked.count(sized(8))
    assert asked.sizes()[0].weight == 1000.0


@given(st.lists(st.tuples(st.integers(1, 8), st.sampled_from(["a", "b", "c"]), st.floats(0.0, 60.0)), min_size=1, max_size=40))
def test_shares_sum_to_one_whatever_pods_come(pods: list[tuple[int, str, float]]) -> None:
    asked = AskedSizes()
    for gpus, namespace, age in pods:
        asked.count(sized(gpus, age, namespace))
    assert sum(shares(asked).values()) == pytest.approx(1.0)
    assert all(size.cpu_cores == 4.0 and size.memory_bytes == 8.0 * GIB for size in asked.sizes())


def test_cores_and_memory_that_no_node_has_count_for_little() -> None:
    asked = AskedSizes()
    for _ in range(1_000):
        asked.count(sized(1))
    asked.count(PodView("stranger", "pod", gpus=1, cpu_cores=1e6, memory_bytes=8 << 50, created=timestamp(BEGIN)))
    (size,) = asked.sizes()
    assert 4.0 < size.cpu_cores < 6.0
    assert 8 * GIB < size.memory_bytes < 48 * GIB
