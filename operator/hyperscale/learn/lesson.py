"""What every kind of learning has in common: its assignment, its progress reports and the evaluation of its result."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import msgspec
from safetensors import SafetensorError

from hyperscale.model.cluster import ClusterSnapshot


class LessonProgress(msgspec.Struct, frozen=True):
    """How far a training is."""

    step: int
    steps: int
    elapsed_seconds: float
    figures: dict[str, float] = {}
    """What is worth watching, by name; the learning curves have the same."""


class PastRun(msgspec.Struct, frozen=True, rename="camel"):
    """One job of a cluster's history, as far as streams of jobs need it."""

    arrival_seconds: float
    """When it was created, or began where that is unknown; Unix seconds, or from any start."""
    run_seconds: float
    workers: int
    start_seconds: float | None = None
    """When it began, on the clock of `arrival_seconds`; None where that is unknown."""
    gpus_per_worker: int | None = None
    """None where that is unknown."""


class Assignment(msgspec.Struct, frozen=True):
    """What to learn, where to keep it, how long."""

    folder: Path
    """Checkpoints, curves and the result go here."""
    seed: int = 0
    steps: int | None = None
    """None: the lesson's own default, with which the shipped weights were made."""
    resume: bool = False
    """Continue from the checkpoint in `folder`."""
    start: Path | None = None
    """Folder of weights that are trained further; None begins afresh."""
    history: tuple[PastRun, ...] = ()
    """The cluster's own runs, for `queue`."""
    snapshot: ClusterSnapshot | None = None
    """The cluster itself, for `queue`: its nodes and links instead of generated ones."""


class LessonVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """Whether new weights may replace those in use."""

    accepted: bool
    reason: str
    """One sentence with the figures that decided."""
    figures: dict[str, float] = {}


class Lesson(Protocol):
    """One kind of learning: `hyperscale learn NAME`. A module that has these two functions."""

    def train(self, assignment: Assignment, report: Callable[[LessonProgress], None]) -> tuple[Path, ...]:
        """Learn, and return the files of weights and manifest written. Raises LessonError."""

    def judge(self, candidate: Path, in_use: Path | None, seed: int) -> LessonVerdict:
        """Compare the weights in folder `candidate` with those in `in_use` on cases that no training has seen. Raises LessonError."""


class LessonError(Exception):
    """The lesson cannot be learned or judged as asked; the message says what to do instead."""


@contextlib.contextmanager
def reading(checkpoint: Path) -> Iterator[None]:
    """Whatever a torn or foreign checkpoint makes its readers raise, as LessonError; one that is absent, too."""
    if not checkpoint.is_file():
        raise LessonError(f"{checkpoint.parent} has no {checkpoint.name} to go on from; leave --resume out to begin")
    try:
        yield
    except (OSError, SafetensorError, msgspec.DecodeError, KeyError, IndexError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise LessonError(
            f"{checkpoint} is damaged, or of another lesson ({reason}); name another folder, or begin without --resume"
        ) from None
