"""Sizes of training graphs: those of the builtin ones are known, all others come from the job."""

from __future__ import annotations

from typing import Final, NamedTuple

from hyperscale.model.job import JobSpec


class DatasetSize(NamedTuple):
    """What of a training graph decides compute, memory and traffic."""

    vertices: int
    edges: int
    """Directed edges, both directions of an undirected one counted."""
    feature_size: int
    """Width of the vertex features."""
    classes: int


BUILTIN_SIZES: Final[dict[str, DatasetSize]] = {
    "Cora": DatasetSize(2708, 10556, 1433, 7),
    "CiteSeer": DatasetSize(3327, 9104, 3703, 6),
    "PubMed": DatasetSize(19717, 88648, 500, 3),
}
"""The citation graphs as DGL and PyTorch Geometric load them (Yang et al. 2016)."""


def graph_bytes(job: JobSpec) -> int:
    """Memory of the training graph alone: features and neighbours of 4 bytes, labels, offsets. Less does not partition it."""
    size = dataset_size(job)
    return size.vertices * (4 * size.feature_size + 24) + size.edges * 4


def dataset_size(job: JobSpec) -> DatasetSize:
    """Size of the job's training graph; what the job itself states comes first. Raises ValueError naming the missing field."""
    dataset = job.dataset
    builtin = BUILTIN_SIZES[dataset.source.builtin.name] if dataset.source.builtin is not None else None
    stated = (
        ("vertices", dataset.vertices),
        ("edges", dataset.edges),
        ("featureSize", dataset.feature_size),
        ("classes", dataset.classes),
    )
    figures: list[int] = []
    for index, (name, value) in enumerate(stated):
        if value is None and builtin is None:
            raise ValueError(f"spec.dataset.{name}: required unless the source is builtin; write the graph's own figure")
        figures.append(value if value is not None else builtin[index] if builtin is not None else 0)
    return DatasetSize(*figures)
