"""The worker's layers for GPUs on this machine's GPU, or the same code on the processor: right, within the predicted memory, and how fast.

Run: make gpu ARGS="[--quick] [--json FILE] [--minutes M]", or PYTHONPATH=operator python3 -m benchmarks.gpu.
Python 3.11 to 3.13 with torch 2.11 or newer and numpy; no network. PyTorch Geometric is the peer where it is installed; Cython compiles
the passes for processors, another reference, where it and a C compiler are.
Longer than other modules: its five goals share one set of cases, and are to be read beside each other.

Goals:
  layers    logits and every gradient against the layers written out in float64 (benchmarks/gpu_reference.py): at most 1e-4 of the largest
            figure; against the compiled passes for processors: the same
  training  losses of three epochs against the processor's: full graph, batches, two ranks as threads
  largest   no tensor of an epoch has a row for each edge: at most half of edges × width numbers
  memory    the planner's prediction within 20 % of the peak of a fresh process: torch's own peak on a GPU; on the processor the resident
            set over the idle process, with large blocks given back when they are freed (MALLOC_MMAP_THRESHOLD_), since what is predicted
            is what is alive; rows `as the worker keeps it` have the resident set with the worker's own malloc settings
  epochs    ours over PyTorch Geometric's faster form: at most 1
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "operator"))
sys.path.insert(0, str(ROOT))
warnings.filterwarnings("ignore", message=".*is not compiled.*", category=RuntimeWarning)

import numpy as np  # noqa: E402
import torch  # noqa: E402

from benchmarks import gpu_memory, gpu_pyg, gpu_reference  # noqa: E402 - a script's own folder is not on the path
from benchmarks.common import Row, goal, median, parser, report  # noqa: E402
from benchmarks.gpu_cases import ARCHITECTURES, Case, graph_of, operations, run_of, sampled_of, trainer_of  # noqa: E402
from benchmarks.threads import run_threads  # noqa: E402
from hyperscale.model.adjacency import LocalPart  # noqa: E402
from hyperscale.training.engine.full import FullTrainer  # noqa: E402
from hyperscale.training.modelgraph import csr, fused_operations, kernels  # noqa: E402
from hyperscale.training.partition import local_part  # noqa: E402
from hyperscale.training.runtime.comm import Comm  # noqa: E402

BENCHMARK: Final = "gpu"
OURS: Final = "sparse products"
CLOSE: Final = 1e-4
WITHIN: Final = 0.2
MINUTES: Final = 7.5
CPU: Final = torch.device("cpu")
_BEGAN: Final = time.monotonic()


def say(line: str) -> None:
    """Progress."""
    sys.stderr.write(f"[{time.monotonic() - _BEGAN:5.0f} s] {line}\n")
    sys.stderr.flush()


def main() -> int:
    """Measure what there is time for, print, and fail where a goal is missed."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--minutes", type=float, default=MINUTES, help=f"begin no further case after this number of minutes ({MINUTES})")
    arguments.add_argument("--cpu", action="store_true", help="on the processor although there is a GPU")
    asked = arguments.parse_args()
    cuda = torch.cuda.is_available() and not asked.cpu
    device = torch.device("cuda", 0) if cuda else CPU
    rows: list[Row] = []
    for name, work in sections(device, quick=asked.quick):
        if time.monotonic() - _BEGAN > 60.0 * asked.minutes:
            say(f"{name}: skipped, {asked.minutes:g} minutes are over")
            rows.append(Row(BENCHMARK, name, OURS, "skipped for time", 1.0, ""))
            continue
        say(name)
        rows += attempted(name, work)
        if asked.json is not None:
            asked.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows]) + "\n")
    code = report(rows, asked.json)
    print(f"\nmeasured on {described(device)} in {time.monotonic() - _BEGAN:.0f} s")
    if not cuda:
        print("No GPU was used: the code that GPUs run, on the processor. Its times say nothing of GPUs.")
    return code


def attempted(name: str, work: Callable[[], list[Row]]) -> list[Row]:
    """The rows of one case; one that fails is a missed goal, and the others are measured all the same."""
    try:
        return work()
    except (
        Exception
    ):  # one case's failure, whatever a driver or a library raises, must not lose the rows of the others; it counts as a missed goal
        traceback.print_exc()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return [goal(BENCHMARK, name, "failed, see standard error", 1.0, 0.0, "failures")]


