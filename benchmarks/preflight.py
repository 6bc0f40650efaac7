"""Preflights: scripts made to fail and sound ones, predicted memory against measured, and a sweep of settings with a sample executed.

    python benchmarks/preflight.py [--quick] [--seeds N] [--sandbox NAME] [--json FILE]

The corpus is tests/unit/evaluate/preflight_corpus: 20 scripts that fail and 10 that are sound, each with what must be said of it.
Memory is measured as the kernel's peak of the resident set beyond what Python and torch take, in the sandbox, on the processor. Built-in
models are predicted by the planner's count of tensors, scripts from trials on 1/4 and 1/8 of the graph (benchmarks/preflight_scripts).
PyTorch Geometric is taken from PYTHONPATH, else pip fetches it into a folder that is gone afterwards; without it its row is left out.
The peer is the planner's figure for architecture Custom, which knows the stated layers of a script alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec
import numpy as np
from msgspec.structs import replace

from benchmarks import common
from benchmarks.common import Row, goal
from hyperscale.evaluate.preflight.job_trial import Surroundings, trial_of
from hyperscale.evaluate.preflight.memory_forecast import TrialPeak, line_of
from hyperscale.evaluate.preflight.sandboxes import choose
from hyperscale.evaluate.preflight.setting_sweep import axes_of, sweep
from hyperscale.evaluate.preflight.trial_types import Limits, Sandbox
from hyperscale.evaluate.preflight.trials import observe
from hyperscale.model.api.datasets import train_vertices
from hyperscale.model.api.job import JobSpec
from hyperscale.planner.workload.profile import profile
from hyperscale.planner.workload.training_memory import LIBRARIES
from tests.builders.preflights import CORPUS, Case, cases, tried, wrong

NAME: Final = "preflight"
SCRIPTS: Final = Path(__file__).resolve().parent / "preflight_scripts"
SECONDS: Final = 40.0
"""Of the trials of one case."""
LIMIT_SECONDS: Final = 60.0
ERROR_LIMIT_PERCENT: Final = 10.0
QUICK: Final = ("oom_known_size", "shape_step_3", "writes_by_c", "fork_bomb", "sound_plain")
PYG: Final = ("torch_geometric", "xxhash", "tqdm", "psutil", "pyparsing", "aiohttp", "requests", "jinja2", "fsspec")
LEAVINGS: Final = ("/etc/preflight-was-here", "/opt/preflight-was-here", "/preflight-was-here")
DRAWN: Final = ((8, 32), (40, 60), (4, 24))
"""Places on the axes of hidden sizes (144 to 512), batch sizes and fan-outs that an executed setting is drawn from: hours otherwise."""
PARTS: Final = (0.125, 0.25)
"""Of the graph, that scripts are tried on."""


class Size(NamedTuple):
    """Of one run."""

    vertices: int
    sample: int
    """Settings of the sweep that are executed."""


FULL: Final = Size(120_000, 6)
"""Memory is compared at this size with --quick too: libraries take some 15 MiB that no prediction has, a tenth of smaller peaks."""
SMALL: Final = Size(60_000, 1)


def main() -> int:
    """Run the benchmark; the exit code is 1 where a goal is missed."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="repeat the executed sample with N seeds")
    parser.add_argument("--sandbox", choices=("auto", *Sandbox), default="auto", help="what surrounds the tried code (default: auto)")
    arguments = parser.parse_args()
    sandbox, size = choose(arguments.sandbox), SMALL if arguments.quick else FULL
    rows = [*_corpus(sandbox, quick=arguments.quick), *_memory(sandbox, FULL, quick=arguments.quick)]
    for seed in range(arguments.seeds):
        rows += _sweep(sandbox, size, seed)
    return common.report(rows, arguments.json)


def _corpus(sandbox: Sandbox, *, quick: bool) -> Iterator[Row]:
    before = _leavings()
    missed = {True: 0, False: 0}
    longest = 0.0
    for case in cases():
        if quick and case.name not in QUICK:
            continue
        seconds, faults = _tried(case, sandbox)
        for fault in faults:
            sys.stderr.write(f"{case.name}: {fault}\n")
        missed[case.sound] += bool(faults)
        longest = max(longest, seconds)
        yield Row(NAME, case.name, sandbox.value, "right", float(not faults), "")
        yield Row(NAME, case.name, sandbox.value, "time", seconds, "s")
    yield goal(NAME, "made to fail: not told, or told wrong", sandbox.value, missed[False], 0, "")
    yield goal(NAME, "sound ones: refused", sandbox.value, missed[True], 0, "")
    yield goal(NAME, "longest preflight", sandbox.value, longest, LIMIT_SECONDS, "s")
    yield goal(NAME, "processes, folders and files left behind", sandbox.value, len(_leavings() - before), 0, "")


def _tried(case: Case, sandbox: Sandbox) -> tuple[float, tuple[str, ...]]:
    """Seconds, and what was said wrong."""
    began = time.monotonic()
    faults = wrong(case, tried(case, sandbox, SECONDS))
    return time.monotonic() - began, faults


def _leavings() -> set[str]:
    """Processes of trials, folders of theirs, names of shared memory, and files that the corpus tries to write."""
    trials = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        if b"hyperscale.evaluate.preflight" in line and str(CORPUS).encode() in line:
            trials.add(f"process {entry}")
    folders = {str(path) for path in Path(tempfile.gettempdir()).glob("hyperscale-preflight-*")}
    shared = {f"shared memory {name}" for name in os.listdir("/dev/shm") if name.startswith("torch_")}  # noqa: S108 - looked at
    return trials | folders | shared | {path for path in LEAVINGS if Path(path).exists()}


