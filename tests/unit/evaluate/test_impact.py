"""What a job costs others and the grid: energy of its GPUs, its wait in the queue, the delay of the jobs that wait."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from hyperscale.evaluate.impact.energy import board_watts, energy
from hyperscale.evaluate.impact.queue_effect import queue_effect, waiting_job
from hyperscale.evaluate.impact.queue_figures import QueueFigures
from hyperscale.model.api.policy import GpuModel, PolicySpec, QueuePolicy
from hyperscale.model.evaluation import Interval
from hyperscale.planner.queue.queue_types import QueueRunningJob
from tests.builders.placement import plan

HOUR = 3600.0
END = Interval(HOUR, HOUR, HOUR)
ENDS = np.full(3, HOUR)


def test_energy_lies_between_idle_and_board_power() -> None:
    """Two A100 for an hour: 0.8 kWh at board power."""
    both = plan("a", "b")
    assert {worker.product for worker in both.workers} == {"NVIDIA-A100"}
    found = energy(both, END, PolicySpec(), ENDS, ENDS)
    assert found is not None
    assert found.high == pytest.approx(0.8)
    assert found.low == pytest.approx(0.12)
    assert found.low <= found.middle <= found.high


def test_a_gpu_that_waits_for_the_network_takes_less() -> None:
    one = plan("a")
    busy, idle = (
        replace(one, predicted=replace(one.predicted, epoch_seconds=1.0, communication_seconds=seconds)) for seconds in (0.0, 1.0)
    )
    figures = [energy(each, END, PolicySpec(), ENDS, ENDS) for each in (busy, idle)]
    assert [figure.middle for figure in figures if figure is not None] == pytest.approx([0.4, 0.06])


def test_the_policy_comes_before_the_table_and_an_unknown_product_is_unknown() -> None:
    own = PolicySpec(gpus=(GpuModel("NVIDIA-A100", board_power_watts=275),))
    assert board_watts("NVIDIA-A100-SXM4-80GB", own) == 275.0
    assert board_watts("NVIDIA-A100-SXM4-80GB", PolicySpec()) == 400.0
    assert board_watts("NVIDIA-A100-PCIE-40GB", PolicySpec()) == 250.0
    assert board_watts("NVIDIA-L40S", PolicySpec()) == 350.0
    strange = replace(plan("a"), workers=(replace(plan("a").workers[0], product="Unheard-Of"),))
    assert energy(strange, END, PolicySpec(), ENDS, ENDS) is None


@pytest.mark.parametrize(
    ("product", "watts"),
    [
        ("Tesla-V100-PCIE-32GB", 250.0),
        ("Tesla-V100-SXM2-16GB", 300.0),
        ("Tesla-V100S-PCIE-32GB", 250.0),
        ("Tesla-P100-PCIE-16GB", 250.0),
        ("Tesla-P100-SXM2-16GB", 300.0),
        ("NVIDIA-H100-NVL", 400.0),
        ("NVIDIA-H100-PCIe", 350.0),
        ("NVIDIA-H100-80GB-HBM3", 700.0),
        ("NVIDIA-H200-NVL", 600.0),
        ("NVIDIA-H200", 700.0),
        ("NVIDIA-A100-80GB-PCIe", 300.0),
    ],
)
def test_a_board_with_its_own_power_is_not_the_largest_of_its_line(product: str, watts: float) -> None:
    assert board_watts(product, PolicySpec()) == watts


def test_a_job_that_fits_starts_at_once_and_delays_no_other() -> None:
    found = queue_effect(QueueFigures(8, 8), 4, lambda part: HOUR, QueuePolicy())
    assert found.wait == found.delay == Interval(0.0, 0.0, 0.0)
    assert found.others == 0


def test_a_job_waits_for_the_gpus_of_one_that_runs() -> None:
    found = queue_effect(QueueFigures(0, 8, (QueueRunningJob("a/b", 8, HOUR),)), 4, lambda part: HOUR, QueuePolicy())
    assert 0.4 * HOUR < found.wait.low < found.wait.middle < found.wait.high < 2.5 * HOUR
    assert found.wait.middle == pytest.approx(HOUR, rel=0.2)


def test_a_shorter_job_goes_first_and_the_one_that_waits_ends_later() -> None:
    figures = QueueFigures(8, 8, (), (waiting_job("a/long", 8, 10 * HOUR),))
    found = queue_effect(figures, 8, lambda part: HOUR, QueuePolicy())
    assert found.others == 1
    assert found.wait.high == 0.0
    assert found.delay.middle == pytest.approx(HOUR)


def test_a_longer_job_waits_for_the_shorter_one() -> None:
    figures = QueueFigures(8, 8, (), (waiting_job("a/short", 8, HOUR),))
    found = queue_effect(figures, 8, lambda part: 10 * HOUR, QueuePolicy())
    assert found.wait.middle == pytest.approx(HOUR, rel=0.3)
    assert found.delay.high == 0.0


def test_gpus_idle_while_checkpoints_are_written() -> None:
    one = plan("a")
    computing = replace(one, predicted=replace(one.predicted, epoch_seconds=1.0, communication_seconds=0.0))
    found = energy(computing, END, PolicySpec(), ENDS, 0.1 * ENDS)
    assert found is not None
    assert found.middle == pytest.approx(0.4 * (0.15 + 0.85 * 0.1))


def test_energy_is_that_of_the_middle_future() -> None:
    """One future that waits for days changes neither the middle one nor its energy; a recalibrated end stretches it."""
    one = plan("a")
    ends = np.array([HOUR, HOUR, 100 * HOUR])
    found = energy(one, END, PolicySpec(), ends, np.full(3, 0.1 * HOUR))
    alike = energy(one, END, PolicySpec(), ENDS, 0.1 * ENDS)
    assert found == alike
    longer = energy(one, Interval(2 * HOUR, HOUR, 3 * HOUR), PolicySpec(), ends, np.full(3, 0.1 * HOUR))
    assert found is not None
    assert longer is not None
    assert longer.middle == pytest.approx(2 * found.middle)
