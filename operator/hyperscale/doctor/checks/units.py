"""Units that betray themselves: bytes for MiB, milliseconds for seconds, ratios for percent. Pure."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Final, NamedTuple

from hyperscale.doctor.common import field_of, gpu_nodes, labels_of, set_query
from hyperscale.doctor.facts import Facts
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.findings import Finding, finding
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


_RULES: Final[dict[str, tuple[tuple[Callable[[SeriesFigure], bool], Guess], ...]]] = {
    "gpu_utilization": (
        (lambda one: one.high <= 1.0 and one.fractions > 0, Guess("a ratio from 0 to 1", "percent", "* 100")),
        (lambda one: 100 < one.middle <= 10_000, Guess("hundredths of a percent", "percent", "/ 100")),
    ),
    "power": ((lambda one: one.middle > 5000, Guess("milliwatts", "watts", "/ 1000")),),
    "temperature": (
        (lambda one: 273 <= one.middle < 423, Guess("kelvin", "degrees Celsius", "- 273.15")),
        (lambda one: one.middle > 5000, Guess("millidegrees", "degrees Celsius", "/ 1000")),
    ),
    # One way between two nodes of one cluster is below 0.3 s, even by satellite, and not below a microsecond.
    "link_latency": (
        (lambda one: one.middle > 2000, Guess("microseconds", "seconds", "/ 1000000")),
        (lambda one: one.middle > 0.5, Guess("milliseconds", "seconds", "/ 1000")),
    ),
    # Slower than 100 kB/s trains nothing; 1 to 800 is what links have in Gbit/s.
    "link_bandwidth": (
        (lambda one: 0 < one.middle <= 3200, Guess("Gbit/s", "bytes a second", "* 125000000")),
        (lambda one: 3200 < one.middle < 100_000, Guess("Mbit/s", "bytes a second", "* 125000")),
    ),
}
"""What the values of a figure may be instead, the first that fits; memory has a rule of its own."""


def wrong_unit(facts: Facts, figure: str, summary: SeriesFigure) -> Finding | None:
    """A finding where the values only make sense in another unit."""
    guesses = (guess for fits, guess in _RULES.get(figure, ()) if fits(summary))
    guess = None if not summary.finite else _memory(facts) if figure in _MEMORY else next(guesses, None)
    if guess is None:
        return None
    return finding(
        Fault.WRONG_UNIT,
        f"{field_of(figure)}: values from {summary.low:.4g} to {summary.high:.4g}, median {summary.middle:.4g}, are hardly {guess.wanted}",
        f"the query gives {guess.unit}",
        set_query(facts, figure, f"({summary.query}) {guess.factor}"),
    )


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
