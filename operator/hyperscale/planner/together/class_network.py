"""Hulk's classification of machines to jobs: edge pooling, a graph convolution, a class for every node. Pure numpy.

A node's class is the job that should have it, or none (arXiv 2302.13741, section 4). The paper trains one output a task; here the jobs of
a question share their weights, so that any number of jobs and nodes can be asked about. `hyperscale.learn` has the same network in torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from hyperscale.model.graph import FloatArray
from hyperscale.planner.learned.weights_file import MOST_WEIGHTS_BYTES, DamagedError, manifest, read, tensors
from hyperscale.planner.together.class_features import EDGE_FEATURES, PAIR_FEATURES, VERSION, ClassFeatures

NAME: Final = "classes"
"""Of both files, without suffix."""
WEIGHTS: Final = "hyperscale.planner.learned.weights"
WIDTH: Final = 32
INPUTS: Final[dict[str, int]] = {
    "pair_in": PAIR_FEATURES,
    "pool_pair": WIDTH,
    "pool_edge": EDGE_FEATURES,
    "pooled": 3 * WIDTH,
    "convolved": 2 * WIDTH,
}
"""Inputs of each layer of WIDTH outputs."""


class ClassesManifest(msgspec.Struct, frozen=True, rename="camel"):
    """Beside the weights, as JSON."""

    sha256: str
    """Of the file of weights."""
    feature_version: int
    width: int
    command: str
    """What made them."""
    seed: int
    figures: dict[str, float]
    """What validation said."""


class ClassesError(Exception):
    """The weights cannot be used; the message says why."""


def _shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    for name, size in INPUTS.items():
        yield f"{name}.weight", (WIDTH, size)
        yield f"{name}.bias", (WIDTH,)
    for name in ("taken", "idle"):
        yield f"{name}.weight", (1, WIDTH)
        yield f"{name}.bias", (1,)


SHAPES: Final[dict[str, tuple[int, ...]]] = dict(_shapes())


class ClassNetwork:
    """The classifier with its weights."""

    def __init__(self, weights: Mapping[str, FloatArray]) -> None:
        self._weights = weights

    def logits(self, features: ClassFeatures) -> FloatArray:
        """(J + 1, P) how well each job suits each node; the last row: none. Nodes that a job cannot use are as they come out."""
        hidden = np.maximum(self._layer("pair_in", features.pair), 0.0)
        ends = self._layer("pool_pair", hidden)[:, features.neighbours]
        messages = np.maximum(ends + self._layer("pool_edge", features.edge)[None], 0.0)
        pooled = np.concatenate((hidden, messages.mean(axis=2), messages.max(axis=2)), axis=2)
        hidden = np.maximum(self._layer("pooled", pooled), 0.0)
        around = hidden[:, features.neighbours].mean(axis=2)
        others = np.broadcast_to(hidden.mean(axis=0), hidden.shape)
        hidden = hidden + np.maximum(self._layer("convolved", np.concatenate((around, others), axis=2)), 0.0)
        taken = self._layer("taken", hidden)[:, :, 0]
        idle = self._layer("idle", hidden.mean(axis=0))[:, 0]
        return np.concatenate((taken, idle[None]), axis=0)

    def _layer(self, name: str, inputs: FloatArray) -> FloatArray:
        outputs: FloatArray = inputs @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return outputs


def manifest_of(weights: bytes, command: str, seed: int, figures: dict[str, float]) -> ClassesManifest:
    """The manifest of weights made by this code."""
    return ClassesManifest(hashlib.sha256(weights).hexdigest(), VERSION, WIDTH, command, seed, figures)


def load_classes(folder: Path | Traversable) -> ClassNetwork:
    """The network in `folder`. Raises ClassesError where a file is missing or damaged, or made for other features."""
    try:
        described = manifest(folder / f"{NAME}.json", ClassesManifest)
        content = read(folder / f"{NAME}.safetensors", MOST_WEIGHTS_BYTES)
        if described.feature_version != VERSION or described.width != WIDTH:
            raise DamagedError(f"made for features of version {described.feature_version}, this planner has version {VERSION}")
        if hashlib.sha256(content).hexdigest() != described.sha256:
            raise DamagedError("the weights are not those of the manifest")
        loaded = tensors(f"{NAME}.safetensors", content, SHAPES)
    except DamagedError as error:
        raise ClassesError(f"{NAME}: {error}") from None
    return ClassNetwork({name: tensor.astype(np.float64) for name, tensor in loaded.items()})


def published_classes(folder: Path | None) -> ClassNetwork | None:
    """The network that a folder of published weights has, for a start of the search; None where it has none that can be used.

    The network that ships with this program is no start: at equal processor time the search is as good without it.
    """
    if folder is None or not (folder / f"{NAME}.json").exists():
        return None
    try:
        return load_classes(folder)
    except (ClassesError, ModuleNotFoundError):
        return None


def shipped_classes() -> ClassNetwork | None:
    """The network that ships with this program; None where it cannot be used."""
    try:
        return load_classes(files(WEIGHTS))
    except (ClassesError, ModuleNotFoundError):
        return None
