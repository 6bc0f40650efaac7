"""Lives of nodes, from what the operator sees of them: in service while Ready, ended by a failure or by people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from hyperscale.evaluate.calibration.lessons import MAX_LIVES, NodeLife
from hyperscale.observe.kube.fields import is_gpu_node
from hyperscale.observe.kube.nested import entries
from hyperscale.observe.kube.node_labels import gpu_product
from hyperscale.util.rfc3339 import CLOCK_SKEW_SECONDS, unix_seconds

Json = dict[str, Any]

PLANNED: Final = "planned"
"""Cause of a removal by people or an autoscaler: it says nothing of how nodes fail."""
NOT_READY: Final = "NotReady"
"""The kubelet says that the node cannot run pods."""
UNREACHABLE: Final = "Unreachable"
"""The kubelet says nothing."""
HEALTHY: Final = "healthy"
"""Cause of an end that only dates a short unreadiness, so that a later process does not take it for a failure."""
MISSED: Final = "FailedUnobserved"
"""The node became Ready again while no operator ran."""
MIN_DOWN_SECONDS: Final = 60.0
"""Not ready for a shorter time is no failure: pods go on, and a kubelet that restarts looks like that.
A node that vanishes so soon was shut down: what fails is missed for minutes before anything deletes it."""
LEAVING: Final = frozenset({"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"})
"""Taints of a node that an autoscaler takes out of the cluster."""
MAX_NAME: Final = 253


class NodeWatch:
    """Compares the nodes of now with their lives so far."""

    def __init__(self) -> None:
        """Nothing is noted before `begin`."""
        self.pending: dict[tuple[str, float], NodeLife] = {}
        """Lives that began or ended and are not written yet."""
        self._open: dict[str, NodeLife] | None = None
        self._down_since: dict[str, float] = {}
        self._judged: dict[str, Json] = {}
        """Nodes in service as they were judged last."""

    @property
    def begun(self) -> bool:
        """Whether lives of earlier processes were read."""
        return self._open is not None

    def begin(self, lives: Iterable[NodeLife]) -> None:
        """Take over the lives that an earlier process wrote."""
        self._open = {life.node: life for life in lives if life.remove_seconds is None}

    def look(self, nodes: Iterable[Json], now: float) -> None:
        """Note which lives began or ended by `now` (Unix seconds). Nodes without GPUs do not count."""
        if self._open is None:
            return
        present = self._present(nodes)
        for name in sorted(self._open.keys() - present.keys()):
            down = self._down_since.pop(name, None)
            planned = down is None or now - down < MIN_DOWN_SECONDS
            self._end(name, now if down is None else down, PLANNED if planned else UNREACHABLE)
        for name, node in present.items():
            if self._judged.get(name) is not node or name in self._down_since:
                self._judge(name, node, now)
        self._judged = {name: node for name, node in present.items() if name in self._open}

    def _present(self, nodes: Iterable[Json]) -> dict[str, Json]:
        """Nodes by name. A device plugin that fails offers no GPUs, and the node is still there."""
        named = {node["metadata"]["name"]: node for node in nodes}
        return {name: node for name, node in named.items() if name in (self._open or {}) or is_gpu_node(node)}

    def _judge(self, name: str, node: Json, now: float) -> None:
        if _ready(node)[0] == "True":
            self._down_since.pop(name, None)
            self._judge_ready(name, node, now)
        elif self._open is not None and name in self._open:
            self._judge_down(name, node, now)

    def _judge_ready(self, name: str, node: Json, now: float) -> None:
        """Begin a life; end one before it where the node was not ready meanwhile."""
        life, since = (self._open or {}).get(name), _ready(node)[1]
        if life is not None and since is not None:
            before = self._judged.get(name)
            if before is None and since > life.insert_seconds + CLOCK_SKEW_SECONDS:
                self._end(name, min(since, now), MISSED)
            elif before is not None and _ready(before)[1] not in (None, since):
                self._end(name, now, HEALTHY)
        if self._open is not None and name not in self._open:
            product = gpu_product(node["metadata"].get("labels") or {}) or ""
            self._open[name] = self._note(NodeLife(name[:MAX_NAME], product, now))

    def _judge_down(self, name: str, node: Json, now: float) -> None:
        """End a life that people ended, or that has been down for long enough."""
        down = self._down_since.setdefault(name, now)
        if node["spec"].get("unschedulable") or _is_leaving(node):
            self._end(name, now, PLANNED)
        elif now - down >= MIN_DOWN_SECONDS:
            self._end(name, down, NOT_READY if _ready(node)[0] == "False" else UNREACHABLE)

    def _end(self, name: str, at: float, cause: str) -> None:
        if self._open is None or (life := self._open.pop(name, None)) is None:
            return
        self._down_since.pop(name, None)
        self._note(replace(life, remove_seconds=max(at, life.insert_seconds), cause=cause))

    def _note(self, life: NodeLife) -> NodeLife:
        while len(self.pending) >= MAX_LIVES:
            del self.pending[next(iter(self.pending))]
        self.pending[life.node, life.insert_seconds] = life
        return life


def _is_leaving(node: Json) -> bool:
    """Whether an autoscaler has marked the node for its removal."""
    return any(taint.get("key") in LEAVING for taint in entries(node["spec"], "taints"))


def _ready(node: Json) -> tuple[str, float | None]:
    """Status of the node's condition Ready, and since when (Unix seconds) where that can be read."""
    for condition in node["status"].get("conditions") or ():
        if condition.get("type") == "Ready":
            try:
                since = unix_seconds(str(condition.get("lastTransitionTime") or ""))
            except ValueError:
                return str(condition.get("status")), None
            return str(condition.get("status")), since if since < float("inf") else None
    return "Unknown", None
