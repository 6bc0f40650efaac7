"""What one snapshot leaves for the next: of 5,000 nodes one pod moved, and all the others are the objects of last time. Pure.

Everything here is found again by identity or by equality with what it was made from, so that a snapshot built with a memory equals one
built without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hyperscale.model.api.policy import Overrides, QualityLimits
from hyperscale.model.cluster import MetricsState, Node
from hyperscale.model.pods import PodView
from hyperscale.observe.identity import NodeIndex, aliases_of
from hyperscale.observe.kube import node_labels
from hyperscale.observe.kube.demand import Amounts
from hyperscale.observe.kube.fabric import Fabric, FabricClaims, declared_levels
from hyperscale.observe.kube.fields import is_gpu_node, requested_by_node
from hyperscale.observe.kube.overrides import overlaid
from hyperscale.observe.series.recently_freed import PodName, Release

if TYPE_CHECKING:
    from hyperscale.observe.snapshot.build_snapshot import SnapshotFigures

RawNode = Mapping[str, Any]
Make = Callable[[RawNode, Amounts, tuple[str, ...], "SnapshotFigures", Mapping[PodName, bool], tuple[Release, ...]], Node]

LARGE_SERIES: Final = 10_000
"""Above this number series are not judged on the event loop when a node comes or goes: that takes 0.1 s or more."""
_NOTHING: Final[Amounts] = {}


class _Traits(NamedTuple):
    """What of a node's object is found out once."""

    node: RawNode
    has_gpus: bool
    level_keys: tuple[str, ...]
    aliases: tuple[str, ...]


class _Last(NamedTuple):
    """The views of the last snapshot, and what they were made for."""

    order: dict[str, int]
    levels: tuple[str, ...]
    figures: SnapshotFigures
    released: frozenset[str]
    views: tuple[Node, ...]


