"""Links between the nodes of a plan, as the plan and the workers' plan file list them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

MAX_LINKED_NODES = 64
"""Nodes up to which a plan lists links: 64 of 8 GPUs hold the 512 ranks up to which workers place parts."""

LinkFigures = Annotated[tuple[float, ...], Meta(max_length=MAX_LINKED_NODES * (MAX_LINKED_NODES + 1) // 2)]


class NodeLinks(Struct, frozen=True, gc=False, rename="camel"):
    """Links between the plan's nodes, which are in the order of their first workers; both directions of a pair as the slower one.

    Both fields list node 0 with nodes 0, 1, 2 ..., then node 1 with nodes 1, 2 ... and so on: k (k + 1) / 2 figures of k nodes. A node with
    itself is the way between two of its GPUs.
    """

    seconds_per_byte: LinkFigures
    """Of what all ranks of a node send those of the other."""
    latency_seconds: LinkFigures
    """One way."""
