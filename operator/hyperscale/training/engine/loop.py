"""The run around a trainer: epochs, evaluation, the best epoch, patience, checkpoints, resumption, metrics."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Final

import msgspec
import torch
from msgspec.structs import replace
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from hyperscale.model.api.measured import Measured
from hyperscale.training.engine import checkpoint
from hyperscale.training.engine.average import Average
from hyperscale.training.engine.checkpoint import CheckpointProgress, Checkpoints
from hyperscale.training.engine.rates import Rates
from hyperscale.training.engine.report import Reporter, measured
from hyperscale.training.engine.trainer import EpochStats, Scores, Trainer
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.contract import Run

Tensor = torch.Tensor
AfterEpoch = Callable[[int], object]
_LINES: Final = 20
"""Progress lines of a run."""


class Loop:
    """One run of one trainer on all ranks."""

    def __init__(self, run: Run, comm: Comm, trainer: Trainer, reporter: Reporter, after_epoch: AfterEpoch = lambda _: None) -> None:
        """Collective: reads the newest checkpoint on rank 0 and hands it to all. Raises CheckpointError, on every rank."""
        self._run, self._comm, self._trainer, self._reporter = run, comm, trainer, reporter
        self._after_epoch = after_epoch
        self._progress = CheckpointProgress()
        self._best: dict[str, Tensor] = {}
        self._history: list[EpochStats] = []
        self._checkpoints: Checkpoints | None = None
        self._rates = Rates(trainer.optimizer, run.hyper.learning_rate_schedule, run.model.epochs, trainer.steps)
        self._average = Average(trainer.model, trainer.optimizer, run.hyper.average_decay)
        self.resumed = self._resume() if run.checkpoint_dir is not None else None

    def train(self) -> Measured:
        """All epochs that are left; the result is the same on every rank."""
        run = self._run
        for number in range(self._progress.epoch + 1, run.model.epochs + 1):
            self._rates.begin(number)
            stats = self._trainer.epoch(number)
            self._history.append(stats)
            self._progress = replace(self._progress, epoch=number, loss=stats.loss)
            if number % run.hyper.evaluate_every_epochs == 0 or number == run.model.epochs:
                self._evaluate()
            self._after_epoch(len(self._history))
            self._reporter.epoch(number, stats, self._progress)
            self._say(stats)
            stop = bool(run.hyper.patience_epochs) and self._progress.stale_epochs >= run.hyper.patience_epochs
            if number % run.checkpoint_every == 0 or number == run.model.epochs or stop:
                self._save()
            if stop:
                break
        if self._progress.best_test is None:
            self._evaluate()
        return measured(self._comm, run.model.epochs, self._history, self._progress, self.resumed)

    def _evaluate(self) -> None:
        with self._average.in_place():
            self._score(self._trainer.evaluate())

    def _score(self, scores: Scores) -> None:
        """The best epoch has the highest validation score, then the lowest validation loss; without validation set it is the last."""
        now = self._progress
        highest, lowest = _or(now.best_validation, -math.inf), _or(now.lowest_validation_loss, math.inf)
        best = _is_best(scores, now)
        better = best or scores.validation >= highest or scores.validation_loss <= lowest
        now = replace(now, stale_epochs=0 if better else now.stale_epochs + self._run.hyper.evaluate_every_epochs)
        if not math.isnan(scores.validation_loss):
            now = replace(now, lowest_validation_loss=min(lowest, scores.validation_loss))
        if best:
            now = replace(
                now,
                best_epoch=now.epoch,
                best_validation=_unless_nan(scores.validation),
                best_validation_loss=_unless_nan(scores.validation_loss),
                best_test=_unless_nan(scores.test),
            )
            if self._run.checkpoint_dir is not None:
                self._best = {name: tensor.detach().clone() for name, tensor in self._trainer.model.state_dict().items()}
        self._progress = now

    def _save(self) -> None:
        if self._checkpoints is not None:
            tensors = checkpoint.collect(self._trainer.model, self._trainer.optimizer, self._best) | self._average.state()
            self._checkpoints.save(self._progress, tensors, self._comm.size)

    def _resume(self) -> int | None:
        """Rank 0 reads, all get the same bytes; its errors reach all ranks too, so that no rank waits for it."""
        document, error = b"", ""
        if self._comm.rank == 0:
            try:
                document = self._open()
            except checkpoint.CheckpointError as failure:
                error = str(failure)
        error = self._comm.broadcast_bytes(error.encode(), "checkpoint.error").decode()
        if error:
            raise checkpoint.CheckpointError(error)
        document = self._comm.broadcast_bytes(document, "checkpoint")
        if not document:
            return None
        length = int.from_bytes(document[:8], "big")
        self._progress = msgspec.json.decode(document[8 : 8 + length], type=CheckpointProgress)
        tensors = load_tensors(document[8 + length :])
        self._best = checkpoint.restore(tensors, self._trainer.model, self._trainer.optimizer)
        self._average.load(tensors)
        return self._progress.epoch

    def _open(self) -> bytes:
        run = self._run
        if run.checkpoint_dir is None:
            return b""
        described = checkpoint.describe(run.model.architecture.value, self._trainer.model.named_parameters())
        self._checkpoints = Checkpoints(run.checkpoint_dir, run.job, described)
        latest = self._checkpoints.latest()
        if latest is None:
            return b""
        sys.stderr.write(f"resumed at epoch {latest.manifest.progress.epoch}, written by {latest.manifest.workers} ranks\n")
        progress = msgspec.json.encode(latest.manifest.progress)
        return len(progress).to_bytes(8, "big") + progress + save_tensors(latest.tensors)

    def _say(self, stats: EpochStats) -> None:
        run, now = self._run, self._progress
        if self._comm.rank == 0 and (now.epoch % max(1, run.model.epochs // _LINES) == 0 or now.epoch == run.model.epochs):
            best = f", best validation {now.best_validation:.4f}" if now.best_validation is not None else ""
            sys.stderr.write(f"epoch {now.epoch}/{run.model.epochs}: loss {stats.loss:.4f}, {stats.seconds * 1e3:.1f} ms{best}\n")
            sys.stderr.flush()


def _is_best(scores: Scores, before: CheckpointProgress) -> bool:
    """Whether these scores are those of the best epoch so far; without a validation score every epoch is."""
    if math.isnan(scores.validation):
        return True
    highest, at_best = _or(before.best_validation, -math.inf), _or(before.best_validation_loss, math.inf)
    return scores.validation > highest or (scores.validation == highest and scores.validation_loss < at_best)


def _or(value: float | None, unknown: float) -> float:
    return unknown if value is None else value


def _unless_nan(value: float) -> float | None:
    return None if math.isnan(value) else value