def _job(size: Size, architecture: str, script: str | None = None, **model: Any) -> JobSpec:  # noqa: ANN401 - fields of spec.model
    """On a generated graph with rows of features that are no sparse ones."""
    fields = {"architecture": architecture, "hiddenSize": 32 if architecture == "GAT" else 128, "heads": 4 if architecture == "GAT" else 1}
    own = {"script": script, "parameters": 10_000} if script is not None else {}
    dataset = {"vertices": size.vertices, "edges": 10 * size.vertices, "featureSize": 32, "classes": 16}
    document = {
        "model": {**fields, **own, **model},
        "dataset": {"source": {"generated": {"kind": "SBM"}}, **dataset},
        "workers": {"maxReplicas": 1},
    }
    return msgspec.convert(document, JobSpec)


def _memory(sandbox: Sandbox, size: Size, *, quick: bool) -> Iterator[Row]:
    around = Surroundings(sandbox, str(SCRIPTS))
    for architecture in ("GCN",) if quick else ("GCN", "GraphSAGE", "GAT"):
        job = _job(size, architecture)
        yield from _compared(architecture, sandbox, profile(job).gpu_bytes(1.0, 1, 1) - LIBRARIES, _peak(job, around, 1.0))
    with tempfile.TemporaryDirectory() as folder:
        for script in () if quick else ("pyg_sage.py", "custom_gin.py"):
            if script == "pyg_sage.py" and not _has_pyg(folder):
                sys.stderr.write("PyTorch Geometric is not to be had: its row is left out\n")
                continue
            job = _job(size, "Custom", script)
            line = line_of([TrialPeak(part, _peak(job, around, part)) for part in PARTS])
            if line is None:
                raise ValueError("the parts of the graph are too close")
            measured = _peak(job, around, 1.0)
            yield from _compared(script, sandbox, line.bytes(1.0), measured)
            known = profile(job).gpu_bytes(1.0, 1, 1) - LIBRARIES
            yield Row(NAME, script, "planner, stated layers", "error of predicted peak memory", 100 * abs(known / measured - 1), "%")


def _peak(job: JobSpec, around: Surroundings, scale: float, seed: int = 0, steps: int = 2) -> float:
    trial = trial_of("team/memory", job, Limits(steps=steps, seconds=300.0, memory_bytes=8 << 30), around, scale=scale, seed=seed)
    observation = observe(trial.request)
    if observation.faults or observation.peak_bytes is None:
        raise RuntimeError(f"{job.model.script or job.model.architecture}: {observation.faults}")
    return float(observation.peak_bytes)


def _compared(case: str, sandbox: Sandbox, predicted: float, measured: float) -> Iterator[Row]:
    yield Row(NAME, case, sandbox.value, "measured peak memory", measured / 2**20, "MiB")
    yield Row(NAME, case, sandbox.value, "predicted peak memory", predicted / 2**20, "MiB")
    yield goal(NAME, f"{case}: error of peak memory", sandbox.value, 100 * abs(predicted / measured - 1), ERROR_LIMIT_PERCENT, "%")


def _has_pyg(folder: str) -> bool:
    """Whether trials will find it: here already, or fetched into the folder, which is put on PYTHONPATH."""
    if find_spec("torch_geometric") is not None:
        return True
    fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *PYG[:5]]
    if subprocess.run(fetch, capture_output=True, check=False).returncode:
        return False
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), folder)))
    return True


def _sweep(sandbox: Sandbox, size: Size, seed: int) -> Iterator[Row]:
    """All settings counted, some executed."""
    job = _job(size, "GraphSAGE", batchSize=1024, fanouts=[10, 10])
    began = time.perf_counter()
    axes = axes_of(job)
    counted = sweep(job, axes, 1.0, 1)
    seconds = time.perf_counter() - began
    yield Row(NAME, "sweep", "evaluate", "settings", axes.settings, "", seed)
    yield Row(NAME, "sweep", "evaluate", "time", seconds, "s", seed)
    yield goal(NAME, "a million / settings swept", "evaluate", 1e6 / axes.settings, 1.0, "")
    draw, worst = np.random.default_rng([seed, 1]), 0.0
    for _ in range(size.sample):
        hidden, batch, fanout = (int(draw.integers(*bounds)) for bounds in DRAWN)
        model = replace(
            job.model,
            hidden_size=int(axes.hidden_sizes[hidden]),
            batch_size=int(axes.batch_sizes[batch]),
            fanouts=(int(axes.fanouts[fanout]),) * 2,
        )
        predicted = float(counted.bytes[hidden, batch, fanout]) - LIBRARIES
        # The whole graph is scored after an epoch, which is where the peak may be.
        epoch = -(-train_vertices(job) // int(axes.batch_sizes[batch]))
        measured = _peak(replace(job, model=model), Surroundings(sandbox), 1.0, seed, epoch + 1)
        case = f"hidden {model.hidden_size}, batch {model.batch_size}, fan-out {model.fanouts[0]}"
        yield Row(NAME, case, "sweep", "predicted peak memory", predicted / 2**20, "MiB", seed)
        yield Row(NAME, case, "executed", "measured peak memory", measured / 2**20, "MiB", seed)
        worst = max(worst, measured / predicted)
    yield Row(NAME, "executed sample", "sweep", "largest measured / predicted", worst, "", seed)
    yield goal(NAME, "executed sample: measured / predicted", "sweep", worst, 1.0 + ERROR_LIMIT_PERCENT / 100, "")


if __name__ == "__main__":
    sys.exit(main())
