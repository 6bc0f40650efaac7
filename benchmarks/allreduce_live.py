"""Allreduces as they are: two processes with Horovod over a loopback of their own with 500 Mbit/s, backward passes are waits.

Run by benchmarks/allreduce.py. Each step is predicted before it is taken: latency and seconds per byte are fitted from messages that were
timed before it, of sizes from a 256th of the model's gradients to all of them, medians of five rounds; ready times are those of the steps
before. Where a straight line is off by more than a tenth, more messages are timed before the first step. Two jobs take turns: one with the
settings of hyperscale.training.allreduce.horovod, one with Horovod's defaults. A job's iterations go round robin through its rules, so that
whatever else the machine does hits all alike.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import common  # noqa: E402 - a script's own folder, not the repository, is on the path
from hyperscale.model.runplan import AllreduceCost  # noqa: E402
from hyperscale.training.allreduce import adapt, horovod, parameter_table, simulate  # noqa: E402
from hyperscale.training.allreduce.schedule import finish, schedule  # noqa: E402

if TYPE_CHECKING:
    from benchmarks.allreduce_rank import Rank, Rules  # imports torch, which only the two processes need

DATA: Final = ROOT.parent / "shared" / "data" / "allreduce"
RATE: Final = "500mbit"
BURST: Final = "80kb"
"""What an idle link saves up: as little as packets of 64 KiB allow, or the first bytes of a message would travel for nothing."""
CASES: Final = (("resnet50", 10.0, 0.3), ("bert_base", 40.0, 0.3), ("graphsage", 1.0, 0.1))
"""Table of layers, what its sizes are divided by so that a step takes less than a second, seconds of its backward pass."""
SAGE_NUMBERS: Final = (47, 256 * 47, 256 * 47, 256, 256 * 256, 256 * 256, 256, 100 * 256, 100 * 256)
WITHIN: Final = 0.10
PHASES: Final = (0.0, 0.25, 0.5, 0.75)
QUICK_ITERATIONS: Final = 3
START_SECONDS: Final = 300.0
GUESS: Final = AllreduceCost(5e-4, 1e-8)
"""Before anything is measured."""


def rows(benchmark: str, quick: bool) -> list[common.Row]:
    """Measured and predicted seconds by case and rule; one row with the reason where it cannot run here."""
    reason = missing()
    if reason:
        return [common.Row(benchmark, "live", "-", f"skipped: {reason}", 0.0, "")]
    iterations, pairs = (QUICK_ITERATIONS, 1) if quick else (8, 2)
    found = [common.Row(benchmark, "live", "-", "processes that ran or waited for a core before", os.getloadavg()[0], "load")]
    for name, divisor, backward in CASES[:1] if quick else CASES:
        if name != "graphsage" and not DATA.is_dir():
            continue
        case = f"live, {name}" + (f" / {divisor:g}" if divisor != 1 else "")
        try:
            found += _case_rows(benchmark, case, (name, divisor, backward), iterations, pairs)
        except subprocess.TimeoutExpired:
            found.append(common.Row(benchmark, case, "-", "a job did not end, the machine is too busy", START_SECONDS, "s"))
            found.append(common.goal(benchmark, f"{case}, measured against predicted", "schedule", 1.0, WITHIN, "difference"))
    return found


def missing() -> str:
    """What a live run lacks here; "" where nothing is."""
    if importlib.util.find_spec("horovod") is None:
        return "no Horovod; run python -m e2e.horovod"
    absent = [tool for tool in ("mpirun", "unshare", "ip", "tc") if shutil.which(tool) is None]
    if absent:
        return f"no {', '.join(absent)}"
    if subprocess.run([str(shutil.which("unshare")), "--net", "true"], capture_output=True, check=False).returncode != 0:
        return "no right to make a network namespace; run as root"
    return ""


def _case_rows(benchmark: str, case: str, what: tuple[str, float, float], iterations: int, pairs: int) -> list[common.Row]:
    ours, theirs = [], []
    for _ in range(pairs):
        ours.append(_job(what, iterations, horovod.environment(horovod.LEAST_CYCLE_SECONDS), "ours"))
        theirs.append(_job(what, iterations, {}, "theirs"))
    measured: dict[str, list[float]] = {}
    predicted: dict[str, list[float]] = {}
    for answer in [*ours, *theirs]:
        for rule, seconds in answer["seconds"].items():
            measured.setdefault(rule, []).extend(seconds)
            predicted.setdefault(rule, []).extend(answer["predicted"][rule])
    made: list[common.Row] = []
    for answer in ours:
        made.append(common.Row(benchmark, case, "fit", "latency", answer["cost"][0] * 1e3, "ms"))
        made.append(common.Row(benchmark, case, "fit", "per byte", answer["cost"][1] * 1e9, "ns"))
        made.append(common.Row(benchmark, case, "fit", "median error", answer["fitError"], "ratio"))
        made.append(common.Row(benchmark, case, "schedule", "messages", float(answer["messages"]), ""))
    least = common.median(measured["schedule"])
    for rule, seconds in measured.items():
        made.append(common.Row(benchmark, case, rule, "measured, median", common.median(seconds) * 1e3, "ms"))
        made.append(
            common.Row(
                benchmark,
                case,
                rule,
                "measured, p10 to p90",
                (common.percentile(seconds, 0.9) - common.percentile(seconds, 0.1)) * 1e3,
                "ms",
            )
        )
        made.append(common.Row(benchmark, case, rule, "predicted", common.median(predicted[rule]) * 1e3, "ms"))
        made.append(common.Row(benchmark, case, rule, "measured, ratio to schedule", common.median(seconds) / least, "ratio"))
    off = abs(least / common.median(predicted["schedule"]) - 1)
    before, after = (common.median([value for answer in ours for value in answer["adapted"][key]]) for key in ("before", "after"))
    made.append(common.Row(benchmark, case, "adapted between epochs", "measured, after / before", after / before, "ratio"))
    made.append(common.goal(benchmark, f"{case}, measured against predicted", "schedule", off, WITHIN, "difference"))
    return made


def _job(what: tuple[str, float, float], iterations: int, settings: dict[str, str], side: str) -> dict[str, Any]:
    """One job of two processes in a network namespace of its own; what its rank 0 wrote."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        arguments = ["--case", *map(str, what), "--iterations", str(iterations), "--side", side, "--out", str(file)]
        command = ["unshare", "--net", sys.executable, str(Path(__file__).resolve()), "inside", *arguments]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
        ran = subprocess.run(
            command,
            env={**kept, **settings, "OMP_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1"},
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        if ran.returncode != 0 or not file.is_file():
            raise RuntimeError(f"the live job failed:\n{(ran.stderr or ran.stdout)[-2000:]}")
        answer: dict[str, Any] = json.loads(file.read_text())
        return answer


def inside(arguments: Sequence[str]) -> None:
    """In the namespace: shape its loopback, then become mpirun."""
    for command in (
        ["ip", "link", "set", "lo", "up"],
        ["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", RATE, "burst", BURST, "latency", "1s"],
    ):
        subprocess.run(command, check=True)
    loopback = ["-mca", "btl", "self,tcp", "-mca", "btl_tcp_if_include", "lo", "-mca", "oob_tcp_if_include", "lo"]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    mpirun = shutil.which("mpirun") or "mpirun"
    command = [mpirun, *root, "--oversubscribe", "-np", "2", *loopback, sys.executable, str(Path(__file__).resolve()), "rank", *arguments]
    os.execv(mpirun, command)  # noqa: S606 - no shell is wanted


def rank(arguments: Sequence[str]) -> None:
    """One of the two processes."""
    from benchmarks.allreduce_rank import Rank

    parser = argparse.ArgumentParser()
    parser.add_argument("--case", nargs=3)
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--side")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    sizes, ready = _gradients(given.case[0], float(given.case[1]), float(given.case[2]))
    worker = Rank(sizes, ready)
    answer = _ours(worker, given.iterations) if given.side == "ours" else _theirs(worker, given.iterations)
    if worker.number == 0:
        given.out.write_text(json.dumps(answer))
    worker.close()


def _gradients(name: str, divisor: float, backward: float) -> tuple[list[float], list[float]]:
    """Bytes and planned ready times, first ready first."""
    if name == "graphsage":
        sizes = [4.0 * count for count in SAGE_NUMBERS]
        return sizes, [backward * (at + 1) / len(sizes) for at in range(len(sizes))]
    table = parameter_table.parse((DATA / f"layers_{name}.csv").read_text())
    planned = parameter_table.ready_times(table, backward)
    whole = [max(1.0, round(table.sizes_bytes[at] / 4 / divisor)) * 4 for at in table.backward_order]
    return whole, [planned[at] for at in table.backward_order]


def _ours(worker: Rank, iterations: int) -> dict[str, Any]:
    """First as adapt begins, all in one; then what it makes of the first epoch; then the rules in turn."""
    state = adapt.begin(worker.sizes, GUESS, order=range(len(worker.sizes)))
    worker.step(state.groups)  # makes connections and buffers
    before = [worker.step(state.groups) for _ in range(iterations)]
    worker.calibrate()
    state = adapt.observe(state, adapt.Observation(tuple(worker.ready()), tuple(worker.samples())))
    worker.step(state.groups)  # Horovod learns the names of the new groups
    after = [worker.step(state.groups) for _ in range(iterations)]
    worker.probe()
    fitted, ready = worker.fitted(), worker.ready()
    constants = (fitted.latency_seconds, fitted.seconds_per_byte)
    found = schedule(ready, worker.sizes, *constants)
    rules: Rules = {
        "schedule": found.groups,
        "buckets of 2.5 MiB": simulate.buckets(ready, worker.sizes, simulate.BUCKET_BYTES / 10, simulate.FIRST_BUCKET_BYTES / 10),
        "one message": simulate.all_in_one(ready, worker.sizes),
    }
    if iterations > QUICK_ITERATIONS:
        rules["one message each"] = None  # HOROVOD_DISABLE_GROUP_FUSION=1 makes a group of every gradient that is in none

    def predict(ready: list[float], now: AllreduceCost) -> dict[str, float]:
        alone = simulate.each_alone(ready, worker.sizes)
        cost = (now.latency_seconds, now.seconds_per_byte)
        return {rule: finish(alone if groups is None else groups, ready, worker.sizes, *cost) for rule, groups in rules.items()}

    seconds, predicted = worker.turns(rules, iterations, predict)
    return {
        "seconds": seconds,
        "predicted": predicted,
        "cost": constants,
        "fitError": worker.fit_error(),
        "messages": len(found.groups),
        "adapted": {"before": before, "after": after},
    }


def _theirs(worker: Rank, iterations: int) -> dict[str, Any]:
    """Horovod as it is without any settings."""
    worker.step(None)
    worker.calibrate()

    def predict(ready: list[float], now: AllreduceCost) -> dict[str, float]:
        # A message alone waits for the next cycle; within a step the engine model counts that wait itself.
        latency = max(now.latency_seconds - simulate.CYCLE_SECONDS / 2, 0.0)
        return {"Horovod default": _engine(ready, worker.sizes, (latency, now.seconds_per_byte))}

    seconds, predicted = worker.turns({"Horovod default": None}, iterations, predict)
    return {"seconds": seconds, "predicted": predicted}


def _engine(ready: Sequence[float], sizes: Sequence[float], constants: tuple[float, float]) -> float:
    ends = []
    for phase in PHASES:
        engine = simulate.Engine(phase_seconds=phase * simulate.CYCLE_SECONDS)
        ends.append(simulate.horovod(ready, sizes, *constants, engine)[-1].end_seconds)
    return common.median(ends)


if __name__ == "__main__":
    {"inside": inside, "rank": rank}[sys.argv[1]](sys.argv[2:])
