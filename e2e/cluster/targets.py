"""Pods on real nodes that ask Prometheus to scrape them, as its HTTP discovery wants them. Pure.

Debian's build of Prometheus was made without the discovery that asks Kubernetes itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

_ANNOTATION: Final = "prometheus.io/"


class Targets:
    """The pods of the nodes `nodes` that run and carry the annotation prometheus.io/scrape."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._nodes = frozenset(nodes)
        self._found: dict[str, dict[str, Any]] = {}

    def replace(self, pods: Iterable[dict[str, Any]]) -> None:
        """Take the result of a list: what is not in it is gone."""
        self._found.clear()
        for pod in pods:
            self.changed(pod)

    def changed(self, pod: dict[str, Any]) -> None:
        """Take one pod as it is now."""
        uid, status = pod["metadata"]["uid"], pod.get("status", {})
        annotations = pod["metadata"].get("annotations") or {}
        wanted = annotations.get(f"{_ANNOTATION}scrape") == "true" and status.get("phase") == "Running" and status.get("podIP")
        if not wanted or pod["spec"].get("nodeName") not in self._nodes:
            self._found.pop(uid, None)
            return
        self._found[uid] = {
            "targets": [f"{status['podIP']}:{annotations.get(f'{_ANNOTATION}port', '80')}"],
            "labels": {
                "__metrics_path__": annotations.get(f"{_ANNOTATION}path", "/metrics"),
                "namespace": pod["metadata"]["namespace"],
                "pod": pod["metadata"]["name"],
            },
        }

    def gone(self, uid: str) -> None:
        """Take a deletion."""
        self._found.pop(uid, None)

    def render(self) -> str:
        """JSON for http_sd_configs."""
        return json.dumps([self._found[uid] for uid in sorted(self._found)])