def described(device: torch.device) -> str:
    """The device and the versions that count."""
    what = torch.cuda.get_device_name(device) if device.type == "cuda" else f"the processor, {torch.get_num_threads()} threads"
    peer = f", PyTorch Geometric {gpu_pyg.VERSION}" if gpu_pyg.PRESENT else ", no PyTorch Geometric"
    compiled = "compiled passes" if kernels.COMPILED else "no compiled passes"
    nvcc = ", nvcc there but not needed" if shutil.which("nvcc") else ""
    return f"{what}, Python {sys.version.split()[0]}, torch {torch.__version__}, numpy {np.__version__}{peer}, {compiled}{nvcc}"


LARGE: Final = 5_000_000
"""Edges, beyond which a graph has more edges a vertex."""
Section = tuple[str, Callable[[], list[Row]]]
"""What is measured, and the call that measures it."""


def sections(device: torch.device, *, quick: bool) -> Iterator[Section]:
    """What is measured, cheap and telling things first; on the processor fewer and smaller cases."""
    cuda = device.type == "cuda"
    sizes = [200_000] if quick else ([1_000_000, 5_000_000, 20_000_000] if cuda else [1_000_000, 20_000_000])
    yield from layer_sections(device, (20_000,) if quick else (1_000_000, 20_000_000))
    yield from training_sections(device, 20_000 if quick else 200_000)
    if cuda or not quick:
        yield from memory_sections(device, sizes)
    if not quick:
        yield from wide_memory_sections(device)
    yield from epoch_sections(device, sizes if cuda else sizes[:1])
    if cuda and not quick:
        yield from width_sections(device)


