"""Peak memory of training on one GPU, counted tensor by tensor as `hyperscale.training.worker` makes them on a device. Pure.

Peaks are linear in vertices and edges, so that a share of the graph needs that share of them. `benchmarks/gpu.py` compares the figures
with measured peaks. Layers here are those of `modelgraph.csr`: no tensor has a row for each edge times the width of the features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from hyperscale.model.api.choices import Architecture
from hyperscale.util.float_sums import sum_in_order

FLOAT: Final = 4
WIDE_IDS: Final = 2**31
"""Edges from which on ids take 8 bytes (modelgraph.places)."""
HEAD_FLOATS: Final = 1 << 26
"""Numbers of one array of edges and heads (modelgraph.scores)."""
LABEL: Final = 16
"""A label, and the vertex's row among those of its kind."""
SORT: Final = 24
"""Bytes an edge, beside the matrices themselves, while the transposed one is made, once: keys and places, sorted and not."""
SORT_ON_PROCESSOR: Final = 16
"""The same where no GPU is: fewer copies."""
BLOCK: Final = 16 << 20
"""Bytes of a block that rows and edges are taken in (modelgraph.tails): one at a time, three in attention."""
LIBRARIES: Final = 68 << 20
"""On a GPU: cuBLAS's workspaces, one of the forward and one of the backward pass (32 MiB each on Hopper), and cuSPARSE's buffers."""


class NetworkShape(NamedTuple):
    """What of a model decides its memory."""

    architecture: Architecture
    widths: tuple[int, ...]
    """From the features to the classes; GAT's with all heads."""
    heads: int = 1
    """Of GAT's layers; the last one averages them."""
    dropout: bool = True
    """Of each layer's input, which makes a copy of the features."""
    attention_dropout: bool = True
    gpu: bool = True
    """A GPU's library takes as much again as a sparse product's result (measured on an H100, CUDA 13)."""


class Need(NamedTuple):
    """Bytes of one vertex, edge and boundary copy."""

    vertex: float = 0.0
    edge: float = 0.0
    copy: float = 0.0

    def plus(self, *others: Need) -> Need:
        """The sum."""
        return Need(*(sum_in_order(column) for column in zip(self, *others, strict=True)))

    def bytes(self, vertices: float, edges: float, copies: float = 0.0) -> float:
        """Of a graph."""
        return vertices * self.vertex + edges * self.edge + copies * self.copy


def full_graph(network: NetworkShape, vertices: float, edges: float) -> Need:
    """The peak of training on the whole graph: construction, forward pass, backward pass and evaluation, whichever needs most."""
    resident = static(network, edges)
    moments = (*_training(network, edges), *_evaluation(network, edges))
    peak = max(moments, key=lambda need: need.bytes(vertices, edges))
    return resident.plus(peak)


def blocks(network: NetworkShape) -> int:
    """Bytes of the blocks that rows and edges are taken in."""
    return BLOCK * (3 if network.architecture is Architecture.GAT else 1)


def evaluation(network: NetworkShape, vertices: float, edges: float) -> Need:
    """Of a sampled job on the whole graph: features and whole-neighbourhood scoring; nothing is kept for a backward pass."""
    ids = _id_bytes(edges)
    attends = network.architecture is Architecture.GAT
    resident = Need(FLOAT * network.widths[0] + LABEL + ids, 2 * ids if attends else ids + FLOAT)
    return resident.plus(max(_evaluation(network, edges), key=lambda need: need.bytes(vertices, edges)))


def static(network: NetworkShape, edges: float) -> Need:
    """Features, labels, and the matrix of the sums with its transposed one."""
    ids = _id_bytes(edges)
    features = Need(FLOAT * network.widths[0] + LABEL)
    if network.architecture is Architecture.GAT:
        # Sources, rows, transposed sources and their order; each vertex has an edge to itself.
        return features.plus(Need(2 * ids + 4 * ids, 4 * ids))
    loops = 2.0 * (ids + FLOAT) if network.architecture is Architecture.GCN else 0.0
    return features.plus(Need(2 * ids + loops, 2.0 * (ids + FLOAT)))


def batch(network: NetworkShape, sizes: tuple[float, ...], drawn: tuple[float, ...], edges: float) -> float:
    """Bytes of one sampled step: `sizes` are vertices at each depth from the seeds to the inputs, `drawn` the edges of each layer's hop."""
    ids = _id_bytes(edges)
    total = FLOAT * network.widths[0] * sizes[-1] * (2.0 if network.dropout else 1.0)
    for depth, (entering, leaving) in enumerate(reversed([*pairwise(network.widths)])):
        total += 2.0 * FLOAT * (leaving * sizes[depth] + min(entering, leaving) * sizes[depth + 1])
        total += drawn[depth] * 2.0 * (ids + FLOAT)
        if network.architecture is Architecture.GAT:
            total += drawn[depth] * _edge_floats(network, drawn[depth])
    return total


