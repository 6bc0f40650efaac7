"""Checkpoints that a kill at any moment cannot damage.

Any number of workers can resume from them: the state is the same on all ranks.

`<directory>/epoch-00000010/` holds `state.safetensors` (model.*, optimizer.*, best.*) and `manifest.json` with the file's sha256. It is
written under another name, flushed, and renamed; the last two are kept.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

Tensor = torch.Tensor
VERSION: Final = 1
KEPT: Final = 2
STATE: Final = "state.safetensors"
MANIFEST: Final = "manifest.json"
_PREFIX: Final = "epoch-"
_NAME: Final = re.compile(rf"{_PREFIX}[0-9]{{8}}")


class CheckpointError(ValueError):
    """A checkpoint of another model or job, or a directory that cannot be used; one line."""


class CheckpointProgress(msgspec.Struct, frozen=True, rename="camel"):
    """Where a run stands; what picks the best epoch continues after a resume as if nothing had happened."""

    epoch: int = 0
    loss: float | None = None
    best_epoch: int = 0
    best_validation: float | None = None
    best_validation_loss: float | None = None
    best_test: float | None = None
    lowest_validation_loss: float | None = None
    stale_epochs: int = 0
    """Epochs since a validation figure was last better."""


class CheckpointManifest(msgspec.Struct, frozen=True, rename="camel"):
    """What is written beside the tensors."""

    version: int
    job: str
    model: str
    """What must be the same to continue: architecture and shapes."""
    progress: CheckpointProgress
    workers: int
    """Ranks that wrote it; a resumed run may have others."""
    bytes: int
    sha256: str


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint that was read back whole."""

    manifest: CheckpointManifest
    tensors: dict[str, Tensor]


class Checkpoints:
    """One job's directory; used by rank 0 only."""

    def __init__(self, directory: Path, job: str, model: str) -> None:
        """Raises CheckpointError where the directory cannot be made or written."""
        self._directory, self._job, self._model = directory, job, model
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for left in directory.glob(f".{_PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)
        except OSError as error:
            raise CheckpointError(f"CHECKPOINT_DIR: {directory}: {error.strerror}; mount a writable volume there") from error
        if not os.access(directory, os.W_OK):
            raise CheckpointError(f"CHECKPOINT_DIR: {directory} is not writable for user {os.geteuid()}; set the volume's fsGroup")

    def save(self, progress: CheckpointProgress, tensors: dict[str, Tensor], workers: int) -> Path:
        """Write atomically, then drop all but the last two. Raises CheckpointError where the volume is full or gone."""
        payload = save_tensors({name: tensor.detach().cpu().contiguous() for name, tensor in sorted(tensors.items())})
        digest = hashlib.sha256(payload).hexdigest()
        manifest = CheckpointManifest(VERSION, self._job, self._model, progress, workers, len(payload), digest)
        target = self._directory / f"{_PREFIX}{progress.epoch:08d}"
        partial = self._directory / f".{target.name}.{os.getpid()}"
        try:
            partial.mkdir()
            _write(partial / STATE, payload)
            _write(partial / MANIFEST, msgspec.json.encode(manifest))
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
            _flush_directory(self._directory)
            self._prune(target)
        except OSError as error:
            raise CheckpointError(
                f"CHECKPOINT_DIR: {target}: {error.strerror}; the volume must have room for {3 * len(payload)} bytes"
            ) from error
        return target

    def latest(self) -> Checkpoint | None:
        """The newest whole one; damaged ones are named on stderr and skipped. Raises CheckpointError for another model's or job's."""
        for path in self._newest_first():
            try:
                checkpoint = _read(path)
            except (OSError, ValueError, SafetensorError) as error:
                sys.stderr.write(f"checkpoint {path.name} is damaged and skipped: {error}\n")
                continue
            if checkpoint.manifest.version != VERSION or checkpoint.manifest.model != self._model:
                raise CheckpointError(
                    f"CHECKPOINT_DIR: {path} is of another model ({checkpoint.manifest.model}), this job trains {self._model}; "
                    "use an empty directory, or the model it was written with"
                )
            if checkpoint.manifest.job != self._job:
                raise CheckpointError(
                    f"CHECKPOINT_DIR: {path} is of job {checkpoint.manifest.job}, this is {self._job}; give each job a volume of its own, "
                    "or remove what the other left"
                )
            return checkpoint
        return None

    def _prune(self, newest: Path) -> None:
        """Drop all but the last two up to `newest`; later epochs are damaged, or `newest` would have continued from them."""
        whole = [path for path in self._newest_first() if path.name <= newest.name]
        for old in sorted({*self._newest_first()} - {*whole[:KEPT]}):
            shutil.rmtree(old, ignore_errors=True)

    def _newest_first(self) -> list[Path]:
        folders = (path for path in self._directory.glob(f"{_PREFIX}*") if _NAME.fullmatch(path.name) and path.is_dir())
        return sorted(folders, reverse=True)


def collect(model: torch.nn.Module, optimizer: torch.optim.Optimizer, best: dict[str, Tensor]) -> dict[str, Tensor]:
    """Everything that the next epoch depends on, under flat names."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    for index, entry in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{key}": torch.as_tensor(value) for key, value in entry.items()}
    return tensors


def restore(tensors: dict[str, Tensor], model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Put `collect`'s tensors back; returns those of the best epoch. Raises CheckpointError where they do not fit."""
    try:
        model.load_state_dict(_below(tensors, "model."))
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _below(tensors, "optimizer.").items():
            index, _, key = name.partition(".")
            state.setdefault(int(index), {})[key] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    except (RuntimeError, ValueError, KeyError) as error:
        raise CheckpointError(f"CHECKPOINT_DIR: the checkpoint does not fit this model: {str(error).splitlines()[0]}") from error
    return _below(tensors, "best.")


def describe(architecture: str, parameters: Iterable[tuple[str, Tensor]]) -> str:
    """Architecture and a digest of all names and shapes."""
    shapes = ";".join(f"{name}{tuple(tensor.shape)}" for name, tensor in parameters)
    return f"{architecture} {hashlib.sha256(shapes.encode()).hexdigest()[:16]}"


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _read(path: Path) -> Checkpoint:
    manifest = msgspec.json.decode((path / MANIFEST).read_bytes(), type=CheckpointManifest)
    payload = (path / STATE).read_bytes()
    if len(payload) != manifest.bytes or hashlib.sha256(payload).hexdigest() != manifest.sha256:
        raise ValueError(f"{STATE} has {len(payload)} bytes and another sha256 than its manifest")
    return Checkpoint(manifest, load_tensors(payload))


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _flush_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
