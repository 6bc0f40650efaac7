"""Our rounds in the published simulator of Sia (SOSP 2023), with its workloads and cluster, against its Sia and its Gavel.

Run: python benchmarks/sia.py --simulator FOLDER [--python PYTHON] [--traces NAME...] [--methods NAME...] [--runs FILE]
                              [--quick] [--json FILE]

FOLDER is `sia-simulator` of https://github.com/siasosp23/artifacts. It has no licence file, so it is not shipped: without it the benchmark
says so and ends. PYTHON is an interpreter with cvxpy, cylp, ecos, autograd, pandas, rich, msgspec, numpy and scipy (default: this one).
`--runs FILE` writes every finished run to FILE and takes those of the same sources from it: a run that was cut off resumes.

  hyperscale rounds               planner/rounds with its defaults, batch sizes fixed; it knows of a job what Sia knows
  hyperscale rounds, free batch   the same where the simulator tunes batch sizes
  Sia, fixed batch                as published, --disable_bsz_tuning: the primary comparison
  Sia, free batch                 as published: batch sizes are tuned while a job runs
  Gavel                           as published: the workload's GPU counts, true throughputs

64 GPUs: 6 nodes of 4 T4, 2 of 8 A100, 3 of 8 RTX 2080 Ti. Rounds of 60 s, Gavel's of 360 s. Settings were chosen on philly-3 and saturn-2,
and that jobs learn from others of their kind on these two and saturn-6. The default traces were judged once, after that. An earlier
version was judged on philly-1, 2, 4, 5, saturn-1, 3, 4 and newtrace-1; nothing was chosen on these.
Pollux of the artifact needs pymoo and a simulator of its own without GPU types; it is not run.
A trace takes up to a minute a method on an idle core, newtrace about five.
`--quick` runs the first 40 jobs of one trace: a look, no judgement.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import common
from benchmarks.common import Row

BENCHMARK: Final = "sia"
OURS: Final = "hyperscale rounds"
FREE: Final = "hyperscale rounds, free batch"
FIXED: Final = "Sia, fixed batch"
TUNED: Final = "Sia, free batch"
GAVEL: Final = "Gavel"
METHODS: Final = {OURS: "ours", FIXED: "sia", GAVEL: "gavel", TUNED: "sia-free", FREE: "ours-free"}
TRACES: Final = ("philly-6", "philly-7", "philly-8", "saturn-5", "saturn-8", "saturn-9", "saturn-10", "newtrace-3")
QUICK_TRACES: Final = ("philly-6:40",)
"""After a colon: the first jobs of the trace alone."""
MEAN: Final = "mean completion"
RESTARTS: Final = "restarts a job"
UNITS: Final = {
    "jobs": "count",
    "done": "count",
    RESTARTS: "count",
    "GPU hours a job": "h",
    "decision p50": "ms",
    "decision p95": "ms",
    "wall": "s",
}
SIA_LIMIT: Final = 0.90
WORST_LIMIT: Final = 1.05
GAVEL_LIMIT: Final = 0.37
ROOT: Final = Path(__file__).resolve().parent.parent

Figures = Mapping[str, float]


def main() -> int:
    """Run what the arguments say; the exit code, 1 where a goal is missed."""
    arguments = common.parser(__doc__ or "")
    arguments.add_argument("--simulator", type=Path, required=True, metavar="FOLDER", help="sia-simulator of siasosp23/artifacts")
    arguments.add_argument("--python", default=sys.executable, help="interpreter with the simulator's packages")
    arguments.add_argument(
        "--traces", nargs="+", metavar="NAME", help="e.g. philly-1 saturn-3 newtrace-1; philly-1:40 for its first 40 jobs"
    )
    arguments.add_argument("--runs", type=Path, metavar="FILE", help="finished runs, one JSON a line; those in it are not run again")
    arguments.add_argument("--methods", nargs="+", choices=sorted(METHODS.values()), help="default: all; ours and sia always run")
    given = arguments.parse_args()
    if not (given.simulator / "multi_simulator.py").exists():
        print(f"sia: no simulator in {given.simulator}; fetch siasosp23/artifacts and pass its folder sia-simulator. Nothing was run.")
        return 0
    traces = given.traces or (QUICK_TRACES if given.quick else TRACES)
    wanted = given.methods or (() if given.quick else METHODS.values())
    methods = [method for method, name in METHODS.items() if name in wanted or method in (OURS, FIXED)]
    figures = {}
    for trace in traces:
        for method in methods:
            figures[trace, method] = _figures(given.simulator, given.python, trace, method, given.runs)
            print(f"{trace}  {method}: {figures[trace, method][MEAN]:.3f} h", flush=True)
    return common.report([*_rows(figures), *_ratios(figures, traces, methods), *_goals(figures, traces, methods)], given.json)


def _figures(simulator: Path, python: str, trace: str, method: str, runs: Path | None) -> Figures:
    """Figures of a run, from `runs` where it is there. Raises SystemExit with the simulator's last line where the run fails."""
    key = f"{trace} {METHODS[method]} {_digest(method)}"
    for line in runs.read_text().splitlines() if runs is not None and runs.exists() else ():
        entry = json.loads(line)
        if entry["key"] == key:
            return dict(entry["figures"])
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment = os.environ | threads | {"PYTHONPATH": os.pathsep.join((str(ROOT / "operator"), str(ROOT)))}
    with tempfile.TemporaryDirectory() as folder:
        workload = _workload(simulator, trace, Path(folder))
        command = [python, "-m", "benchmarks.peers.sia_bridge", str(simulator), METHODS[method], str(workload)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"sia: {trace}, {method} failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])["figures"]
    if runs is not None:
        with runs.open("a") as stream:
            stream.write(json.dumps({"key": key, "figures": figures}) + "\n")
    return figures


def _workload(simulator: Path, trace: str, folder: Path) -> Path:
    """File of a trace; of its first jobs alone, a new file in `folder`."""
    name, _, count = trace.partition(":")
    kind, number = name.rsplit("-", 1)
    whole = simulator / "workloads" / kind / f"workload-{number}.csv"
    if not count:
        return whole
    header, *jobs = whole.read_text().splitlines(keepends=True)
    part = folder / whole.name
    part.write_text("".join([header, *sorted(jobs, key=lambda job: float(job.split(",")[1]))[: int(count)]]))
    return part


def _digest(method: str) -> str:
    """Of the sources that a run depends on: a changed policy is run again."""
    folders = [ROOT / "benchmarks" / "peers"] + (
        [ROOT / "operator" / "hyperscale" / "planner" / "rounds"] if method in (OURS, FREE) else []
    )
    names = ("sia_bridge.py", "sia_fit.py", "sia_simulator.py") + (("sia_rounds.py", "sia_speeds.py") if method in (OURS, FREE) else ())
    files = [file for folder in folders for file in sorted(folder.glob("*.py")) if folder.name == "rounds" or file.name in names]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _rows(figures: Mapping[tuple[str, str], Figures]) -> Iterator[Row]:
    for (trace, method), values in figures.items():
        for metric, value in values.items():
            yield Row(BENCHMARK, trace, method, metric, value, UNITS.get(metric, "h"))


def _ratios(figures: Mapping[tuple[str, str], Figures], traces: Sequence[str], methods: Sequence[str]) -> Iterator[Row]:
    """Ours over every peer, trace by trace, and their geometric means by kind of trace."""
    for mine in (method for method in (OURS, FREE) if method in methods):
        for other in (method for method in methods if method not in (OURS, FREE)):
            kinds: dict[str, list[float]] = defaultdict(list)
            for trace in traces:
                ratio = figures[trace, mine][MEAN] / figures[trace, other][MEAN]
                kinds[trace.rsplit("-", 1)[0]].append(ratio)
                yield Row(BENCHMARK, trace, f"{mine} / {other}", MEAN, ratio, "ratio")
            for kind, ratios in kinds.items():
                yield Row(BENCHMARK, f"{kind}, geometric mean", f"{mine} / {other}", MEAN, _geometric(ratios), "ratio")


def _goals(figures: Mapping[tuple[str, str], Figures], traces: Sequence[str], methods: Sequence[str]) -> Iterator[Row]:
    ratios = [figures[trace, OURS][MEAN] / figures[trace, FIXED][MEAN] for trace in traces]
    yield common.goal(BENCHMARK, f"{MEAN} / {FIXED}, geometric mean", OURS, _geometric(ratios), SIA_LIMIT, "ratio")
    yield common.goal(BENCHMARK, f"{MEAN} / {FIXED}, worst trace", OURS, max(ratios), WORST_LIMIT, "ratio")
    restarts = [figures[trace, OURS][RESTARTS] / figures[trace, FIXED][RESTARTS] for trace in traces]
    yield common.goal(BENCHMARK, f"{RESTARTS} / {FIXED}, worst trace", OURS, max(restarts), 1.0, "ratio")
    if GAVEL in methods:
        gavel = _geometric([figures[trace, OURS][MEAN] / figures[trace, GAVEL][MEAN] for trace in traces])
        yield common.goal(BENCHMARK, f"{MEAN} / {GAVEL}, geometric mean", OURS, gavel, GAVEL_LIMIT, "ratio")
    unfinished = sum(figures[trace, OURS]["jobs"] - figures[trace, OURS]["done"] for trace in traces)
    yield common.goal(BENCHMARK, "jobs that did not end", OURS, unfinished, 0.0, "count")


def _geometric(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


if __name__ == "__main__":
    raise SystemExit(main())
