"""Synthetic graphs from a seed: a stochastic block model (SBM) for training, R-MAT for scale.

Labels follow the blocks and features follow the labels, so that training learns. R-MAT: Chakrabarti, Zhan, Faloutsos, SDM 2004, with the
probabilities of Graph500. Chunks have generators of their own: the same seed gives the same graph whatever the memory.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.adjacency import Array, TrainingGraph
from hyperscale.training.data.assemble import NO_LABEL
from hyperscale.training.data.data_errors import DataError, fault
from hyperscale.training.data.edges_to_csr import in_neighbours
from hyperscale.training.data.limits import MAX_VERTICES, Stated, check_bytes

CHUNK_EDGES: Final = 1 << 20
CHUNK_ROWS: Final = 1 << 16
RMAT: Final = (0.57, 0.19, 0.19)
"""Probability of the upper left, upper right and lower left quarter of the matrix (Graph500)."""
HOMOPHILY: Final = 0.74
"""Chance that an edge of the block model stays in its class on purpose; with 7 classes 0.78 of all edges do. Cora: 0.81, CiteSeer: 0.74."""
WORDS: Final = 18
"""Words of a vertex, as in Cora (18.2)."""
TOPIC: Final = 0.3
"""Part of the words that come from the class's own: features alone are a weak hint, as in the citation graphs."""
TRAIN_PER_CLASS: Final = 20
VALIDATION: Final = 500
TEST: Final = 1000
DEFAULT_FEATURES: Final = 64
DEFAULT_CLASSES: Final = 8
"""Or as many as there are vertices."""
ALIASES: Final = {"vertices": "vertices", "edges": "edges", "featureSize": "feature_size", "classes": "classes"}


PLACE: Final = "spec.dataset.source.generated"
"""Field of the job that errors name."""


class Kind(enum.StrEnum):
    """Which random graph."""

    SBM = "SBM"
    RMAT = "RMAT"


@dataclass(frozen=True)
class Recipe:
    """What to generate; `edges` directed, both directions of an undirected one counted, repetitions and loops not yet dropped (R-MAT)."""

    kind: Kind
    vertices: int
    edges: int
    feature_size: int
    classes: int


def recipe(path: str, stated: Stated) -> Recipe:
    """From `KIND` or `KIND?vertices=…&edges=…&featureSize=…&classes=…`; what it leaves out comes from the job. Raises DataError."""
    kind, _, query = path.partition("?")
    if kind not in set(Kind):
        raise fault(PLACE, f"{kind[:40]!r} is no kind of graph", f"write one of {', '.join(Kind)}")
    sizes = {name: value for name in ALIASES.values() if (value := getattr(stated, name)) is not None} | _sizes(query)
    for name in ("vertices", "edges"):
        if name not in sizes:
            raise fault(PLACE, f"no {name}", f"write spec.dataset.{name}, or {kind}?{name}=…")
    classes = sizes.get("classes", min(DEFAULT_CLASSES, sizes["vertices"]))
    _check_sizes(sizes["vertices"], sizes["edges"], classes)
    return Recipe(Kind(kind), sizes["vertices"], sizes["edges"], sizes.get("feature_size", DEFAULT_FEATURES), classes)


def _sizes(query: str) -> dict[str, int]:
    """Sizes that a path states after its `?`, by name of the job's field. Raises DataError."""
    sizes: dict[str, int] = {}
    for entry in filter(None, query.split("&")):
        name, _, text = entry.partition("=")
        if name not in ALIASES or not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) < 1:
            raise fault(PLACE, f"{entry[:60]!r} is no size", f"write {', '.join(ALIASES)} with whole numbers from 1")
        sizes[ALIASES[name]] = int(text)
    return sizes


def _check_sizes(vertices: int, edges: int, classes: int) -> None:
    """Raise DataError where no graph has these sizes."""
    if vertices > MAX_VERTICES:
        raise fault("spec.dataset.vertices", f"{vertices} are more than {MAX_VERTICES}", "write fewer")
    if edges > vertices * (vertices - 1) // 2:
        raise fault(
            "spec.dataset.edges", f"{edges} are more than half of all pairs of {vertices} vertices", "write fewer, or more vertices"
        )
    if edges < 2:
        raise fault("spec.dataset.edges", "1 is half an undirected edge", "write 2 at least")
    if classes > vertices:
        raise fault("spec.dataset.classes", f"{classes} are more than the {vertices} vertices", f"write at most {vertices}")


