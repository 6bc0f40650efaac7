"""Epoch time on workers of different speed: parts by capacity against equal METIS parts, both in this project's runtime over Horovod.

    .venv/bin/python -m benchmarks.training             # 2 and 4 workers, speeds 2:1 and 1.5:1
    .venv/bin/python -m benchmarks.training --quick     # 2 workers, 2:1, a smaller graph

Workers are processes in network namespaces with shaped links of 1 Gbit/s whose computing threads have processor quotas, standing for GPUs
of different speed (benchmarks/throttled.py); the sum of the quotas is 0.9 cores of two, so that they do not contend. Both
variants live in the same processes and take epochs in turn. An epoch ends when the last rank has ended it. Both train the same model on the
same graph: their losses must agree.

Equal: equal parts by METIS, Horovod's own fusion. Ours: parts by capacity, scheduled groups. The rest of the runtime, boundary exchange
above all, is this project's in both; so the gain is that of the parts, and says nothing of programs written for Horovod alone. Bytes: what
all ranks send in one epoch, boundaries and their gradients, with the same shares and other partitioners. The generator numbers vertices
community by community, so that cutting the file in its order is a strong peer: it finds the communities without looking at an edge.

The ideal gain of speeds r:1 is 1 - 2/(1+r): all arithmetic follows the parts, and nothing else takes time. Boundaries, gradients and the
optimizer do not follow the parts; the graph is one of communities that METIS finds, so that arithmetic dominates. At each of the six
points of an epoch where workers wait for each other the last of them decides, whose thread may just have used up its quota: that is 100 ms
or so with four workers whatever they compute, and an epoch has to be long for it to be little. `processor` is what the computing threads
used, waiting left out: other programs on this machine can delay them, and can make them use more by taking their cache.

One file, though longer than others, so that the whole measurement can be read at once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # escape sequences in the source of DGL 1.1
    import dgl  # noqa: F401

from benchmarks.common import Row, goal, parser, report  # noqa: E402
from benchmarks.throttled import ThrottleError, compute_here, machines, why_not  # noqa: E402
from hyperscale.model.adjacency import Adjacency, TrainingGraph  # noqa: E402
from hyperscale.training import data, partition  # noqa: E402
from hyperscale.training.data import part_store  # noqa: E402
from hyperscale.training.data.edges_to_csr import in_neighbours  # noqa: E402
from hyperscale.training.engine.full import FullTrainer  # noqa: E402
from hyperscale.training.engine.retune import Adaptive  # noqa: E402
from hyperscale.training.partition.baselines import along  # noqa: E402
from hyperscale.training.runtime import contract  # noqa: E402
from hyperscale.training.runtime.comm import Comm, connect  # noqa: E402
from hyperscale.training.worker import train  # noqa: E402

NAME: Final = "training"
MEGABITS: Final = 1000.0
EQUAL, OURS, RANDOM, DEGREE, FILE_ORDER = "equal", "capacity", "random", "degree", "file order"
OTHERS: Final = (RANDOM, DEGREE, FILE_ORDER)
"""Partitioners whose bytes are counted beside ours; they are not timed."""
CLAIM: Final = 0.20
"""AGPCS: epochs 20 % shorter on GPUs of different speed."""
OF_IDEAL: Final = 0.9
FEWER_BYTES: Final = 0.15
FEATURES: Final = 768
MODEL: Final[dict[str, Any]] = {"architecture": "GraphSAGE", "layers": 2, "hiddenSize": 256, "epochs": 1000}


@dataclass(frozen=True)
class Case:
    """Processor quotas of the workers, in cores."""

    name: str
    ratio: float
    cores: tuple[float, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """Of each worker, by its speed."""
        return tuple(core / sum(self.cores) for core in self.cores)

    @property
    def ideal(self) -> float:
        """Part of the epoch that capacity-weighted parts can save at best."""
        return 1.0 - 2.0 / (1.0 + self.ratio)


CASES: Final = (
    Case("2 workers 2:1", 2.0, (0.6, 0.3)),
    Case("2 workers 1.5:1", 1.5, (0.6, 0.4)),
    Case("4 workers 2:1", 2.0, (0.3, 0.3, 0.15, 0.15)),
    Case("4 workers 1.5:1", 1.5, (0.27, 0.27, 0.18, 0.18)),
)


def communities(vertices: int, features: int, seed: int) -> TrainingGraph:
    """Communities of 250 in a ring: 16 edges a vertex, 91 % inside, 8 % to the next two communities, 1 % anywhere."""
    rng = np.random.default_rng(seed)
    sources = np.repeat(np.arange(vertices), 8)
    home = sources // 250 * 250
    kind = rng.random(len(sources))
    near = (home + rng.integers(1, 3, len(sources)) * 250 + rng.integers(0, 250, len(sources))) % vertices
    inside = np.minimum(home + rng.integers(0, 250, len(sources)), vertices - 1)
    ends = np.where(kind < 0.91, inside, np.where(kind < 0.99, near, rng.integers(0, vertices, len(sources))))
    indptr, indices = in_neighbours(vertices, sources.astype(np.int32), ends.astype(np.int32), both_directions=True)
    labels = np.arange(vertices) // 250 % 16
    rows = rng.normal(size=(vertices, features)).astype(np.float32)
    rows[:, :16] += np.eye(16, dtype=np.float32)[labels]
    fold = rng.permutation(vertices) % 10
    return TrainingGraph(indptr, indices, rows, labels, fold < 6, fold == 6, fold > 6, 16, name="communities")


def prepare(graph: TrainingGraph, shares: Sequence[float], method: str, seed: int, root: Path) -> tuple[str, float]:
    """The parts in the store: their key, and the largest part over its share."""
    adjacency = data.symmetric(graph)
    parts = _parts(adjacency, tuple(shares), method, seed, graph)
    key = part_store.key(f"{len(graph.labels)}", method, tuple(shares), seed)
    if not part_store.has(root, key):
        pieces = (partition.local_part(graph, parts.assignment, at, len(shares)) for at in range(len(shares)))
        about = part_store.PartManifest(1, key, "", graph.name, len(graph.labels), len(graph.indices), method, tuple(shares), seed)
        part_store.write(root, key, pieces, about)
    return key, parts.measures.imbalance


def _parts(adjacency: Adjacency, shares: tuple[float, ...], method: str, seed: int, graph: TrainingGraph) -> partition.Parts:
    if method != FILE_ORDER:
        return partition.split(adjacency, shares, method, seed=seed, train=graph.train)
    ones = np.ones(adjacency.vertices, dtype=np.int64)
    assignment = along(np.arange(adjacency.vertices), ones, np.asarray(shares))
    return partition.Parts(assignment, len(shares), method, partition.measure(adjacency, assignment, shares, graph.train))


def rank(keys: dict[str, str], root: Path, repeats: int, result: Path) -> None:
    """One worker: epochs of the timed variants in turn, one epoch each of the others."""
    base = {"HYPERSCALE_MODEL": json.dumps(MODEL), "HYPERSCALE_DATASET_PATH": "Cora", "HYPERSCALE_METRICS_PORT": "0"}
    base |= {"HYPERSCALE_HYPERPARAMETERS": json.dumps({"dropout": 0.0, "normalizeFeatures": False})}
    run = contract.read({**os.environ, **base})
    train.tune(run)
    comm = connect(run.size)
    compute_here(comm.rank)
    epochs: dict[str, list[float]] = {}
    losses: dict[str, float] = {}
    sent: dict[str, int] = {}
    waits: dict[str, list[float]] = {}
    trainers = {name: FullTrainer(run, comm, part_store.load(root, keys[name], comm.rank), torch.device("cpu")) for name in (EQUAL, OURS)}
    works: dict[str, list[float]] = {}
    clock = Waiting(comm)
    adaptive = Adaptive(run, comm, trainers[OURS].gradients)
    for number in range(1, repeats + 2):
        for name in (EQUAL, OURS) if number % 2 else (OURS, EQUAL):
            used = time.thread_time() - clock.seconds
            seconds, stats = _timed(comm, trainers[name], number)
            used = time.thread_time() - clock.seconds - used
            if number > 1:  # the first one makes connections and buffers
                epochs.setdefault(name, []).append(seconds)
                works.setdefault(name, []).append(used)
                waits.setdefault(name, []).append(stats.communication_seconds)
            losses[name], sent[name] = stats.loss, sum(stats.sent_bytes)
            if name == OURS:
                adaptive.after(number)
    trainers.clear()
    for name in OTHERS:
        if name in keys:
            stats = FullTrainer(run, comm, part_store.load(root, keys[name], comm.rank), torch.device("cpu")).epoch(1)
            sent[name] = sum(stats.sent_bytes)
    names = sorted(sent)
    total = comm.allreduce(torch.tensor([float(sent[name]) for name in names], dtype=torch.float64), "sent.total").tolist()
    usual = {what: _of_all_ranks(comm, what, table) for what, table in (("waits", waits), ("works", works))}
    if comm.rank == 0:
        summary = {"epochs": epochs, "losses": losses, "bytes": dict(zip(names, total, strict=True)), **usual}
        result.write_text(json.dumps(summary))
    comm.close()


def _of_all_ranks(comm: Comm, what: str, table: dict[str, list[float]]) -> Any:  # noqa: ANN401 - lists of lists of numbers
    """Each rank's median of both timed variants."""
    return comm.gather(torch.tensor([statistics.median(table[name]) for name in (EQUAL, OURS)], dtype=torch.float64), what).tolist()


