"""What the series of one query amount to: how many, whose, how old, how plausible. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median_low
from typing import Final

import msgspec

from hyperscale.model.metrics_reading import Series

LINK_FIGURES: Final = ("link_latency", "link_bandwidth")
MAX_EXAMPLES: Final = 3
_TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`")
_SELECTOR = re.compile(r"\{([^{}]*)\}")
_LABEL_LIST = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_NAME = re.compile(r"(?<![\w:.])([a-zA-Z_:][\w:]*)(?!\s*\()(?![\w:])")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_WORDS: Final = frozenset(
    "and or unless bool offset by without on ignoring group_left group_right inf nan atan2 start end".split()  # noqa: SIM905
)


class SeriesFigure(msgspec.Struct, frozen=True):
    """One query's answer in a few numbers."""

    query: str
    failure: tuple[str, str] | None = None
    """Reason and message of a query that failed."""
    count: int = 0
    """Series."""
    placed: int = 0
    """Series that lead to a node of this cluster; for links to two."""
    strangers: tuple[dict[str, str], ...] = ()
    """Labels of a few series that lead nowhere."""
    labels: frozenset[str] = frozenset()
    """Label names that occur."""
    finite: int = 0
    low: float = 0.0
    middle: float = 0.0
    """Median of the finite values, as the query gives them."""
    high: float = 0.0
    fractions: int = 0
    """Values strictly between 0 and 1."""
    faults: dict[str, int] = {}
    """Unusable series by fault, in the words of observe.quality."""
    age_seconds: float | None = None
    """Median age of the samples; None where Prometheus did not tell."""
    alone: dict[str, int] = {}
    """For an empty query: series of each metric in it without its selectors."""
    alone_labels: frozenset[str] = frozenset()
    """Label names of those."""


def summarize(
    query: str,
    series: Sequence[Series],
    place: Callable[[Mapping[str, str]], object | None],
    fault: Callable[[float, float], str | None],
    now: float,
) -> SeriesFigure:
    """The figure that `series` amount to.

    place: what a series' labels lead to, None for nowhere
    fault: (value, timestamp) to what is wrong with it, None for nothing
    now:   Unix seconds by the clock that the timestamps are compared with
    """
    unplaced = [one.labels for one in series if place(one.labels) is None]
    faults = Counter(filter(None, (fault(one.value, one.timestamp) for one in series)))
    values = sorted(one.value for one in series if math.isfinite(one.value))
    low, middle, high = _spread(values)
    return SeriesFigure(
        query=query,
        count=len(series),
        placed=len(series) - len(unplaced),
        strangers=tuple(dict(sorted(labels.items())) for labels in unplaced[:MAX_EXAMPLES]),
        labels=frozenset(label for one in series for label in one.labels),
        finite=len(values),
        low=low,
        middle=middle,
        high=high,
        fractions=sum(0 < value < 1 for value in values),
        faults=dict(sorted(faults.items())),
        age_seconds=median_low(now - one.timestamp for one in series) if series else None,
    )


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Smallest, median and largest of sorted values; zeros where there are none."""
    return (values[0], median_low(values), values[-1]) if values else (0.0, 0.0, 0.0)


def metric_names(query: str) -> tuple[str, ...]:
    """Names of the metrics that a PromQL expression reads, in order, each once."""
    bare = _RANGE.sub(" ", _LABEL_LIST.sub(" ", _SELECTOR.sub(" ", _TEXT.sub(" ", query))))
    names = (name for name in _NAME.findall(bare) if name.lower() not in _WORDS)
    return tuple(dict.fromkeys(names))


def selector_labels(query: str) -> tuple[str, ...]:
    """Names of the labels that the expression selects by, in order, each once."""
    inside: Iterable[str] = _SELECTOR.findall(_TEXT.sub('""', query))
    return tuple(dict.fromkeys(label for part in inside for label in _MATCHER.findall(part)))
