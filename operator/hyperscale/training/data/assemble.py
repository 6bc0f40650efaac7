"""From what a reader found in its file to a checked `TrainingGraph`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from hyperscale.model.adjacency import Array, TrainingGraph
from hyperscale.training.data.data_errors import fault
from hyperscale.training.data.edges_to_csr import in_neighbours
from hyperscale.training.data.limits import AUTO, DIRECTED, MAX_CLASSES, Stated

SPLIT: Final = (0.6, 0.2, 0.2)
"""Train, validation and test where a file names no split."""
NO_LABEL: Final = -1


@dataclass(frozen=True)
class RawGraph:
    """Arrays as they stood in a file; `None` where it has none."""

    vertices: int
    sources: Array
    """(m,) integers."""
    destinations: Array
    """(m,) integers."""
    features: Array | None = None
    """(n, f)."""
    labels: Array | None = None
    """(n,) integers, -1 for unknown."""
    masks: tuple[Array, Array, Array] | None = None
    """(n,) bool each: train, validation, test."""
    directed: bool = False
    """False: every edge is one in both directions."""
    classes: int | None = None
    table: Path | None = None
    """The file of features, labels and split where that is not the file of the edges."""
    notes: tuple[str, ...] = ()
    """What the reader did to the data, or did not find, one line each."""


def assemble(raw: RawGraph, place: Path | str, name: str, stated: Stated, seed: int) -> TrainingGraph:
    """A `TrainingGraph`; raises DataError naming `place` where the arrays do not fit each other."""
    check_ids(raw, place)
    if not raw.vertices:
        raise fault(place, "no vertices", "write one edge at least")
    stated.check_counts(raw.vertices, len(raw.sources), place)
    directed = raw.directed if stated.direction == AUTO else stated.direction == DIRECTED
    indptr, indices = in_neighbours(raw.vertices, raw.sources, raw.destinations, both_directions=not directed)
    table = raw.table if raw.table is not None else place
    labels = check_labels(raw.labels, raw.vertices, table)
    features = check_features(raw.features, raw.vertices, table)
    if features is None:
        features = degree_features(indptr)
    if raw.masks is not None:
        check_masks(raw.masks, raw.vertices, table)
    train, validation, test = raw.masks if raw.masks is not None else split(labels, seed)
    labelled_vertices = labels != NO_LABEL
    classes = raw.classes if raw.classes is not None else int(labels.max(initial=-1)) + 1
    notes = (*raw.notes, *_notes(raw, stated, len(indices), labelled=bool(labelled_vertices.any())))
    masks = train & labelled_vertices, validation & labelled_vertices, test & labelled_vertices
    return TrainingGraph(indptr, indices, features, labels, *masks, max(classes, 1), name=name, notes=notes)


def _notes(raw: RawGraph, stated: Stated, edges: int, *, labelled: bool) -> Iterator[str]:
    """What was decided for the data where the file leaves it open."""
    if stated.direction == AUTO and not raw.directed and edges > len(raw.sources):
        yield (
            f"{len(raw.sources)} rows of edges became {edges} directed edges, both ways each; "
            "write spec.dataset.direction: Directed to keep them one way"
        )
    if raw.features is None:
        yield "no features: a constant and the logarithm of the degree stand in for them"
    if not labelled:
        yield "no labels, so no split either: nothing can be trained"
    elif raw.masks is None:
        yield "no split: 60 % of the labelled vertices are drawn for training, 20 % each for validation and test"


def check_ids(raw: RawGraph, place: Path | str) -> None:
    """Raises DataError where an edge ends outside 0..vertices-1."""
    for side, ids in (("source", raw.sources), ("destination", raw.destinations)):
        if ids.dtype.kind not in "iu":
            raise fault(place, f"{side} ids are {ids.dtype}, not whole numbers", "write vertex numbers from 0")
        if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= raw.vertices):
            at = int(np.argmax((ids < 0) | (ids >= raw.vertices)))
            raise fault(
                f"{place}: edge {at}",
                f"{side} {int(ids[at])} is outside 0..{raw.vertices - 1}",
                "number the vertices from 0 without gaps, or state all of them",
            )


def check_labels(labels: Array | None, vertices: int, place: Path | str) -> Array:
    """(n,) int64; all unknown where there are none."""
    if labels is None:
        return np.full(vertices, NO_LABEL, np.int64)
    if labels.shape != (vertices,):
        raise fault(
            f"{place}: labels", f"shape {labels.shape} does not fit {vertices} vertices", "write one label a vertex, -1 for unknown"
        )
    if labels.dtype.kind not in "iu" or (len(labels) and int(labels.min()) < NO_LABEL):
        raise fault(f"{place}: labels", "a label is no class number", "write 0, 1, 2 …, -1 for unknown")
    if int(labels.max(initial=0)) >= MAX_CLASSES:
        at = int(np.argmax(labels))
        raise fault(f"{place}: label of vertex {at}", f"{int(labels[at])} is beyond {MAX_CLASSES - 1}", "number the classes from 0")
    return labels.astype(np.int64, copy=False)


def check_masks(masks: tuple[Array, Array, Array], count: int, place: Path | str) -> None:
    """Raises DataError where a part has another length than `count`, what is trained on is also scored, or nothing is trained on."""
    names = ("train", "validation", "test")
    for part, mask in zip(names, masks, strict=True):
        if mask.shape != (count,):
            raise fault(f"{place}: {part}", f"shape {mask.shape} does not fit {count} entries", "write one truth value each")
    for other in (1, 2):
        both = masks[0] & masks[other]
        if both.any():
            raise fault(
                f"{place}: entry {int(np.argmax(both))}", f"is in train and in {names[other]}", "put each into one part of the split"
            )
    if not masks[0].any():
        raise fault(f"{place}: split", "nothing is in train", "write train, val or test for each, or leave the split out to have one drawn")


def check_features(features: Array | None, vertices: int, place: Path | str) -> Array | None:
    """(n, f) float32, finite; None stays None."""
    if features is None:
        return None
    if features.ndim != 2 or len(features) != vertices or features.dtype.kind not in "fiub":
        raise fault(
            f"{place}: features", f"{features.dtype} {features.shape} does not fit {vertices} vertices", "write one row of numbers a vertex"
        )
    if not features.shape[1]:
        raise fault(f"{place}: features", "no column", "write one number a vertex at least, or leave features out")
    return finite(features, f"{place}: features of vertex")


def finite(rows: Array, place: str) -> Array:
    """`rows` (n, f) as float32; raises DataError at `place` with the first row that float32 cannot hold."""
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = np.ascontiguousarray(rows, np.float32)
    if not np.isfinite(numbers).all():
        row = int(np.argmax(~np.isfinite(numbers).all(axis=1)))
        raise fault(f"{place} {row}", "not finite in 32 bits", "write numbers below 3.4e38; 0 for what is unknown")
    return numbers


def degree_features(indptr: Array) -> Array:
    """(n, 2) float32 where a file has no features: a constant, and log(1 + in-degree) over its largest value."""
    logs = np.log1p(np.diff(indptr)).astype(np.float32)
    return np.stack([np.ones_like(logs), logs / max(float(logs.max(initial=0.0)), 1.0)], axis=1)


def split(labels: Array, seed: int) -> tuple[Array, Array, Array]:
    """Train, validation and test masks over the labelled vertices in parts of `SPLIT`, drawn by `seed`."""
    labelled = np.flatnonzero(labels != NO_LABEL) if labels.ndim == 1 else np.arange(len(labels))
    order = np.random.default_rng(seed).permutation(labelled)
    first, second = round(SPLIT[0] * len(order)), round((SPLIT[0] + SPLIT[1]) * len(order))
    masks = []
    for chosen in (order[:first], order[first:second], order[second:]):
        mask = np.zeros(len(labels), bool)
        mask[chosen] = True
        masks.append(mask)
    return masks[0], masks[1], masks[2]
