"""Seconds on a GPU: what its stream came by at, read once an epoch; a host's clock would time the launches of kernels."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.threads import run_threads, solo
from hyperscale.model.adjacency import LocalPart
from hyperscale.training.engine import timing
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.retune import probe
from hyperscale.training.molecules.molecules import GraphTrainer
from hyperscale.training.partition import local_part
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.sampling.sampled_trainer import SampledTrainer
from tests.builders.training import a_run, labelled_graph
from tests.unit.training.worker.test_worker_molecules import many_graphs, parts_of

CPU = torch.device("cpu")


class Stream:
    """A device that does nothing until it is waited for; each event is a millisecond after the one before."""

    def __init__(self) -> None:
        self.waited = 0
        self.moments = itertools.count(1)

    def synchronize(self) -> None:
        self.waited += 1

    def event(self, **_: Any) -> Event:
        return Event(self)


class Event:
    def __init__(self, stream: Stream) -> None:
        self.stream, self.at, self.passed = stream, 0.0, 0

    def record(self, stream: Stream) -> None:
        self.at, self.passed = float(next(stream.moments)), stream.waited

    def elapsed_time(self, other: Event) -> float:
        assert self.stream.waited > max(self.passed, other.passed), "read before the device has come by"
        return other.at - self.at


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """The processor posing as a GPU, and no clock of the host."""
    made = Stream()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: made)
    monkeypatch.setattr(torch.cuda, "Event", made.event)
    begin = timing.Timer.__init__

    def asynchronous(timer: timing.Timer, *arguments: Any) -> None:
        begin(timer, *arguments)
        timer.asynchronous = True

    monkeypatch.setattr(timing.Timer, "__init__", asynchronous)
    monkeypatch.setattr(time, "perf_counter", lambda: pytest.fail("a clock of the host was read"))
    return made


def part() -> LocalPart:
    return local_part(labelled_graph(5, 60, features=12, degree=6.0), np.zeros(60, np.int32), 0, 1)


@pytest.mark.parametrize(
    ("kind", "model"),
    [(FullTrainer, {"layers": 3}), (SampledTrainer, {"fanouts": [2, 3], "batchSize": 8})],
    ids=["full graph", "sampled"],
)
def test_an_epoch_is_timed_by_the_devices_events_and_waits_for_the_device_once(
    kind: type[FullTrainer], model: dict[str, Any], stream: Stream
) -> None:
    trainer = kind(a_run(model), solo(), part(), CPU)
    for number in (1, 2):
        stats = trainer.epoch(number)
        assert stream.waited == number
        assert stats.seconds == pytest.approx(stats.compute_seconds + stats.communication_seconds)
        assert stats.seconds * 1e3 == pytest.approx(round(stats.seconds * 1e3)), "whole milliseconds, as events are apart"
        assert 0.0 < sum(stats.phases.values()) <= stats.seconds + 1e-9
    assert not trainer.gradients.ready_seconds, "no other rank waits for the gradients of one that trains alone"


def test_each_gradient_has_a_moment_of_its_own_where_ranks_exchange_them(stream: Stream) -> None:
    graph, cut = labelled_graph(5, 60, features=12, degree=6.0), (np.arange(60) % 2).astype(np.int32)

    def rank(comm: Comm) -> bool:
        trainer = FullTrainer(a_run({"layers": 3}, rank=comm.rank, size=2), comm, local_part(graph, cut, comm.rank, 2), CPU)
        trainer.epoch(1)
        ready = trainer.gradients.ready_seconds
        return set(ready) == {name for name, _ in trainer.model.named_parameters()} and len(set(ready.values())) == len(ready)

    assert run_threads(2, rank) == [True, True]


def test_waiting_for_copies_is_told_from_computing_in_both_directions(stream: Stream) -> None:
    graph, cut = labelled_graph(5, 60, features=12, degree=6.0), (np.arange(60) % 2).astype(np.int32)

    def rank(comm: Comm) -> dict[str, float]:
        trainer = FullTrainer(a_run({"layers": 3}, rank=comm.rank, size=2), comm, local_part(graph, cut, comm.rank, 2), CPU)
        return trainer.epoch(1).phases

    for phases in run_threads(2, rank):
        assert phases["halo"] >= 6e-3 - 1e-9, "three layers, forward and backward, an event apart at least"
        assert min(phases.values()) > 0.0


def test_batches_of_graphs_are_timed_by_events_too(stream: Stream) -> None:
    stats = GraphTrainer(a_run({"hiddenSize": 8, "batchSize": 3}), solo(), parts_of(many_graphs(6), 1)[0], CPU).epoch(1)
    assert stream.waited == 1
    assert stats.seconds > 0.0
    assert set(stats.phases) == {"sample", "forward", "backward", "allreduce", "step", "statistics"}


def test_messages_that_measure_a_link_are_timed_by_events(stream: Stream) -> None:
    timed = probe(solo(), [4000.0, 400.0])
    assert timed
    assert all(seconds > 0.0 for _, seconds in timed)
