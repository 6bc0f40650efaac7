"""Costs fitted from messages, groups that follow what is measured, variants only where they pay, and what is passed to Horovod."""

from __future__ import annotations

import numpy as np
import pytest

from hyperscale.model.runplan import AllreduceCost
from hyperscale.training.allreduce import adapt, horovod, variants
from hyperscale.training.allreduce.latency_fit import fit, probes, seconds
from hyperscale.training.allreduce.schedule import ScheduleError, finish, schedule

SLOW = AllreduceCost(5.2e-4, 8.6e-10)
FAST = AllreduceCost(2.6e-6, 9.8e-11)
SIZES = tuple(float(size) for size in (4e6, 4e5, 2e6, 1e3, 8e6, 3e5, 6e4, 1e6))
READY = tuple(0.004 * (len(SIZES) - at) for at in range(len(SIZES)))


def timed(cost: AllreduceCost, generator: np.random.Generator, spread: float = 0.02) -> list[tuple[float, float]]:
    sizes = 4.0 ** np.arange(5, 13)
    return [(float(size), seconds(cost, size) * float(1 + abs(generator.normal(0, spread)))) for size in sizes for _ in range(5)]


@pytest.mark.parametrize("cost", [SLOW, FAST, AllreduceCost(1e-3, 0.0), AllreduceCost(0.0, 1e-8)])
def test_a_fit_finds_the_constants_again(cost: AllreduceCost) -> None:
    found = fit(timed(cost, np.random.default_rng(3)))
    assert found.measured
    for size in (1e3, 1e5, 1e7):
        assert seconds(found, size) == pytest.approx(seconds(cost, size), rel=0.08, abs=1e-9)


def test_a_fit_survives_messages_that_waited_for_something_else() -> None:
    samples = timed(SLOW, np.random.default_rng(4))
    disturbed = [(size, took * (30.0 if at % 5 == 0 else 1.0)) for at, (size, took) in enumerate(samples)]
    disturbed += [(5e5, 0.5)]
    found = fit(disturbed)
    for size in (1e4, 1e6, 1e7):
        assert seconds(found, size) == pytest.approx(seconds(SLOW, size), rel=0.1)


def test_one_message_size_only_scales_what_was_known() -> None:
    found = fit([(1e6, 2 * seconds(SLOW, 1e6))], SLOW)
    assert found.latency_seconds == pytest.approx(2 * SLOW.latency_seconds)
    assert fit([(1e6, 0.25)]) == AllreduceCost(0.25, 0.0, measured=True)
    with pytest.raises(ScheduleError, match="no message was timed"):
        fit([(1e6, 0.0)])


def test_groups_change_when_the_network_does_and_stay_when_little_is_gained() -> None:
    state = adapt.begin(SIZES, SLOW)
    assert state.groups == (tuple(range(len(SIZES) - 1, -1, -1)),)
    generator = np.random.default_rng(5)
    state = adapt.observe(state, adapt.Observation(READY, tuple(timed(SLOW, generator))))
    held = state.groups
    assert len(held) > 1
    best = schedule(READY, SIZES, 5.2e-4, 8.6e-10).finish_seconds
    assert finish(held, READY, SIZES, 5.2e-4, 8.6e-10) == pytest.approx(best, rel=0.05)
    for _ in range(4):
        noisy = tuple(ready * float(generator.uniform(0.99, 1.01)) for ready in READY)
        state = adapt.observe(state, adapt.Observation(noisy, tuple(timed(SLOW, generator))))
    assert state.groups == held
    slower = AllreduceCost(2e-2, 8.6e-10)
    for _ in range(adapt.REMEMBERED):
        state = adapt.observe(state, adapt.Observation(READY, tuple(timed(slower, generator))))
    assert len(state.groups) < len(held)


def test_one_bad_epoch_changes_nothing() -> None:
    state = adapt.begin(SIZES, SLOW)
    for _ in range(3):
        state = adapt.observe(state, adapt.Observation(READY))
    late = adapt.observe(state, adapt.Observation(tuple(50 * ready for ready in READY)))
    assert late.groups == state.groups


def test_every_rank_takes_the_same_step() -> None:
    seen = adapt.Observation(READY, tuple(timed(SLOW, np.random.default_rng(6))))
    assert adapt.observe(adapt.begin(SIZES, FAST), seen) == adapt.observe(adapt.begin(SIZES, FAST), seen)


def test_no_group_outgrows_the_threshold_that_horovod_was_started_with() -> None:
    state = adapt.begin(SIZES, AllreduceCost(1.0, 0.0), most_bytes=8e6)
    state = adapt.observe(state, adapt.Observation(READY))
    assert all(len(group) == 1 or sum(SIZES[at] for at in group) <= 8e6 for group in state.groups)


def test_an_observation_of_another_model_is_refused() -> None:
    with pytest.raises(ScheduleError, match="2 ready times for 8 gradients"):
        adapt.observe(adapt.begin(SIZES, SLOW), adapt.Observation((1.0, 2.0)))
    with pytest.raises(ScheduleError, match="order names 2 gradients of 8"):
        adapt.begin(SIZES, SLOW, order=(0, 1))


