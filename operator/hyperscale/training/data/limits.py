"""How much a reader may take: what the job states about its graph, and the memory of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from hyperscale.model.adjacency import TrainingGraph
from hyperscale.training.data.available_memory import limit_bytes
from hyperscale.training.data.data_errors import fault

MAX_VERTICES: Final = 2**31 - 1
"""Vertex ids are int32 wherever many are held."""
MAX_EDGES: Final = 10**11
MAX_CLASSES: Final = 10**6
"""The bound of spec.dataset.classes: an output layer is as wide as the largest label plus one."""
FIELDS: Final = ("vertices", "edges", "feature_size", "classes", "train_vertices")
CAMEL: Final = {"feature_size": "featureSize", "train_vertices": "trainVertices"}
PATHS: Final = {name: f"spec.dataset.{CAMEL.get(name, name)}" for name in FIELDS}
DIRECTION_PATH: Final = "spec.dataset.direction"
AUTO: Final = "Auto"
DIRECTED: Final = "Directed"


class Stated(msgspec.Struct, frozen=True):
    """Sizes as `spec.dataset` states them; the plan rests on them, so that a larger graph must not run under it."""

    vertices: int | None = None
    edges: int | None = None
    """Directed, both directions of an undirected edge counted."""
    feature_size: int | None = None
    classes: int | None = None
    train_vertices: int | None = None
    direction: str = AUTO
    """Of spec.dataset.direction: Auto, Undirected or Directed."""

    def check(self, graph: TrainingGraph, place: str) -> None:
        """Raises DataError where `graph` is larger than stated, or as wide as it should not be.

        Fewer vertices, edges or classes pass: duplicates and self loops are dropped on reading, and memory still suffices.
        """
        figures = {
            "vertices": len(graph.indptr) - 1,
            "edges": len(graph.indices),
            "feature_size": graph.features.shape[1],
            "classes": graph.classes,
            "train_vertices": int(graph.train.sum()),
        }
        for name in FIELDS:
            stated, actual = getattr(self, name), figures[name]
            if stated is not None and (actual > stated or (name == "feature_size" and actual != stated)):
                raise fault(PATHS[name], f"the job states {stated}, {place} has {actual}", f"write {actual}")

    def check_counts(self, vertices: int, edges: int, place: str | Path) -> None:
        """The same as soon as a file's header tells, before anything large is allocated; `edges` as the file stores them."""
        for name, count, most in (("vertices", vertices, MAX_VERTICES), ("edges", edges, MAX_EDGES)):
            stated = getattr(self, name)
            if count > most:
                raise fault(place, f"{count} {name} are more than the {most} that can be held", "sample the graph first")
            if stated is not None and count > stated:
                raise fault(PATHS[name], f"the job states {stated}, {place} has {count}", f"write {count}")


def check_bytes(needed: int, place: str | Path, what: str) -> None:
    """Raises DataError where `needed` bytes cannot fit the memory of this container."""
    most = limit_bytes()
    if needed > most:
        raise fault(
            place,
            f"{what} needs {needed / 2**30:.2f} GiB of memory, this container may use {most / 2**30:.2f} GiB",
            "raise the memory limit, or use fewer vertices or features",
        )
