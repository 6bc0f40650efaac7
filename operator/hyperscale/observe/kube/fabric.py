"""Topology that other operators describe in objects of their own: Volcano's HyperNodes and Kueue's Topologies. Pure.

A HyperNode is a switch: its tier (1 is next to the nodes) and what hangs on it, nodes or other HyperNodes. A Kueue Topology only says which
node labels are levels, from wide to narrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from hyperscale.model.constants import HOSTNAME_LABEL

HYPERNODE_LABEL: Final = "topology.volcano.sh/hypernode-tier-"
"""Stands for labels that nodes do not have: its value is the HyperNode of that tier which the node hangs on."""
MAX_PATTERN: Final = 128
MAX_WILDCARDS: Final = 3
"""Repeated parts of a pattern: trying n of them on a name of m characters takes up to m to the power of n steps."""
MAX_REPEATS: Final = 6
# A quantified group that holds a quantifier can take exponential time, and a pattern is tried on every node.
_RISKY: Final = re.compile(r"\)[*+?{]|\\[1-9]|\(\?")
_REPEAT: Final = re.compile(r"[*+?{]")
_WILDCARD: Final = re.compile(r"(?:\.|\\[wSDWs]|\])[*+{]")

Json = Mapping[str, Any]
Labels = Mapping[str, str]


class Fabric(NamedTuple):
    """Objects as listed, narrowed by `hypernode` and `topology_levels`; empty where the CRDs are not installed."""

    hypernodes: tuple[HyperNode, ...] = ()
    topologies: tuple[tuple[str, ...], ...] = ()
    """Label keys of each Kueue Topology, widest first, without the hostname; sorted by the Topologies' names."""


class Member(NamedTuple):
    """What one entry of a HyperNode's members selects."""

    kind: str
    """Node or HyperNode."""
    name: str = ""
    pattern: re.Pattern[str] | None = None
    labels: tuple[tuple[str, str], ...] = ()

    def fits(self, name: str, labels: Labels) -> bool:
        """Whether a node or HyperNode of that name is meant."""
        if self.name:
            return self.name == name
        if self.pattern is not None:
            return self.pattern.fullmatch(name) is not None
        return bool(self.labels) and all(labels.get(key) == value for key, value in self.labels)


class HyperNode(NamedTuple):
    """One switch."""

    name: str
    tier: int
    members: tuple[Member, ...]


def hypernode(resource: Json) -> HyperNode | None:
    """A HyperNode object, narrowed; None for one that says nothing usable. Never raises."""
    spec, metadata = resource.get("spec"), resource.get("metadata")
    if not isinstance(spec, Mapping) or not isinstance(metadata, Mapping):
        return None
    tier = str(spec.get("tier", ""))
    members = tuple(member for entry in _list(spec.get("members")) if (member := _member(entry)) is not None)
    if not (tier.isascii() and tier.isdecimal() and len(tier) < 4 and members and metadata.get("name")):
        return None
    return HyperNode(str(metadata["name"]), int(tier), members)


def topology_levels(resource: Json) -> tuple[str, ...]:
    """Label keys of a Kueue Topology, widest first, without the hostname; () for one that says nothing usable. Never raises."""
    spec = resource.get("spec")
    levels = _list(spec.get("levels")) if isinstance(spec, Mapping) else []
    keys = [str(level.get("nodeLabel") or "") for level in levels if isinstance(level, Mapping)]
    return tuple(dict.fromkeys(key for key in keys if key and key != HOSTNAME_LABEL))


def fabric_of(hypernodes: Iterable[Json], topologies: Iterable[Json]) -> Fabric:
    """All listed objects, in the order of their names."""
    switches = sorted(switch for one in hypernodes if (switch := hypernode(one)) is not None)
    named = sorted((str((one.get("metadata") or {}).get("name", "")), topology_levels(one)) for one in topologies)
    return Fabric(tuple(switches), tuple(levels for _, levels in named if levels))


