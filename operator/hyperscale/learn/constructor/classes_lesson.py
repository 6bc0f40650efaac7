"""`hyperscale learn classes`: train the network that classifies nodes to jobs (Hulk, section 4), and judge it.

Nodes are to be classified, a class is a job, the loss is cross-entropy to the nodes' owners in the best joint answer found by search.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import safetensors.numpy
import torch
from msgspec import json
from torch import Tensor, nn

from hyperscale.learn.constructor.joint_questions import FAMILIES, JointQuestion, labelled, question
from hyperscale.learn.lesson import Assignment, LessonError, LessonProgress, LessonVerdict
from hyperscale.learn.publish import replace_file
from hyperscale.learn.topologies import TRAINING_SEEDS, VALIDATION_SEEDS
from hyperscale.planner.together.class_features import class_features
from hyperscale.planner.together.class_network import INPUTS, NAME, WIDTH, ClassesError, ClassNetwork, load_classes, manifest_of
from hyperscale.planner.together.joint_starts import classified

STEPS: Final = 3000
"""Questions shown, one update each eight."""
QUESTIONS: Final = 300
"""Labelled questions for training."""
CASES: Final = 40
"""Questions of the validation."""
BATCH: Final = 8
RATE: Final = 2e-3
"""Of Adam at the start; it falls by cosine."""


class _Case(NamedTuple):
    pair: Tensor
    edge: Tensor
    neighbours: Tensor
    usable: Tensor
    owners: Tensor


class ClassModel(nn.Module):
    """The network of `class_network.ClassNetwork` in torch."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(size, WIDTH) for name, size in INPUTS.items()})
        self.taken, self.idle = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 1)

    def forward(self, case: _Case) -> Tensor:
        """(J + 1, P) logits; −1e9 where a job cannot use a node."""
        layers = self.layers
        hidden = torch.relu(layers["pair_in"](case.pair))
        messages = torch.relu(layers["pool_pair"](hidden)[:, case.neighbours] + layers["pool_edge"](case.edge)[None])
        hidden = torch.relu(layers["pooled"](torch.cat((hidden, messages.mean(dim=2), messages.amax(dim=2)), dim=2)))
        others = hidden.mean(dim=0).expand_as(hidden)
        hidden = hidden + torch.relu(layers["convolved"](torch.cat((hidden[:, case.neighbours].mean(dim=2), others), dim=2)))
        taken = self.taken(hidden)[:, :, 0].masked_fill(case.usable == 0.0, -1e9)
        return torch.cat((taken, self.idle(hidden.mean(dim=0)).T), dim=0)

    def weights(self) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
        """By the names of `class_network.SHAPES`."""
        return {name.removeprefix("layers."): tensor.detach().numpy().copy() for name, tensor in self.state_dict().items()}


def train(assignment: Assignment, report: Callable[[LessonProgress], None]) -> tuple[Path, ...]:
    """Learn, and write weights and manifest. Raises LessonError where asked to continue: it takes a few minutes, begin again."""
    if assignment.resume:
        raise LessonError("this lesson keeps no checkpoint; leave --resume out")
    torch.set_num_threads(1)
    torch.manual_seed(assignment.seed)
    steps, started = assignment.steps or STEPS, time.monotonic()
    cases = [_case(each) for each in drawn(TRAINING_SEEDS + 10_000 * assignment.seed, min(QUESTIONS, steps))]
    model = ClassModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, steps // BATCH))
    rng = np.random.default_rng(assignment.seed)
    losses: list[float] = []
    for step in range(1, steps + 1):
        case = cases[int(rng.integers(len(cases)))]
        loss = -(case.owners * torch.log_softmax(model(case), dim=0)).sum(dim=0).mean()
        (loss / BATCH).backward()  # type: ignore[no-untyped-call] # torch ships it without annotations
        losses.append(float(loss.detach()))
        if step % BATCH == 0:
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            report(LessonProgress(step, steps, time.monotonic() - started, {"loss": float(np.mean(losses[-200:]))}))
    weights = model.weights()
    figures = validated(ClassNetwork({name: tensor.astype(np.float64) for name, tensor in weights.items()}), assignment.seed)
    packed = safetensors.numpy.save(weights)
    manifest = manifest_of(packed, f"hyperscale learn classes --seed {assignment.seed} --steps {steps}", assignment.seed, figures)
    assignment.folder.mkdir(parents=True, exist_ok=True)
    files = (assignment.folder / f"{NAME}.safetensors", assignment.folder / f"{NAME}.json")
    replace_file(files[0], packed)
    replace_file(files[1], json.format(json.encode(manifest), indent=2) + b"\n")
    return files


def judge(candidate: Path, in_use: Path | None, seed: int) -> LessonVerdict:
    """Accept weights that classify as well as those in use. Raises LessonError where the candidate cannot be read."""
    try:
        ours = validated(load_classes(candidate), seed)
    except ClassesError as error:
        raise LessonError(f"cannot judge {candidate}: {error}; train first") from None
    try:
        theirs = validated(load_classes(in_use), seed) if in_use is not None else None
    except ClassesError:
        theirs = None
    said = f"{100.0 * ours['accuracy']:.1f} % of the nodes as the search has them"
    if theirs is None:
        return LessonVerdict(True, f"{said}; nothing to compare with", ours)
    return LessonVerdict(ours["accuracy"] >= theirs["accuracy"], f"{said}, {100.0 * theirs['accuracy']:.1f} % by the weights in use", ours)


def validated(network: ClassNetwork, seed: int, cases: int = CASES) -> dict[str, float]:
    """Part of the nodes that are classified as the search has them, and the sum as classified over the sum one after the other."""
    right: list[float] = []
    ratios: list[float] = []
    for each in drawn(VALIDATION_SEEDS + 10_000 * seed, cases):
        features = class_features(each.shared)
        logits = network.logits(features)
        logits[:-1][features.usable == 0.0] = -1e9
        right.append(float((logits.argmax(axis=0) == each.owners.argmax(axis=0)).mean()))
        before = each.shared.total(list(each.shared.one_by_one))
        ratios += [each.shared.total(start.orders) / before for start in classified(each.shared, network)]
    return {"accuracy": float(np.mean(right)), "median_over_one_by_one": float(np.median(ratios)), "cases": float(len(right))}


def drawn(first_seed: int, count: int) -> list[JointQuestion]:
    """Labelled questions of all families in turn."""
    questions: list[JointQuestion] = []
    seed = first_seed
    while len(questions) < count:
        shared = question(FAMILIES[seed % len(FAMILIES)], seed)
        if shared is not None:
            questions.append(labelled(shared, seed))
        seed += 1
    return questions


def _case(each: JointQuestion) -> _Case:
    features = class_features(each.shared)
    floats = [torch.from_numpy(figures).float() for figures in (features.pair, features.edge, features.usable, each.owners)]
    return _Case(floats[0], floats[1], torch.from_numpy(features.neighbours), floats[2], floats[3])
