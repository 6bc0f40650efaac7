from __future__ import annotations

import pytest

from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.cluster import Gpu, Quality
from hyperscale.model.metrics_reading import MetricsReading, Series
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.series.dcgm import MIG_FAULT, gpus_by_node
from tests.unit.observe.objects import NOW, raw_node, reading, series

INDEX = NodeIndex([raw_node("gpu-a"), raw_node("gpu-b")])


def gpus(given: MetricsReading) -> tuple[dict[str, tuple[Gpu, ...]], tuple[str, ...]]:
    return gpus_by_node(given, INDEX, QualityLimits(), NOW)


def one(given: MetricsReading) -> Gpu:
    return gpus(given)[0]["gpu-a"][0]


def test_figures_of_one_gpu_come_together_in_base_units() -> None:
    labels = {"Hostname": "gpu-a", "UUID": "GPU-1"}
    gpu = one(
        reading(
            gpu_utilization=(series(50, **labels),),
            memory_used=(series(1000, **labels),),
            memory_free=(series(80000, **labels),),
            memory_reserved=(series(920, **labels),),
            temperature=(series(60, **labels),),
            power=(series(300, **labels),),
            xid=(series(79, **labels),),
        )
    )
    assert gpu.uuid == "GPU-1"
    assert gpu.utilization_ratio.value == 0.5
    assert gpu.memory_used_bytes.value == 1000 * 2**20
    assert gpu.memory_total_bytes.value == 81920 * 2**20
    assert gpu.memory_total_bytes.quality is Quality.MEASURED
    assert (gpu.temperature_celsius.value, gpu.power_watts.value, gpu.last_xid.value) == (60.0, 300.0, 79.0)


@pytest.mark.parametrize("label", ["UUID", "uuid", "gpu_uuid", "GPU_UUID"])
def test_every_spelling_of_the_uuid_names_the_same_gpu(label: str) -> None:
    assert one(reading(power=(Series({"hostname": "gpu-a", label: "GPU-1"}, 300, NOW),))).uuid == "GPU-1"


def test_without_a_uuid_the_index_names_the_gpu() -> None:
    assert one(reading(power=(series(300, node="gpu-a", gpu="3"),))).uuid == "gpu-3"


def test_a_figure_without_series_is_unknown_not_zero() -> None:
    gpu = one(reading(power=(series(300, node="gpu-a", UUID="GPU-1"),)))
    assert (gpu.utilization_ratio.value, gpu.utilization_ratio.quality, gpu.utilization_ratio.fault) == (None, Quality.UNKNOWN, "no sample")


def test_total_memory_without_a_reserved_part_is_an_estimate() -> None:
    labels = {"node": "gpu-a", "UUID": "GPU-1"}
    total = one(reading(memory_used=(series(10, 9, **labels),), memory_free=(series(90, 3, **labels),))).memory_total_bytes
    assert (total.value, total.age_seconds, total.quality) == (100 * 2**20, 9.0, Quality.ESTIMATED)


@pytest.mark.parametrize("free", [float("nan"), -1.0])
def test_total_memory_of_an_unknown_part_is_unknown(free: float) -> None:
    labels = {"node": "gpu-a", "UUID": "GPU-1"}
    total = one(reading(memory_used=(series(10, **labels),), memory_free=(series(free, **labels),))).memory_total_bytes
    assert (total.value, total.quality) == (None, Quality.UNKNOWN)


def test_time_slicing_repeats_a_gpu_once_per_pod_with_equal_figures() -> None:
    repeated = tuple(series(50, node="gpu-a", UUID="GPU-1", pod=f"p{number}") for number in range(3))
    assert one(reading(gpu_utilization=repeated)).utilization_ratio.value == 0.5


def test_series_of_mig_instances_do_not_count_for_the_gpu() -> None:
    found, notes = gpus(reading(memory_used=(series(10, node="gpu-a", UUID="GPU-1", GPU_I_ID="1"),)))
    assert found["gpu-a"][0].memory_used_bytes.fault == MIG_FAULT
    assert notes == ("1 series of MIG instances are left out (gpu-a)",)


def test_series_of_strangers_are_counted_not_dropped_silently() -> None:
    strangers = tuple(series(50, Hostname=f"other-{number}", UUID="GPU-1") for number in range(5))
    found, notes = gpus(reading(power=(*strangers, series(300, node="gpu-a"))))
    assert found == {}
    assert notes == (
        "1 GPU series have neither a UUID nor a gpu label (gpu-a)",
        "5 GPU series name no node of this cluster (other-0, other-1, other-2, ...)",
    )


def test_order_of_series_does_not_matter() -> None:
    many = [series(value, node=node, UUID=f"GPU-{gpu}") for node in ("gpu-a", "gpu-b") for gpu in range(3) for value in (40, 41 + gpu % 2)]
    assert gpus(reading(power=tuple(many))) == gpus(reading(power=tuple(reversed(many))))
