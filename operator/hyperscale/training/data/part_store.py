"""Partitions on a shared volume: written once, found again by what they are made from.

    <root>/<key>/manifest.json          written last: a folder without it is unfinished
    <root>/<key>/part-<i>.safetensors   the arrays of one LocalPart, its counts as metadata
    <root>/requests/<request>.json      which key a job's variables led to, so that workers need not read the graph to know

Every file is written beside its place and renamed; two writers of one key write the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from hyperscale.model.adjacency import Array, LocalPart
from hyperscale.training.data.data_errors import DataError, fault
from hyperscale.training.data.replacing import replacing

VERSION: Final = 1
KEY_DIGITS: Final = 32
MANIFEST: Final = "manifest.json"
REQUESTS: Final = "requests"
MAX_DOCUMENT_BYTES: Final = 16 * 2**20
MOST_ROWS: Final = 2**53
MAX_TABLE_PARTS: Final = 512
"""Parts up to which the manifest says who copies from whom: a number for each pair."""
COUNTS: Final = ("part", "parts", "classes", "train_total")
ARRAYS: Final = tuple(entry.name for entry in fields(LocalPart) if entry.name not in (*COUNTS, "extra", "name"))
EXTRA: Final = "extra."
REQUEST_VARIABLES: Final = (
    "HYPERSCALE_DATASET_SOURCE",
    "HYPERSCALE_DATASET_PATH",
    "HYPERSCALE_DATASET_FORMAT",
    "HYPERSCALE_DATASET_ENDPOINT",
    "HYPERSCALE_DATASET_VERTICES",
    "HYPERSCALE_DATASET_EDGES",
    "HYPERSCALE_DATASET_FEATURE_SIZE",
    "HYPERSCALE_DATASET_CLASSES",
    "HYPERSCALE_DATASET_DIRECTION",
    "HYPERSCALE_GPUS_PER_WORKER",
    "HYPERSCALE_PARTITIONING_BALANCE",
    "HYPERSCALE_PARTITIONING_METHOD",
    "HYPERSCALE_PARTITIONS",
    "HYPERSCALE_SEED",
    "HYPERSCALE_SHARES",
    "HYPERSCALE_WORKERS",
)

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_KEY: Final = re.compile(rf"[0-9a-f]{{{KEY_DIGITS}}}")


class PartFile(msgspec.Struct, frozen=True, rename="camel"):
    """One file of the store."""

    file: str
    bytes: int
    sha256: str
    vertices: int
    halo: int
    edges: int
    halo_from: tuple[int, ...] = ()
    """Copies by the part that owns them; empty above MAX_TABLE_PARTS parts, and in files of earlier versions."""


class PartManifest(msgspec.Struct, frozen=True, rename="camel"):
    """What a folder of the store holds, and what it was made from."""

    version: int
    key: str
    graph_digest: str
    graph: str
    """Name of the data set; of a generated stand-in for a builtin graph it says so."""
    vertices: int
    edges: int
    """Directed."""
    method: str
    """That was used; never Auto."""
    shares: tuple[float, ...]
    seed: int
    measures: dict[str, Any] = {}
    """cut, cutFraction, imbalance (of vertices), edgeImbalance, largestHalo, replication as the partitioner measured them."""
    parts: tuple[PartFile, ...] = ()


def key(graph_digest: str, method: str, shares: tuple[float, ...], seed: int) -> str:
    """Name of the partitions that follow from these: 32 hex digits."""
    identity = {"version": VERSION, "graph": graph_digest, "method": str(method), "shares": shares, "seed": seed}
    return hashlib.sha256(_ENCODER.encode(identity)).hexdigest()[:KEY_DIGITS]


def request(environment: Mapping[str, str]) -> str:
    """Name of what a job asks for: 32 hex digits over the variables that decide its partitions."""
    asked = {name: environment[name] for name in REQUEST_VARIABLES if environment.get(name)}
    return hashlib.sha256(_ENCODER.encode(asked)).hexdigest()[:KEY_DIGITS]


def write(root: Path, key: str, parts: Iterable[LocalPart], manifest: PartManifest) -> PartManifest:
    """Write all parts, one in memory at a time, and the manifest with their sums last; gives the manifest as written.

    Raises DataError where the volume is full or read-only.
    """
    folder = _folder(root, key)
    with _faults(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        files = tuple(_write_part(folder, part) for part in parts)
        complete = msgspec.structs.replace(manifest, version=VERSION, key=key, parts=files)
        _write_document(folder / MANIFEST, complete)
    return complete


def note(root: Path, request: str, key: str) -> None:
    """Remember that `request` led to `key`; the last one counts."""
    file = root / REQUESTS / f"{request}.json"
    with _faults(file, "written"):
        file.parent.mkdir(parents=True, exist_ok=True)
        _write_document(file, {"key": key})


def find(root: Path, request: str) -> str | None:
    """The key that the partition Job noted for `request`; None where it has not, where the note is torn, or where its files are gone."""
    file = root / REQUESTS / f"{request}.json"
    if not file.is_file():
        return None
    try:
        noted = _read_document(file, dict[str, str]).get("key", "")
    except DataError:  # only a way to what the graph leads to as well; the Job writes it again
        return None
    return noted if has(root, noted) else None


def has(root: Path, key: str) -> bool:
    """Whether all files of `key` are there with their sizes."""
    if _KEY.fullmatch(key) is None:
        return False
    try:
        stored = manifest(root, key)
        return all((root / key / part.file).stat().st_size == part.bytes for part in stored.parts)
    except (DataError, OSError):
        return False


def manifest(root: Path, key: str) -> PartManifest:
    """What is stored under `key`; raises DataError where it is absent, unfinished or of another version."""
    file = _folder(root, key) / MANIFEST
    stored: PartManifest = _read_document(file, PartManifest)
    if stored.version != VERSION or stored.key != key:
        raise fault(file, f"version {stored.version} of {stored.key[:40]!r}", "delete the folder and partition again")
    for at, part in enumerate(stored.parts):
        if part.file != _part_name(at):
            raise fault(file, f"part {at} is in {part.file[:40]!r}", "delete the folder and partition again")
        if len(part.halo_from) not in (0, len(stored.parts)) or not all(
            0 <= rows <= min(stored.vertices, MOST_ROWS) for rows in part.halo_from
        ):
            raise fault(file, f"haloFrom of part {at} fits no graph of {stored.vertices} vertices", "delete the folder and partition again")
    return stored


def part_file(root: Path, key: str, part: int) -> Path:
    """Where part `part` is stored."""
    return _folder(root, key) / _part_name(part)


def load(root: Path, key: str, part: int) -> LocalPart:
    """One part, its sum checked; raises DataError where it is absent or damaged."""
    stored = manifest(root, key)
    if not 0 <= part < len(stored.parts):
        raise fault(_folder(root, key), f"no part {part} of {len(stored.parts)}", "partition again with the plan's shares")
    file, entry = part_file(root, key, part), stored.parts[part]
    with _faults(file, "read"):
        if file.stat().st_size != entry.bytes or _sum(file) != entry.sha256:
            raise fault(file, "damaged: size or checksum differ from the manifest", "delete the folder and partition again")
        return _read_part(file, stored.graph)


def _write_part(folder: Path, part: LocalPart) -> PartFile:
    file = folder / _part_name(part.part)
    arrays = {name: getattr(part, name) for name in ARRAYS} | {EXTRA + name: array for name, array in part.extra.items()}
    with replacing(file) as fresh:
        save_file(
            {name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)},
            fresh,
            {name: str(getattr(part, name)) for name in COUNTS} | {"version": str(VERSION)},
        )
        total = _sum(fresh)
    halo_from = tuple(np.bincount(part.halo_owner, minlength=part.parts).tolist()) if part.parts <= MAX_TABLE_PARTS else ()
    return PartFile(file.name, file.stat().st_size, total, len(part.owned), len(part.halo), len(part.indices), halo_from)


def _read_part(file: Path, name: str) -> LocalPart:
    with safe_open(file, framework="numpy") as opened:
        about = opened.metadata() or {}
        arrays: dict[str, Array] = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - no mapping
    try:
        counts = {name: int(about[name]) for name in COUNTS}
        extra = {name.removeprefix(EXTRA): array for name, array in arrays.items() if name.startswith(EXTRA)}
        part = LocalPart(**{name: arrays[name] for name in ARRAYS}, **counts, extra=extra, name=name)  # type: ignore[arg-type]
    except (KeyError, ValueError) as error:
        raise fault(file, f"not a part of version {VERSION} ({error})", "delete the folder and partition again") from None
    if not _coherent(part):
        raise fault(file, "its arrays do not fit each other", "delete the folder and partition again")
    return part


def _coherent(part: LocalPart) -> bool:
    """Enough that no index leaves its array: the volume may be written by others."""
    rows = len(part.owned) + len(part.halo)
    return (
        len(part.indptr) == len(part.owned) + 1
        and int(part.indptr[0]) == 0
        and int(part.indptr[-1]) == len(part.indices)
        and bool((np.diff(part.indptr) >= 0).all())
        and _within(part.indices, rows)
        and 0 <= part.part < part.parts
        and len(part.halo_owner) == len(part.halo)
        and _within(part.halo_owner, part.parts)
        and len(part.in_degree) == len(part.out_degree) == rows
        and len(part.features) == len(part.owned)
        and len(part.labels) == len(part.train) == len(part.validation) == len(part.test)
    )


def _within(numbers: Array, limit: int) -> bool:
    """Whether each is one of 0..limit - 1."""
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < limit)


def _folder(root: Path, key: str) -> Path:
    if _KEY.fullmatch(key) is None:
        raise fault("key", f"{key[:40]!r} is no key of the store", f"write {KEY_DIGITS} hex digits")
    return root / key


def _part_name(part: int) -> str:
    return f"part-{part}.safetensors"


def _sum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _write_document(file: Path, content: object) -> None:
    with replacing(file) as fresh:
        fresh.write_bytes(msgspec.json.format(_ENCODER.encode(content)) + b"\n")


def _read_document(file: Path, kind: type[Any]) -> Any:  # noqa: ANN401 - msgspec checks that it is a `kind`
    with _faults(file, "read"):
        with file.open("rb") as opened:
            text = opened.read(MAX_DOCUMENT_BYTES + 1)
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise fault(file, f"unreadable ({error})", "delete the folder and partition again") from None


@contextlib.contextmanager
def _faults(place: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise fault(place, f"cannot be {doing} ({what})", "check the volume of spec.partitioning.claimName") from None