class Waiting:
    """Processor time that the computing thread spends on waiting for others."""

    def __init__(self, comm: Comm) -> None:
        """Listens at the one place where a rank over Horovod waits."""
        self.seconds = 0.0
        self._wait = comm._ended  # type: ignore[attr-defined] # only a Comm over Horovod has it
        comm._ended = self._counted  # type: ignore[attr-defined] # the same

    def _counted(self, handle: Any) -> Any:  # noqa: ANN401 - Horovod's
        began = time.thread_time()
        result = self._wait(handle)
        self.seconds += time.thread_time() - began
        return result


def _timed(comm: Comm, trainer: FullTrainer, number: int) -> tuple[float, Any]:
    """Wall time until the last rank has ended the epoch."""
    comm.barrier()
    began = time.perf_counter()
    stats = trainer.epoch(number)
    comm.barrier()
    return time.perf_counter() - began, stats


def measure(case: Case, graph: TrainingGraph, repeats: int, seed: int) -> dict[str, Any]:
    """One case; raises RuntimeError with what the ranks said."""
    equal = tuple(1.0 / len(case.cores) for _ in case.cores)
    with tempfile.TemporaryDirectory() as scratch, machines(case.cores, MEGABITS) as workers:
        root = Path(scratch)
        asked = {
            EQUAL: (equal, "METIS"),
            OURS: (case.shares, "METIS"),
            RANDOM: (case.shares, "Random"),
            DEGREE: (case.shares, "Degree"),
            FILE_ORDER: (case.shares, FILE_ORDER),
        }
        made = {name: prepare(graph, shares, method, seed, root) for name, (shares, method) in asked.items()}
        keys = {name: key for name, (key, _) in made.items()}
        result = root / "result.json"
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.training", "--as-rank", json.dumps(keys), "--store", str(root)]
        command += ["--repeats", str(repeats), "--result", str(result)]
        variables = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        variables |= {"OMPI_MCA_mpi_yield_when_idle": "1", "HYPERSCALE_PLAN_FILE": "/nonexistent/plan.json"}
        variables |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        ended = workers.mpirun(command, variables, seconds=900.0)
        if ended.returncode or not result.is_file():
            raise RuntimeError(f"{case.name}: exit code {ended.returncode}\n{ended.stderr[-3000:]}")
        summary: dict[str, Any] = json.loads(result.read_text())
        return summary | {"imbalance": {name: imbalance for name, (_, imbalance) in made.items()}}


