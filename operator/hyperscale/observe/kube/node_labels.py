"""What node labels tell: GPU product and memory (GPU Feature Discovery), and the topology levels. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

from hyperscale.observe.kube.fabric import HYPERNODE_LABEL
from hyperscale.observe.quality import MIB

PRODUCT: Final = "nvidia.com/gpu.product"
MEMORY: Final = "nvidia.com/gpu.memory"
COUNT: Final = "nvidia.com/gpu.count"
PRESENT: Final = "nvidia.com/gpu.present"

# GFD appends these under time slicing, MPS and MIG's single strategy; the silicon, and so its speed class, is the same.
_SHARING = re.compile(r"(-SHARED|-MIG-[0-9]+g\.[0-9]+gb(\.[a-z0-9.+]+)?)+$", re.IGNORECASE)

_REGION: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_ZONE: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_FABRICS: Final = (
    "oci.oraclecloud.com/host.hpc_island_id",
    "oci.oraclecloud.com/host.network_block_id",
    "oci.oraclecloud.com/host.local_block_id",
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "cloud.provider.com/topology-block",
    "cloud.provider.com/topology-rack",
    "oci.oraclecloud.com/host.rack_id",
)
"""Cloud and convention labels, widest first within each provider; AWS counts its layers from the spine down."""
_TIER = re.compile(r"^fabric\.topograph\.run/tier-([0-9]{1,2})$")
_HYPERNODE: Final = re.compile(rf"^{re.escape(HYPERNODE_LABEL)}([0-9]{{1,3}})$")
_OLD_TOPOGRAPH: Final = ("network.topology.nvidia.com/core", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf")
_NVLINK: Final = (
    ("accelerator.topograph.run/domain", "network.topology.nvidia.com/accelerator", "nvidia.com/gpu.clique"),
    ("accelerator.topograph.run/sub-domain",),
)
MAX_LEVELS: Final = 15
"""Kueue's Topology has 16 with the hostname."""


def gpu_product(labels: Mapping[str, str]) -> str | None:
    """GPU product without sharing suffixes, e.g. NVIDIA-A100-SXM4-40GB for NVIDIA-A100-SXM4-40GB-MIG-1g.5gb; None when unlabelled."""
    product = _SHARING.sub("", labels.get(PRODUCT, "").strip())
    return product or None


def gpu_memory_bytes(labels: Mapping[str, str]) -> int | None:
    """Memory of one GPU in bytes (the label is MiB); None when absent, not a whole number or 0."""
    text = labels.get(MEMORY, "").strip()
    return int(text) * MIB if text.isascii() and text.isdecimal() and len(text) < 12 and int(text) > 0 else None


def has_gpu_labels(labels: Mapping[str, str]) -> bool:
    """True where GPU Feature Discovery saw GPUs, even if the device plugin offers none at the moment."""
    if labels.get(PRESENT) == "true":
        return True
    count = labels.get(COUNT, "0")
    return PRODUCT in labels or (count.isascii() and count.isdecimal() and int(count[:9]) > 0)


def detect_levels(label_sets: Iterable[Mapping[str, str]], declared: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Topology label keys that occur on any node, widest first, hostname excluded; at most MAX_LEVELS.

    declared: further keys, widest first, that a Kueue Topology declares; they stand between zones and NVLink domains

    Of several names for the same level (old and new) the one that most nodes carry is taken, the newer on a tie.
    """
    further = set(declared)
    return levels_of(Counter(key for labels in label_sets for key in level_keys(labels, further)), declared)


def level_keys(labels: Mapping[str, str], declared: Collection[str] = ()) -> tuple[str, ...]:
    """Keys of a node's labels that are topology levels, or declared to be."""
    return tuple(key for key, value in labels.items() if value and (_is_level(key) or key in declared))


@lru_cache(maxsize=4096)
def _is_level(key: str) -> bool:
    return key in _KNOWN or bool(_TIER.match(key)) or bool(_HYPERNODE.match(key))


def levels_of(counts: Mapping[str, int], declared: tuple[str, ...] = ()) -> tuple[str, ...]:
    """As `detect_levels`, from the number of nodes that carry each of `level_keys`."""
    places = [_most_used(_REGION, counts), _most_used(_ZONE, counts)]
    switches = [key for key in _FABRICS if key in counts]
    switches += [key for key in declared if key in counts and key not in _KNOWN and not _TIER.match(key)]
    switches += _topograph_tiers(counts)
    if not switches:  # Volcano's HyperNodes describe switches where labels do not
        switches = _numbered(_HYPERNODE, counts)
    nvlink = [_most_used(names, counts) for names in _NVLINK]
    return tuple(key for key in (*places, *switches, *nvlink) if key is not None)[-MAX_LEVELS:]


def _topograph_tiers(counts: Mapping[str, int]) -> list[str]:
    """Switch labels of Topograph under the names that more nodes carry.

    It renamed them; a cluster in the middle of the change carries both, which would count each switch twice.
    """
    tiers = _numbered(_TIER, counts)
    old = [key for key in _OLD_TOPOGRAPH if key in counts]
    tier_nodes = max((counts[key] for key in tiers), default=0)
    return tiers if tier_nodes >= max((counts[key] for key in old), default=0) else old


def domains(labels: Mapping[str, str], levels: tuple[str, ...]) -> tuple[str, ...]:
    """The node's domain at every level, aligned with `levels`; "" where the label is absent or empty.

    Each value is prefixed with the next wider domain that the node has: rack numbers repeat in every zone.
    """
    names: list[str] = []
    parent = ""
    for key in levels:
        value = labels.get(key, "").strip()
        domain = (f"{parent}/{value}" if parent else value) if value else ""
        parent = domain or (f"{parent}/" if parent else "")  # a gap counts: region a, rack 1 is not zone a, rack 1
        names.append(domain)
    return tuple(names)


def _most_used(names: tuple[str, ...], counts: Mapping[str, int]) -> str | None:
    """Of names for one thing, the one on most nodes, the earlier on a tie; None when none occurs."""
    present = [name for name in names if name in counts]
    return max(present, key=lambda name: counts[name], default=None)


def _numbered(pattern: re.Pattern[str], counts: Mapping[str, int]) -> list[str]:
    """Numbered switch tiers, widest (highest number) first; the lowest is the switch next to the node."""
    numbered = [(int(match.group(1)), key) for key in counts if (match := pattern.match(key))]
    return [key for _, key in sorted(numbered, reverse=True)]


_KNOWN: Final = frozenset({*_REGION, *_ZONE, *_FABRICS, *_OLD_TOPOGRAPH, *_NVLINK[0], *_NVLINK[1]})