def test_horovod_gets_names_by_group_and_a_threshold_that_holds_the_largest() -> None:
    sizes = [3e8, 1.0, 2e8]
    found = schedule([0.3, 0.3, 0.3], sizes, 1.0, 1e-9)
    groups, variables = horovod.options(found, ["a", "b", "c"], sizes)
    assert groups == [["a", "b", "c"]]
    assert int(variables["HOROVOD_FUSION_THRESHOLD"]) >= sum(sizes)
    assert variables["HOROVOD_DISABLE_GROUP_FUSION"] == "1"
    assert float(variables["HOROVOD_CYCLE_TIME"]) == 1.0
    _, quick = horovod.options(schedule([1e-3], [100.0], 1e-4, 1e-9), ["a"])
    assert float(quick["HOROVOD_CYCLE_TIME"]) == pytest.approx(0.1)
    assert quick["HOROVOD_FUSION_THRESHOLD"] == str(128 * 2**20)
    with pytest.raises(ScheduleError, match="2 names, 1 of them different, for 3 gradients"):
        horovod.options(found, ["a", "a"])


def test_two_levels_pay_with_fast_links_inside_nodes_and_not_with_equal_ones() -> None:
    slow, fast = variants.NetworkLinks(2e-5, 1.25e9), variants.NetworkLinks(2e-6, 5e10)
    plain, levels = variants.flat(32, slow), variants.hierarchical(4, 8, fast, slow)
    assert levels.seconds_per_byte < plain.seconds_per_byte
    assert variants.choose(READY, SIZES, plain, two_levels=levels).hierarchical
    equal = variants.hierarchical(4, 8, slow, slow)
    chosen = variants.choose([0.0], [1e9], plain, two_levels=equal)
    assert not chosen.hierarchical
    assert chosen.environment() == {}
    with pytest.raises(ScheduleError, match="0 ranks"):
        variants.flat(0, slow)


def test_half_precision_pays_on_slow_links_and_not_where_casting_takes_longer() -> None:
    chosen = variants.choose(READY, SIZES, AllreduceCost(1e-4, 1e-8), cast_seconds_per_byte=1e-10)
    assert chosen.half
    assert chosen.schedule.finish_seconds < chosen.plain_seconds
    assert not variants.choose(READY, SIZES, FAST, cast_seconds_per_byte=1e-9).half
    gnn = [92e3, 64.0, 448.0, 28.0]
    assert not variants.choose([2e-3, 2e-3, 1e-3, 1e-3], gnn, SLOW, cast_seconds_per_byte=1e-10).half


def test_a_second_variant_must_gain_again() -> None:
    slow, fast = variants.NetworkLinks(1e-5, 3e9), variants.NetworkLinks(2e-6, 2e11)
    plain = variants.flat(32, slow)
    sizes, ready = [4e8], [0.06]
    alike = variants.choose(ready, sizes, plain, two_levels=variants.hierarchical(4, 8, slow, slow), cast_seconds_per_byte=1e-11)
    assert (alike.half, alike.hierarchical) == (True, False)
    faster = variants.choose(ready, sizes, plain, two_levels=variants.hierarchical(4, 8, fast, slow), cast_seconds_per_byte=1e-11)
    assert (faster.half, faster.hierarchical) == (True, True)


def test_the_plain_schedule_is_what_schedule_gives() -> None:
    chosen = variants.choose(READY, SIZES, SLOW)
    assert chosen.schedule == schedule(READY, SIZES, SLOW.latency_seconds, SLOW.seconds_per_byte)
    assert chosen.plain_seconds == finish(chosen.schedule.groups, READY, SIZES, SLOW.latency_seconds, SLOW.seconds_per_byte)


def test_messages_worth_timing_span_what_a_schedule_may_send_and_follow_one_another() -> None:
    found = probes([4096.0] * 255 + [4096.0])
    assert [size for size, _ in found] == [4096.0, 16384.0, 65536.0, 262144.0, 1048576.0]
    assert [times for _, times in found] == [8, 8, 8, 4, 1]


@pytest.mark.parametrize("sizes", [[4.0], [28.0, 4.0], [1.0], [1e9, 4e9]])
def test_any_model_has_messages_worth_timing_of_whole_floats(sizes: list[float]) -> None:
    for size, times in probes(sizes):
        assert size >= 4
        assert size % 4 == 0
        assert size * times <= max(4.0, sum(sizes)) * 1.5


def test_messages_count_however_many_epochs_ago_they_were_timed_and_each_timing_counts_once() -> None:
    sizes = (1e4, 1e6)
    quick, slow = (tuple((size, factor * seconds(SLOW, size)) for size in sizes) for factor in (1.0, 3.0))
    state = adapt.observe(adapt.begin(SIZES, FAST), adapt.Observation(READY, quick * 5))
    for messages in (slow, (), (), (), (), ()):
        state = adapt.observe(state, adapt.Observation(READY, messages))
    assert state.cost.latency_seconds == pytest.approx(SLOW.latency_seconds)
    state = adapt.observe(state, adapt.Observation(READY, slow))
    assert state.cost.latency_seconds == pytest.approx(3 * SLOW.latency_seconds)
