"""How many GPUs of a node must send at once to fill the fastest path it has to another: cards carry more than many paths. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray, Machine, MeasuredLinks, Tiers

ROUNDING: Final = 1.0 - 1e-9
"""A path that is n cards wide is not n + 1 wide for its last digit."""


def filling_paths(whole: Machine, links: MeasuredLinks, tier_of_link: IntArray, tiers: Tiers, domains: IntArray) -> Machine:
    """`whole` with rails that are no more than the fastest path of each node needs.

    One GPU sends at the rate of its own cards. Where all paths of a node are slower, as a pod network over one of eight cards is, one GPU
    fills them. Cards of unknown speed stay as they are, and NVLink between nodes, which each GPU has links of its own to.

    tier_of_link: (l,) of `links` · domains: (n, levels), see `ClusterGraph.domains`
    """
    card = whole.card_bytes_per_second
    if card is None or not (whole.rails > 1).any():
        return whole
    limited = np.isfinite(card) & (whole.rails > 1)
    if whole.nvlink_bytes_per_second is not None:
        limited &= whole.nvlink_bytes_per_second <= 0.0
    fastest = np.minimum(_fastest_paths(whole, links, tier_of_link, tiers, domains), np.where(limited, card, 1.0))
    of_one = np.where(limited, card, 1.0) / whole.rails
    needed = np.clip(np.ceil(fastest / of_one * ROUNDING), 1, whole.rails).astype(np.int64)
    return replace(whole, rails=np.where(limited, needed, whole.rails))


def _fastest_paths(whole: Machine, links: MeasuredLinks, tier_of_link: IntArray, tiers: Tiers, domains: IntArray) -> FloatArray:
    """(n,) bytes a second: the most that was measured from or to a node, and what its nearest unmeasured nodes are estimated at."""
    nodes = len(whole.rails)
    source, destination = links.key // max(1, nodes), links.key % max(1, nodes)
    usable = np.isfinite(links.bandwidth_bytes_per_second)
    fastest = np.zeros(nodes)
    for ends in (source, destination):
        np.maximum.at(fastest, ends[usable], links.bandwidth_bytes_per_second[usable])
    pairs, first = np.unique((np.minimum(source, destination) * nodes + np.maximum(source, destination))[usable], return_index=True)
    tier_of_pair = tier_of_link[usable][first]
    for tier, peers in enumerate(_peers(domains)):
        of_tier = np.concatenate(np.divmod(pairs[tier_of_pair == tier], max(1, nodes)))
        unmeasured = peers > np.bincount(of_tier, minlength=nodes)
        fastest = np.where(unmeasured, np.maximum(fastest, tiers.bandwidth_bytes_per_second[tier]), fastest)
        fastest[unmeasured & _on_one_fabric(whole, tier, domains)] = np.inf
    return fastest


def _peers(domains: IntArray) -> IntArray:
    """(levels + 1, n) other nodes with which a tier is the narrowest that is common."""
    alike = np.stack([np.full(len(domains), len(domains)), *(_members(domains[:, level]) for level in range(domains.shape[1]))])
    narrower = np.concatenate((alike[1:], np.ones((1, len(domains)), dtype=np.int64)))
    peers: IntArray = np.maximum(0, alike - np.maximum(1, narrower))
    return peers


def _members(codes: IntArray) -> IntArray:
    """(n,) nodes of each node's domain, with itself; 1 for a node without one."""
    counts = np.bincount(np.maximum(codes, 0)[codes >= 0], minlength=1)
    return np.where(codes >= 0, counts[np.maximum(codes, 0)], 1)


def _on_one_fabric(whole: Machine, tier: int, domains: IntArray) -> BoolArray:
    """(n,) True where a node shares a fast network with another one of that tier."""
    fabric = whole.fabric
    if fabric is None or not fabric.tiers[tier]:
        return np.zeros(len(domains), dtype=np.bool_)
    codes = domains[:, tier - 1] if tier else np.zeros(len(domains), dtype=np.int64)
    reached = (fabric.network > 0) & (codes >= 0)
    _, alike, counts = np.unique(np.stack((fabric.network, codes)), axis=1, return_inverse=True, return_counts=True)
    return reached & (counts[alike.ravel()] > 1)
