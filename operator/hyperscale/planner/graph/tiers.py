"""Figures of unmeasured links: constants per kind of topology level, moved to the median of that level's measurements.

The constants are the usual order of magnitude of each kind of network, chosen so that a wider level is never the better one.
They only have to rank places; a plan made from them carries the fallback LinksEstimatedFromLabels.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray, Tiers


class TierNetwork(NamedTuple):
    """One-way figures of a kind of network."""

    latency_seconds: float
    bandwidth_bytes_per_second: float


FABRIC: Final = TierNetwork(8e-6, 25e9)
"""One accelerator domain (NVLink or rail-optimised fabric)."""
RACK: Final = TierNetwork(2e-5, 12.5e9)
"""One switch, 100 Gbit/s."""
ZONE: Final = TierNetwork(1e-4, 3.125e9)
"""One datacentre, 25 Gbit/s."""
REGION: Final = TierNetwork(1e-3, 1.25e9)
"""Datacentres of one region, 10 Gbit/s."""
WORLD: Final = TierNetwork(3e-2, 1.25e8)
"""Different regions, 1 Gbit/s."""

MIN_SAMPLES: Final = 8
"""Fewer measured links of a tier say too little about the others."""

_WIDE: Final = ("region", "city", "country", "continent", "site")
_ZONAL: Final = ("zone", "datacenter", "datacentre")
_FABRIC: Final = ("clique", "accelerator", "sub-domain", "nvlink")


def constants(levels: tuple[str, ...]) -> Tiers:
    """Tiers of `levels` (label keys, widest first) by the words in the keys; a key without one is a level inside a zone."""
    scopes = [_scope(level) for level in levels]
    networks = [_beyond(scopes[0] if scopes else "inner")]
    inner_count = scopes.count("inner")
    inner_seen = 0
    for scope in scopes:
        if scope == "inner":
            inner_seen += 1
            networks.append(_between(ZONE, RACK, inner_seen / inner_count))
        else:
            networks.append({"wide": REGION, "zonal": ZONE, "fabric": FABRIC}[scope])
    latency = np.array([network.latency_seconds for network in networks])
    bandwidth = np.array([network.bandwidth_bytes_per_second for network in networks])
    # A narrower tier is never the worse one, in whatever order an administrator lists the levels.
    return Tiers(("", *levels), np.minimum.accumulate(latency), np.maximum.accumulate(bandwidth))


def accelerator_tiers(levels: tuple[str, ...]) -> BoolArray:
    """(levels + 1,) True for levels of accelerator domains and narrower ones, by the words in their keys."""
    inside: BoolArray = np.logical_or.accumulate([False, *(_scope(level) == "fabric" for level in levels)])
    return inside


def calibrated(tiers: Tiers, tier_of_link: IntArray, latency: FloatArray, bandwidth: FloatArray) -> Tiers:
    """`tiers` with the median of the measured links where a tier has at least MIN_SAMPLES of them.

    tier_of_link, latency, bandwidth: (m,); NaN where a link has no usable figure. Dead links, with a bandwidth of 0, say nothing of others.
    """
    latency_seconds, bandwidth_bytes = tiers.latency_seconds.copy(), tiers.bandwidth_bytes_per_second.copy()
    alive: BoolArray = bandwidth != 0.0
    for tier in range(len(tiers.names)):
        here: BoolArray = alive & (tier_of_link == tier)
        for figures, target in ((latency, latency_seconds), (bandwidth, bandwidth_bytes)):
            usable = figures[here & np.isfinite(figures)]
            if len(usable) >= MIN_SAMPLES:
                target[tier] = float(np.median(usable))
    return Tiers(tiers.names, latency_seconds, bandwidth_bytes)


def _scope(level: str) -> str:
    key = level.lower().rpartition("/")[2] if "accelerator" not in level else "accelerator"
    for scope, words in (("wide", _WIDE), ("zonal", _ZONAL), ("fabric", _FABRIC)):
        if any(word in key for word in words):
            return scope
    return "inner"


def _beyond(widest_scope: str) -> TierNetwork:
    """What lies between two domains of the widest level."""
    return {"wide": WORLD, "zonal": REGION, "inner": ZONE, "fabric": RACK}[widest_scope]


def _between(wide: TierNetwork, narrow: TierNetwork, fraction: float) -> TierNetwork:
    """Geometric step from `wide` (fraction 0) to `narrow` (1)."""
    return TierNetwork(*(w * (n / w) ** fraction for w, n in zip(wide, narrow, strict=True)))
