"""What Horovod, DDP and MG-WFBP do with gradients, on cases small enough to follow by hand."""

from __future__ import annotations

import math

import pytest

from hyperscale.training.allreduce import simulate
from hyperscale.training.allreduce.schedule import ScheduleError, finish, lower_bounds, schedule

MIB = 2**20


def test_a_cycle_of_horovod_takes_all_that_is_ready_and_the_next_waits_for_it() -> None:
    ready, sizes = [0.0002, 0.0008, 0.0015, 0.0090], [100.0, 100.0, 100.0, 100.0]
    sent = simulate.horovod(ready, sizes, 0.004, 0.0)
    assert [message.members for message in sent] == [(0, 1), (2,), (3,)]
    assert [message.start_seconds for message in sent] == pytest.approx([0.001, 0.005, 0.009])
    assert sent[-1].end_seconds == pytest.approx(0.013)


def test_fusion_stops_at_the_threshold_and_larger_gradients_go_alone() -> None:
    ready, sizes = [0.0] * 4, [60.0, 50.0, 30.0, 10.0]
    sent = simulate.horovod(ready, sizes, 0.001, 0.0, simulate.Engine(threshold_bytes=100))
    assert [message.members for message in sent] == [(0,), (1, 2, 3)]
    sent = simulate.horovod(ready, [60.0, 40.0, 30.0, 10.0], 0.001, 0.0, simulate.Engine(threshold_bytes=100))
    assert [message.members for message in sent] == [(0, 1), (2, 3)]
    sent = simulate.horovod(ready, [20.0, 185.0, 30.0, 10.0], 0.001, 0.0, simulate.Engine(threshold_bytes=100))
    assert [message.members for message in sent] == [(0,), (1,), (2, 3)]


def test_given_groups_are_sent_whole_and_never_fused_with_each_other() -> None:
    ready, sizes = [0.0001, 0.0002, 0.0003], [100.0, 100.0, 100.0]
    sent = simulate.horovod(ready, sizes, 0.002, 0.0, groups=((0, 1), (2,)))
    assert [message.members for message in sent] == [(0, 1), (2,)]
    assert sent[-1].end_seconds == pytest.approx(0.005)


def test_without_a_cycle_groups_end_as_the_schedule_says() -> None:
    ready, sizes = [0.001, 0.002, 0.010, 0.011], [1e6, 2e6, 3e5, 1e5]
    found = schedule(ready, sizes, 5e-4, 1e-9)
    sent = simulate.horovod(ready, sizes, 5e-4, 1e-9, simulate.Engine(cycle_seconds=0.0), found.groups)
    assert sent[-1].end_seconds == pytest.approx(found.finish_seconds)


def test_buckets_of_ddp_close_with_the_gradient_that_fills_them() -> None:
    sizes = [0.5 * MIB, 0.6 * MIB, 20.0 * MIB, 10.0 * MIB, 1.0 * MIB]
    assert simulate.buckets([1.0, 2.0, 3.0, 4.0, 5.0], sizes) == ((0, 1), (2, 3), (4,))


def test_the_greedy_rule_is_not_optimal_where_a_short_wait_delays_much() -> None:
    ready, sizes, alpha, beta = [0.0, 0.9, 1.7], [10.0, 0.1, 0.1], 1.0, 0.1
    groups = simulate.greedy(ready, sizes, alpha, beta)
    assert groups == ((0, 1, 2),)
    assert finish(groups, ready, sizes, alpha, beta) > schedule(ready, sizes, alpha, beta).finish_seconds


def test_what_is_ready_long_before_goes_first_and_small_late_gradients_share_a_message() -> None:
    found = schedule([0.0, 1.0, 1.01, 1.02], [1e6, 10.0, 10.0, 10.0], 0.1, 1e-7)
    assert found.groups == ((0,), (1, 2, 3))
    assert found.finish_seconds == pytest.approx(found.lower_bound_seconds, rel=0.02)


def test_few_small_tensors_of_a_gnn_are_one_message() -> None:
    sizes = [1433 * 16 * 4.0, 16 * 4.0, 16 * 7 * 4.0, 7 * 4.0]
    ready = [0.004, 0.004, 0.002, 0.002]
    assert len(schedule(ready, sizes, 5.2e-4, 8.6e-10).groups) == 2
    assert len(schedule(ready, sizes, 5.2e-4, 8.6e-10, within=0.005).groups) == 1


def test_bounds_of_a_single_gradient_are_its_end() -> None:
    bounds = lower_bounds([2.0], [10.0], 0.5, 0.1)
    assert bounds.last_seconds == bounds.whole_seconds == bounds.best_seconds == schedule([2.0], [10.0], 0.5, 0.1).finish_seconds == 3.5


@pytest.mark.parametrize(
    ("ready", "sizes", "alpha", "beta", "said"),
    [
        ([], [], 0.1, 0.1, "one at least"),
        ([1.0], [1.0, 2.0], 0.1, 0.1, "1 ready times for 2 sizes"),
        ([math.nan], [1.0], 0.1, 0.1, r"ready_seconds\[0\] is nan"),
        ([1.0], [-1.0], 0.1, 0.1, r"sizes_bytes\[0\] is -1.0"),
        ([1.0], [1.0], -0.1, 0.1, "alpha is -0.1"),
        ([1.0], [1.0], 0.1, math.inf, "beta is inf"),
    ],
)
def test_figures_that_cannot_be_scheduled_are_named(ready: list[float], sizes: list[float], alpha: float, beta: float, said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        schedule(ready, sizes, alpha, beta)
