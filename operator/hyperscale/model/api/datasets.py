"""Sizes of training graphs: as the job states them, as known of public graphs, or as a Job has read them."""

from __future__ import annotations

import enum
import hashlib
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from hyperscale.model.api.job import DatasetFormat, DatasetSpec, Direction, JobSpec, PlannerChoice, PositiveCount


class DatasetSize(NamedTuple):
    """What of a training graph decides compute, memory and traffic."""

    vertices: int
    edges: int
    """Directed edges, both directions of an undirected one counted."""
    feature_size: int
    """Width of the vertex features."""
    classes: int


KEY_DIGITS: Final = 16
BUILTIN_SIZES: Final[dict[str, DatasetSize]] = {
    "Cora": DatasetSize(2708, 10556, 1433, 7),
    "CiteSeer": DatasetSize(3327, 9104, 3703, 6),
    "PubMed": DatasetSize(19717, 88648, 500, 3),
}
"""The citation graphs as DGL and PyTorch Geometric load them (Yang et al. 2016)."""


OGB_SIZES: Final[dict[str, DatasetSize]] = {
    "ogbn-arxiv": DatasetSize(169_343, 1_166_243, 128, 40),
    "ogbn-products": DatasetSize(2_449_029, 61_859_140, 100, 47),
}
"""By name, edges as stored, one way: those with vertex features whose archives our reader reads (Hu et al., NeurIPS 2020, table 2)."""

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


class SizeSource(enum.StrEnum):
    """Where the sizes of a training graph come from."""

    SPEC = "Spec"
    KNOWN = "Known"
    """A public graph."""
    READ = "Read"
    """The Job `NAME-inspect` has read the graph, for the sizes that the job does not state."""


class DatasetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Sizes of the training graph that plans rest on."""

    vertices: PositiveCount
    edges: Annotated[int, Meta(ge=0, le=10**12)]
    """Directed edges, both directions of an undirected one counted."""
    feature_size: Annotated[int, Meta(ge=1, le=10**6)]
    classes: Annotated[int, Meta(ge=1, le=10**6)]
    source: SizeSource
    dataset_key: Annotated[str, Meta(max_length=16)]
    """Digest of the `spec.dataset` that they belong to."""
    train_vertices: PositiveCount | None = None
    """Labelled vertices of the training split, where the job states them or they were read."""


def dataset_key(dataset: DatasetSpec) -> str:
    """16 hex digits that differ where `spec.dataset` does."""
    return hashlib.sha256(msgspec.json.encode(dataset, order="deterministic")).hexdigest()[:KEY_DIGITS]


def is_sized(job: JobSpec) -> bool:
    """Whether the size of the job's training graph is stated or known, so that it can be planned."""
    return known_size(job.dataset) is not None or states_size(job.dataset)


def states_size(dataset: DatasetSpec) -> bool:
    """Whether the spec itself gives every figure of the size."""
    return all(value is not None for _, value in _stated(dataset))


def must_be_read(job: JobSpec) -> bool:
    """Whether a Job reads the graph before the job is planned."""
    return job.planner is not PlannerChoice.NONE and not is_sized(job)


def with_sizes(job: JobSpec, read: DatasetStatus) -> JobSpec:
    """The job with the sizes that were read where it states none."""
    stated = {name: value for name, value in msgspec.structs.asdict(job.dataset).items() if value is not None}
    figures = {name: getattr(read, name) for name in ("vertices", "edges", "feature_size", "classes", "train_vertices")}
    return msgspec.structs.replace(job, dataset=DatasetSpec(**{**figures, **stated}))


def known_size(dataset: DatasetSpec) -> DatasetSize | None:
    """Of a builtin graph, or of one of OGB's by the name of its folder; None for any other."""
    if dataset.source.builtin is not None:
        return BUILTIN_SIZES[dataset.source.builtin.name]
    if dataset.format is not DatasetFormat.OGB or dataset.path is None:
        return None
    size = OGB_SIZES.get(dataset.path.rpartition("/")[2].replace("_", "-"))
    one_way = dataset.direction is Direction.DIRECTED
    return size if size is None or one_way else size._replace(edges=2 * size.edges)


def _stated(dataset: DatasetSpec) -> tuple[tuple[str, int | None], ...]:
    return (
        ("vertices", dataset.vertices),
        ("edges", dataset.edges),
        ("featureSize", dataset.feature_size),
        ("classes", dataset.classes),
    )


def dataset_size(job: JobSpec) -> DatasetSize:
    """Size of the job's training graph; what the job itself states comes first. Raises ValueError naming the missing field."""
    public = known_size(job.dataset)
    figures: list[int] = []
    for index, (name, value) in enumerate(_stated(job.dataset)):
        if value is None and public is None:
            raise ValueError(f"spec.dataset.{name}: not known before the graph is read; write the graph's own figure")
        figures.append(value if value is not None else public[index] if public is not None else 0)
    return DatasetSize(*figures)
