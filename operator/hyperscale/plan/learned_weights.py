"""Weights of the learned constructor and the manifest that vouches for them; what does not match is refused, never guessed. Pure."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec
import safetensors.numpy
from safetensors import SafetensorError

from hyperscale.plan.learned_features import EDGE_FEATURES, NODE_FEATURES, STEP_FEATURES, VERSION, WHOLE_FEATURES
from hyperscale.plan.learned_network import HEADS, LAYERS, WIDTH, Network

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


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
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


def manifest_of(weights: bytes, command: str, seed: int, figures: dict[str, float]) -> Manifest:
    """The manifest of weights made by this code."""
    return Manifest(hashlib.sha256(weights).hexdigest(), VERSION, DIMENSIONS, command, seed, figures)


def load(folder: Path) -> Network:
    """The network in `folder`. Raises WeightsError where a file is missing or damaged, or made for other features or dimensions."""
    try:
        manifest = msgspec.json.decode((folder / f"{NAME}.json").read_bytes(), type=Manifest)
        weights = (folder / f"{NAME}.safetensors").read_bytes()
    except (OSError, msgspec.DecodeError) as error:
        raise WeightsError(f"{NAME}: {error}") from None
    if manifest.feature_version != VERSION or manifest.dimensions != DIMENSIONS:
        raise WeightsError(f"{NAME}: made for features of version {manifest.feature_version}, this planner has version {VERSION}")
    if hashlib.sha256(weights).hexdigest() != manifest.sha256:
        raise WeightsError(f"{NAME}: the weights are not those of the manifest")
    try:
        return Network(safetensors.numpy.load(weights))
    except (KeyError, SafetensorError) as error:
        raise WeightsError(f"{NAME}: {error}") from None


@cache
def shipped() -> Network:
    """The network that came with the package, read once. Raises WeightsError as `load` does."""
    return load(Path(str(resources.files("hyperscale.plan"))) / "weights")
