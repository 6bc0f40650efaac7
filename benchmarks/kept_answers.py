"""Answers of a long benchmark, kept in a folder as they come, so that a run that was cut off continues there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

Answer = TypeVar("Answer")


def kept(folder: Path | None, key: str, kind: type[Answer], ask: Callable[[], Answer]) -> Answer:
    """The answer that the folder has under `key`, else that of `ask`, which is kept; without a folder always asked."""
    if folder is None:
        return ask()
    file = folder / f"{key}.msgpack"  # not JSON: figures may be infinite
    if file.is_file():
        return msgspec.msgpack.decode(file.read_bytes(), type=kind)
    answer = ask()
    folder.mkdir(parents=True, exist_ok=True)
    half = file.with_suffix(".half")
    half.write_bytes(msgspec.msgpack.encode(answer))
    half.replace(file)
    return answer
