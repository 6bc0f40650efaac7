"""Training of the constructor on one core: labels, then AdamW with a cosine rate; stops and continues at any step with the same result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from hyperscale.learn.constructor.labels import Example, example
from hyperscale.learn.constructor.network import BARRED, Constructor, InstanceBatch, collate, segment_log_softmax
from hyperscale.learn.lesson import LessonError, LessonProgress, reading
from hyperscale.model.graph import FloatArray
from hyperscale.planner.learned.learned_network import ConstructorNetwork

CHECKPOINT: Final = "checkpoint.safetensors"
MARK: Final = "mark"
"""Of the checkpoint's metadata: in one file with the tensors, so that no kill can part them."""
GUIDE: Final = "guide"
REPORT_EVERY: Final = 20
EMPTY_WEIGHT: Final = 2.0
"""Of a state without a worker: where a placement begins decides most of what it costs."""
NORMALISED_FROM: Final = 400
"""Examples whose features set means and spreads."""


class ConstructorConfig(msgspec.Struct, frozen=True):
    """What decides the weights, beside the code."""

    seed: int = 0
    steps: int = 6000
    examples: int = 8000
    """Made before the first step; as many again, on the network's own way, are added at `guided_from`."""
    guided_from: int = 2500
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
    """Where a training stands; in one file with its tensors."""

    config: ConstructorConfig
    step: int


def train_weights(
    config: ConstructorConfig,
    out: Path,
    progress: Callable[[LessonProgress], None],
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

    def labelled(places: range, guide: ConstructorNetwork | None, step: int) -> list[Example]:
        return _labelled(
            config, places, guide, lambda done: progress(LessonProgress(step, config.steps, clock() - began, {"labels": float(done)}))
        )

    examples = labelled(range(config.examples), None, first)
    if not first:
        with torch.no_grad():
            model.normalise(collate(examples[:NORMALISED_FROM]))
    rows = SummaryWriter(str(out / "curves"))
    for step in range(first, config.steps):
        if step == config.guided_from or (step == first and first > config.guided_from):
            guide = _guide(out, model, resume if first > config.guided_from else None)
            examples += labelled(range(config.examples, 2 * config.examples), guide, step)
        figures = _step(model, optimizer, config, step, _chosen(examples, config, step))
        for name, figure in figures.items():
            rows.add_scalar(f"constructor/{name}", figure, step)
        if (step + 1) % REPORT_EVERY == 0:
            progress(LessonProgress(step + 1, config.steps, clock() - began, figures))
        if (step + 1) % config.save_every == 0 or step + 1 == config.steps:
            _save(out, Mark(config, step + 1), model, optimizer)
    rows.close()
    return model.eval()


def weights_of(model: Constructor) -> dict[str, FloatArray]:
    """Weights by name, as numpy has them."""
    return {name: np.ascontiguousarray(tensor.detach().numpy()) for name, tensor in sorted(model.state_dict().items())}


def loss_of(model: Constructor, batch: InstanceBatch, config: ConstructorConfig) -> tuple[Tensor, dict[str, Tensor]]:
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
    """The batch of one step: it depends on seed and step alone, so that a resumed training takes the same batches."""
    drawn = np.random.default_rng([config.seed, step]).choice(len(examples), size=min(config.batch, len(examples)), replace=False)
    return [examples[place] for place in drawn]


def _labelled(config: ConstructorConfig, places: range, guide: ConstructorNetwork | None, progress: Callable[[int], None]) -> list[Example]:
    """Examples of the seeds that belong to the training's seed, two blocks of them: without and with a guide."""
    examples: list[Example] = []
    for place in places:
        drawn = example(2 * config.seed * config.examples + place, guide)
        if drawn is not None and drawn.states:
            examples.append(drawn)
        if (place + 1) % 100 == 0:
            progress(place + 1)
    return examples


def _guide(out: Path, model: Constructor, resume: Path | None) -> ConstructorNetwork:
    """The network as it is now, or as it was at the first guided step; stored, so that a resumed training uses the same."""
    if resume is None:
        save_file(model.state_dict(), out / f"{GUIDE}.safetensors")
        return ConstructorNetwork(weights_of(model))
    with reading(resume / f"{GUIDE}.safetensors"):
        return ConstructorNetwork({name: tensor.numpy() for name, tensor in load_file(resume / f"{GUIDE}.safetensors").items()})


def _save(out: Path, mark: Mark, model: Constructor, optimizer: torch.optim.AdamW) -> None:
    tensors = {f"model.{name}": tensor.contiguous() for name, tensor in model.state_dict().items()}
    state = optimizer.state_dict()["state"]
    for place, figures in sorted(state.items()):
        tensors |= {f"optimizer.{place}.{name}": tensor.contiguous() for name, tensor in figures.items()}
    beside = out / f".{CHECKPOINT}"
    save_file(tensors, beside, metadata={MARK: msgspec.json.encode(mark).decode()})
    beside.replace(out / CHECKPOINT)


def _load(folder: Path, config: ConstructorConfig, model: Constructor, optimizer: torch.optim.AdamW) -> int:
    """Steps done."""
    file = folder / CHECKPOINT
    with reading(file):
        with safe_open(file, framework="pt") as opened:
            mark = msgspec.json.decode((opened.metadata() or {})[MARK], type=Mark)
        tensors = load_file(file)
        if mark.config != config:
            raise LessonError(f"the checkpoint in {folder} has other settings; train without resuming, or with the same seed and steps")
        model.load_state_dict({name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")})
        state = optimizer.state_dict()
        state["state"] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, place, key = name.split(".")
                state["state"].setdefault(int(place), {})[key] = tensor
        optimizer.load_state_dict(state)
    return mark.step
