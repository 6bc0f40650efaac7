"""What a run says of itself, from sources that nobody vouches for: bounded, checked, unknown fields passed over. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from hyperscale.model.api.measured import LONGEST_SECONDS, MOST_BYTES, Measured
from hyperscale.model.pods import LAUNCHER, PodView

MAX_BYTES: Final = 4096
"""Of a termination message; the kubelet keeps no more."""
DIGITS: Final = 6
"""Significant digits kept: less than any run repeats itself to."""
MOST_EPOCHS: Final = 10**9
_MOST: Final = {
    "accuracy": 1.0,
    "validation_accuracy": 1.0,
    "epoch_seconds": LONGEST_SECONDS,
    "compute_seconds": LONGEST_SECONDS,
    "communication_seconds": LONGEST_SECONDS,
    "samples_per_second": MOST_BYTES,
    "peer_bytes": MOST_BYTES,
}
"""The largest value of each figure that has one."""


def read_measured(text: str) -> Measured | None:
    """The result in a termination message; None where there is none, or any figure in it is none."""
    if len(text.encode(errors="replace")) > MAX_BYTES or not text.lstrip().startswith("{"):
        return None
    try:
        return checked(msgspec.json.decode(text, type=Measured))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def last_result(pods: Iterable[PodView]) -> Measured | None:
    """The result that a run's last launcher left behind; None while it runs."""
    launchers = sorted((pod for pod in pods if pod.role == LAUNCHER and pod.termination), key=lambda pod: pod.created)
    return read_measured(launchers[-1].termination) if launchers else None


def checked(measured: Measured) -> Measured | None:
    """The same, figures rounded; None where one is not finite, below 0, or beyond what it can be."""
    if not 0 <= measured.epoch <= MOST_EPOCHS or not 0 <= measured.epochs <= MOST_EPOCHS:
        return None
    if measured.resumed_epoch is not None and not 0 <= measured.resumed_epoch <= MOST_EPOCHS:
        return None
    figures: dict[str, float] = {}
    for field in msgspec.structs.fields(Measured):
        value = getattr(measured, field.name)
        if not isinstance(value, float):
            continue
        if not math.isfinite(value) or (value < 0.0 and field.name != "loss") or value > _MOST.get(field.name, math.inf):
            return None
        figures[field.name] = _rounded(value)
    if not (
        all(one.seconds <= LONGEST_SECONDS for one in measured.phases) and all(one.bytes <= MOST_BYTES for one in measured.busiest_pairs)
    ):
        return None
    return msgspec.structs.replace(
        measured,
        **figures,
        phases=tuple(msgspec.structs.replace(one, seconds=_rounded(one.seconds)) for one in measured.phases),
        busiest_pairs=tuple(msgspec.structs.replace(one, bytes=_rounded(one.bytes)) for one in measured.busiest_pairs),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
