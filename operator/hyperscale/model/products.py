"""GPU products as node labels tell them: names against prefixes that stand for a line, and whether a node offers whole cards. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
COUNT_LABEL: Final = "nvidia.com/gpu.count"
REPLICAS_LABEL: Final = "nvidia.com/gpu.replicas"
MAX_COUNT_DIGITS: Final = 4
_SHARING_LABELS: Final = ("nvidia.com/gpu.sharing-strategy", "cloud.google.com/gke-gpu-sharing-strategy")
_SLICE_LABEL: Final = "cloud.google.com/gke-gpu-partition-size"
_TELLING_LABELS: Final = frozenset({PRODUCT_LABEL, COUNT_LABEL, REPLICAS_LABEL, _SLICE_LABEL, *_SHARING_LABELS})
"""Without one of these GPUs are whole."""
_SLICE: Final = re.compile(r"-MIG-([a-z0-9.+]+)", re.IGNORECASE)
_SHARED: Final = re.compile(r"-SHARED$", re.IGNORECASE)
_VENDOR: Final = re.compile(r"^nvidia[- ]", re.IGNORECASE)
_KEPT: Final = 1024
"""Products looked up: a cluster has a handful, and every plan asks for each of them several times."""


@lru_cache(maxsize=_KEPT)
def bare(product: str) -> str:
    """Lower case, blanks as dashes, without the vendor's name."""
    return _VENDOR.sub("", product.strip().replace(" ", "-")).lower()


def matches(product: str, prefix: str) -> bool:
    """True where `prefix` ends at a word of `product`, both bare: a10 is not a prefix of a100 or of a10g's neighbour a1000."""
    rest = product.removeprefix(prefix)
    return product.startswith(prefix) and (not rest or not rest[0].isdigit())


def longest(product: str | None, prefixes: Iterable[str]) -> str | None:
    """The longest of `prefixes` that stands for `product`, the last by name of equals; None where none does."""
    return _longest(bare(product or ""), tuple(prefixes))


@lru_cache(maxsize=_KEPT)
def _longest(name: str, prefixes: tuple[str, ...]) -> str | None:
    fitting = [prefix for prefix in prefixes if name and matches(name, bare(prefix))]
    return max(fitting, key=lambda prefix: (len(bare(prefix)), prefix), default=None)


def stated(product: str | None, figures: Mapping[str, float | None]) -> float | None:
    """The figure of the longest prefix that states one for `product`; None where none does."""
    stated_figures = {prefix: figure for prefix, figure in figures.items() if figure is not None}
    named = longest(product, stated_figures)
    return stated_figures[named] if named is not None else None


def count_of(labels: Mapping[str, str], label: str) -> int:
    """The whole number in a label; 0 where it is absent or none."""
    text = labels.get(label, "").strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_COUNT_DIGITS else 0


def sliced(labels: Mapping[str, str], offered: int = 0) -> tuple[str, str] | None:
    """Reason and message where a node offers parts of GPUs (MIG slices, shared cards); None where GPUs are whole.

    offered: GPUs that the device plugin offers. The labels are those of GPU Feature Discovery and of GKE.
    """
    if labels.keys().isdisjoint(_TELLING_LABELS):
        return None
    product = labels.get(PRODUCT_LABEL, "").strip()
    slice_label = _SLICE.search(product)
    profile = slice_label.group(1) if slice_label is not None else labels.get(_SLICE_LABEL, "").strip()
    if profile:
        return "MIGDevice", f"offers MIG slices ({profile}), not whole GPUs"
    replicas, cards = count_of(labels, REPLICAS_LABEL), count_of(labels, COUNT_LABEL)
    if replicas > 1:
        return "SharedGPU", f"offers each GPU {replicas} times ({REPLICAS_LABEL})"
    if 0 < cards < offered:
        return "SharedGPU", f"offers {offered} GPUs and has {cards} ({COUNT_LABEL})"
    for label in _SHARING_LABELS:
        if (way := labels.get(label, "").strip()) not in ("", "none"):
            return "SharedGPU", f"shares its GPUs among pods ({label}: {way})"
    return ("SharedGPU", f"shares its GPUs among pods ({PRODUCT_LABEL}: {product})") if _SHARED.search(product) else None
