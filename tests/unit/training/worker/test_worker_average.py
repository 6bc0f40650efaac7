"""The running average of the weights, and learning rates over the epochs."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.threads import solo
from hyperscale.training.engine.average import Average
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.loop import Loop
from hyperscale.training.engine.rates import Rates
from hyperscale.training.engine.report import Reporter
from hyperscale.training.partition import local_part
from tests.builders.training import a_run, assignment, labelled_graph


def stepped(decay: float, values: list[float]) -> tuple[torch.nn.Linear, Average]:
    """A model whose only weight took these values after one step each."""
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    average = Average(model, optimizer, decay)
    for value in values:
        model.weight.grad = model.weight.detach() - value
        optimizer.step()
    return model, average


def test_the_average_is_in_the_model_while_it_is_scored_and_not_after() -> None:
    values = [1.0, 5.0, 3.0, -2.0]
    model, average = stepped(0.3, values)
    expected = 0.0
    for step, value in enumerate(values, start=1):
        decay = min(0.3, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    with average.in_place():
        assert model.weight.item() == pytest.approx(expected)
    assert model.weight.item() == -2.0
    with pytest.raises(RuntimeError), average.in_place():
        raise RuntimeError
    assert model.weight.item() == -2.0


def test_without_average_the_weights_themselves_are_scored_and_nothing_is_kept() -> None:
    model, average = stepped(0.0, [1.0, 4.0])
    with average.in_place():
        assert model.weight.item() == 4.0
    assert average.state() == {}


def test_a_checkpoint_without_average_begins_one_at_its_weights() -> None:
    model, average = stepped(0.9, [1.0, 4.0])
    average.load({})
    with average.in_place():
        assert model.weight.item() == 4.0
    _, other = stepped(0.9, [7.0])
    other.load(average.state())
    assert torch.equal(other.state()["average.model.weight"], torch.tensor([[4.0]]))


def rates_of(schedule: str, epochs: int, steps: int, first: int = 1) -> list[float]:
    """The rate of every step from epoch `first` on; 0.1 is stated."""
    optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1)
    rates, found = Rates(optimizer, schedule, epochs, steps), []
    for epoch in range(first, epochs + 1):
        rates.begin(epoch)
        for _ in range(steps):
            optimizer.step()
            found.append(optimizer.param_groups[0]["lr"])
    return found


def test_a_cosine_rises_over_the_first_epoch_and_ends_near_nothing() -> None:
    found = rates_of("Cosine", 4, 5)
    assert found == pytest.approx([0.1 * min(1, (at + 1) / 5) * 0.5 * (1 + math.cos(math.pi * at / 20)) for at in range(20)])
    assert rates_of("Constant", 2, 3) == [0.1] * 6


def test_the_rates_of_a_resumed_run_are_those_it_would_have_had() -> None:
    assert rates_of("Cosine", 4, 5, first=3) == rates_of("Cosine", 4, 5)[10:]


@pytest.mark.parametrize("schedule", ["Constant", "Cosine"])
def test_a_run_takes_its_schedule(schedule: str) -> None:
    graph = labelled_graph(3)
    run = a_run({"epochs": 4, "hiddenSize": 5}, {"learningRateSchedule": schedule, "learningRate": 0.1})
    trainer = FullTrainer(run, solo(), local_part(graph, assignment(3, 40, 1), 0, 1), torch.device("cpu"))
    Loop(run, solo(), trainer, Reporter(run)).train()
    part = 1.0 if schedule == "Constant" else 0.5 * (1 + math.cos(math.pi * 3 / 4))
    assert [group["lr"] for group in trainer.optimizer.param_groups] == pytest.approx([0.1 * part] * 2)
