"""What holds for the futures of every job: the parts add up, both twins agree, streams follow names, more help never hurts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.evaluate.twin.checkpoint_interval import expected_end_seconds
from hyperscale.evaluate.twin.life_laws import cumulative_hazard
from hyperscale.evaluate.twin.play_futures import play
from hyperscale.evaluate.twin.risk_figures import capped_end_seconds, with_spare
from hyperscale.evaluate.twin.twin_types import Futures, JobRisk, LawFamily, LifeLaw, NodeRisk, PreemptionRisk, Slowdown, exponential, fixed

ARRAYS = tuple(name for name in Futures.__dataclass_fields__ if name not in ("horizon_seconds", "names"))
FAMILIES = (LawFamily.EXPONENTIAL, LawFamily.WEIBULL, LawFamily.LOGNORMAL, LawFamily.GAMMA)


@st.composite
def laws(draw: st.DrawFn) -> LifeLaw:
    family = draw(st.sampled_from(FAMILIES))
    shape = 1.0 if family is LawFamily.EXPONENTIAL else draw(st.sampled_from((0.5, 0.7, 1.0, 2.6)))
    return LifeLaw(family, draw(st.floats(500.0, 50_000.0)), shape)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeRisk:
    causes = draw(st.sampled_from(((), ("gpu",), ("gpu", "network"))))
    slow = draw(st.sampled_from(((), ((1.3, 0.0, 900.0),), ((1.2, 0.0, 5000.0), (2.0, 1000.0, 2000.0)))))
    return NodeRisk(
        name,
        {cause: draw(laws()) for cause in causes},
        draw(st.sampled_from((fixed(0.0), fixed(300.0), exponential(1000.0)))),
        age_seconds=draw(st.sampled_from((0.0, 1000.0, 20_000.0))),
        lemon_factor=draw(st.sampled_from((1.0, 1.0, 4.5))),
        slowdowns=tuple(Slowdown(*period) for period in slow),
    )


@st.composite
def jobs(draw: st.DrawFn) -> JobRisk:
    preemption = draw(st.sampled_from((None, PreemptionRisk(1e-4, exponential(200.0)), PreemptionRisk(3e-4, fixed(50.0)))))
    return JobRisk(
        tuple(draw(nodes(f"node-{index}")) for index in range(draw(st.integers(1, 5)))),
        draw(st.floats(100.0, 8000.0)),
        draw(st.sampled_from((37.0, 300.0, 1e6))),
        draw(st.sampled_from((0.0, 4.0, 60.0))),
        draw(st.sampled_from((0.0, 30.0))),
        tuple(draw(nodes(f"spare-{index}")) for index in range(draw(st.integers(0, 2)))),
        preemption,
        horizon_seconds=40_000.0,
    )


@settings(max_examples=60, deadline=None)
@given(jobs(), st.integers(0, 2**64 - 1))
def test_compiled_and_python_futures_have_the_same_bytes(job: JobRisk, seed: int) -> None:
    first, second = (play(job, 4, seed, compiled=compiled) for compiled in (True, False))
    for name in ARRAYS:
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes(), name


@settings(max_examples=60, deadline=None)
@given(jobs(), st.integers(0, 1000))
def test_all_time_has_a_place_and_every_delay_a_cause(job: JobRisk, seed: int) -> None:
    futures = play(job, 20, seed)
    delay = futures.lost_seconds + futures.restart_seconds + futures.waiting_seconds + futures.slow_seconds
    total = futures.useful_seconds + futures.checkpoint_seconds + delay
    np.testing.assert_allclose(total, capped_end_seconds(futures), rtol=1e-9)
    np.testing.assert_allclose(futures.node_delay_seconds.sum(), delay.mean(), rtol=1e-9, atol=1e-6)
    ended = np.isfinite(futures.end_seconds)
    np.testing.assert_allclose(futures.useful_seconds[ended], job.work_seconds, rtol=1e-9)
    assert (futures.useful_seconds <= job.work_seconds * (1.0 + 1e-9)).all()
    assert min(part.min() for part in (futures.lost_seconds, futures.restart_seconds, futures.waiting_seconds)) >= 0.0
    assert futures.slow_seconds.min() >= -1e-6


@settings(max_examples=40, deadline=None)
@given(jobs(), st.integers(0, 1000), st.integers(0, 10))
def test_a_future_does_not_depend_on_how_many_are_played_or_in_which_order(job: JobRisk, seed: int, start: int) -> None:
    together, alone = play(job, start + 3, seed), play(job, 3, seed, start=start)
    assert together.end_seconds[start:].tobytes() == alone.end_seconds.tobytes()
    assert together.failures[start:].tobytes() == alone.failures.tobytes()


@settings(max_examples=40, deadline=None)
@given(jobs(), st.integers(0, 1000), st.randoms(use_true_random=False))
def test_nodes_take_their_chances_along_when_they_change_places(job: JobRisk, seed: int, dice: object) -> None:
    order = list(job.nodes)
    dice.shuffle(order)  # type: ignore[attr-defined] # hypothesis names no type for it
    first, second = play(job, 10, seed), play(replace(job, nodes=tuple(order)), 10, seed)
    assert first.end_seconds.tobytes() == second.end_seconds.tobytes()
    delays = [dict(zip(each.names, each.node_delay_seconds.tolist(), strict=False)) for each in (first, second)]
    slow_ties = any(node.slowdowns for node in job.nodes)  # two nodes equally slow: the first is named
    assert slow_ties or delays[0] == pytest.approx(delays[1])


@pytest.mark.parametrize("shape", [0.7, 1.0, 2.6])
@pytest.mark.parametrize("nodes_count", [2, 12])
def test_more_spares_never_end_later_in_the_mean(shape: float, nodes_count: int) -> None:
    law = LifeLaw(LawFamily.WEIBULL, 40_000.0, shape)
    members = tuple(NodeRisk(f"node-{index}", {"gpu": law}, exponential(4000.0)) for index in range(nodes_count))
    job = JobRisk(members, 20_000.0, 1000.0, 20.0, 100.0, horizon_seconds=1e6)
    ends = []
    for _ in range(4):
        ends.append(float(play(job, 2000, 11).end_seconds.mean()))
        job = with_spare(job)
    assert all(later <= earlier * 1.001 for earlier, later in pairwise(ends))
    assert ends[-1] < ends[0]


@pytest.mark.parametrize("shape", [0.7, 1.0, 2.6])
def test_very_short_and_very_long_intervals_are_worse(shape: float) -> None:
    law = LifeLaw(LawFamily.WEIBULL, 20_000.0, shape)
    members = tuple(NodeRisk(f"node-{index}", {"gpu": law}, age_seconds=index * 3000.0) for index in range(8))
    job = JobRisk(members, 20_000.0, 1000.0, 20.0, 100.0, horizon_seconds=1e6)
    short, good, long = (expected_end_seconds(job, seconds, 1000, 3) for seconds in (20.0, 300.0, 6000.0))
    assert good < short
    assert good < long


@settings(max_examples=40, deadline=None)
@given(laws(), st.sampled_from((0.0, 300.0, 20_000.0)), st.sampled_from((1.0, 4.0)))
def test_lives_are_drawn_from_the_law_that_is_left_at_an_age(law: LifeLaw, age: float, lemon: float) -> None:
    """P(no failure within the job) is exp of minus the hazard between age and age + work."""
    job = JobRisk((NodeRisk("a", {"gpu": law}, age_seconds=age, lemon_factor=lemon),), 3000.0, 1e6, 0.0, 0.0, horizon_seconds=1e5)
    futures = play(job, 4000, 17)
    hazard = cumulative_hazard(law, np.array([age, age + 3000.0])) * lemon
    assert np.mean(futures.failures == 0) == pytest.approx(float(np.exp(hazard[0] - hazard[1])), abs=0.035)