def rows(case: Case, summary: dict[str, Any], seed: int) -> Iterator[Row]:
    """Figures and goals of one case."""
    equal, ours = summary["epochs"][EQUAL], summary["epochs"][OURS]
    ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, equal, strict=True))
    for name, label in ((EQUAL, "equal METIS parts"), (OURS, "parts by capacity")):
        yield Row(NAME, case.name, label, "epoch", statistics.median(summary["epochs"][name]) * 1e3, "ms", seed)
        yield Row(NAME, case.name, label, "least epoch", min(summary["epochs"][name]) * 1e3, "ms", seed)
        for worker, waits in enumerate(summary["waits"]):
            yield Row(NAME, case.name, label, f"worker {worker} waits", waits[0 if name == EQUAL else 1] * 1e3, "ms", seed)
        for worker, works in enumerate(summary["works"]):
            yield Row(NAME, case.name, label, f"worker {worker} computes, processor", works[0 if name == EQUAL else 1] * 1e3, "ms", seed)
        yield Row(NAME, case.name, label, "largest part / its share", summary["imbalance"][name], "", seed)
        yield Row(NAME, case.name, label, "loss", summary["losses"][name], "", seed)
    for name in (EQUAL, OURS, *OTHERS):
        yield Row(NAME, case.name, name, "bytes an epoch", summary["bytes"][name] / 1e6, "MB", seed)
    yield Row(NAME, case.name, "parts by capacity", "shorter by", 1.0 - ratio, "", seed)
    yield Row(NAME, case.name, "ideal", "shorter by", case.ideal, "", seed)
    yield Row(NAME, case.name, "parts by capacity", "part of the ideal gain", (1.0 - ratio) / case.ideal, "", seed)
    slowest = [max(works[at] / core for works, core in zip(summary["works"], case.cores, strict=True)) for at in (0, 1)]
    yield Row(NAME, case.name, "parts by capacity", "slowest by processor / equal parts'", slowest[1] / slowest[0], "", seed)
    if case.ratio == 2.0:
        yield goal(NAME, f"{case.name}: epoch / equal METIS parts (AGPCS claims 0.80)", "parts by capacity", ratio, 1.0 - CLAIM, "")
    yield goal(
        NAME, f"{case.name}: epoch / equal METIS parts, 0.9 of the ideal", "parts by capacity", ratio, 1.0 - OF_IDEAL * case.ideal, ""
    )
    by_order = summary["bytes"][OURS] / summary["bytes"][FILE_ORDER]
    yield Row(NAME, case.name, "parts by capacity", "bytes / file order's", by_order, "", seed)
    for name in (RANDOM, DEGREE):
        moved = summary["bytes"][OURS] / summary["bytes"][name]
        yield goal(NAME, f"{case.name}: bytes / those of {name} parts", "parts by capacity", moved, 1.0 - FEWER_BYTES, "")
    apart = abs(summary["losses"][EQUAL] - summary["losses"][OURS]) / summary["losses"][EQUAL]
    yield goal(NAME, f"{case.name}: losses apart", "parts by capacity", apart, 1e-3, "")


