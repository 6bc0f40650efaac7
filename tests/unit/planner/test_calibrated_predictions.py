"""What finished runs teach predictions, and what a plan says of one allreduce over its ring."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hyperscale.model.cluster import GpuPaths
from hyperscale.model.plan import Calibration, Correction, Plan
from hyperscale.planner.choice.trust import mix
from tests.builders.clusters import POLICY, PRODUCTS, both_ways, gpu_node, link, planned, snapshot, training

FOUR = ["a", "b", "c", "d"]
EVEN = snapshot(*(gpu_node(name) for name in FOUR), links=both_ways(FOUR, latency_seconds=1e-4, bandwidth_bytes_per_second=1e9))
KNOWN = Calibration(PRODUCTS[0], 2.0, 0.1, 7)


def with_workers(count: int, **asked: Any) -> Plan:
    return planned(EVEN, training(workers={"minReplicas": count, "maxReplicas": count}), **asked)


def test_a_prediction_is_multiplied_with_what_finished_runs_taught() -> None:
    plain, corrected = with_workers(3), with_workers(3, calibration=(KNOWN,))
    assert corrected.predicted.calibration == Correction(PRODUCTS[0], 2.0, 0.1, 7)
    assert corrected.predicted.epoch_seconds == pytest.approx(2.0 * plain.predicted.epoch_seconds)
    assert corrected.predicted.communication_seconds == pytest.approx(2.0 * plain.predicted.communication_seconds)
    weight = POLICY.communication_weight
    assert corrected.objective == pytest.approx(corrected.predicted.epoch_seconds + weight * corrected.predicted.communication_seconds)


def test_a_correction_changes_no_placement() -> None:
    assert with_workers(3).workers == with_workers(3, calibration=(KNOWN,)).workers
    assert with_workers(3).plan_id == with_workers(3, calibration=(KNOWN,)).plan_id


def test_a_correction_leaves_planners_and_bounds_as_far_apart_as_they_were() -> None:
    plain, corrected = with_workers(3), with_workers(3, calibration=(KNOWN,))
    assert plain.optimality_gap == 0.0
    assert corrected.optimality_gap == plain.optimality_gap
    assert corrected.reasons == plain.reasons
    assert [score.regret for score in corrected.scores] == pytest.approx([score.regret for score in plain.scores])
    assert [score.objective for score in corrected.scores] == pytest.approx([2.0 * score.objective for score in plain.scores])


@pytest.mark.parametrize(("spread", "width"), [(0.1, 0.2), (0.0, 0.1)], ids=["as runs differed", "never narrower than this"])
def test_the_range_is_as_wide_as_runs_differed(spread: float, width: float) -> None:
    predicted = with_workers(3, calibration=(Calibration(PRODUCTS[0], 2.0, spread, 7),)).predicted
    assert predicted.low_seconds == pytest.approx(predicted.epoch_seconds / math.exp(width))
    assert predicted.high_seconds == pytest.approx(predicted.epoch_seconds * math.exp(width))


def test_what_other_gpus_taught_does_not_count() -> None:
    assert with_workers(3, calibration=(Calibration(PRODUCTS[1], 2.0, 0.1, 7),)) == with_workers(3)


def test_a_mix_of_products_is_named_in_one_way() -> None:
    assert mix(["T4", None, "A100", "T4"]) == mix(["A100", "T4"]) == "A100+T4"


def test_one_allreduce_costs_what_the_slowest_hop_of_the_ring_costs() -> None:
    cost = with_workers(4).allreduce
    assert cost is not None
    # NCCL's ring with Simple: 6 hops of 100 and 14 µs, and 8.4 µs; 6 / 4 of the bytes at 1 GB/s.
    assert [cost.latency_seconds, cost.seconds_per_byte] == pytest.approx([6.924e-4, 1.5e-9])
    assert cost.measured


def test_two_workers_send_the_gradient_once_each_way() -> None:
    cost = with_workers(2).allreduce
    assert cost is not None
    assert [cost.latency_seconds, cost.seconds_per_byte] == pytest.approx([2.364e-4, 1e-9])


def test_a_ring_with_an_estimated_hop_is_not_measured() -> None:
    seen = snapshot(*(gpu_node(name) for name in FOUR), links=(link("a", "b"), link("b", "a")))
    cost = planned(seen, training(workers={"minReplicas": 4, "maxReplicas": 4})).allreduce
    assert cost is not None
    assert not cost.measured
    assert cost.latency_seconds > 0


def test_workers_of_one_node_need_no_link() -> None:
    cost = planned(
        snapshot(gpu_node("a", free=2, gpu_paths=GpuPaths("NVLink", 12))), training(workers={"minReplicas": 2, "maxReplicas": 2})
    ).allreduce
    assert cost is not None
    assert cost.measured


def test_a_single_worker_has_nothing_to_send() -> None:
    cost = with_workers(1).allreduce
    assert cost is not None
    assert (cost.latency_seconds, cost.seconds_per_byte, cost.measured) == (0.0, 0.0, True)
