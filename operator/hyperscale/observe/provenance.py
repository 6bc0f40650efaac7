"""Who exported a series, and whose word counts first where several say something of one thing. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hyperscale.model.cluster import Origin
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.observe.identity import POD_LABELS

RANKS: Final[Mapping[str, int]] = {origin.value: place for place, origin in enumerate(Origin)}
"""Precedence: the order in which `Origin` lists them."""
_TARGET_POD: Final = POD_LABELS[0]


class Agents:
    """The scrape targets that are node agents of ours: those that serve the agent's state.

    An agent serves the same metric names as DCGM exporter, and Prometheus may give its jobs and pods any name; only the target tells.
    """

    def __init__(self, reading: MetricsReading) -> None:
        states = reading.series.get("agent_state", ())
        self._instances = {one.labels["instance"] for one in states if one.labels.get("instance")}
        self._pods = {pod for one in states if (pod := _target_pod(one.labels))}

    @property
    def targets(self) -> frozenset[object]:
        """All of them; equal sets tell the same of every series."""
        return frozenset({*self._instances, *self._pods})

    def __bool__(self) -> bool:
        return bool(self._instances or self._pods)

    def exported(self, labels: Mapping[str, str]) -> bool:
        """Whether a series with these labels is an agent's."""
        return labels.get("instance") in self._instances or (bool(self._pods) and _target_pod(labels) in self._pods)


def rank(source: str) -> int:
    """Place in the precedence, 0 first; what is not known comes last."""
    return RANKS.get(source, len(RANKS))


def _target_pod(labels: Mapping[str, str]) -> tuple[str, str] | None:
    namespace, pod = (labels.get(key, "") for key in _TARGET_POD)
    return (namespace, pod) if namespace and pod else None
