"""Training of the constructor on one core: labels, then AdamW with a cosine rate; stops and goes on at any step with the same result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from hyperscale.learn.constructor.labels import Example, example
from hyperscale.learn.constructor.network import BARRED, Batch, Constructor, collate, segment_log_softmax
from hyperscale.learn.lesson import LessonError, Progress

CHECKPOINT: Final = "checkpoint"
LABEL_SHARE: Final = 0.5
"""Part of the progress that making labels counts for."""
REPORT_EVERY: Final = 20
EMPTY_WEIGHT: Final = 2.0
"""Of a state without a worker: where a placement begins decides most of what it costs."""
NORMALISED_FROM: Final = 400
"""Examples whose features set means and spreads."""


class ConstructorConfig(msgspec.Struct, frozen=True):
    """What decides the weights, beside the code."""

    seed: int = 0
    steps: int = 2400
    examples: int = 6000
    batch: int = 24
    rate: float = 1e-3
    least_rate: float = 1e-5
    weight_decay: float = 1e-2
    temperature: float = 0.03
    """ln of cost over best cost at which a candidate is e times less wanted."""
    cost_weight: float = 3.0
    """Of the expected cost beside the cross-entropy."""
    save_every: int = 200


class Mark(msgspec.Struct, frozen=True):
    """Where a training stands; beside its tensors."""

    config: ConstructorConfig
    step: int


def train_weights(
    config: ConstructorConfig,
    out: Path,
    progress: Callable[[Progress], None],
    resume: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Constructor:
    """Trained weights; checkpoints and curves go to `out`. Raises LessonError where `resume` holds a training of another kind."""
    torch.set_num_threads(1)
    torch.manual_seed(config.seed)
    began = clock()
    model = Constructor()
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.rate, weight_decay=config.weight_decay)
    first = 0 if resume is None else _load(resume, config, model, optimizer)
    examples = _labelled(config, lambda done, figures: progress(Progress(done, config.steps * 2, clock() - began, figures)))
    if not first:
        with torch.no_grad():
            model.normalise(collate(examples[:NORMALISED_FROM]))
    rows = SummaryWriter(str(out / "curves"))
    for step in range(first, config.steps):
        figures = _step(model, optimizer, config, step, _chosen(examples, config, step))
        for name, figure in figures.items():
            rows.add_scalar(f"constructor/{name}", figure, step)
        if (step + 1) % REPORT_EVERY == 0:
            progress(Progress(config.steps + step + 1, config.steps * 2, clock() - began, figures))
        if (step + 1) % config.save_every == 0 or step + 1 == config.steps:
            _save(out, Mark(config, step + 1), model, optimizer)
    rows.close()
    return model.eval()


def loss_of(model: Constructor, batch: Batch, config: ConstructorConfig) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy to the candidates that lead to little cost, plus the cost that the choice may expect; and figures to watch.

    The cross-entropy is that of a set: all candidates from which greedy ends as well share the target.
    """
    states = len(batch.graph_of_state)
    log_chosen = segment_log_softmax(model(batch), batch.state_of_row, states)
    wanted = torch.where(batch.feasible, -batch.cost / config.temperature, torch.full_like(batch.cost, BARRED))
    target = segment_log_softmax(wanted, batch.state_of_row, states).exp()
    chosen = log_chosen.exp()
    empty = torch.bincount(batch.state_of_member, minlength=states) == 0
    weight = torch.where(empty, EMPTY_WEIGHT, 1.0)
    weight = weight / weight.sum()

    def of_states(figure: Tensor) -> Tensor:
        return torch.zeros(states, dtype=figure.dtype).index_add_(0, batch.state_of_row, figure)

    entropy = of_states(torch.where(batch.feasible, target * (target.clamp(min=1e-12).log() - log_chosen), torch.zeros_like(target)))
    cost = of_states(chosen * batch.cost)
    loss = (weight * (entropy + config.cost_weight * cost)).sum()
    figures = {"loss": loss, "cost": cost.mean(), "first_cost": cost[empty].mean(), "entropy": entropy.mean()}
    return loss, figures | {"alpha": model.log_alpha.exp()[0]}


def _step(
    model: Constructor, optimizer: torch.optim.Optimizer, config: ConstructorConfig, step: int, examples: list[Example]
) -> dict[str, float]:
    """One step of AdamW; figures to watch."""
    rate = config.least_rate + (config.rate - config.least_rate) * 0.5 * (1.0 + math.cos(math.pi * step / config.steps))
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss, figures = loss_of(model, collate(examples), config)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call] # torch ships it without annotations
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return {name: float(figure.detach()) for name, figure in figures.items()} | {"rate": rate}


def _chosen(examples: list[Example], config: ConstructorConfig, step: int) -> list[Example]:
    """The batch of one step: it depends on seed and step alone, so that a training that was stopped goes on as if it had not been."""
    drawn = np.random.default_rng([config.seed, step]).choice(len(examples), size=min(config.batch, len(examples)), replace=False)
    return [examples[place] for place in drawn]


def _labelled(config: ConstructorConfig, progress: Callable[[int, dict[str, float]], None]) -> list[Example]:
    """Examples of the seeds that belong to the training's seed."""
    made: list[Example] = []
    for place in range(config.examples):
        example_made = example(config.seed * config.examples + place)
        if example_made is not None and example_made.states:
            made.append(example_made)
        if (place + 1) % 100 == 0:
            progress(config.steps * (place + 1) // config.examples, {"labels": float(len(made))})
    return made


def _save(out: Path, mark: Mark, model: Constructor, optimizer: torch.optim.AdamW) -> None:
    tensors = {f"model.{name}": tensor.contiguous() for name, tensor in model.state_dict().items()}
    state = optimizer.state_dict()["state"]
    for place, held in sorted(state.items()):
        tensors |= {f"optimizer.{place}.{name}": tensor.contiguous() for name, tensor in held.items()}
    save_file(tensors, out / f"{CHECKPOINT}.safetensors.new")
    (out / f"{CHECKPOINT}.safetensors.new").replace(out / f"{CHECKPOINT}.safetensors")
    (out / f"{CHECKPOINT}.json").write_bytes(msgspec.json.encode(mark))


def _load(folder: Path, config: ConstructorConfig, model: Constructor, optimizer: torch.optim.AdamW) -> int:
    """Steps done."""
    try:
        mark = msgspec.json.decode((folder / f"{CHECKPOINT}.json").read_bytes(), type=Mark)
        tensors = load_file(folder / f"{CHECKPOINT}.safetensors")
    except (OSError, msgspec.DecodeError) as error:
        raise LessonError(f"cannot go on from {folder}: {error}; train without resuming") from None
    if mark.config != config:
        raise LessonError(f"the checkpoint in {folder} has other settings; train without resuming, or with the same seed and steps")
    model.load_state_dict({name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")})
    held = optimizer.state_dict()
    held["state"] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, place, key = name.split(".")
            held["state"].setdefault(int(place), {})[key] = tensor
    optimizer.load_state_dict(held)
    return mark.step
