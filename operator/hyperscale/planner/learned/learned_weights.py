"""Weights of the learned constructor and the manifest that vouches for them; what does not match is refused, never guessed. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from hyperscale.planner.learned.learned_features import EDGE_FEATURES, NODE_FEATURES, STEP_FEATURES, VERSION, WHOLE_FEATURES
from hyperscale.planner.learned.learned_network import HEADS, LAYERS, WIDTH, ConstructorNetwork
from hyperscale.planner.learned.weights_file import MOST_WEIGHTS_BYTES, DamagedError, manifest, read, tensors

NAME: Final = "constructor"
"""Of both files, without suffix."""
DIMENSIONS: Final[dict[str, int]] = {
    "node": NODE_FEATURES,
    "edge": EDGE_FEATURES,
    "whole": WHOLE_FEATURES,
    "step": STEP_FEATURES,
    "width": WIDTH,
    "heads": HEADS,
    "layers": LAYERS,
}


def _shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Of every tensor of the network, by name, as torch has them: (out, in)."""
    for kind, size in (("node", NODE_FEATURES), ("edge", EDGE_FEATURES), ("whole", WHOLE_FEATURES), ("step", STEP_FEATURES)):
        yield f"{kind}_mean", (size,)
        yield f"{kind}_scale", (size,)
    yield "log_alpha", (1,)
    inputs = {
        "pool_edge": EDGE_FEATURES,
        "node_in": NODE_FEATURES + 2 * WIDTH + WHOLE_FEATURES,
        "whole_in": 2 * WIDTH + WHOLE_FEATURES,
        "head_node": WIDTH,
        "head_hidden": WIDTH,
    }
    for name, size in inputs.items():
        yield f"{name}.weight", (WIDTH, size)
        yield f"{name}.bias", (WIDTH,)
    for name, size in {"pool_node": NODE_FEATURES, "head_whole": WIDTH, "head_members": 2 * WIDTH, "head_step": STEP_FEATURES}.items():
        yield f"{name}.weight", (WIDTH, size)
    yield "head_out.weight", (1, WIDTH)
    for layer in (f"layers.{number}" for number in range(LAYERS)):
        for name in ("query", "key", "value", "out"):
            yield f"{layer}.{name}.weight", (WIDTH, WIDTH)
        for name in ("value.bias", "out.bias", "narrow.bias", "norm.weight", "norm.bias", "last_norm.weight", "last_norm.bias"):
            yield f"{layer}.{name}", (WIDTH,)
        yield f"{layer}.edge_bias.weight", (HEADS, EDGE_FEATURES)
        yield f"{layer}.edge_value.weight", (WIDTH, EDGE_FEATURES)
        yield f"{layer}.wide.weight", (2 * WIDTH, WIDTH)
        yield f"{layer}.wide.bias", (2 * WIDTH,)
        yield f"{layer}.narrow.weight", (WIDTH, 2 * WIDTH)


SHAPES: Final[dict[str, tuple[int, ...]]] = dict(_shapes())


class WeightsManifest(msgspec.Struct, frozen=True, rename="camel"):
    """Beside the weights, as JSON."""

    sha256: str
    """Of the file of weights."""
    feature_version: int
    dimensions: dict[str, int]
    command: str
    """What made them."""
    seed: int
    figures: dict[str, float]
    """What validation said."""


class WeightsError(Exception):
    """The weights cannot be used; the message says why."""


def manifest_of(weights: bytes, command: str, seed: int, figures: dict[str, float]) -> WeightsManifest:
    """The manifest of weights made by this code."""
    return WeightsManifest(hashlib.sha256(weights).hexdigest(), VERSION, DIMENSIONS, command, seed, figures)


def load(folder: Path) -> ConstructorNetwork:
    """The network in `folder`. Raises WeightsError where a file is missing or damaged, or made for other features or dimensions."""
    try:
        weights_manifest = manifest(folder / f"{NAME}.json", WeightsManifest)
        weights = read(folder / f"{NAME}.safetensors", MOST_WEIGHTS_BYTES)
        if weights_manifest.feature_version != VERSION or weights_manifest.dimensions != DIMENSIONS:
            raise DamagedError(f"made for features of version {weights_manifest.feature_version}, this planner has version {VERSION}")
        if hashlib.sha256(weights).hexdigest() != weights_manifest.sha256:
            raise DamagedError("the weights are not those of the manifest")
        read_tensors = tensors(f"{NAME}.safetensors", weights, SHAPES)
        return ConstructorNetwork({name: tensor.astype(np.float64) for name, tensor in read_tensors.items()})
    except DamagedError as error:
        raise WeightsError(f"{NAME}: {error}") from None


def shipped() -> ConstructorNetwork:
    """Return the network that came with the package. Raises WeightsError as `load` does."""
    return load(Path(str(resources.files("hyperscale.planner.learned"))) / "weights")
