"""Reader of clusters given as matrices, JSON or NPZ: latency and bandwidth of every pair. Pure.

Keys (n nodes; matrices n × n, the diagonal is not read):
    latency_seconds or delay_ms                        one way
    bandwidth_bytes_per_second or bandwidth_gbps       decimal gigabits
    nodes or devices     names (n) or their number; absent: device-00 and so on
    region, gpus, products, gpu_memory_bytes           optional, one entry a node (gpus: 1 where absent)
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Link, MetricsState, Node, Quality, Sample
from hyperscale.model.constants import HOSTNAME_LABEL
from hyperscale.observe.files.bounded import MAX_FILE_BYTES, SnapshotError

LATENCY_SCALES: Final = {"latency_seconds": 1.0, "delay_ms": 1e-3}
BANDWIDTH_SCALES: Final = {"bandwidth_bytes_per_second": 1.0, "bandwidth_gbps": 1e9 / 8}
MARKS: Final = LATENCY_SCALES.keys() | BANDWIDTH_SCALES.keys()
KEYS: Final = (*LATENCY_SCALES, *BANDWIDTH_SCALES, "nodes", "devices", "region", "gpus", "products", "gpu_memory_bytes")
MAX_NODES: Final = 1000
"""A million links; larger clusters are written as snapshots, whose links are sparse."""
REGION_LEVEL: Final = "topology.kubernetes.io/region"

FloatArray = NDArray[np.float64]


def parse_json(content: bytes, file: Path) -> ClusterSnapshot:
    """The snapshot in a JSON matrix; raises SnapshotError naming the key."""
    try:
        given = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(file, f"is no JSON object ({error})") from error
    return _snapshot({key: given[key] for key in KEYS if given.get(key) is not None}, file)


def parse_npz(content: bytes, file: Path) -> ClusterSnapshot:
    """The snapshot in an NPZ matrix, never unpickled and never larger than a file may be; raises SnapshotError naming the key."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_FILE_BYTES:
                raise SnapshotError(file, f"unpacks to more than {MAX_FILE_BYTES // 1024 // 1024} MiB")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            given = {key: _plain(arrays[key]) for key in KEYS if key in arrays.files}
    except Exception as error:  # zipfile, zlib, and Python's own tokenizer, by which numpy reads the headers of arrays
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError(file, f"is no NPZ of plain arrays ({error})") from error
    return _snapshot(given, file)


def _plain(array: NDArray[Any]) -> Any:  # noqa: ANN401 - JSON-like
    """Matrices stay arrays; names and counts become lists, as in JSON; a 0-d array becomes its value. Raises ValueError for no array."""
    if not isinstance(array, np.ndarray):  # numpy gives the bytes of members that are none
        raise ValueError("a member is no array")
    return array if array.ndim == 2 else array.tolist()


def _snapshot(given: Mapping[str, Any], file: Path) -> ClusterSnapshot:
    latency = _matrix(given, LATENCY_SCALES, file)
    bandwidth = _matrix(given, BANDWIDTH_SCALES, file)
    if latency is None and bandwidth is None:
        raise SnapshotError(file, f"write one of {', '.join(sorted(MARKS))}")
    count = len(latency if latency is not None else bandwidth)  # type: ignore[arg-type] # one of both is there
    if latency is not None and bandwidth is not None and latency.shape != bandwidth.shape:
        raise SnapshotError(file, f"latency is {latency.shape}, bandwidth {bandwidth.shape}; both must be n × n")
    nodes = _nodes(given, count, file)
    if bandwidth is not None and bool((bandwidth[~np.eye(count, dtype=bool)] == 0).any()):
        raise SnapshotError(file, "bandwidth: must be above 0 off the diagonal")
    return ClusterSnapshot(
        taken_at=0.0,
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        links=_links([node.name for node in nodes], latency, bandwidth),
        levels=(REGION_LEVEL,) if "region" in given else (),
        absent_links=AbsentLink.UNREACHABLE,
        metrics=MetricsState(available=True),
        source="matrix",
    )


def _matrix(given: Mapping[str, Any], scales: Mapping[str, float], file: Path) -> FloatArray | None:
    """The one matrix of `scales` that is given, in base units; None when none is."""
    keys = [key for key in scales if key in given]
    if len(keys) > 1:
        raise SnapshotError(file, f"{' and '.join(keys)}: write only one of them")
    if not keys:
        return None
    key = keys[0]
    matrix = _numbers(given[key], key, file)
    _check_square(matrix, key, file)
    return matrix * scales[key]