class Memory:
    """Nodes, pods and views of the last snapshot, and the figures judged last. Not for two threads at once."""

    def __init__(self) -> None:
        self.published: SnapshotFigures | None = None
        """Figures that a thread judged beforehand, with the reading that they were judged from."""
        self.judged: SnapshotFigures | None = None
        """Judged last for a snapshot, of a reading in time: nodes and pods change many times between two, and change no figure."""
        self.outdated = False
        """Names of nodes have changed since `published` was judged, and the reading was too large to be judged again at once."""
        self.laid: tuple[Overrides, Fabric] = (Overrides(), Fabric())
        """Topology that is not on the nodes: an administrator's word, and what other operators describe."""
        self.claims = FabricClaims()
        """What the fabric's HyperNodes say of nodes; found beforehand where there may be many."""
        self._raw: tuple[tuple[RawNode, ...], tuple[Overrides, Fabric]] = ((), self.laid)
        self._listed: tuple[RawNode, ...] = ()
        self.gpu_nodes: tuple[RawNode, ...] = ()
        """Nodes with GPUs, sorted by name; the same tuple as long as they are equal."""
        self._detected: tuple[str, ...] = ()
        self._traits: dict[str, _Traits] = {}
        self._aliases: tuple[tuple[str, tuple[str, ...]], ...] = ()
        """Names and aliases of the nodes that the index was made from."""
        self._index: NodeIndex | None = None
        self._listed_pods: tuple[PodView, ...] = ()
        self._pods: dict[PodName, PodView] = {}
        self._pods_on: dict[str, dict[PodName, PodView]] = {}
        self._held: dict[str, Amounts] = {}
        self._tenants: dict[PodName, bool] = {}
        self._views: dict[str, tuple[tuple[object, ...], Node]] = {}
        self.moved: dict[PodName, PodView | None] | None = None
        """Pods that changed since `see`, None for those that are gone, where the keeper of the pods says so; None: all are compared."""
        self._order: dict[str, int] = {}
        """Place of each GPU node; another object when their names change."""
        self._touched: set[str] = set()
        """Nodes that may have another view than in the last snapshot, by the node itself or its pods."""
        self._last: _Last | None = None
        self._named: tuple[SnapshotFigures, dict[PodName, list[str]]] | None = None
        """Nodes on which figures name a pod."""

    def see(self, nodes: Iterable[RawNode], pods: Iterable[PodView]) -> NodeIndex:
        """Take in all nodes and pods; the index of names."""
        self.take_in(nodes, pods)
        return self.index()

    def take_in(self, nodes: Iterable[RawNode], pods: Iterable[PodView]) -> None:
        """Take in all nodes and pods."""
        listed_pods, given = tuple(pods), (tuple(nodes), self.laid)
        listed, fabric = self._listed, self.laid[1]
        if given != self._raw:
            if fabric.hypernodes != self.claims.hypernodes:
                self.claims = FabricClaims(fabric.hypernodes)
            listed = tuple(overlaid(given[0], self.laid[0], self.claims.labels(given[0])))
        if listed != self._listed or fabric.topologies != self._raw[1][1].topologies:
            self._listed = listed
            self._see_nodes(listed, fabric.topologies)
        self._raw = given
        self._see_pods(listed_pods)
        self._listed_pods = listed_pods

    def index(self) -> NodeIndex:
        """Names by which series are assigned to the nodes and pods that were taken in last."""
        if self._index is None:
            self._index = NodeIndex(self.gpu_nodes)
        return self._index.with_pods(self._listed_pods)

    def _see_nodes(self, listed: Iterable[RawNode], topologies: Iterable[tuple[str, ...]]) -> None:
        """Only nodes whose objects are others than last time are looked at."""
        before, self._traits = self._traits, {}
        for node in listed:
            name = str(node["metadata"]["name"])
            last = before.get(name)
            self._traits[name] = last if last is not None and last.node is node else _traits(node)
        by_name = [one for _, one in sorted(self._traits.items()) if one.has_gpus]
        self._detected = _detected_levels(by_name, tuple(topologies))
        self.gpu_nodes = tuple(one.node for one in by_name)
        self._touched |= {name for name, one in self._traits.items() if before.get(name) is not one}
        self._index_aliases(by_name)

    def _index_aliases(self, by_name: Sequence[_Traits]) -> None:
        """Drop the index, and the views of nodes that are gone, where names or aliases changed."""
        aliases = tuple((str(one.node["metadata"]["name"]), one.aliases) for one in by_name)
        if aliases != self._aliases:
            self._aliases, self._index = aliases, None
            self._views = {name: self._views[name] for name, _ in aliases if name in self._views}
            self._order = {name: place for place, (name, _) in enumerate(aliases)}

    def _see_pods(self, pods: Sequence[PodView]) -> None:
        """Only what differs from last time is reckoned again."""
        changed, gone = self._changed_pods(pods)
        touched = self._nodes_that_name([*gone, *((pod.namespace, pod.name) for pod in changed)])
        for name in gone:
            self._leave(name, touched)
        for pod in changed:
            self._leave((pod.namespace, pod.name), touched)
            self._enter(pod, touched)
        for node in touched:
            if on := self._pods_on.get(node):
                self._held[node] = requested_by_node(on.values()).get(node, _NOTHING)
            else:  # autoscalers give every node a new name, for ever
                self._pods_on.pop(node, None)
                self._held.pop(node, None)
        self._touched |= touched

    def _changed_pods(self, pods: Sequence[PodView]) -> tuple[list[PodView], Set[PodName]]:
        """Pods that are new or others than last time, and names of those that are gone."""
        last, moved = self._pods, self.moved
        if moved is None:
            return _compared(last, pods)
        self.moved = {}
        changed = [pod for name, pod in moved.items() if pod is not None and last.get(name) != pod]
        return changed, {name for name, pod in moved.items() if pod is None}

    def _nodes_that_name(self, pods: Sequence[PodName]) -> set[str]:
        """Nodes of which the last figures say that one of these pods has their GPUs."""
        figures = self._last.figures if self._last is not None else None
        if figures is None or not figures.holders or not pods:
            return set()
        if self._named is None or self._named[0] is not figures:
            named: dict[PodName, list[str]] = {}
            for node, holders in figures.holders.items():
                for pod in holders.values():
                    named.setdefault(pod, []).append(node)
            self._named = figures, named
        return {node for pod in pods for node in self._named[1].get(pod, ())}

    def _enter(self, pod: PodView, touched: set[str]) -> None:
        name = (pod.namespace, pod.name)
        self._pods[name] = pod
        if pod.holds_resources:
            self._pods_on.setdefault(pod.node, {})[name] = pod
            self._tenants[name] = pod.gpus > 0 or pod.unreadable
            touched.add(pod.node)

    def _leave(self, name: PodName, touched: set[str]) -> None:
        before = self._pods.pop(name, None)
        self._tenants.pop(name, None)
        if before is not None and before.holds_resources:
            self._pods_on[before.node].pop(name, None)
            touched.add(before.node)

    def levels(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
        """Topology label keys: those chosen, else those detected."""
        return chosen or self._detected

    def figures(self, reading: object, limits: QualityLimits, stale: bool) -> SnapshotFigures | None:
        """The figures judged beforehand where they are still true; None where they have to be judged again.

        Many series are never judged here, where the event loop waits: for a few seconds a node that just came has no figures, and limits
        that just changed do not hold. A reading that is stale as a whole tells nothing, whatever each series would say.
        """
        for last in (self.published, self.judged):
            same = last is not None and last.reading is reading and last.limits == limits
            if last is not None and same and not stale and last.names.agrees_with(self.index()):
                return last
        published = self.published
        if published is None or published.reading is not reading or sum(map(len, published.reading.series.values())) <= LARGE_SERIES:
            return None
        if stale:
            return _nothing_of(published)
        self.outdated = True
        return published

    def views(
        self, levels: tuple[str, ...], figures: SnapshotFigures, releases: Mapping[str, tuple[Release, ...]], make: Make
    ) -> tuple[Node, ...]:
        """Views of all GPU nodes, by name; after the first only of those that something happened to."""
        last, released = self._last, frozenset(releases)
        if last is not None and last.order is self._order and last.levels == levels and last.figures is figures:
            views = last.views
            if places := sorted({self._order[name] for name in self._touched | released | last.released if name in self._order}):
                changed = list(views)
                for place in places:
                    node = self.gpu_nodes[place]
                    changed[place] = self.view(node, levels, figures, releases.get(node["metadata"]["name"], ()), make)
                views = tuple(changed)
        else:
            views = tuple(self.view(node, levels, figures, releases.get(node["metadata"]["name"], ()), make) for node in self.gpu_nodes)
        self._last = _Last(self._order, levels, figures, released, views)
        self._touched.clear()
        return views

    def view(self, node: RawNode, levels: tuple[str, ...], figures: SnapshotFigures, releases: tuple[Release, ...], make: Make) -> Node:
        """The view that `make` makes of a node, or made of the same node before."""
        name = node["metadata"]["name"]
        requested, holders = self._held.get(name, _NOTHING), figures.holders.get(name)
        holder_states = tuple(map(self._tenants.get, holders.values())) if holders else ()
        moment = figures.moment if releases else 0.0
        network = figures.networks.get(name), figures.paths.get(name)
        basis = (
            node,
            requested,
            figures.gpus.get(name),
            levels,
            holders,
            network,
            holder_states,
            releases,
            moment,
            figures.limits.release_grace_seconds,
        )
        last = self._views.get(name)
        if last is not None and last[0] == basis:  # the same objects, most of them, which is known at a glance
            return last[1]
        view = make(node, requested, levels, figures, self._tenants, releases)
        self._views[name] = (basis, view)
        return view


def _traits(node: RawNode) -> _Traits:
    return _Traits(node, is_gpu_node(node), node_labels.level_keys(node["metadata"].get("labels") or {}), aliases_of(node))


def _compared(last: Mapping[PodName, PodView], pods: Sequence[PodView]) -> tuple[list[PodView], Set[PodName]]:
    """Pods that are new or others than in `last`, and names of those that are gone."""
    changed = [pod for pod in pods if (before := last.get((pod.namespace, pod.name))) is not pod and before != pod]
    if len(pods) == len(last) and not changed:
        return changed, set()
    return changed, last.keys() - {(pod.namespace, pod.name) for pod in pods}


def _detected_levels(gpu_nodes: Sequence[_Traits], topologies: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Topology label keys of GPU nodes, widest first, with those that Kueue Topologies declare."""
    counts = Counter(key for one in gpu_nodes for key in one.level_keys)
    if not topologies:
        return node_labels.levels_of(counts)
    label_sets = [one.node["metadata"].get("labels") or {} for one in gpu_nodes]
    declared = declared_levels(topologies, label_sets)
    further = [key for key in declared if key not in counts]
    counts.update(key for labels in label_sets for key in further if labels.get(key))
    return node_labels.levels_of(counts, declared)


def _nothing_of(figures: SnapshotFigures) -> SnapshotFigures:
    """What is left of figures that are older than the limit all together."""
    state = figures.state
    if state.available:
        state = MetricsState(False, "MetricsStale", "the last reading is older than the limit", state.failed_queries)
    return figures._replace(gpus={}, links=(), holders={}, networks={}, paths={}, state=state)
