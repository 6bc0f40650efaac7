"""Links that are timed again while training runs: what a change does, what none does, and what the timing may cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from benchmarks.threads import Hub, LocalComm, run_threads
from hyperscale.model.runplan import AllreduceCost, RunPlan
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.gradients import Gradients
from hyperscale.training.engine.retune import PROBED_PART, Adaptive
from hyperscale.training.partition import local_part
from hyperscale.training.runtime.comm import Wait
from tests.builders.training import a_run, assignment, labelled_graph

QUICK = AllreduceCost(5e-4, 1e-7, measured=True)
SLOW = AllreduceCost(2e-2, 1e-7, measured=True)
PLANS = pytest.mark.parametrize("plan", [QUICK, None], ids=["links measured before", "links unknown"])


class Wire(LocalComm):
    """Threads whose messages take as long as `cost` says, on a clock that nothing else but `rest` moves."""

    def __init__(self, rank: int, hub: Hub, cost: AllreduceCost) -> None:
        super().__init__(rank, hub)
        self.cost = cost
        self.now = self.probed = 0.0

    def clock(self) -> float:
        return self.now

    def rest(self, seconds: float) -> None:
        self.now += seconds

    def start_allreduce_(self, tensors: Sequence[torch.Tensor], name: str) -> Wait:
        if name.startswith("probe.") and name != "probe.times":
            sent = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            took = self.cost.latency_seconds + self.cost.seconds_per_byte * sent
            self.now, self.probed = self.now + took, self.probed + took
        return super().start_allreduce_(tensors, name)


class Ready(Gradients):
    """Ready every 4 ms."""

    @property
    def ready_seconds(self) -> dict[str, float]:
        return {str(at): 0.004 * (8 - at) for at in range(8)}


class Rank:
    """Eight gradients of 40 kB, ready every 4 ms, on one rank."""

    def __init__(self, wire: Wire, plan_file: Path) -> None:
        self.wire = wire
        model = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(10_000)) for _ in range(8)])
        self.gradients = Ready(wire, model)
        run = a_run(rank=wire.rank, size=wire.size, HYPERSCALE_PLAN_FILE=str(plan_file))
        self.adaptive = Adaptive(run, wire, self.gradients, clock=wire.clock)
        self.after: list[tuple[Any, AllreduceCost | None]] = []
        self.spent: list[tuple[float, float]] = []

    def train(self, epochs: int, epoch_seconds: float) -> None:
        for _ in range(epochs):
            self.wire.rest(epoch_seconds)
            self.adaptive.after(len(self.after) + 1)
            self.after.append((self.gradients.groups, self.adaptive.cost))
            self.spent.append((self.wire.probed, self.wire.now))


def ranks(directory: Path, plan: AllreduceCost | None, real: AllreduceCost, work: Callable[[Rank], None]) -> list[Rank]:
    """Two of them, after `work`; they agree about groups and costs after every epoch."""
    file = directory / "plan.json"
    file.write_bytes(msgspec.json.encode(RunPlan(1, "a/b", "id", 0, 2, (), allreduce=plan)))
    hub = Hub(2, timeout_seconds=30.0)

    def rank(comm: Any) -> Rank:
        one = Rank(Wire(comm.rank, hub, real), file)
        work(one)
        return one

    both = run_threads(2, rank)
    assert both[0].after == both[1].after
    return both


@PLANS
def test_a_link_that_becomes_slower_is_found_out_and_gradients_travel_in_fewer_messages(tmp_path: Path, plan: AllreduceCost | None) -> None:
    def work(rank: Rank) -> None:
        rank.train(9, 1000.0)
        rank.wire.cost = SLOW
        rank.train(41, 1000.0)

    one, _ = ranks(tmp_path, plan, QUICK, work)
    (before, known), (after, found) = one.after[8], one.after[-1]
    assert len(after) < len(before)
    assert known is not None
    assert found is not None
    assert known.latency_seconds == pytest.approx(5e-4, rel=0.01)
    assert found.latency_seconds == pytest.approx(2e-2, rel=0.01)
    assert found.seconds_per_byte == pytest.approx(1e-7, rel=0.01)


def test_one_slow_probing_changes_neither_costs_nor_groups(tmp_path: Path) -> None:
    def work(rank: Rank) -> None:
        rank.train(9, 1000.0)
        rank.wire.cost = SLOW
        rank.train(1, 1000.0)
        rank.wire.cost = QUICK
        rank.train(40, 1000.0)

    one, _ = ranks(tmp_path, QUICK, QUICK, work)
    assert {groups for groups, _ in one.after[8:]} == {one.after[8][0]}
    assert all(cost is not None and cost.latency_seconds < 6e-4 for _, cost in one.after[8:])


@PLANS
def test_equal_links_change_nothing(tmp_path: Path, plan: AllreduceCost | None) -> None:
    one, _ = ranks(tmp_path, plan, QUICK, lambda rank: rank.train(60, 1000.0))
    assert one.wire.probed > 0.0
    assert {groups for groups, _ in one.after} == {one.after[0][0]}
    assert all(cost is not None and cost.latency_seconds == pytest.approx(5e-4, rel=0.01) for _, cost in one.after)


@pytest.mark.parametrize("epoch_seconds", [0.005, 0.5, 50.0, 1000.0])
def test_timing_links_again_never_takes_more_than_its_part_of_the_time(tmp_path: Path, epoch_seconds: float) -> None:
    one, _ = ranks(tmp_path, QUICK, QUICK, lambda rank: rank.train(200, epoch_seconds))
    assert all(probed <= PROBED_PART * now for probed, now in one.spent)
    assert (one.wire.probed > 0.0) == (epoch_seconds > 1.0)


def test_links_far_slower_than_the_plan_says_are_timed_once_and_not_again_before_that_is_made_up_for(tmp_path: Path) -> None:
    one, _ = ranks(tmp_path, QUICK, AllreduceCost(0.5, 1e-6, measured=True), lambda rank: rank.train(3000, 20.0))
    spent = [probed for probed, _ in one.spent]
    first = next(probed for probed in spent if probed)
    assert first > PROBED_PART * 20.0
    later = [(probed, now) for (probed, now), before in zip(one.spent[1:], spent, strict=False) if before and probed > before]
    assert later
    assert all(probed <= PROBED_PART * now * 1.001 for probed, now in later)


def test_timing_links_changes_no_bit_of_what_is_trained() -> None:
    graph, cut = labelled_graph(9), assignment(9, 40, 2)

    def trained(epoch_seconds: float) -> list[tuple[float, list[list[float]]]]:
        hub = Hub(2, timeout_seconds=60.0)

        def rank(comm: Any) -> tuple[float, list[list[float]]]:
            wire = Wire(comm.rank, hub, QUICK)
            run = a_run({"layers": 3}, {"dropout": 0.5}, rank=wire.rank, size=2)
            trainer = FullTrainer(run, wire, local_part(graph, cut, wire.rank, 2), torch.device("cpu"))
            adaptive = Adaptive(run, wire, trainer.gradients, clock=wire.clock)
            for number in range(1, 22):
                trainer.epoch(number)
                wire.rest(epoch_seconds)
                adaptive.after(number)
            return wire.probed, [parameter.flatten().tolist() for parameter in trainer.model.parameters()]

        return run_threads(2, rank)

    often, never = trained(1000.0), trained(1e-6)
    assert often[0][0] > never[0][0]
    assert [weights for _, weights in often] == [weights for _, weights in never]
