"""Read weights that a third party may have written: bounded in size, numbers of the expected shapes only. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

Kind = TypeVar("Kind")

MOST_MANIFEST_BYTES: Final = 64 * 1024
MOST_WEIGHTS_BYTES: Final = 16 * 1024**2
"""The largest of ours has 0.6 MB, and a ConfigMap holds 1 MiB."""
LARGEST_WEIGHT: Final = 500.0
"""No trained weight is near it; its exponential and products of a few layers are finite."""


class DamagedError(Exception):
    """The file is not what it should be; the message says why."""


def read(file: Path | Traversable, most_bytes: int) -> bytes:
    """The file, of which no more than `most_bytes` are ever in memory. Raises DamagedError where it is missing, no file or larger."""
    try:
        if not file.is_file():
            raise DamagedError(f"{file.name} is missing")
        with file.open("rb") as opened:
            content = opened.read(most_bytes + 1)
    except OSError as error:
        raise DamagedError(f"{file.name} cannot be read: {error}") from None
    if len(content) > most_bytes:
        raise DamagedError(f"{file.name} has more than {most_bytes} bytes")
    return content


def manifest(file: Path | Traversable, kind: type[Kind]) -> Kind:
    """The manifest in `file`. Raises DamagedError."""
    try:
        return msgspec.json.decode(read(file, MOST_MANIFEST_BYTES), type=kind)
    except (ValueError, RecursionError) as error:  # ValueError: malformed, of other types, not UTF-8
        raise DamagedError(f"{file.name} is no manifest: {error}") from None


def tensors(name: str, content: bytes, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[np.float32]]:
    """Tensors of exactly these names and shapes, single precision, every value finite and sane. Raises DamagedError."""
    try:
        loaded = load(content)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:  # KeyError: a type that numpy has not
        raise DamagedError(f"{name} cannot be read: {error}") from None
    other = sorted(key for key in {*loaded, *shapes} if key not in loaded or loaded[key].shape != shapes.get(key))
    if other:
        raise DamagedError(f"{name} does not hold the weights of this network: {', '.join(other)[:100]}")
    wrong = sorted(key for key, tensor in loaded.items() if tensor.dtype != np.float32 or not (np.abs(tensor) <= LARGEST_WEIGHT).all())
    if wrong:
        raise DamagedError(f"{name} holds what no training leaves: {', '.join(wrong)[:100]}")
    return loaded
