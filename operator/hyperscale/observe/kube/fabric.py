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
    members = tuple(found for entry in _list(spec.get("members")) if (found := _member(entry)) is not None)
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
    switches = sorted(found for one in hypernodes if (found := hypernode(one)) is not None)
    named = sorted((str((one.get("metadata") or {}).get("name", "")), topology_levels(one)) for one in topologies)
    return Fabric(tuple(switches), tuple(levels for _, levels in named if levels))


class FabricClaims:
    """What HyperNodes say of nodes as labels, `HYPERNODE_LABEL` + tier. Of two HyperNodes of one tier the first by name has a node.

    Remembered node by node: hundreds of patterns on thousands of nodes take half a second, on the one that changed next to nothing.
    Not for two threads at once.
    """

    def __init__(self, hypernodes: Iterable[HyperNode] = ()) -> None:
        self.hypernodes = tuple(hypernodes)
        known = {one.name: one for one in self.hypernodes}
        under = {name: _under(one, known) for name, one in known.items()}
        self._tiers = {name: one.tier for name, one in known.items()}
        self._above: dict[str, list[str]] = {}
        """By HyperNode itself and all that it hangs on, sorted."""
        for name in sorted(known):
            for below in _reached(name, under):
                self._above.setdefault(below, []).append(name)
        members = [(member, name) for name, one in known.items() for member in one.members if member.kind == "Node"]
        self._exact: dict[str, set[str]] = {}
        for member, name in members:
            if member.name:
                self._exact.setdefault(member.name, set()).add(name)
        self._matching = [(member, name) for member, name in members if not member.name]
        self._found: dict[str, tuple[Labels, dict[str, str]]] = {}
        self._same: dict[frozenset[str], dict[str, str]] = {}

    def labels(self, nodes: Iterable[Json]) -> dict[str, dict[str, str]]:
        """By node; those on no HyperNode are absent. The same objects as long as nothing changed, not to be changed."""
        if not self.hypernodes:
            return {}
        before, self._found = self._found, {}
        for node in nodes:
            name, held = str(node["metadata"]["name"]), node["metadata"].get("labels") or {}
            known = before.get(name)
            if known is None or known[0] != held:
                known = held, self._labels(name, held)
            self._found[name] = known
        return {name: found for name, (_, found) in self._found.items() if found}

    def _labels(self, node: str, held: Labels) -> dict[str, str]:
        own = frozenset(self._exact.get(node, ())) | {name for member, name in self._matching if member.fits(node, held)}
        if own not in self._same:
            found: dict[str, str] = {}
            for above in sorted({above for name in own for above in self._above[name]}):
                found.setdefault(f"{HYPERNODE_LABEL}{self._tiers[above]}", above)
            self._same[own] = found
        return self._same[own]


def declared_levels(topologies: Iterable[tuple[str, ...]], label_sets: Iterable[Labels]) -> tuple[str, ...]:
    """Levels of that Kueue Topology which most nodes carry, its keys that occur on any; () where none does."""
    sets = list(label_sets)
    best: tuple[int, tuple[str, ...]] = (0, ())
    for levels in topologies:
        used = tuple(key for key in levels if any(labels.get(key) for labels in sets))
        carried = sum(1 for labels in sets if used and all(labels.get(key) for key in used))
        best = max(best, (carried, used), key=lambda entry: entry[0])
    return best[1]


def _under(one: HyperNode, known: Mapping[str, HyperNode]) -> tuple[str, ...]:
    """HyperNodes that a HyperNode names itself."""
    members = [member for member in one.members if member.kind != "Node"]
    return tuple(other for other in known if other != one.name and any(member.fits(other, {}) for member in members))


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
    exact, pattern, matched = (selector.get(key) for key in ("exactMatch", "regexMatch", "labelMatch"))
    if isinstance(exact, Mapping) and exact.get("name"):
        return Member(kind, name=str(exact["name"]))
    if isinstance(pattern, Mapping) and (compiled := _pattern(str(pattern.get("pattern") or ""))) is not None:
        return Member(kind, pattern=compiled)
    wanted = matched.get("matchLabels") if isinstance(matched, Mapping) and not matched.get("matchExpressions") else None
    if isinstance(wanted, Mapping) and wanted:
        return Member(kind, labels=tuple(sorted((str(key), str(value)) for key, value in wanted.items())))
    return None


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
