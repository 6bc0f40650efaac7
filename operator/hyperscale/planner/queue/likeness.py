"""Whether an agent was judged on streams like a cluster's: ranges of its manifest, and the cluster's own figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

MIN_ARRIVALS: Final = 20
"""Jobs that must have come before the load of a cluster counts as known."""
MOST_SHOWN_LOAD: Final = 100
"""Jobs that all came at once leave no time between them, and a load of 10^15."""


class FigureRange(msgspec.Struct, frozen=True, rename="camel"):
    """From the least to the largest value on the streams that were judged."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether the value lies in it; a NaN does not."""
        return self.low <= value <= self.high


class JudgedStreams(msgspec.Struct, frozen=True, rename="camel"):
    """What the streams were like on which the guard accepted an agent."""

    nodes: FigureRange
    """Nodes with GPUs."""
    worker_slots: FigureRange
    """Workers of a typical job that the whole cluster holds."""
    speed_spread: FigureRange
    """Speed of the fastest node's GPU over the slowest node's."""
    largest_share: FigureRange
    """Slots of the largest job over all slots."""
    load: FigureRange
    """Slot seconds that arrive over those that there are, as `arrival_history.load` counts."""
    gap_variation: FigureRange | None = None
    """As `arrival_history.gap_variation`; None: not known, any is like them."""
    least_bound_runs: float = 0.0
    """Shortest starvation bound that was judged, in mean runs; a shorter one overrules every chooser more often."""
    streams: int = 0
    """Of all sources."""
    source: str = ""
    """Families, or the history that they come from."""


class QueueProfile(msgspec.Struct, frozen=True, rename="camel"):
    """The same figures of one cluster."""

    nodes: int
    worker_slots: float
    speed_spread: float
    largest_share: float
    load: float
    arrivals: int
    gap_variation: float
    bound_runs: float
    """Starvation bound over the mean run; +inf without a bound."""


def unlike(judged: JudgedStreams, own: QueueProfile) -> str:
    """Say why the cluster's streams are not like the judged ones; empty where they are."""
    return next(_differences(judged, own), "")


def _differences(judged: JudgedStreams, own: QueueProfile) -> Iterator[str]:
    for name, span, value in (
        ("nodes with GPUs", judged.nodes, own.nodes),
        ("typical workers in the cluster", judged.worker_slots, own.worker_slots),
        ("speed of the fastest GPU over the slowest", judged.speed_spread, own.speed_spread),
        ("share of the largest job", judged.largest_share, own.largest_share),
    ):
        if not span.holds(value):
            yield f"{name}: {value:.3g}, judged on {span.low:.3g} to {span.high:.3g}"
    if own.arrivals < MIN_ARRIVALS:
        yield f"arrivals: {own.arrivals} jobs are known of, {MIN_ARRIVALS} are needed to know the load"
    elif not judged.load.holds(own.load):
        load = f"{own.load:.3g}" if not own.load > MOST_SHOWN_LOAD else f"above {MOST_SHOWN_LOAD}, since many jobs came at once"
        yield f"load: {load}, judged on {judged.load.low:.3g} to {judged.load.high:.3g}"
    elif judged.gap_variation is not None and not judged.gap_variation.holds(own.gap_variation):
        yield (
            f"squared variation of the gaps between arrivals: {own.gap_variation:.3g}, "
            f"judged on {judged.gap_variation.low:.3g} to {judged.gap_variation.high:.3g}"
        )
    elif not own.bound_runs >= judged.least_bound_runs:
        yield f"starvationSeconds: {own.bound_runs:.3g} mean runs, judged on at least {judged.least_bound_runs:.3g}"
