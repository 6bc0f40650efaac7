"""Snapshot files: our own JSON both ways, and the readers of other formats by what the file is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from hyperscale.model.api.policy import MAX_NETWORK_CARDS
from hyperscale.model.cluster import NVLINK, PATH_KINDS, ClusterSnapshot, Gpu, GpuPaths, Link, Node, Quality, Sample
from hyperscale.observe.files import hulk, matrix
from hyperscale.observe.files.bounded import SnapshotError, read_bounded, read_text
from hyperscale.observe.files.unknown_fields import unknown_fields
from hyperscale.util.nesting import shallow

SCHEMA_VERSION: Final = 1
MAX_TAKEN_AT: Final = 253_402_300_799.0
"""The last second of the year 9999, beyond which there are no dates to show."""
MAX_LATENCY_SECONDS: Final = 3600.0
MAX_BYTES_PER_SECOND: Final = 1e15
"""Both as in PlannerPolicy.spec.overrides."""
MAX_GPUS: Final = 4096
"""Of a node; of one in a cluster the operator reads no more either."""
MAX_NVLINKS: Final = 64
"""Of one GPU; the driver's interface counts 18."""
MAX_BYTES: Final = 2**53
MAX_CORES: Final = 1e6
MAX_BY_UNIT: Final[Mapping[str, float]] = {
    "_bytes_per_second": MAX_BYTES_PER_SECOND,
    "_bytes": MAX_BYTES,
    "_celsius": 1000.0,
    "_ratio": 1.0,
    "_seconds": MAX_LATENCY_SECONDS,
    "_watts": 1e5,
    "_xid": 1e5,
}
"""Largest value by the unit at the end of a field's name."""
MAX_SAMPLES: Final[Mapping[str, float]] = {
    field.name: next(most for unit, most in MAX_BY_UNIT.items() if field.name.endswith(unit))
    for kind in (Gpu, Node, Link)
    for field in msgspec.structs.fields(kind)
    if field.type is Sample
}
"""Largest value of each sample."""
NPZ_MAGIC: Final = b"PK\x03\x04"
_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(ClusterSnapshot)


def read_snapshot(path: Path | str) -> ClusterSnapshot:
    """The snapshot in a file: our JSON, a matrix (JSON or NPZ), or Hulk's pair (its directory or either of its files).

    Raises SnapshotError, one line, for whatever cannot be used.
    """
    file = Path(path)
    if file.is_dir() or file.name in hulk.FILE_NAMES:
        directory = file if file.is_dir() else file.parent
        if not all((directory / name).is_file() for name in hulk.FILE_NAMES):
            raise SnapshotError(file, f"a directory is read as Hulk's pair and needs {' and '.join(hulk.FILE_NAMES)}")
        return hulk.parse(read_text(directory / hulk.EDGES), read_text(directory / hulk.NODES), directory)
    content = read_bounded(file)
    if content.startswith(NPZ_MAGIC):
        return matrix.parse_npz(content, file)
    return _parse_json(content, file)


def write_snapshot(path: Path | str, snapshot: ClusterSnapshot) -> None:
    """Write `snapshot` as JSON, one node or link a line; equal snapshots give equal bytes. The file appears whole or not at all."""
    file = Path(path)
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(encode_snapshot(snapshot))
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise SnapshotError(file, f"cannot be written: {error.strerror}") from error


def encode_snapshot(snapshot: ClusterSnapshot) -> bytes:
    """Canonical JSON: keys sorted, nodes and links one a line so that two snapshots can be compared with diff."""
    fields: dict[str, Any] = {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}
    names = dict(zip(snapshot.__struct_fields__, snapshot.__struct_encode_fields__, strict=True))
    parts = []
    for name in sorted(fields, key=lambda field: names[field]):
        value = fields[name]
        encoded = _lines(value) if name in {"nodes", "links"} and value else _ENCODER.encode(value)
        parts.append(_ENCODER.encode(names[name]) + b": " + encoded)
    return b"{\n" + b",\n".join(parts) + b"\n}\n"


