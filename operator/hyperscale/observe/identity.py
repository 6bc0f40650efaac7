"""Which node a series speaks of: exporters name nodes in many ways. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hyperscale.model.cluster import Origin
from hyperscale.model.constants import HOSTNAME_LABEL
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.model.pods import PodView

# Labels that Prometheus relabelling writes come first: they are set per target, an exporter cannot get them wrong.
# Hostname became hostname in dcgm-exporter#655 and may hold the exporter pod's name (dcgm-exporter#78).
NODE_LABELS: Final = ("node", "kubernetes_node", "exported_node", "Hostname", "hostname", "nodename", "instance")
POD_LABELS: Final = (("namespace", "pod"), ("exported_namespace", "exported_pod"))


class NodeIndex:
    """Every name by which a node of this cluster may be called."""

    def __init__(self, nodes: Iterable[Mapping[str, Any]], pods: Iterable[PodView] = ()) -> None:
        """Index raw v1 Node objects and bound pods; a name that two nodes share resolves to neither."""
        self.names: set[str] = set()
        self._aliases: dict[str, str] = {}
        self._pods: dict[tuple[str, str], str] = {}
        self._pod_names: dict[str, str] = {}
        self._found: dict[str, str | None] = {}
        self._asked_names: dict[str, str] = {}
        self._asked_pods: dict[tuple[str, str], str] = {}
        self._unread: tuple[PodView, ...] = tuple(pods)
        """Pods not entered yet: few exporters call their node by a pod's name, and there may be many thousand pods."""
        listed = list(nodes)
        self.names.update(str(node["metadata"]["name"]) for node in listed)
        for node in listed:
            self._add_node(node)

    def with_pods(self, pods: Iterable[PodView]) -> NodeIndex:
        """An index of the same nodes and other pods."""
        index = NodeIndex(())
        index.names, index._aliases, index._unread = self.names, self._aliases, tuple(pods)
        return index

    def _enter_pods(self) -> None:
        for pod in self._unread:
            if pod.holds_resources:
                self._pods[pod.namespace, pod.name] = pod.node
                _claim(self._pod_names, pod.name, pod.node)
        self._unread = ()

    def _add_node(self, node: Mapping[str, Any]) -> None:
        name = str(node["metadata"]["name"])
        for alias in aliases_of(node):
            if alias not in self.names:
                _claim(self._aliases, alias, name)

    def node(self, text: str) -> str | None:
        """The node called `text`: its name, hostname label, address (with or without a port), short name, or a bound pod's name."""
        if text in self.names:
            return text
        if text not in self._found:
            self._found[text] = self._look_up(text)
        return self._found[text]

    def _look_up(self, text: str) -> str | None:
        host = _without_port(text)
        for key in (text, host):
            if name := self._aliases.get(key):
                return name
        if host in self.names:
            return host
        self._enter_pods()
        self._asked_names[text] = self._pod_names.get(text) or self._pod_names.get(host) or ""
        return self._asked_names[text] or None

    def of_series(self, labels: Mapping[str, str]) -> str | None:
        """The node that a series with these labels was measured on; None when no label leads to one."""
        for key in NODE_LABELS:
            if (text := labels.get(key)) and (name := self.node(text)):
                return name
        for namespace_key, pod_key in POD_LABELS:
            if pod := labels.get(pod_key):
                place = labels.get(namespace_key, ""), pod
                self._enter_pods()
                self._asked_pods[place] = self._pods.get(place, "")
                if self._asked_pods[place]:
                    return self._asked_pods[place]
        return None

    def agrees_with(self, later: NodeIndex) -> bool:
        """True when `later` would have given every answer that this index has given so far."""
        if self._asked_names or self._asked_pods:
            later._enter_pods()
        return (
            self.names == later.names
            and self._aliases == later._aliases
            and all(
                (later._pod_names.get(text) or later._pod_names.get(_without_port(text)) or "") == node
                for text, node in list(self._asked_names.items())  # a thread may be adding to it
            )
            and all(later._pods.get(place, "") == node for place, node in list(self._asked_pods.items()))
        )


def aliases_of(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Names besides its own by which a raw v1 Node may be called, sorted."""
    metadata = node["metadata"]
    addresses = [str(entry.get("address", "")) for entry in (node.get("status") or {}).get("addresses") or ()]
    names = {str(metadata["name"]).partition(".")[0], str((metadata.get("labels") or {}).get(HOSTNAME_LABEL, "")), *addresses}
    return tuple(sorted(alias for alias in names if alias))


def _claim(table: dict[str, str], alias: str, name: str) -> None:
    """Enter `alias`, or blank it when another node has it already."""
    table[alias] = name if table.get(alias, name) == name else ""


def _without_port(text: str) -> str:
    """Host of host:port and [v6]:port; the text itself otherwise."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or (":" in host and not host.startswith("[")):
        return text
    return host.strip("[]")


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
