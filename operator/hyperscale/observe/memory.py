"""What one snapshot leaves for the next: of 5,000 nodes one pod moved, and all the others are the objects of last time. Pure.

Everything here is found again by identity or by equality with what it was made from, so that a snapshot built with a memory equals one
built without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hyperscale.model.cluster import MetricsState, Node
from hyperscale.model.pods import PodView
from hyperscale.model.policy import Overrides, QualityLimits
from hyperscale.observe import labels
from hyperscale.observe.demand import Amounts
from hyperscale.observe.fabric import Claims, Fabric, declared_levels
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.kube import is_gpu_node, requested_by_node
from hyperscale.observe.overlay import overlaid
from hyperscale.observe.released import PodName, Release

if TYPE_CHECKING:
    from hyperscale.observe.snapshot import Figures

RawNode = Mapping[str, Any]
Make = Callable[[RawNode, Amounts, tuple[str, ...], "Figures", Mapping[PodName, bool], tuple[Release, ...]], Node]

LARGE_SERIES: Final = 10_000
"""More series than these are not judged on the event loop when a node comes or goes: that takes a tenth of a second and more."""
_NOTHING: Final[Amounts] = {}


class Memory:
    """Nodes, pods and views of the last snapshot, and the figures judged last. Not for two threads at once."""

    def __init__(self) -> None:
        self.published: Figures | None = None
        """Figures that somebody judged beforehand, for the reading that they were made from."""
        self.outdated = False
        """Names of nodes have changed since `published` was judged, and there was too much of it to judge it again at once."""
        self.laid: tuple[Overrides, Fabric] = (Overrides(), Fabric())
        """Topology that is not on the nodes: an administrator's word, and what other operators describe."""
        self.claims = Claims()
        """What the fabric's HyperNodes say of nodes; found beforehand where there may be many."""
        self._raw: tuple[tuple[RawNode, ...], tuple[Overrides, Fabric]] = ((), self.laid)
        self._listed: tuple[RawNode, ...] = ()
        self.gpu_nodes: tuple[RawNode, ...] = ()
        """Nodes with GPUs, sorted by name; the same tuple as long as they are equal."""
        self._detected: tuple[str, ...] = ()
        self._index = NodeIndex(())
        self._pods: dict[PodName, PodView] = {}
        self._pods_on: dict[str, dict[PodName, PodView]] = {}
        self._held: dict[str, Amounts] = {}
        self._tenants: dict[PodName, bool] = {}
        self._views: dict[str, tuple[tuple[object, ...], Node]] = {}

    def see(self, nodes: Iterable[RawNode], pods: Iterable[PodView]) -> NodeIndex:
        """Take in all nodes and pods; the index of names."""
        seen, given = tuple(pods), (tuple(nodes), self.laid)
        listed, fabric = self._listed, self.laid[1]
        if given != self._raw:
            if fabric.hypernodes != self.claims.hypernodes:
                self.claims = Claims(fabric.hypernodes)
            listed = tuple(overlaid(given[0], self.laid[0], self.claims.labels(given[0])))
        if listed != self._listed or fabric.topologies != self._raw[1][1].topologies:
            by_name = sorted((node for node in listed if is_gpu_node(node)), key=lambda node: str(node["metadata"]["name"]))
            self._listed = listed
            label_sets = [node["metadata"].get("labels") or {} for node in by_name]
            self._detected = labels.detect_levels(label_sets, declared_levels(fabric.topologies, label_sets))
            if tuple(by_name) != self.gpu_nodes:
                self.gpu_nodes = tuple(by_name)
                self._index = NodeIndex(by_name)
                self._views = {name: self._views[name] for node in by_name if (name := node["metadata"]["name"]) in self._views}
        self._raw = given
        self._see_pods(seen)
        self._index = self._index.with_pods(seen)
        return self._index

    def _see_pods(self, pods: Sequence[PodView]) -> None:
        """Only what differs from last time is reckoned anew."""
        known = self._pods
        changed = [pod for pod in pods if (before := known.get((pod.namespace, pod.name))) is not pod and before != pod]
        gone: set[PodName] = set()
        if len(pods) != len(known) or changed:
            gone = known.keys() - {(pod.namespace, pod.name) for pod in pods}
        touched: set[str] = set()
        for name in gone:
            self._leave(name, touched)
        for pod in changed:
            name = (pod.namespace, pod.name)
            self._leave(name, touched)
            known[name] = pod
            if pod.holds_resources:
                self._pods_on.setdefault(pod.node, {})[name] = pod
                self._tenants[name] = pod.gpus > 0
                touched.add(pod.node)
        for node in touched:
            if on := self._pods_on.get(node):
                self._held[node] = requested_by_node(on.values()).get(node, _NOTHING)
            else:  # autoscalers give every node a new name, for ever
                self._pods_on.pop(node, None)
                self._held.pop(node, None)

    def _leave(self, name: PodName, touched: set[str]) -> None:
        before = self._pods.pop(name, None)
        self._tenants.pop(name, None)
        if before is not None and before.holds_resources:
            self._pods_on[before.node].pop(name, None)
            touched.add(before.node)

    def levels(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
        """Topology label keys: those chosen, else those detected."""
        return chosen or self._detected

    def figures(self, reading: object, limits: QualityLimits, stale: bool) -> Figures | None:
        """The figures judged beforehand where they are still true; None where they have to be judged anew.

        Many series are never judged here, where the event loop waits: for a few seconds a node that just came has no figures, and limits
        that just changed do not hold. A reading that is stale as a whole tells nothing, whatever each series would say.
        """
        known = self.published
        if known is None or known.reading is not reading:
            return None
        large = sum(map(len, known.reading.series.values())) > LARGE_SERIES
        if stale:
            return _nothing_of(known) if large else None
        if known.limits != limits or not known.names.agrees_with(self._index):
            if not large:
                return None
            self.outdated = True
        return known

    def view(self, node: RawNode, levels: tuple[str, ...], figures: Figures, releases: tuple[Release, ...], make: Make) -> Node:
        """The view that `make` makes of a node, or made of the same node before."""
        name = node["metadata"]["name"]
        held, holders = self._held.get(name, _NOTHING), figures.holders.get(name)
        told = tuple(map(self._tenants.get, holders.values())) if holders else ()
        moment = figures.moment if releases else 0.0
        network = figures.networks.get(name), figures.paths.get(name)
        basis = (node, held, figures.gpus.get(name), levels, holders, network, told, releases, moment, figures.limits.settle_seconds)
        known = self._views.get(name)
        if known is not None and known[0] == basis:  # the same objects, most of them, which is known at a glance
            return known[1]
        made = make(node, held, levels, figures, self._tenants, releases)
        self._views[name] = (basis, made)
        return made


def _nothing_of(figures: Figures) -> Figures:
    """What is left of figures that are older than the limit all together."""
    state = figures.state
    if state.available:
        state = MetricsState(False, "MetricsStale", "the last reading is older than the limit", state.failed_queries)
    return figures._replace(gpus={}, links=(), holders={}, networks={}, paths={}, state=state)
