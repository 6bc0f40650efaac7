"""The result of a run over all ranks: phases of the slowest rank, pairs that send most, small enough for a termination message."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.threads import run_threads
from hyperscale.model.api.measured import MOST_BYTES, MOST_PAIRS, MOST_PHASES, MOST_TIMED_RANKS, Measured
from hyperscale.observe.run_report import MAX_BYTES, read_measured
from hyperscale.training.engine import report
from hyperscale.training.engine.checkpoint import CheckpointProgress
from hyperscale.training.engine.trainer import EpochStats
from hyperscale.training.runtime.comm import Comm

HUGE = int(MOST_BYTES) // 17**2
"""Bytes that each of 17 ranks sends to each: together as many as a run can tell."""


def result(epochs: list[list[EpochStats]]) -> Measured:
    """Of ranks with these epochs."""

    def rank(comm: Comm) -> Measured:
        return report.measured(comm, 9, epochs[comm.rank], CheckpointProgress(epoch=9, loss=0.5), None)

    results: list[Measured] = run_threads(len(epochs), rank)
    assert all(one == results[0] for one in results), "all ranks say the same"
    return results[0]


def epoch(computing: float, sent: tuple[int, ...], **phases: float) -> EpochStats:
    return EpochStats(0.5, 10, 1.0, 1.0 - computing, phases, sent)


def test_phases_are_means_of_the_slowest_rank_without_its_first_epoch() -> None:
    fast = [epoch(0.1, (0, 5), forward=0.1, halo=0.9)] * 3
    slow = [epoch(0.9, (7, 0), forward=forward, halo=0.1) for forward in (9.0, 0.6, 0.8)]
    told = result([fast, slow])
    assert [one.phase for one in told.phases] == ["forward", "halo"]
    assert [one.seconds for one in told.phases] == pytest.approx([0.7, 0.1])


def test_each_rank_says_how_long_it_computed_while_they_are_few() -> None:
    ranks = [[epoch(0.123456, ())] * 3, [epoch(0.75, ())] * 3]
    told = result(ranks)
    assert told.rank_compute_seconds == (0.1235, 0.75)
    assert told.compute_seconds == 0.75
    assert result(ranks[:1]).rank_compute_seconds == ()
    assert result([[]] * 2).rank_compute_seconds == ()


def test_the_figures_of_as_many_ranks_as_are_told_apart_fit_a_termination_message() -> None:
    phases = {f"phase-of-an-epoch-no-{number:02}": 0.123456789 for number in range(MOST_PHASES)}
    sent = tuple(10**15 + number for number in range(MOST_TIMED_RANKS))
    told = result([[epoch(1 / 3 + rank / 1e4, sent, **phases)] for rank in range(MOST_TIMED_RANKS)])
    assert len(told.rank_compute_seconds) == MOST_TIMED_RANKS
    assert len(msgspec.json.encode(told)) <= MAX_BYTES
    assert result([[epoch(0.5, ())]] * (MOST_TIMED_RANKS + 1)).rank_compute_seconds == ()


def test_only_the_pairs_that_send_most_are_told() -> None:
    size = 20
    ranks = [[epoch(0.5, tuple(100 * sender + to if to != sender else 0 for to in range(size)))] for sender in range(size)]
    told = result(ranks)
    assert [(one.sender, one.receiver, one.bytes) for one in told.busiest_pairs[:2]] == [(19, 18, 1918.0), (19, 17, 1917.0)]
    assert len(told.busiest_pairs) == MOST_PAIRS
    assert told.peer_bytes == sum(sum(epochs[0].sent_bytes) for epochs in ranks)


def test_ranks_that_send_nothing_are_no_pairs() -> None:
    told = result([[epoch(0.5, (0, 0), forward=0.5)], [epoch(0.5, (3, 0), forward=0.5)]])
    assert [(one.sender, one.receiver, one.bytes) for one in told.busiest_pairs] == [(1, 0, 3.0)]


def test_a_run_without_any_epoch_left_has_neither() -> None:
    told = result([[], []])
    assert (told.phases, told.busiest_pairs, told.epoch_seconds) == ((), (), None)


def test_the_largest_result_fits_a_termination_message() -> None:
    phases = {f"phase {number:018}": 1.0 / 3.0 for number in range(20)}
    ranks = [[epoch(1.0 / 3.0, (HUGE,) * 17, **phases)] for _ in range(17)]
    told = result(ranks)
    text = msgspec.json.encode(told).decode()
    assert len(text) < MAX_BYTES
    assert read_measured(text) is not None
