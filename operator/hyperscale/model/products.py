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
_VGPU: Final = re.compile(r"^(?:grid-)?(?P<card>.+?)(?:-[0-9])?-(?P<gigabytes>[0-9]{1,4})(?:[aq]|b4?|c(?:me)?)$")
"""Bare name of a vGPU, e.g. a10-4q or grid-v100d-16q; of one on a MIG slice the number of slices comes first: a100-1-5c."""
_VENDOR: Final = re.compile(r"^nvidia[- ]", re.IGNORECASE)
_CARDS: Final[Mapping[int, tuple[str, ...]]] = {
    8: ("M6", "M10", "M60", "P4"),
    12: ("P100C",),
    16: ("P6", "P100", "V100", "T4", "A2", "A16"),
    24: ("P40", "RTX6000", "A10", "A30", "RTXA5000", "RTXA5500", "L2", "L4", "L40G"),
    32: ("V100D", "V100S", "RTX5000-Ada", "RTX-Pro-4500"),
    40: ("A100", "A800"),
    48: ("RTX8000", "A40", "RTXA6000", "RTX6000-Ada", "L20", "L40", "L40S"),
    64: ("H100XS",),
    80: ("A100D", "A800D", "H100", "H800"),
    94: ("H100L", "H100XL", "H800L"),
    96: ("H20", "GH200", "RTX-Pro-6000"),
    141: ("H200",),
    144: ("GH200L",),
    180: ("B200",),
}
CARD_GIGABYTES: Final[Mapping[str, int]] = {card: gigabytes for gigabytes, cards in _CARDS.items() for card in cards}
"""Memory of a whole card, by the card's name in the names of NVIDIA's vGPUs. There D is the larger of two sizes, and X is SXM."""
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


@lru_cache(maxsize=_KEPT)
def _vgpu_slice(product: str) -> str | None:
    """Which part of its card a vGPU is; None for a whole card, and for a product that is no vGPU.

    The label nvidia.com/vgpu.present does not decide: a whole card of a virtual machine has it, too.
    """
    vgpu = _VGPU.match(bare(product))
    if vgpu is None:
        return None
    gigabytes, card = int(vgpu["gigabytes"]), longest(vgpu["card"], CARD_GIGABYTES)
    if card is None:  # A part is far more common than a whole card, and a part that is planned slows down every rank.
        return f"vGPUs of {gigabytes} GB, of a card whose memory is in no table"
    whole = CARD_GIGABYTES[card]
    return f"vGPUs of {gigabytes} GB, parts of a card of {whole} GB" if gigabytes < whole else None


def sliced(labels: Mapping[str, str], offered: int = 0) -> tuple[str, str] | None:
    """Reason and message where a node offers parts of GPUs (MIG slices, shared cards, vGPUs); None where GPUs are whole.

    offered: GPUs that the device plugin offers. The labels are those of GPU Feature Discovery and of GKE.
    """
    if labels.keys().isdisjoint(_TELLING_LABELS):
        return None
    product = labels.get(PRODUCT_LABEL, "").strip()
    slice_label = _SLICE.search(product)
    profile = slice_label.group(1) if slice_label is not None else labels.get(_SLICE_LABEL, "").strip()
    if profile:
        return "MIGDevice", f"offers MIG slices ({profile}), not whole GPUs"
    if (part := _vgpu_slice(product)) is not None:
        return "SharedGPU", f"offers {part} ({PRODUCT_LABEL}: {product})"
    replicas, cards = count_of(labels, REPLICAS_LABEL), count_of(labels, COUNT_LABEL)
    if replicas > 1:
        return "SharedGPU", f"offers each GPU {replicas} times ({REPLICAS_LABEL})"
    if 0 < cards < offered:
        return "SharedGPU", f"offers {offered} GPUs and has {cards} ({COUNT_LABEL})"
    for label in _SHARING_LABELS:
        if (way := labels.get(label, "").strip()) not in ("", "none"):
            return "SharedGPU", f"shares its GPUs among pods ({label}: {way})"
    return ("SharedGPU", f"shares its GPUs among pods ({PRODUCT_LABEL}: {product})") if _SHARED.search(product) else None
