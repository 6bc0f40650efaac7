"""The gate between a training and the planners: weights that lose to those in use stay out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hyperscale.learn.lesson import LessonError, LessonVerdict

SUFFIXES: Final = (".safetensors", ".json")
"""Weights first: a reader that sees the new manifest finds the weights it names."""


def files_of(folder: Path, name: str) -> tuple[Path, ...]:
    """Weights and manifest of `name` in `folder`. Raises LessonError where one is missing."""
    files = tuple(folder / f"{name}{suffix}" for suffix in SUFFIXES)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise LessonError(f"{folder} has no {' and no '.join(missing)}; train first, or name the folder that a training wrote")
    return files


def publish(name: str, candidate: Path, target: Path, verdict: LessonVerdict) -> Sequence[Path]:
    """Copy weights and manifest of `name` from `candidate` to `target`, each in one step; returns what was written.

    Raises LessonError where the verdict forbids it.
    """
    if not verdict.accepted:
        raise LessonError(f"not published: {verdict.reason}")
    target.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for file in files_of(candidate, name):
        replace_file(target / file.name, file.read_bytes())
        written.append(target / file.name)
    return written


def replace_file(file: Path, content: bytes) -> None:
    """Write beside `file` and rename: no reader ever sees half a file."""
    descriptor, beside = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        Path(beside).chmod(0o644)
        Path(beside).replace(file)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
