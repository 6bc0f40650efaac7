"""The partition Job: `python -m hyperscale.training.worker.prepare` reads the graph, cuts it, writes the parts to the shared volume.

Variables as for training (control/render/environment.py), HYPERSCALE_PARTITION_DIR above all. Progress goes to stderr; stdout gets one line
of JSON at the end. Exit code 2: this input or this memory will not do, and trying again changes nothing; 1: anything else.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from hyperscale.model.adjacency import Array, LocalPart, TrainingGraph
from hyperscale.model.api.datasets import BUILTIN_SIZES
from hyperscale.model.api.job import PartitioningMethod
from hyperscale.training import data, partition
from hyperscale.training.data import graphs, part_store
from hyperscale.training.data.available_memory import limit_bytes
from hyperscale.training.runtime import contract
from hyperscale.training.runtime.contract import ContractError, Run
from hyperscale.training.runtime.termination import leave
from hyperscale.training.worker import automatic
from hyperscale.training.worker.given import part_shares, read_graph, read_parts

WHOLE_GRAPHS: Final = "WholeGraphs"
"""Method of data sets of many graphs: each lies in one part, nothing is cut."""
DIRECT: Final = (PartitioningMethod.RANDOM, PartitioningMethod.DEGREE, PartitioningMethod.NONE, PartitioningMethod.PRECOMPUTED)
"""Methods that need no memory to speak of."""


@dataclass(frozen=True)
class Cut:
    """An assignment and how it was made."""

    assignment: Array
    method: str
    measures: dict[str, float]


class _Clock:
    """Seconds since the last lap, by name."""

    def __init__(self) -> None:
        self.started = self.last = time.monotonic()
        self.last_cpu = time.process_time()
        self.phases: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """Everything since the last lap belongs to `name`."""
        now, cpu = time.monotonic(), time.process_time()
        self.phases[name], self.cpu[name] = round(now - self.last, 3), round(cpu - self.last_cpu, 3)
        self.last, self.last_cpu = now, cpu

    def total(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started


def main(environment: Mapping[str, str] | None = None) -> int:
    """Prepare the partitions that the variables ask for; the exit code."""
    variables = os.environ if environment is None else environment
    return answered("hyperscale-prepare", lambda: prepare(variables), "out of memory; raise the memory limit in spec.workers.resources")


def answered(program: str, work: Callable[[], dict[str, Any]], out_of_memory: str) -> int:
    """Run `work` and leave its result, or why there is none, in the termination message too; the exit code."""
    try:
        text = json.dumps(work(), sort_keys=True)
    except (ContractError, data.DataError, partition.PartitionError, MemoryError) as error:
        line = " ".join((str(error) or out_of_memory).split())
        sys.stderr.write(f"{program}: {line}\n")
        leave(line.encode())
        return contract.EXIT_WRONG_INPUT
    sys.stdout.write(text + "\n")
    leave(text.encode())
    return 0


def prepare(environment: Mapping[str, str]) -> dict[str, Any]:
    """Write the parts, or find them written; the result as JSON. Raises ContractError, DataError or PartitionError."""
    clock = _Clock()
    run = read_run(environment)
    root = run.partition_dir
    if root is None:
        raise ContractError("HYPERSCALE_PARTITION_DIR: missing; write the folder of the shared volume")
    shares = part_shares(run)
    _check_memory(run, len(shares), *_stated_sizes(run))
    _say(f"reading {run.dataset.source} {run.dataset.path}")
    graph = read_graph(run)
    vertices, edges = len(graph.indptr) - 1, len(graph.indices)
    digest = data.graph_digest(graph)
    _say(f"{graph.name}: {vertices} vertices, {edges} directed edges, {graph.features.shape[1]} features, digest {digest[:12]}")
    for note in graph.notes:
        _say(f"{graph.name}: {note}")
    clock.lap("read")
    method = _check_memory(run, len(shares), vertices, edges, graph.features.shape[1])
    request = part_store.request(environment)
    given = read_parts(run, vertices, len(shares)) if method == PartitioningMethod.PRECOMPUTED else None
    identity = _identity(method, graph, given)
    key = _written(root, request, digest, method, part_store.key(digest, identity, shares, run.seed))
    reused = key is not None
    if key is None:
        assigned = cut(run, graph, shares, method, given)
        _say(
            f"cut into {len(shares)} by {assigned.method}: " + ", ".join(f"{name} {value:.4g}" for name, value in assigned.measures.items())
        )
        clock.lap("cut")
        key = part_store.key(digest, identity if given is not None else assigned.method, shares, run.seed)
        about = part_store.PartManifest(
            part_store.VERSION, key, digest, graph.name, vertices, edges, assigned.method, shares, run.seed, assigned.measures
        )
        part_store.write(root, key, _parts(graph, assigned.assignment, len(shares)), about)
        clock.lap("write")
    else:
        _say(f"{key} is there already")
    part_store.note(root, request, key)
    return _answer(part_store.manifest(root, key), reused, clock)


def read_run(environment: Mapping[str, str]) -> Run:
    """The contract as every rank would read it; this program is no rank."""
    counts = [environment.get(name, "1") for name in ("HYPERSCALE_WORKERS", "HYPERSCALE_GPUS_PER_WORKER")]
    ranks = int(counts[0]) * int(counts[1]) if all(text.isascii() and text.isdigit() and len(text) < 6 for text in counts) else 1
    return contract.read({**environment, "OMPI_COMM_WORLD_SIZE": str(max(ranks, 1)), "OMPI_COMM_WORLD_RANK": "0"})


def _identity(method: str, graph: TrainingGraph, given: Array | None) -> str:
    """What of the method decides the parts."""
    if graph.graph_offsets is not None:
        return WHOLE_GRAPHS
    return method if given is None else f"{method} {hashlib.sha256(given.tobytes()).hexdigest()}"


def _written(root: Path, request: str, digest: str, method: str, key: str) -> str | None:
    """The key of partitions that are there for this graph: what the same request led to before (Auto may choose), else `key`."""
    noted = part_store.find(root, request)
    if method == PartitioningMethod.AUTO and noted is not None and part_store.manifest(root, noted).graph_digest == digest:
        return noted
    return key if part_store.has(root, key) else None


def cut(run: Run, graph: TrainingGraph, shares: tuple[float, ...], method: str, given: Array | None = None) -> Cut:
    """The assignment by `method`, which `_check_memory` chose."""
    if graph.graph_offsets is not None:
        assignment = graphs.deal(graph, shares, run.seed)
        load = np.bincount(assignment, minlength=len(shares)) / max(len(assignment), 1) / np.asarray(shares)
        return Cut(assignment, WHOLE_GRAPHS, {"cut": 0.0, "imbalance": float(load.max())})
    adjacency = data.symmetric(graph)
    if given is not None:
        parts = partition.precomputed(adjacency, given, shares, graph.train)
    elif shares == run.shares and method != partition.FENNEL:
        parts = automatic.parts(run, adjacency, graph.train, graph.features.shape[1], graph.classes)
    else:
        parts = partition.split(adjacency, shares, method, seed=run.seed, train=graph.train)
    figures = {
        "cut": float(parts.measures.cut),
        "cutFraction": parts.measures.cut_fraction,
        "imbalance": parts.measures.imbalance,
        "edgeImbalance": parts.measures.edge_imbalance,
        "largestHalo": float(parts.measures.largest_halo),
        "replication": parts.measures.replication,
    }
    return Cut(parts.assignment, str(parts.method), figures)


def _stated_sizes(run: Run) -> tuple[int, int, int]:
    """Vertices, directed edges and features as the job or the table of builtin graphs states them; 0 where unknown."""
    dataset = run.dataset
    builtin = BUILTIN_SIZES.get(dataset.path) if dataset.source == "builtin" else None
    stated = (dataset.vertices, dataset.edges, dataset.feature_size)
    sizes = tuple(value or (builtin[at] if builtin is not None else 0) for at, value in enumerate(stated))
    return sizes[0], sizes[1], sizes[2]


def _check_memory(run: Run, parts: int, vertices: int, edges: int, features: int) -> str:
    """The method to use: the job's, or for Auto the streaming one where METIS cannot fit. Raises DataError where nothing fits."""
    most = limit_bytes()
    streamed = partition.streaming_bytes(vertices, edges, features)
    whole = partition.memory_bytes(vertices, edges // 2, features, parts, run.method)
    multilevel = max(whole, streamed + edges // 2 * partition.edge_bytes(run.method))
    if run.method in DIRECT:
        multilevel = streamed
    if multilevel <= most:
        return run.method.value
    if run.method is PartitioningMethod.AUTO and streamed <= most:
        _say(f"METIS would need {_gib(multilevel)}, this container may use {_gib(most)}: streaming with {partition.FENNEL} instead")
        return partition.FENNEL
    # The Job asks for memory and limits none: what it may use is its node's, or what the namespace limits pods to.
    needed, fix = multilevel, "name nodes with more memory in spec.placement.nodeSelector"
    if run.method is PartitioningMethod.AUTO:
        needed = streamed
    elif streamed <= most:
        fix += ", or write Auto, which streams large graphs"
    what = f"{vertices} vertices, {edges} edges, {features} features into {parts} parts need {_gib(needed)}"
    raise data.DataError(f"spec.partitioning.method: {run.method.value}: {what}, this container may use {_gib(most)}; {fix}")


def _parts(graph: TrainingGraph, assignment: Array, parts: int) -> Iterator[LocalPart]:
    for part in range(parts):
        _say(f"writing part {part + 1} of {parts}")
        yield partition.local_part(graph, assignment, part, parts)


def _answer(manifest: part_store.PartManifest, reused: bool, clock: _Clock) -> dict[str, Any]:
    return {
        "key": manifest.key,
        "graph": manifest.graph,
        "graphDigest": manifest.graph_digest,
        "vertices": manifest.vertices,
        "edges": manifest.edges,
        "method": manifest.method,
        "parts": len(manifest.parts),
        "measures": manifest.measures,
        "bytes": sum(part.bytes for part in manifest.parts),
        "reused": reused,
        "seconds": round(clock.total(), 3),
        "phaseSeconds": clock.phases,
        "phaseCpuSeconds": clock.cpu,
        "peakBytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.2f} GiB"


def _say(line: str) -> None:
    sys.stderr.write(f"hyperscale-prepare: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