def _lines(entries: Iterable[Node | Link]) -> bytes:
    return b"[\n" + b",\n".join(_ENCODER.encode(entry) for entry in entries) + b"\n]"


def _parse_json(content: bytes, file: Path) -> ClusterSnapshot:
    """Our own JSON, or a matrix in JSON."""
    try:
        outline = msgspec.json.decode(shallow(content), type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(file, f"is no JSON object ({error}); give a snapshot, a matrix file or Hulk's directory") from error
    if outline.keys() & matrix.MARKS:
        return matrix.parse_json(content, file)
    if not outline.keys() >= {"takenAt", "nodes"}:
        raise SnapshotError(file, "has neither takenAt and nodes (a snapshot) nor delay_ms or latency_seconds (a matrix)")
    if outline.get("schemaVersion", msgspec.Raw(b"1")) != msgspec.Raw(str(SCHEMA_VERSION).encode()):
        raise SnapshotError(
            file, f"schemaVersion: this version reads {SCHEMA_VERSION} only; write the snapshot again with `hyperscale snapshot`"
        )
    try:
        snapshot = _DECODER.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(file, _where(error)) from error
    problem = next(unknown_fields(outline), None) or next(_problems(snapshot), None)
    if problem is not None:
        raise SnapshotError(file, problem)
    return replace(
        snapshot,
        nodes=tuple(sorted(snapshot.nodes, key=lambda node: node.name)),
        links=tuple(sorted(snapshot.links, key=lambda link: (link.source, link.destination))),
    )


def _where(error: Exception) -> str:
    """Msgspec's "text - at `$.nodes[0].name`" as "nodes[0].name: text"."""
    text, _, place = str(error).partition(" - at `$.")
    return f"{place.rstrip('`')}: {text}" if place else text


def _problems(snapshot: ClusterSnapshot) -> Iterator[str]:
    """What types cannot say, in reading order."""
    if not 0 <= snapshot.taken_at <= MAX_TAKEN_AT:
        yield f"takenAt: write Unix seconds from 0 to {MAX_TAKEN_AT:.0f}"
    names: set[str] = set()
    for place, node in enumerate(snapshot.nodes):
        yield from (f"nodes[{place}].{problem}" for problem in _node_problems(node, names, len(snapshot.levels)))
        names.add(node.name)
    pairs: set[tuple[str, str]] = set()
    for place, link in enumerate(snapshot.links):
        yield from (f"links[{place}].{problem}" for problem in _link_problems(link, names, pairs))
        pairs.add((link.source, link.destination))


def _node_problems(node: Node, names: set[str], levels: int) -> Iterator[str]:
    if not node.name:
        yield "name: must not be empty"
    if node.name in names:
        yield f"name: {node.name!r} occurs twice"
    if len(node.domains) != levels:
        yield f"domains: has {len(node.domains)} entries, levels has {levels}; write one per level"
    yield from _amount_problems(node)
    if node.gpu_paths is not None:
        yield from (f"gpuPaths.{problem}" for problem in _paths_problems(node.gpu_paths))
    if node.network_cards is not None and not 1 <= node.network_cards <= MAX_NETWORK_CARDS:
        yield f"networkCards: {node.network_cards} is no number of cards; write 1 to {MAX_NETWORK_CARDS}"
    for name in ("network_bytes_per_second", "network_use_ratio"):
        yield from _sample_problems(name, getattr(node, name))
    for place, gpu in enumerate(node.gpus):
        yield from (f"gpus[{place}].{problem}" for problem in _gpu_problems(gpu))


def _amount_problems(node: Node) -> Iterator[str]:
    """Amounts below 0, and such as no node has."""
    counts = (node.allocatable_gpus, node.requested_gpus, node.requested_memory_bytes, node.gpu_memory_bytes or 0)
    amounts = (node.requested_cpu_cores, node.allocatable_cpu_cores or 0.0, node.allocatable_memory_bytes or 0)
    if min(*counts, *amounts) < 0:
        yield "GPUs, cores and memory, allocatable and requested: must not be negative"
    yield from _too_much(node)
    if not all(0 <= amount <= MAX_BYTES for amount in (*node.allocatable.values(), *node.requested.values())):
        yield f"allocatable and requested: write amounts from 0 to {MAX_BYTES}"


def _paths_problems(paths: GpuPaths) -> Iterator[str]:
    least, most = (1, MAX_NVLINKS) if paths.kind == NVLINK else (0, 0)
    if paths.kind not in PATH_KINDS:
        yield f"kind: {paths.kind[:32]!r} is none of {', '.join(PATH_KINDS)}"
    elif not least <= paths.nvlinks <= most:
        yield f"nvlinks: {paths.nvlinks} is not possible with kind {paths.kind}; write {f'{least} to {most}' if most else '0'}"


def _gpu_problems(gpu: Gpu) -> Iterator[str]:
    for name in gpu.__struct_fields__[1:]:
        yield from _sample_problems(name, getattr(gpu, name))


def _link_problems(link: Link, names: set[str], pairs: set[tuple[str, str]]) -> Iterator[str]:
    for field, name in (("source", link.source), ("destination", link.destination)):
        if name not in names:
            yield f"{field}: no node is called {name!r}"
    if link.source == link.destination:
        yield "destination: must differ from source"
    if (link.source, link.destination) in pairs:
        yield f"source: the pair {link.source!r}, {link.destination!r} occurs twice"
    for name in ("latency_seconds", "bandwidth_bytes_per_second"):
        yield from _sample_problems(name, getattr(link, name))


def _too_much(node: Node) -> Iterator[str]:
    """Figures of a node that no machine has: sums of them would leave 64 bits."""
    for name, value, most in (
        ("allocatableGpus", node.allocatable_gpus, MAX_GPUS),
        ("requestedGpus", node.requested_gpus, MAX_GPUS),
        ("gpuMemoryBytes", node.gpu_memory_bytes or 0, MAX_BYTES),
        ("allocatableMemoryBytes", node.allocatable_memory_bytes or 0, MAX_BYTES),
        ("requestedMemoryBytes", node.requested_memory_bytes, MAX_BYTES),
        ("allocatableCpuCores", node.allocatable_cpu_cores or 0.0, MAX_CORES),
        ("requestedCpuCores", node.requested_cpu_cores, MAX_CORES),
    ):
        if not value <= most:
            yield f"{name}: {value:g} is more than any node has; write at most {most:g}"


def _sample_problems(name: str, sample: Sample) -> Iterable[str]:
    value, age = sample.value, sample.age_seconds
    unknown = sample.quality is Quality.UNKNOWN
    possible = unknown if value is None else not unknown and 0 <= value <= MAX_SAMPLES[name]
    # Nearly all of a large cluster's hundred thousands of samples: no more is done for them.
    if possible and (age is None or 0 <= age < math.inf):
        return ()
    return _named_problems(_camel(name), MAX_SAMPLES[name], sample)


def _named_problems(field: str, most: float, sample: Sample) -> Iterator[str]:
    """Problems of a sample; field: its name in the file; most: the largest possible value."""
    if (sample.value is None) != (sample.quality is Quality.UNKNOWN):
        yield f"{field}: value must be null exactly when quality is unknown"
    elif sample.value is not None and not (math.isfinite(sample.value) and sample.value >= 0):
        yield f"{field}.value: must be a finite number, 0 or more"
    elif sample.value is not None and sample.value > most:
        yield f"{field}.value: {sample.value:g} is not possible; write at most {most:g}"
    if sample.age_seconds is not None and not (math.isfinite(sample.age_seconds) and sample.age_seconds >= 0):
        yield f"{field}.ageSeconds: must be a finite number, 0 or more"


def _camel(name: str) -> str:
    """The field's name in the file."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
