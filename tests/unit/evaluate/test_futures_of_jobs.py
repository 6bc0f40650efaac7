"""Futures of one job: by hand where nothing is random, golden bytes where something is, and clear errors."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks import twin_cases, twin_oracle
from benchmarks.twin import distance
from hyperscale.evaluate.twin.job_arrays import job_arrays
from hyperscale.evaluate.twin.play_futures import play
from hyperscale.evaluate.twin.twin_types import (
    Futures,
    JobRisk,
    LawFamily,
    LifeLaw,
    NodeRisk,
    PreemptionRisk,
    Slowdown,
    exponential,
    fixed,
)

CASES = twin_cases.oracle_cases()
BOTH = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "Python"])


def simple(*nodes: NodeRisk, spares: tuple[NodeRisk, ...] = ()) -> JobRisk:
    """100 s of work, checkpoints of 2 s after each 10 s, restarts of 5 s."""
    return JobRisk(nodes, 100.0, 10.0, 2.0, 5.0, spares, horizon_seconds=10_000.0)


def parts_of(futures: Futures) -> dict[str, float]:
    names = ("end", "useful", "checkpoint", "lost", "restart", "waiting", "slow")
    return {name: float(getattr(futures, f"{name}_seconds")[0]) for name in names}


@BOTH
def test_without_failures_a_job_takes_its_work_and_its_checkpoints(compiled: bool) -> None:
    futures = play(simple(NodeRisk("a"), NodeRisk("b")), 5, 0, compiled=compiled)
    assert futures.end_seconds.tolist() == [120.0] * 5  # ten checkpoints: one after the last segment too
    assert not futures.failures.any()
    assert not futures.lost_seconds.any()


@BOTH
def test_a_law_with_an_infinite_mean_never_fails(compiled: bool) -> None:
    futures = play(simple(NodeRisk("a", {"gpu": exponential(math.inf)})), 5, 0, compiled=compiled)
    assert futures.end_seconds.tolist() == [120.0] * 5


@BOTH
def test_a_failure_loses_the_work_since_the_last_checkpoint_and_waits_for_the_repair(compiled: bool) -> None:
    """It fails at 29 s, 5 s into its third segment; 20 s of repair, 5 s of restart, then 80 s of work and 16 s of checkpoints."""
    node = NodeRisk("a", {"gpu": fixed(1000.0)}, fixed(20.0), age_seconds=971.0)
    futures = play(simple(node), 1, 0, compiled=compiled)
    assert parts_of(futures) == {
        "end": 150.0,
        "useful": 100.0,
        "checkpoint": 20.0,
        "lost": 5.0,
        "restart": 5.0,
        "waiting": 20.0,
        "slow": 0.0,
    }
    assert futures.failures.tolist() == [1]
    assert futures.node_delay_seconds.tolist() == [30.0, 0.0]


@BOTH
def test_a_spare_takes_the_place_of_a_failed_node_at_once(compiled: bool) -> None:
    node = NodeRisk("a", {"gpu": fixed(1000.0)}, fixed(20.0), age_seconds=971.0)
    futures = play(simple(node, spares=(NodeRisk("s"),)), 1, 0, compiled=compiled)
    assert parts_of(futures)["end"] == 130.0
    assert parts_of(futures)["waiting"] == 0.0


@BOTH
def test_a_failure_while_a_checkpoint_is_written_loses_its_segment(compiled: bool) -> None:
    node = NodeRisk("a", {"gpu": fixed(1000.0)}, age_seconds=989.0)  # at 11 s: 1 s into the first checkpoint
    futures = play(simple(node), 1, 0, compiled=compiled)
    assert parts_of(futures)["lost"] == 11.0
    assert parts_of(futures)["end"] == 120.0 + 11.0 + 5.0


@BOTH
def test_a_failure_while_the_last_checkpoint_is_written_loses_the_last_segment(compiled: bool) -> None:
    node = NodeRisk("a", {"gpu": fixed(1000.0)}, age_seconds=881.0)  # at 119 s: 1 s into the last checkpoint
    futures = play(simple(node), 1, 0, compiled=compiled)
    assert parts_of(futures)["lost"] == 11.0
    assert parts_of(futures)["checkpoint"] == 20.0
    assert parts_of(futures)["end"] == 120.0 + 11.0 + 5.0


@BOTH
def test_a_failure_during_the_restart_begins_it_again(compiled: bool) -> None:
    first = NodeRisk("a", {"gpu": fixed(1000.0)}, age_seconds=971.0)  # at 29 s
    second = NodeRisk("b", {"gpu": fixed(1000.0)}, age_seconds=968.0)  # at 32 s, 3 s into the restart
    futures = play(simple(first, second), 1, 0, compiled=compiled)
    assert parts_of(futures)["restart"] == 3.0 + 5.0
    assert futures.failures.tolist() == [2]


@BOTH
def test_the_slowest_node_sets_the_pace_while_its_period_lasts(compiled: bool) -> None:
    """Factor 2 for 30 s from the start: 15 s of work and one checkpoint would be done in 32 s."""
    slow = NodeRisk("a", slowdowns=(Slowdown(2.0, 0.0, 30.0), Slowdown(1.5, 0.0, 20.0)))
    futures = play(simple(slow, NodeRisk("b")), 1, 0, compiled=compiled)
    assert parts_of(futures)["slow"] == 14.0
    assert parts_of(futures)["end"] == 134.0
    assert futures.node_delay_seconds.tolist() == [14.0, 0.0, 0.0]


@BOTH
def test_work_that_is_no_multiple_of_the_interval_has_a_shorter_last_segment(compiled: bool) -> None:
    job = replace(simple(NodeRisk("a")), work_seconds=95.0)
    assert play(job, 1, 0, compiled=compiled).end_seconds.tolist() == [115.0]
    assert play(replace(job, checkpoint_interval_seconds=math.inf), 1, 0, compiled=compiled).end_seconds.tolist() == [97.0]


@BOTH
def test_a_job_that_cannot_end_passes_the_horizon_and_its_parts_fill_it(compiled: bool) -> None:
    node = NodeRisk("a", {"gpu": fixed(8.0)})
    futures = play(simple(node), 1, 0, compiled=compiled)
    parts = parts_of(futures)
    assert parts.pop("end") == math.inf
    assert sum(parts.values()) == pytest.approx(10_000.0)
    assert parts["useful"] < 10.0


@BOTH
def test_a_node_that_fails_at_once_comes_back_as_a_new_unit(compiled: bool) -> None:
    node = NodeRisk("a", {"gpu": fixed(1000.0)}, fixed(0.0), age_seconds=2000.0)
    futures = play(simple(node), 1, 0, compiled=compiled)
    assert futures.failures.tolist() == [1]
    assert futures.end_seconds.tolist() == [120.0 + 5.0]


def test_a_job_that_fails_all_the_time_is_given_up() -> None:
    futures = play(simple(NodeRisk("a", {"gpu": fixed(0.0)})), 1, 0)
    assert futures.end_seconds.tolist() == [math.inf]
    assert futures.failures.tolist() == [100_000]


@pytest.mark.parametrize(
    ("case", "digest"),
    [
        ("exponential, spare, lemon, preemption", "8812c7e35554bd3f"),
        ("Weibull 0.7, 2 spares, lemon, slow node", "4a267d878ffd9101"),
        ("Weibull 2.6, spare, lemon, preemption, slow node", "81e9ac6b56d7ba02"),
    ],
)
@BOTH
def test_the_same_job_and_seed_give_the_same_bytes(case: str, digest: str, compiled: bool) -> None:
    futures = play(CASES[case], 200, 3, compiled=compiled)
    figures = np.concatenate([futures.end_seconds, futures.lost_seconds, futures.waiting_seconds, futures.failures.astype(np.float64)])
    assert hashlib.sha256(np.round(figures, 3).tobytes()).hexdigest()[:16] == digest


@pytest.mark.parametrize("case", ["Weibull 0.7, 2 spares, lemon, slow node", "lognormal and gamma, preemption of one hour"])
def test_ends_are_distributed_as_those_of_a_simulation_written_apart(case: str) -> None:
    job = CASES[case]
    ours = play(job, 20_000, 7)
    theirs = np.array([twin_oracle.end_seconds(job, seed, ours.horizon_seconds) for seed in range(200)])
    assert distance(ours.end_seconds, theirs) <= 1.63 / math.sqrt(200)  # 1 % of such samples are further away; the seeds are fixed


def test_a_table_of_a_law_draws_what_its_closed_form_draws() -> None:
    """An exponential law as an empirical table with one row, and a Weibull law as a gamma law of shape 1."""
    ends = [
        play(simple(NodeRisk("a", {"gpu": law})), 500, 5).end_seconds
        for law in (
            exponential(60.0),
            LifeLaw(LawFamily.EMPIRICAL, 60.0, ages_seconds=(60.0,), hazards=(1.0,)),
            LifeLaw(LawFamily.GAMMA, 60.0, 1.0),
        )
    ]
    assert ends[1] == pytest.approx(ends[0], rel=1e-9)
    # Linear between rows: a life may be a little off, and with it what is lost.
    assert np.mean(np.abs(ends[2] / ends[0] - 1.0) < 1e-3) > 0.98


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (replace(simple(NodeRisk("a")), nodes=()), "nodes: a job needs at least one node"),
        (replace(simple(NodeRisk("a")), work_seconds=math.nan), "work_seconds: nan is not a finite number"),
        (replace(simple(NodeRisk("a")), work_seconds=math.inf), "work_seconds: inf is not"),
        (replace(simple(NodeRisk("a")), write_seconds=-1.0), "write_seconds: -1.0"),
        (replace(simple(NodeRisk("a")), checkpoint_interval_seconds=0.0), "checkpoint_interval_seconds: 0.0"),
        (simple(NodeRisk("a"), NodeRisk("a")), '"a" is there twice'),
        (simple(NodeRisk("")), "nodes[0].name"),
        (simple(NodeRisk("a", lemon_factor=0.0)), "nodes[0].lemon_factor: 0.0"),
        (simple(NodeRisk("a", age_seconds=math.nan)), "nodes[0].age_seconds: nan"),
        (simple(NodeRisk("a", {"gpu": exponential(math.nan)})), "nodes[0].laws.gpu.scale_seconds: nan"),
        (simple(NodeRisk("a", {"gpu": LifeLaw(LawFamily.WEIBULL, 1.0, -1.0)})), "nodes[0].laws.gpu.shape: -1.0"),
        (simple(NodeRisk("a", {"gpu": LifeLaw(LawFamily.EMPIRICAL, 1.0)})), "nodes[0].laws.gpu: 0 ages and 0 hazards"),
        (simple(NodeRisk("a", slowdowns=(Slowdown(0.5),))), "nodes[0].slowdowns[0]: write a factor of at least 1"),
        (replace(simple(NodeRisk("a")), preemption=PreemptionRisk(math.inf, fixed(1.0))), "preemption.per_second: inf"),
    ],
)
def test_figures_that_make_no_sense_are_refused_with_their_field(job: JobRisk, words: str) -> None:
    with pytest.raises(ValueError, match=r"write|needs|give") as error:
        play(job, 1, 0)
    assert words in str(error.value)


@pytest.mark.parametrize("futures", [0, -1, 10**9])
def test_a_senseless_number_of_futures_is_refused(futures: int) -> None:
    with pytest.raises(ValueError, match="write 10000"):
        play(simple(NodeRisk("a")), futures, 0)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("rows", (1, 4)), ("member", (2, 9)), ("period", (1, 2)), ("figures", (6,)), ("counts", (3,)), ("key", (1,)), ("first", (2,))],
)
def test_the_compiled_module_refuses_arrays_that_do_not_fit_together(name: str, shape: tuple[int, ...]) -> None:
    compiled = pytest.importorskip("hyperscale.evaluate.twin._futures")
    arrays = job_arrays(simple(NodeRisk("a"), NodeRisk("b")))
    wrong = arrays._replace(**{name: np.zeros(shape, dtype=getattr(arrays, name).dtype)})
    results = np.zeros((1, 7)), np.zeros((1, 2), dtype=np.int32), np.zeros(3)
    compiled.simulate(*arrays, 0, 0, *results)
    with pytest.raises(ValueError, match="must"):
        compiled.simulate(*wrong, 0, 0, *results)
    with pytest.raises(ValueError, match="parts must be"):
        compiled.simulate(*arrays, 0, 0, np.zeros((1, 6)), *results[1:])
