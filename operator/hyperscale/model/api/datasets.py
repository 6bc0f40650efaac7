"""Sizes of training graphs: those of the builtin ones are known, all others come from the job."""

from __future__ import annotations

from typing import Final, NamedTuple

from hyperscale.model.api.job import JobSpec


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


TRAIN_VERTICES: Final[dict[int, int]] = {
    169_343: 90_941,  # ogbn-arxiv
    132_534: 86_619,  # ogbn-proteins
    2_449_029: 196_615,  # ogbn-products
    111_059_956: 1_207_179,  # ogbn-papers100M
    232_965: 153_431,  # Reddit (Hamilton et al. 2017)
}
"""Training vertices of public graphs with a split of their own, by the number of their vertices (Hu et al., NeurIPS 2020)."""
TRAIN_PART: Final = 0.6
"""Of the vertices of any other graph: the split that readers draw where a file names none (training/data/assemble.py)."""
TRAIN_PER_CLASS: Final = 20
"""Of the citation graphs and of small generated ones (Planetoid's split, training/data/generate.py)."""
LARGE: Final = 100_000
"""Vertices from which on a tenth of a generated graph is trained on."""


def train_vertices(job: JobSpec) -> int:
    """Labelled vertices that an epoch trains on: as the job states, as known of the graph, else TRAIN_PART of all. Raises ValueError."""
    size, dataset = dataset_size(job), job.dataset
    if dataset.train_vertices is not None:
        return min(dataset.train_vertices, size.vertices)
    return trained_of(size.vertices, size.classes, small_split=dataset.source.builtin is not None or dataset.source.generated is not None)


def trained_of(vertices: int, classes: int, *, small_split: bool) -> int:
    """Training vertices of a graph whose job states none. small_split: builtin or generated."""
    if small_split:
        return vertices // 10 if vertices >= LARGE else classes * min(TRAIN_PER_CLASS, max(vertices // classes // 5, 1))
    return TRAIN_VERTICES.get(vertices, max(1, round(TRAIN_PART * vertices)))


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
