"""Kubernetes quantities: text such as 24Gi, 500m or 1e3 to numbers (apimachinery's resource.Quantity)."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

_QUANTITY: Final = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([eE][+-]?0*[0-9]{1,2})|(n|u|m|k|[KMGTPE]i|[MGTPE]))?", re.ASCII)
_FACTORS: Final[dict[str, Decimal]] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(1000),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("MGTPE", start=2)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
MAX_TEXT_LENGTH: Final = 64
"""Longer text is no quantity; keeps the cost of a hostile one small."""


def parse_bytes(text: str) -> int:
    """Whole bytes of a quantity, rounded up as Kubernetes does; raises ValueError saying what to write."""
    return rounded_up(parse_exact(text))


def parse_number(text: str) -> float:
    """The number behind a quantity, e.g. cores of `500m` = 0.5; raises ValueError saying what to write."""
    return float(parse_exact(text))


def rounded_up(number: Decimal) -> int:
    """The next integer, as the API server rounds a quantity where it needs one."""
    return int(number.to_integral_value(rounding=ROUND_CEILING))


def shortest(number: float) -> str:
    """The shortest quantity of a positive number, such as 24Gi or 10T."""
    exact = Decimal(number)
    units = ((f"{exact / factor:f}", suffix) for suffix, factor in _FACTORS.items() if factor > 1 and exact % factor == 0)
    return min((repr(number).removesuffix(".0"), *(text + suffix for text, suffix in units)), key=len)


def parse_exact(text: str) -> Decimal:
    """The exact number behind a quantity; raises ValueError saying what to write."""
    match = _QUANTITY.fullmatch(text) if len(text) <= MAX_TEXT_LENGTH else None
    if match is None:
        raise ValueError(f"{text[:MAX_TEXT_LENGTH]!r} is not a quantity; write a number with an optional suffix, such as 24Gi, 8 or 500m")
    number, exponent, suffix = match.groups()
    return Decimal(number + (exponent or "")) * _FACTORS.get(suffix or "", Decimal(1))