def _layers(network: NetworkShape) -> Iterator[tuple[int, int, bool]]:
    """Width in, width out with all heads, whether it is the last, layer by layer."""
    last = len(network.widths) - 2
    for at, (entering, leaving) in enumerate(pairwise(network.widths)):
        yield entering, leaving, at == last


def _kept(network: NetworkShape, entering: int, leaving: int) -> Need:
    """What a layer keeps for the backward pass."""
    if network.architecture is Architecture.GAT:
        # What was projected, of copies too; the result; sources' and rows' scores, maxima and sums of each head.
        return Need(FLOAT * (2 * leaving + 4 * network.heads), 0.0, FLOAT * leaving)
    return Need(FLOAT * (leaving if leaving <= entering else entering + leaving))


def _training(network: NetworkShape, edges: float) -> Iterable[Need]:
    """Beyond `static`: every moment at which a peak can be."""
    features = network.widths[0]
    kept = Need(FLOAT * features if network.dropout else 0.0)
    # GraphSAGE has its own product already, which the neighbours' is added to.
    products = 2 if network.architecture is Architecture.GRAPH_SAGE and network.widths[1] <= features else 1
    yield kept.plus(Need(products * FLOAT * network.widths[1], SORT if network.gpu else SORT_ON_PROCESSOR))
    before: list[tuple[Need, int, int]] = []
    for entering, leaving, _ in _layers(network):
        yield kept.plus(_kept(network, entering, leaving), _forward(network, entering, leaving, edges))
        before.append((kept, entering, leaving))
        kept = kept.plus(_kept(network, entering, leaving))
    # Logits of the labelled ones, their softmax and its gradient.
    yield kept.plus(Need(3.0 * FLOAT * network.widths[-1]))
    for at, (earlier, entering, leaving) in reversed([*enumerate(before)]):
        own = _kept(network, entering, leaving)
        # Sums of features themselves, where the first layer adds up before it widens, need no gradient.
        summed = 0 if at == 0 and leaving > entering else min(entering, leaving)
        yield earlier.plus(own, _backward(network, leaving, summed, edges, tail=at < len(before) - 1))
        if at:
            # The gradient of the sums becomes that of what went in; GraphSAGE has two of them for a moment.
            ways = 2 if network.architecture is Architecture.GRAPH_SAGE else 1
            yield earlier.plus(Need(FLOAT * (ways * entering + ways * leaving)))


def _forward(network: NetworkShape, entering: int, leaving: int, edges: float) -> Need:
    """Beyond what the layer keeps."""
    narrow = min(entering, leaving)
    boundary = 2.0 * FLOAT * narrow
    if network.architecture is Architecture.GAT:
        return Need(FLOAT * leaving / network.heads, FLOAT * _heads_at_once(network, edges), boundary)
    own = leaving if leaving <= entering or network.architecture is Architecture.GRAPH_SAGE else 0
    return Need(FLOAT * (own + _library(network, narrow)), 0.0, boundary)


def _backward(network: NetworkShape, leaving: int, summed: int, edges: float, *, tail: bool) -> Need:
    """Beyond what the layer keeps: gradient of the result, of the sums where an activation came after, of what was summed."""
    ends = FLOAT * leaving * (2 if tail else 1)
    if network.architecture is Architecture.GAT:
        per_head = FLOAT * leaving / network.heads
        return Need(ends + FLOAT * (leaving + 2 * network.heads) + per_head, _edge_floats(network, edges), 2.0 * FLOAT * leaving)
    return Need(ends + FLOAT * (summed + _library(network, summed)), 0.0, 2.0 * FLOAT * summed)


def _library(network: NetworkShape, width: int) -> int:
    """Numbers a vertex that the library takes for a sparse product of this width."""
    return width if network.gpu else 0


def _evaluation(network: NetworkShape, edges: float) -> Iterable[Need]:
    for entering, leaving, _ in _layers(network):
        given = 0 if entering == network.widths[0] else entering
        attends = network.architecture is Architecture.GAT
        # GraphSAGE adds the neighbours' product to its own into a third array where it widens after the sum.
        ways = 2 if network.architecture is Architecture.GRAPH_SAGE and leaving > entering else 1
        narrow = min(entering, leaving)
        rows = 2 * leaving + 4 * network.heads if attends else ways * leaving + narrow + _library(network, narrow)
        yield Need(FLOAT * (given + rows)).plus(_forward(network, entering, leaving, edges)) if attends else Need(FLOAT * (given + rows))


def _edge_floats(network: NetworkShape, edges: float) -> float:
    """Bytes an edge of attention's backward pass: weights, products, signs of scores, what dropout left, one head in another order."""
    heads = _heads_at_once(network, edges)
    return heads * (2 * FLOAT + 1 + (FLOAT if network.attention_dropout else 0)) + FLOAT


def _heads_at_once(network: NetworkShape, edges: float) -> int:
    return min(network.heads, max(1, int(HEAD_FLOATS // max(edges, 1.0))))


def _id_bytes(edges: float) -> int:
    return 8 if edges >= WIDE_IDS else 4