class FabricClaims:
    """What HyperNodes say of nodes as labels, `HYPERNODE_LABEL` + tier. Of two HyperNodes of one tier the first by name has a node.

    Cached node by node: hundreds of patterns on thousands of nodes take half a second, on the one that changed next to nothing.
    Not for two threads at once.
    """

    def __init__(self, hypernodes: Iterable[HyperNode] = ()) -> None:
        self.hypernodes = tuple(hypernodes)
        by_name = {one.name: one for one in self.hypernodes}
        self._tiers = {name: one.tier for name, one in by_name.items()}
        self._above = _above(by_name)
        members = [(member, name) for name, one in by_name.items() for member in one.members if member.kind == "Node"]
        self._exact: dict[str, set[str]] = {}
        for member, name in members:
            if member.name:
                self._exact.setdefault(member.name, set()).add(name)
        self._matching = [(member, name) for member, name in members if not member.name]
        self._by_node: dict[str, tuple[Labels, dict[str, str]]] = {}
        """Labels of each node, and what the HyperNodes claimed for a node with these labels."""
        self._by_switches: dict[frozenset[str], dict[str, str]] = {}

    def labels(self, nodes: Iterable[Json]) -> dict[str, dict[str, str]]:
        """By node; those on no HyperNode are absent. The same objects as long as nothing changed, not to be changed."""
        if not self.hypernodes:
            return {}
        before, self._by_node = self._by_node, {}
        for node in nodes:
            name, labels = str(node["metadata"]["name"]), node["metadata"].get("labels") or {}
            last = before.get(name)
            self._by_node[name] = last if last is not None and last[0] == labels else (labels, self._claimed(name, labels))
        return {name: claimed for name, (_, claimed) in self._by_node.items() if claimed}

    def _claimed(self, node: str, labels: Labels) -> dict[str, str]:
        switches = frozenset(self._exact.get(node, ())) | {name for member, name in self._matching if member.fits(node, labels)}
        if switches not in self._by_switches:
            claimed: dict[str, str] = {}
            for above in sorted({above for name in switches for above in self._above[name]}):
                claimed.setdefault(f"{HYPERNODE_LABEL}{self._tiers[above]}", above)
            self._by_switches[switches] = claimed
        return self._by_switches[switches]


def declared_levels(topologies: Iterable[tuple[str, ...]], label_sets: Iterable[Labels]) -> tuple[str, ...]:
    """Levels of that Kueue Topology which most nodes carry, its keys that occur on any; () where none does."""
    sets = list(label_sets)
    best: tuple[int, tuple[str, ...]] = (0, ())
    for levels in topologies:
        used = tuple(key for key in levels if any(labels.get(key) for labels in sets))
        carried = sum(1 for labels in sets if used and all(labels.get(key) for key in used))
        best = max(best, (carried, used), key=lambda entry: entry[0])
    return best[1]


def _above(by_name: Mapping[str, HyperNode]) -> dict[str, list[str]]:
    """By HyperNode: itself and all that it hangs on, sorted."""
    under = {name: _under(one, by_name) for name, one in by_name.items()}
    above: dict[str, list[str]] = {}
    for name in sorted(by_name):
        for below in _reached(name, under):
            above.setdefault(below, []).append(name)
    return above


def _under(one: HyperNode, by_name: Mapping[str, HyperNode]) -> tuple[str, ...]:
    """HyperNodes that a HyperNode names itself."""
    members = [member for member in one.members if member.kind != "Node"]
    return tuple(other for other in by_name if other != one.name and any(member.fits(other, {}) for member in members))


def _reached(name: str, under: Mapping[str, tuple[str, ...]]) -> set[str]:
    """A HyperNode and all on it, over any number of others; each is passed once, so circles end and cost nothing."""
    reached, left = {name}, [name]
    while left:
        new = set(under[left.pop()]) - reached
        reached |= new
        left.extend(new)
    return reached


def _member(entry: object) -> Member | None:
    selector = entry.get("selector") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(selector, Mapping) or entry.get("type") not in ("Node", "HyperNode"):
        return None
    kind = str(entry["type"])
    exact, regex, by_label = (_object(selector.get(key)) for key in ("exactMatch", "regexMatch", "labelMatch"))
    if exact.get("name"):
        return Member(kind, name=str(exact["name"]))
    if (pattern := _pattern(str(regex.get("pattern") or ""))) is not None:
        return Member(kind, pattern=pattern)
    wanted = {} if by_label.get("matchExpressions") else _object(by_label.get("matchLabels"))
    return Member(kind, labels=tuple(sorted((str(key), str(value)) for key, value in wanted.items()))) if wanted else None


def _object(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}


def _pattern(text: str) -> re.Pattern[str] | None:
    if not text or len(text) > MAX_PATTERN or _RISKY.search(text):
        return None
    if len(_WILDCARD.findall(text.replace("[0-9]", r"\d"))) > MAX_WILDCARDS or len(_REPEAT.findall(text)) > MAX_REPEATS:
        return None
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
