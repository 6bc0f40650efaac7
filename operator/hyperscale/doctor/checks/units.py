"""Units that betray themselves: bytes for MiB, milliseconds for seconds, ratios for percent. Pure."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Final, NamedTuple

from hyperscale.doctor.common import field_of, gpu_nodes, labels_of, set_query
from hyperscale.doctor.facts import Facts
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.findings import Finding, FindingState
from hyperscale.doctor.series import SeriesFigure
from hyperscale.observe.kube.node_labels import gpu_memory_bytes

MIB: Final = 2.0**20
_MEMORY: Final = ("memory_used", "memory_free", "memory_reserved")
_SUSPECT_MIB: Final = 16.0 * 2**20
"""16 TiB of MiB."""


class Guess(NamedTuple):
    """A unit that the values seem to have."""

    unit: str
    wanted: str
    factor: str
    """What follows the query to set it right."""


def wrong_unit(facts: Facts, figure: str, summary: SeriesFigure) -> Finding | None:
    """A finding where the values only make sense in another unit."""
    guess = _guess(facts, figure, summary)
    if guess is None:
        return None
    return Finding(
        "queries",
        Fault.WRONG_UNIT,
        FindingState.ERROR,
        f"{field_of(figure)}: values from {summary.low:.4g} to {summary.high:.4g}, median {summary.middle:.4g}, are hardly {guess.wanted}",
        f"the query gives {guess.unit}",
        set_query(facts, figure, f"({summary.query}) {guess.factor}"),
    )


def _guess(facts: Facts, figure: str, summary: SeriesFigure) -> Guess | None:
    if not summary.finite:
        return None
    if figure in _MEMORY:
        return _memory(facts)
    rule = _RULES.get(figure)
    return rule(summary) if rule is not None else None


def _memory(facts: Facts) -> Guess | None:
    """By the label of GPU Feature Discovery where there is one: a part of a GPU's memory is not larger than the whole."""
    labelled = [size for node in gpu_nodes(facts) if (size := gpu_memory_bytes(labels_of(node)))]
    whole = median(labelled) / MIB if labelled else _SUSPECT_MIB
    # Reserved memory alone is too small to tell bytes from KiB: an exporter has one unit for all three.
    most = max((one.high for figure in _MEMORY if (one := facts.metrics.figures.get(figure)) is not None), default=0.0)
    if most > 64 * whole * 1024:
        return Guess("bytes", "MiB", "/ 1048576")
    if most > 8 * whole:
        return Guess("KiB", "MiB", "/ 1024")
    return None


def _utilization(summary: SeriesFigure) -> Guess | None:
    if summary.high <= 1.0 and summary.fractions:
        return Guess("a ratio from 0 to 1", "percent", "* 100")
    return Guess("hundredths of a percent", "percent", "/ 100") if 100 < summary.middle <= 10_000 else None


def _power(summary: SeriesFigure) -> Guess | None:
    return Guess("milliwatts", "watts", "/ 1000") if summary.middle > 5000 else None


def _temperature(summary: SeriesFigure) -> Guess | None:
    if 273 <= summary.middle < 423:
        return Guess("kelvin", "degrees Celsius", "- 273.15")
    return Guess("millidegrees", "degrees Celsius", "/ 1000") if summary.middle > 5000 else None


def _latency(summary: SeriesFigure) -> Guess | None:
    """One way between two nodes of one cluster is below 0.3 s, even by satellite, and not below a microsecond."""
    if summary.middle > 2000:
        return Guess("microseconds", "seconds", "/ 1000000")
    return Guess("milliseconds", "seconds", "/ 1000") if summary.middle > 0.5 else None


def _bandwidth(summary: SeriesFigure) -> Guess | None:
    """Slower than 100 kB/s trains nothing; 1 to 800 is what links have in Gbit/s."""
    if 0 < summary.middle <= 3200:
        return Guess("Gbit/s", "bytes a second", "* 125000000")
    return Guess("Mbit/s", "bytes a second", "* 125000") if 3200 < summary.middle < 100_000 else None


_RULES: Final[dict[str, Callable[[SeriesFigure], Guess | None]]] = {
    "gpu_utilization": _utilization,
    "power": _power,
    "temperature": _temperature,
    "link_latency": _latency,
    "link_bandwidth": _bandwidth,
}
