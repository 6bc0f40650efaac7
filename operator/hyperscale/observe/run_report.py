"""Results that a run, or one of the Jobs `NAME-inspect` and `NAME-preflight`, reports, from untrusted sources: bounded, checked. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from hyperscale.model.api.datasets import DatasetStatus, SizeSource
from hyperscale.model.api.job import PositiveCount
from hyperscale.model.api.measured import LONGEST_SECONDS, MOST_BYTES, Measured
from hyperscale.model.api.preflight_report import PreflightReport
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
    """Return the same with figures rounded; None where one is not finite, below 0, or beyond what it can be."""
    figures = {name: value for name in Measured.__struct_fields__ if isinstance(value := getattr(measured, name), float)}
    if not (_epochs_possible(measured) and _lists_possible(measured) and all(map(_is_possible, figures, figures.values()))):
        return None
    return msgspec.structs.replace(
        measured,
        **{name: _rounded(value) for name, value in figures.items()},
        rank_compute_seconds=tuple(map(_rounded, measured.rank_compute_seconds)),
        phases=tuple(msgspec.structs.replace(one, seconds=_rounded(one.seconds)) for one in measured.phases),
        busiest_pairs=tuple(msgspec.structs.replace(one, bytes=_rounded(one.bytes)) for one in measured.busiest_pairs),
    )


def _epochs_possible(measured: Measured) -> bool:
    epochs = (measured.epoch, measured.epochs, measured.resumed_epoch or 0)
    return min(epochs) >= 0 and max(epochs) <= MOST_EPOCHS


def _is_possible(name: str, value: float) -> bool:
    """Whether a figure of that name is finite, not negative (but for the loss) and not above its largest value."""
    return math.isfinite(value) and (value >= 0.0 or name == "loss") and value <= _MOST.get(name, math.inf)


def _lists_possible(measured: Measured) -> bool:
    seconds = (*(one.seconds for one in measured.phases), *measured.rank_compute_seconds)
    return all(each <= LONGEST_SECONDS for each in seconds) and all(one.bytes <= MOST_BYTES for one in measured.busiest_pairs)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


class DatasetReport(msgspec.Struct, frozen=True, rename="camel"):
    """Figures of a graph as read: directed edges, feature width, classes, labelled vertices of the training split."""

    vertices: PositiveCount
    edges: Annotated[int, Meta(ge=0, le=10**12)]
    feature_size: Annotated[int, Meta(ge=1, le=10**6)]
    classes: Annotated[int, Meta(ge=1, le=10**6)]
    train_vertices: Annotated[int, Meta(ge=0, le=10**12)]


def read_report(termination: str, key: str) -> DatasetStatus | None:
    """The sizes of the dataset with this key; None for a message that holds none."""
    try:
        report = msgspec.json.decode(termination, type=DatasetReport)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    sizes = (report.vertices, report.edges, report.feature_size, report.classes)
    return DatasetStatus(*sizes, SizeSource.READ, key, report.train_vertices or None)


MAX_STEPS: Final = 10**9
MAX_MEMORY_BYTES: Final = 2**53


def read_preflight(termination: str) -> PreflightReport | None:
    """The report of a preflight; None for a message that is none.

    A report is at most 4096 bytes of JSON with figures that a pod can have. Its texts are made printable: they hold words of the code.
    """
    if len(termination.encode(errors="replace")) > MAX_BYTES:
        return None
    try:
        report = msgspec.json.decode(termination, type=PreflightReport)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    memory = (report.peak_memory_bytes or 0, report.predicted_gpu_bytes or 0)
    possible = report.steps <= MAX_STEPS and max(memory) <= MAX_MEMORY_BYTES and (report.step_seconds or 0.0) <= LONGEST_SECONDS
    sentence = printable(report.sentence)
    if not possible or not sentence:
        return None
    return msgspec.structs.replace(
        report,
        sentence=sentence,
        step_seconds=None if report.step_seconds is None else _rounded(report.step_seconds),
        idle_parameters=tuple(map(printable, report.idle_parameters)),
        files_written=tuple(map(printable, report.files_written)),
        addresses=tuple(map(printable, report.addresses)),
    )


def printable(text: str) -> str:
    """The text in one line of characters that a terminal shows."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