def layer_sections(device: torch.device, sizes: Sequence[int]) -> Iterator[Section]:
    """One layer, forward and backward."""
    for edges, architecture in product(sizes, ARCHITECTURES):
        case = Case(architecture, edges, edges // (50 if edges > LARGE else 20), dropout=0.0)
        yield f"layers: {case.name}", functools.partial(layer_rows, case, device)


def training_sections(device: torch.device, edges: int) -> Iterator[Section]:
    """Losses of a training, and the largest tensor that it makes."""
    for architecture in ARCHITECTURES:
        case = Case(architecture, edges, edges // 20, dropout=0.0)
        yield f"training: {case.name}", functools.partial(training_rows, case, device)
    for architecture in ARCHITECTURES:
        case = Case(architecture, 400_000, 10_000)
        yield f"largest tensor: {case.name}", functools.partial(largest_rows, case, device)


def memory_sections(device: torch.device, sizes: Sequence[int]) -> Iterator[Section]:
    """Memory of a training step; large graphs with 64 features."""
    for edges, architecture in product(sizes, ARCHITECTURES):
        wide, a_vertex = (64, 50) if edges > LARGE else (128, 20)
        case = Case(architecture, edges, edges // a_vertex, features=wide, hidden=wide)
        yield f"memory: {case.name}", functools.partial(memory_rows, case, device)


def wide_memory_sections(device: torch.device) -> Iterator[Section]:
    """Memory where the hidden layer is wider than the features."""
    for architecture in ARCHITECTURES[:2]:
        case = Case(architecture, 1_000_000, 50_000, features=64, hidden=256)
        yield f"memory: {case.name}", functools.partial(memory_rows, case, device)


def epoch_sections(device: torch.device, sizes: Sequence[int]) -> Iterator[Section]:
    """Seconds of an epoch."""
    for edges, architecture in product(sizes, ARCHITECTURES):
        case = Case(architecture, edges, edges // 20)
        yield f"epochs: {case.name}", functools.partial(epoch_rows, case, device)


def width_sections(device: torch.device) -> Iterator[Section]:
    """Seconds of an epoch by width and heads, without a peer: what the planner's count of operations is compared with."""
    for architecture, (features, hidden, heads) in product(ARCHITECTURES, ((64, 16, 1), (128, 128, 4), (256, 256, 4), (512, 512, 8))):
        case = Case(architecture, 20_000_000, 1_000_000, features, hidden, heads)
        name = f"epoch: {case.name}, {heads} heads" if case.attends else f"epoch: {case.name}"
        yield name, functools.partial(own_rows, case, device, name)


def layer_rows(case: Case, device: torch.device) -> list[Row]:
    """Logits and gradients against float64 where its rows by edge fit, and against the processor's passes, there with dropout too."""
    part, rows = graph_of(case), []
    if case.edges <= 1_000_000:
        trainer = trainer_of(case, part, device)
        part = gpu_reference.settled(case, part, trainer.model)
        trainer = trainer_of(case, part, device)
        exact = gpu_reference.logits_and_gradients(case, part, trainer.model)
        rows.append(goal(BENCHMARK, f"layers: {case.name}", f"{OURS} / float64", apart(outcome(trainer), exact), CLOSE, "relative"))
        del trainer, exact
    if kernels.COMPILED or device.type == "cuda":
        dropped = case if device.type == "cuda" else dataclasses.replace(case, dropout=0.5)
        ways = (device, csr), (CPU, fused_operations if kernels.COMPILED else csr)
        ours, theirs = (outcome(trainer_of(dropped, part, where, passes)) for where, passes in ways)
        what = ("compiled passes" if kernels.COMPILED else "the processor") + ("" if dropped is case else ", with dropout")
        rows.append(goal(BENCHMARK, f"layers: {case.name}", f"{OURS} / {what}", apart(ours, theirs), CLOSE, "relative"))
    return rows


def outcome(trainer: FullTrainer) -> list[torch.Tensor]:
    """Logits, and gradients of the summed loss, in double precision on the processor."""
    trainer.rng.begin(1)
    trainer.model.train()
    logits = trainer.model(trainer._graphs, trainer._x)
    trainer._loss(logits, trainer._kinds.train).backward()  # type: ignore[no-untyped-call] # torch annotates only a part of Tensor
    gradients = [parameter.grad for parameter in trainer.model.parameters() if parameter.grad is not None]
    return [tensor.detach().double().cpu() for tensor in (logits, *gradients)]


def apart(given: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    """The largest difference in any tensor, of the largest figure there."""
    return max(float((one - other).abs().max() / other.abs().max()) for one, other in zip(given, wanted, strict=True))


def training_rows(case: Case, device: torch.device) -> list[Row]:
    """Losses of three epochs: the whole graph, batches of neighbours, two ranks; against the processor's whole graph and batches."""
    part = graph_of(case)
    fast = fused_operations if kernels.COMPILED else csr
    whole = losses(trainer_of(case, part, CPU, fast))
    pairs = {"full graph": (losses(trainer_of(case, part, device)), whole), "two ranks": (two_ranks(case, part, device), whole)}
    batch = max(64, case.vertices // 8), (10, 5)
    pairs["batches"] = losses(sampled_of(case, part, device, *batch)), losses(sampled_of(case, part, CPU, *batch, fast))
    made = []
    for what, (given, wanted) in pairs.items():
        worst = max(abs(one - other) / abs(other) for one, other in zip(given, wanted, strict=True))
        made.append(goal(BENCHMARK, f"training: {case.name}", f"{what}, losses of 3 epochs", worst, CLOSE, "relative"))
    return made


def losses(trainer: FullTrainer) -> list[float]:
    """Of three epochs."""
    return [trainer.epoch(number).loss for number in (1, 2, 3)]


def two_ranks(case: Case, part: LocalPart, device: torch.device) -> list[float]:
    """As threads, with uneven halves of the graph and an exchange in every layer."""
    from hyperscale.model.adjacency import TrainingGraph

    arrays = (part.indptr, part.indices, part.features, part.labels, part.train, part.validation, part.test, part.classes)
    whole = TrainingGraph(*arrays)
    cut = (np.random.default_rng(3).random(case.vertices) < 0.3).astype(np.int32)

    def rank(comm: Comm) -> list[float]:
        # A GPU has one thread for the backward passes of all ranks, in which one that waits for another would wait for ever.
        with torch.autograd.set_multithreading_enabled(False):
            return losses(FullTrainer(run_of(case, comm.rank, 2), comm, local_part(whole, cut, comm.rank, 2), device, csr))

    made: list[float] = run_threads(2, rank)[0]
    return made


def largest_rows(case: Case, device: torch.device) -> list[Row]:
    """The largest tensor of an epoch, of edges × width."""
    trainer = trainer_of(case, graph_of(case), device)
    with gpu_memory.Largest() as largest:
        trainer.epoch(1)
        trainer.evaluate()
    share = largest.numbers / ((case.edges + case.vertices) * case.hidden)
    return [goal(BENCHMARK, f"largest tensor: {case.name}", OURS, share, 0.5, "of edges × width")]


def memory_rows(case: Case, device: torch.device) -> list[Row]:
    """Predicted and measured, in fresh processes."""
    cuda = device.type == "cuda"
    ways: dict[str, dict[str, str]] = {"torch's peak": {}} if cuda else {"resident": gpu_memory.GIVES_BACK}
    if not cuda and case.edges <= 1_000_000:
        ways["resident, as the worker keeps it"] = {}
    rows: list[Row] = []
    for way, variables in ways.items():
        measured = in_fresh_process(case, variables, cuda=cuda)
        rows.append(Row(BENCHMARK, f"memory: {case.name}", OURS, way, measured["peak"] / 2**20, "MiB"))
        if way == next(iter(ways)):
            predicted = measured["predicted"]
            rows.append(Row(BENCHMARK, f"memory: {case.name}", "planner", "predicted", predicted / 2**20, "MiB"))
            off = abs(predicted / measured["peak"] - 1.0)
            rows.append(goal(BENCHMARK, f"memory: {case.name}", f"predicted / {way}", off, WITHIN, "off by"))
    return rows


def in_fresh_process(case: Case, variables: dict[str, str], *, cuda: bool) -> dict[str, float]:
    """What benchmarks/gpu_memory.py prints."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.gpu_memory",
        json.dumps(dataclasses.asdict(case)),
        "cuda" if cuda else "cpu",
    ]
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join([str(ROOT / "operator"), str(ROOT)])}
    finished = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise RuntimeError(f"{case.name}: exit code {finished.returncode}\n{finished.stderr[-2000:]}")
    made: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return made


def own_rows(case: Case, device: torch.device, name: str) -> list[Row]:
    """Medians of epochs after two that are not counted: the epoch first."""
    trainer = trainer_of(case, graph_of(case), device)
    stats = [trainer.epoch(number) for number in range(1, epochs_on(device) + 3)][2:]
    ours = median([one.seconds for one in stats])
    rows = [Row(BENCHMARK, name, OURS, "epoch", ours * 1e3, "ms")]
    # Of what the planner's table of GPUs has; launches are in it too, so that small graphs have less.
    rows.append(Row(BENCHMARK, name, OURS, "sustained, as the planner counts", operations(case) / ours / 1e12, "TFLOP/s"))
    rows += [
        Row(BENCHMARK, name, OURS, f"– {phase}", median([one.phases[phase] for one in stats]) * 1e3, "ms") for phase in stats[0].phases
    ]
    return rows


def epochs_on(device: torch.device) -> int:
    """How many count."""
    return 20 if device.type == "cuda" else 2


def epoch_rows(case: Case, device: torch.device) -> list[Row]:
    """Ours and PyTorch Geometric's."""
    part, name = graph_of(case), f"epoch: {case.name}"
    rows = own_rows(case, device, name)
    ours = rows[0].value / 1e3
    peers: dict[str, float] = {}
    for form in gpu_pyg.FORMS if gpu_pyg.PRESENT else ():
        if case.attends and form == "CSR":
            continue
        taken = peer_seconds(case, part, device, form, epochs_on(device))
        if taken is None:
            rows.append(Row(BENCHMARK, name, f"PyTorch Geometric, {form}", "out of memory or refused", 1.0, ""))
            continue
        peers[form] = taken
        rows.append(Row(BENCHMARK, name, f"PyTorch Geometric, {form}", "epoch", taken * 1e3, "ms"))
    if peers:
        rows.append(goal(BENCHMARK, name, f"{OURS} / PyTorch Geometric", ours / min(peers.values()), 1.0, "ratio"))
    return rows


def peer_seconds(case: Case, part: LocalPart, device: torch.device, form: str, epochs: int) -> float | None:
    """None where it does not run: what it needs grows with edges × width."""
    try:
        return median(gpu_pyg.epoch_seconds(case, part, device, form, epochs))
    except (RuntimeError, ValueError, NotImplementedError, TypeError, MemoryError) as error:  # whatever a peer refuses with is its result
        say(f"PyTorch Geometric, {form}, {case.name}: {str(error).splitlines()[0][:200]}")
        return None
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
