"""Names of GPU products, as GPU Feature Discovery labels them, against prefixes that stand for a whole line. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_VENDOR: Final = re.compile(r"^nvidia[- ]", re.IGNORECASE)


def bare(product: str) -> str:
    """Lower case, blanks as dashes, without the vendor's name."""
    return _VENDOR.sub("", product.strip().replace(" ", "-")).lower()


def matches(product: str, prefix: str) -> bool:
    """True where `prefix` ends at a word of `product`, both bare: a10 is not a prefix of a100 or of a10g's neighbour a1000."""
    rest = product.removeprefix(prefix)
    return product.startswith(prefix) and (not rest or not rest[0].isdigit())


def longest(product: str | None, prefixes: Iterable[str]) -> str | None:
    """The longest of `prefixes` that stands for `product`, the last by name of equals; None where none does."""
    name = bare(product or "")
    fitting = [prefix for prefix in prefixes if name and matches(name, bare(prefix))]
    return max(fitting, key=lambda prefix: (len(bare(prefix)), prefix), default=None)
