"""The graph embedding of cluster and queue in torch: what `_streams.pyx` computes in C, for the gradient.

Two rounds of messages between nodes, weighted by bandwidth, with learned weights; a candidate gets the mean over its own nodes, over the
free nodes, and over the pending jobs. An option of the training: the network that ships does without (docs/benchmarks/streams.md).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hyperscale.learn.streams._streams import HIDDEN, NODE_FEATURES, QUEUE_FEATURES, WIDTH
from hyperscale.learn.streams.scenario import MOST_NODES

SIZES: Final = (
    NODE_FEATURES * WIDTH,
    NODE_FEATURES * WIDTH,
    WIDTH,
    WIDTH * WIDTH,
    WIDTH * WIDTH,
    WIDTH,
    QUEUE_FEATURES * WIDTH,
    WIDTH,
    3 * WIDTH * HIDDEN,
)
"""Own and neighbours' weights and bias of either round, the queue's, and what the pooled figures weigh in the first layer."""


class Pictures(NamedTuple):
    """What the embedding sees of D decisions with R candidates; clusters are filled up to 32 nodes."""

    nodes: NDArray[np.float32]
    """(D, 32, 6)"""
    queue: NDArray[np.float32]
    """(D, 16, 6): the last figure says that there is a job."""
    candidate_nodes: NDArray[np.float32]
    """(R, 32) 1 on the candidate's nodes."""
    near: NDArray[np.float32]
    """(S, 32, 32) nearness of each stream's cluster."""
    stream: NDArray[np.int64]
    """(D,) whose decision it is."""


def initial(rng: np.random.Generator) -> NDArray[np.float32]:
    """Weights that add nothing to the network yet: the last ones are small, the others of unit gain."""
    scales = (NODE_FEATURES, NODE_FEATURES, 0, WIDTH, WIDTH, 0, QUEUE_FEATURES, 0, 3 * WIDTH)
    drawn = [rng.normal(0.0, scale**-0.5 if scale else 0.0, size) for scale, size in zip(scales, SIZES, strict=True)]
    return np.concatenate(drawn).astype(np.float32)


def filled(nodes: NDArray[np.float32], candidate_nodes: NDArray[np.float32], near: NDArray[np.float32]) -> tuple[NDArray[np.float32], ...]:
    """The same with 32 nodes, the further ones empty."""
    more = MOST_NODES - near.shape[0]
    return np.pad(nodes, ((0, 0), (0, more), (0, 0))), np.pad(candidate_nodes, ((0, 0), (0, more))), np.pad(near, ((0, more), (0, more)))


def pooled(flat: torch.Tensor, pictures: Pictures, decision: torch.Tensor) -> torch.Tensor:
    """(R, HIDDEN) what the embedding adds to the first layer of every candidate; `decision` (R,) is whose candidate it is."""
    own, neighbour, bias, own2, neighbour2, bias2, wait, bias3, last = torch.split(flat, list(SIZES))
    nodes, near = torch.from_numpy(pictures.nodes), torch.from_numpy(pictures.near)[torch.from_numpy(pictures.stream)]
    first = torch.relu(nodes @ own.view(NODE_FEATURES, WIDTH) + torch.bmm(near, nodes) @ neighbour.view(NODE_FEATURES, WIDTH) + bias)
    second = torch.relu(first @ own2.view(WIDTH, WIDTH) + torch.bmm(near, first) @ neighbour2.view(WIDTH, WIDTH) + bias2)
    open_nodes = nodes[:, :, 1:2]
    free = (second * open_nodes).sum(1) / torch.clamp(open_nodes.sum(1), min=1.0)
    jobs = torch.from_numpy(pictures.queue)
    there = jobs[:, :, QUEUE_FEATURES:]
    queue = (torch.relu(jobs[:, :, :QUEUE_FEATURES] @ wait.view(QUEUE_FEATURES, WIDTH) + bias3) * there).sum(1) / there.sum(1)
    candidate_nodes = torch.from_numpy(pictures.candidate_nodes)
    mine = torch.einsum("rn,rnw->rw", candidate_nodes, second[decision]) / torch.clamp(candidate_nodes.sum(1, keepdim=True), min=1.0)
    return torch.cat((mine, free[decision], queue[decision]), dim=1) @ last.view(3 * WIDTH, HIDDEN)