def _numbers(rows: object, key: str, file: Path) -> FloatArray:
    """The given rows as an array of any shape; raises SnapshotError for cells that are no numbers."""
    try:
        raw = np.asarray(rows, dtype=object if isinstance(rows, list) else None)
        if raw.dtype == object and any(isinstance(cell, str | bool) for cell in raw.flat):
            raise SnapshotError(file, f"{key}: must hold numbers only")
        return np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise SnapshotError(file, f"{key}: must be n rows of n numbers") from error


def _check_square(matrix: FloatArray, key: str, file: Path) -> None:
    """Raise SnapshotError unless the matrix is n × n and finite and not negative off the diagonal."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not 0 < len(matrix) <= MAX_NODES:
        raise SnapshotError(file, f"{key}: has shape {matrix.shape}; write n × n with n from 1 to {MAX_NODES}")
    off_diagonal = matrix[~np.eye(len(matrix), dtype=bool)]
    if not bool(np.isfinite(off_diagonal).all()) or bool((off_diagonal < 0).any()):
        raise SnapshotError(file, f"{key}: every number off the diagonal must be finite and not negative")


def _nodes(given: Mapping[str, Any], count: int, file: Path) -> list[Node]:
    """Nodes in matrix order."""
    names = _names(given, count, file)
    regions = _column(given, "region", str, count, file)
    products = _column(given, "products", str, count, file)
    gpus = _column(given, "gpus", int, count, file)
    memory = _column(given, "gpu_memory_bytes", int, count, file)
    nodes = []
    for place, name in enumerate(names):
        labels = {HOSTNAME_LABEL: name, **({REGION_LEVEL: regions[place]} if regions else {})}
        node = Node(
            name=name,
            gpu_product=products[place] if products else None,
            gpu_memory_bytes=memory[place] if memory else None,
            allocatable_gpus=gpus[place] if gpus else 1,
            requested_gpus=0,
            labels=labels,
            domains=(regions[place],) if regions else (),
        )
        nodes.append(node)
    return nodes


def _names(given: Mapping[str, Any], count: int, file: Path) -> list[str]:
    for key in ("nodes", "devices"):
        if isinstance(given.get(key), list):
            names: list[str] = _column(given, key, str, count, file) or []
            if len(set(names)) != count or not all(0 < len(name) <= 253 for name in names):
                raise SnapshotError(file, f"{key}: names must be unique, 1 to 253 characters long")
            return names
        if key in given and given[key] != count:
            raise SnapshotError(file, f"{key}: says {str(given[key])[:32]}, the matrix has {count} rows")
    digits = max(2, len(str(count - 1)))
    return [f"device-{number:0{digits}d}" for number in range(count)]


def _column(given: Mapping[str, Any], key: str, kind: type[Any], count: int, file: Path) -> list[Any] | None:
    """One entry a node; None when the key is absent."""
    if key not in given:
        return None
    try:
        column: list[Any] = msgspec.convert(given[key], list[kind])  # type: ignore[valid-type] # built at run time
    except msgspec.ValidationError as error:
        raise SnapshotError(file, f"{key}: {error}") from error
    if len(column) != count:
        raise SnapshotError(file, f"{key}: has {len(column)} entries for {count} nodes")
    if kind is int and any(not 0 <= value <= 2**53 for value in column):
        raise SnapshotError(file, f"{key}: must not be negative")
    return column


def _links(names: list[str], latency: FloatArray | None, bandwidth: FloatArray | None) -> tuple[Link, ...]:
    """Every ordered pair; equal figures share one `Sample`, a matrix mostly repeats a few."""
    latencies, bandwidths = _samples(latency, len(names)), _samples(bandwidth, len(names))
    links = [
        Link(source=source, destination=destination, latency_seconds=latencies[i][j], bandwidth_bytes_per_second=bandwidths[i][j])
        for i, source in enumerate(names)
        for j, destination in enumerate(names)
        if i != j
    ]
    return tuple(sorted(links, key=lambda link: (link.source, link.destination)))


def _samples(matrix: FloatArray | None, count: int) -> list[list[Sample]]:
    """A sample per cell; "no sample" everywhere without a matrix."""
    if matrix is None:
        unknown = Sample(value=None, age_seconds=None, quality=Quality.UNKNOWN, fault="not in the file")
        return [[unknown] * count] * count
    samples: dict[float, Sample] = {}
    return [
        [samples.setdefault(value, Sample(value=value, age_seconds=None, quality=Quality.MEASURED)) for value in row]
        for row in matrix.tolist()
    ]