def generate(wanted: Recipe, seed: int, name: str = "") -> TrainingGraph:
    """The whole data set; raises DataError where it cannot fit this container's memory."""
    needed = 4 * wanted.vertices * wanted.feature_size + 40 * wanted.edges + 64 * wanted.vertices
    check_bytes(needed, "spec.dataset", f"a generated graph of {wanted.vertices} vertices and {wanted.edges} edges")
    if wanted.kind is Kind.RMAT:
        sources, destinations = rmat_edges(wanted.vertices, wanted.edges // 2, seed)
        labels = np.arange(wanted.vertices, dtype=np.int64) * wanted.classes // wanted.vertices
    else:
        labels = np.random.default_rng([seed, 0]).permutation(np.arange(wanted.vertices, dtype=np.int64) % wanted.classes)
        sources, destinations = block_edges(labels, wanted.classes, wanted.edges // 2, seed)
    indptr, indices = in_neighbours(wanted.vertices, sources, destinations, both_directions=True)
    train, validation, test = public_split(labels, wanted.classes, seed)
    features = topic_features(labels, wanted.classes, wanted.feature_size, seed)
    return TrainingGraph(
        indptr, indices, features, labels, train, validation, test, wanted.classes, name=name or f"generated {wanted.kind}"
    )


def rmat_edges(vertices: int, edges: int, seed: int) -> tuple[Array, Array]:
    """`edges` R-MAT edges over 0..vertices-1, (m,) int32 each; loops and repetitions stay, as in Graph500.

    Ids keep the matrix's order: neighbouring blocks are communities. Ids from `vertices` up are drawn again.
    """
    bits = max((vertices - 1).bit_length(), 1)
    sources, destinations = np.empty(edges, np.int32), np.empty(edges, np.int32)
    filled = chunk = 0
    while filled < edges:
        drawn = _rmat_chunk(bits, vertices, np.random.default_rng([seed, 1, chunk]))
        chunk += 1
        take = min(drawn.shape[1], edges - filled)
        sources[filled : filled + take], destinations[filled : filled + take] = drawn[:, :take]
        filled += take
    return sources, destinations


def _rmat_chunk(bits: int, vertices: int, rng: np.random.Generator) -> Array:
    """(2, ≤ CHUNK_EDGES) int32."""
    upper = RMAT[0] + RMAT[1]
    right_above, right_below = RMAT[1] / upper, (1 - upper - RMAT[2]) / (1 - upper)
    ends = np.zeros((2, CHUNK_EDGES), np.int32)
    for _ in range(bits):
        below = rng.random(CHUNK_EDGES, np.float32) >= upper
        right = rng.random(CHUNK_EDGES, np.float32) < np.where(below, np.float32(right_below), np.float32(right_above))
        ends <<= 1
        ends[0] |= below
        ends[1] |= right
    return ends[:, (ends < vertices).all(axis=0)]


def block_edges(labels: Array, classes: int, edges: int, seed: int) -> tuple[Array, Array]:
    """Exactly `edges` distinct undirected edges without loops, (m,) int32 each, `HOMOPHILY` of them drawn inside a class."""
    vertices = len(labels)
    order = np.argsort(labels, kind="stable").astype(np.int32)
    starts = np.searchsorted(labels[order], np.arange(classes + 1))
    keys = np.empty(0, np.int64)
    for attempt in range(1000):
        if len(keys) >= edges:
            break
        rng = np.random.default_rng([seed, 2, attempt])
        count = (edges - len(keys)) * 9 // 8 + 64
        first = rng.integers(0, vertices, count)
        low, high = starts[labels[first]], starts[labels[first] + 1]
        second = np.where(rng.random(count) < HOMOPHILY, order[rng.integers(low, high)], rng.integers(0, vertices, count))
        drawn = np.minimum(first, second) * vertices + np.maximum(first, second)
        drawn = np.setdiff1d(drawn[first != second], keys)
        missing = edges - len(keys)
        if len(drawn) > missing:
            drawn = np.sort(rng.permutation(drawn)[:missing])
        keys = np.concatenate([keys, drawn])
    if len(keys) < edges:
        raise DataError(f"spec.dataset.edges: {2 * edges} edges do not fit {vertices} vertices in {classes} blocks; write fewer")
    sources, destinations = np.divmod(keys, vertices)
    return sources.astype(np.int32), destinations.astype(np.int32)


def topic_features(labels: Array, classes: int, width: int, seed: int) -> Array:
    """(n, width) float32: each vertex has `WORDS` words, `TOPIC` of them from its class's own part of the vocabulary; rows sum to 1."""
    features = np.zeros((len(labels), width), np.float32)
    words = max(min(WORDS, width // 2), 1)
    for start in range(0, len(labels), CHUNK_ROWS):
        rows = labels[start : start + CHUNK_ROWS, None]
        rng = np.random.default_rng([seed, 3, start])
        own = rng.random((len(rows), words)) < TOPIC
        low = rows * width // classes
        size = np.maximum((rows + 1) * width // classes - low, 1)
        topic = np.minimum(low + (rng.random((len(rows), words)) * size).astype(np.int64), width - 1)
        column = np.where(own, topic, rng.integers(0, width, (len(rows), words)))
        np.put_along_axis(features[start : start + CHUNK_ROWS], column, np.float32(1.0), axis=1)
        features[start : start + CHUNK_ROWS] /= features[start : start + CHUNK_ROWS].sum(axis=1, keepdims=True)
    return features


def public_split(labels: Array, classes: int, seed: int) -> tuple[Array, Array, Array]:
    """Planetoid's split: 20 training vertices a class, 500 for validation, 1,000 to test; 10 %, 10 % and 20 % of large graphs."""
    vertices = len(labels)
    order = np.random.default_rng([seed, 4]).permutation(vertices)
    large = vertices >= 100_000
    train = np.zeros(vertices, bool)
    for label in range(classes):
        own = order[labels[order] == label]
        train[own[: len(own) // 10 if large else min(TRAIN_PER_CLASS, max(len(own) // 5, 1))]] = True
    rest = order[~train[order] & (labels[order] != NO_LABEL)]
    counts = (vertices // 10, vertices // 5) if large else (min(VALIDATION, len(rest) // 3), min(TEST, len(rest) * 2 // 3))
    validation, test = np.zeros(vertices, bool), np.zeros(vertices, bool)
    validation[rest[: counts[0]]] = True
    test[rest[counts[0] : counts[0] + counts[1]]] = True
    return train, validation, test
