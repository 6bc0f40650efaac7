"""What the Job `NAME-inspect` leaves behind: the sizes of a training graph, as the termination message of its pod. Untrusted."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hyperscale.model.api.datasets import DatasetStatus, SizeSource
from hyperscale.model.api.job import PositiveCount


class DatasetReport(msgspec.Struct, frozen=True, rename="camel"):
    """Figures of a graph as read: directed edges, feature width, classes, labelled vertices of the training split."""

    vertices: PositiveCount
    edges: Annotated[int, Meta(ge=0, le=10**12)]
    feature_size: Annotated[int, Meta(ge=1, le=10**6)]
    classes: Annotated[int, Meta(ge=1, le=10**6)]
    train_vertices: Annotated[int, Meta(ge=0, le=10**12)]


def read_report(termination: str, key: str) -> DatasetStatus | None:
    """The sizes of the dataset with this key; None for a message that holds none."""
    try:
        report = msgspec.json.decode(termination, type=DatasetReport)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return DatasetStatus(
        vertices=report.vertices,
        edges=report.edges,
        feature_size=report.feature_size,
        classes=report.classes,
        train_vertices=report.train_vertices or None,
        source=SizeSource.READ,
        dataset_key=key,
    )