def main() -> int:
    """Measure every case, print the table, fail where a goal is missed."""
    arguments = parser(__doc__ or "")
    for name in ("--as-rank", "--store", "--result"):
        arguments.add_argument(name, help=argparse.SUPPRESS)
    arguments.add_argument("--repeats", type=int, default=0, help="epochs of each variant")
    arguments.add_argument("--cases", default="", metavar="LIST", help=f"numbers of the cases, 0 to {len(CASES) - 1}")
    arguments.add_argument("--vertices", type=int, default=0)
    chosen = arguments.parse_args()
    if chosen.as_rank:
        rank(json.loads(chosen.as_rank), Path(chosen.store), chosen.repeats, Path(chosen.result))
        return 0
    if missing := why_not():
        sys.exit(f"training: workers of different speed cannot be had here: {missing}")
    vertices, repeats = (20_000, 4) if chosen.quick else (100_000, 13)
    graph = communities(chosen.vertices or vertices, FEATURES, 0)
    try:
        found = list(measured(asked_cases(chosen.cases, quick=chosen.quick), graph, chosen.repeats or repeats))
    except ThrottleError as error:
        sys.exit(f"training: {error}")
    return report(found, chosen.json)


def asked_cases(numbers: str, *, quick: bool) -> Sequence[Case]:
    """The cases of a list of numbers; without one every case, with --quick the first."""
    return [CASES[int(at)] for at in numbers.split(",") if at] or CASES[: 1 if quick else None]


def measured(cases: Sequence[Case], graph: TrainingGraph, repeats: int) -> Iterator[Row]:
    """Rows of the cases one after the other; raises ThrottleError where workers cannot be slowed."""
    for case in cases:
        yield from rows(case, measure(case, graph, repeats, 0), 0)
        sys.stderr.write(f"{case.name} done\n")


if __name__ == "__main__":
    sys.exit(main())
