"""Exchanges as they are: Horovod ranks on three nodes with shaped cards, parts on ranks of their numbers and where the product puts them.

Run by `python benchmarks/part_ranks.py --live`; needs root, iproute2, Open MPI and Horovod. A node is a network namespace with a cable to a
bridge; both ends of the cable are shaped to the rate of its card. Ranks start by mpirun as in a job; a script that enters the namespace
stands for ssh. They load their parts with the product's own code from a plan file, twice: with the links of the plan, and with links that
it refuses, so that parts keep their numbers. Exchanges of both take turns; each is the time of the slowest rank, there and back.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import allreduce_live, common  # noqa: E402 - a script's own folder, not the repository, is on the path
from benchmarks.common import Row  # noqa: E402

NETWORK: Final = "10.204.0"
NODES: Final = 3
RANKS: Final = 6
HIDDEN: Final = 256
LAYERS: Final = 3
"""GCN sends the narrower side of a layer: with three, one exchange of an epoch is as wide as the hidden layers."""
CARDS: Final = {"three cards of 100 Mbit/s": (100.0, 100.0, 100.0), "cards of 100, 100 and 25 Mbit/s": (25.0, 100.0, 100.0)}
INSIDE_BYTES_PER_SECOND: Final = 1e9
LATENCY_SECONDS: Final = 2e-4
LIMIT: Final = 0.85
ROUNDS: Final = 6
EPOCHS: Final = 4
START_SECONDS: Final = 280.0
HYPERSCALE: Final = "hyperscale"
NUMBERS: Final = "part i on rank i"


def rows(benchmark: str, quick: bool) -> list[Row]:
    """Measured and predicted seconds by case; one row with the reason where it cannot run here."""
    reason = allreduce_live.missing() or ("no nsenter" if shutil.which("nsenter") is None else "")
    if reason:
        return [Row(benchmark, "live", "-", f"skipped: {reason}", 0.0, "")]
    made = [Row(benchmark, "live", "-", "processes that ran or waited for a core before", os.getloadavg()[0], "load")]
    for name, cards in list(CARDS.items())[: 1 if quick else None]:
        graphs = ["regions:0"] if quick else ["regions:0", "regions:1", "regions:2", *(["CiteSeer:0"] if len(set(cards)) == 1 else [])]
        answers = job(cards, graphs)
        for answer in answers:
            made += _rows_of(benchmark, f"live, {answer['graph']}, {name}", answer)
        for left in graphs[len(answers) :]:
            made.append(common.goal(benchmark, f"live, {left}, {name}: no end, the machine is too busy", HYPERSCALE, 1.0, LIMIT, ""))
    return made


def _rows_of(benchmark: str, case: str, answer: dict[str, Any]) -> list[Row]:
    seed, made = int(answer["seed"]), []
    for method in (NUMBERS, HYPERSCALE):
        figures = answer[method]
        made.append(Row(benchmark, case, method, "copies between nodes", figures["rows"], "vertices", seed))
        made.append(Row(benchmark, case, method, "exchange predicted, busiest card", figures["predicted"] * 1e3, "ms", seed))
        made.append(Row(benchmark, case, method, "exchange measured, median", common.median(figures["seconds"]) * 1e3, "ms", seed))
        if "epoch" in figures:
            made.append(Row(benchmark, case, method, "training, communication of an epoch", figures["communication"] * 1e3, "ms", seed))
            made.append(Row(benchmark, case, method, "training, epoch", figures["epoch"] * 1e3, "ms", seed))
    ours, theirs = answer[HYPERSCALE], answer[NUMBERS]
    made.append(Row(benchmark, case, HYPERSCALE, "predicted / part i on rank i", ours["predicted"] / theirs["predicted"], "", seed))
    measured = common.median(ours["seconds"]) / common.median(theirs["seconds"])
    made.append(Row(benchmark, case, HYPERSCALE, "measured / part i on rank i", measured, "", seed))
    if answer["graph"] == "regions":  # parts that talk in pairs: the matrix is uneven
        made.append(common.goal(benchmark, f"{case}, seed {seed}: measured / part i on rank i", HYPERSCALE, measured, LIMIT, ""))
    return made


def job(cards: Sequence[float], graphs: Sequence[str]) -> list[dict[str, Any]]:
    """What rank 0 wrote of each graph; cards: Mbit/s of each node. Raises RuntimeError where the ranks fail."""
    with tempfile.TemporaryDirectory() as folder, Cables(cards) as cables:
        scratch = Path(folder)
        agent, hosts, out = scratch / "agent", scratch / "hosts", scratch / "answer.json"
        agent.write_text('#!/bin/sh\nhost=$1\nshift\nexec nsenter --net=/run/netns/"$host" unshare --uts sh -c "hostname $host; $*"\n')
        agent.chmod(0o755)
        hosts.write_text("".join(f"{space} slots={RANKS // NODES}\n" for space in cables.spaces))
        for name, links in (("placed", links_of_cards(cards)), ("numbers", {"secondsPerByte": [], "latencySeconds": []})):
            (scratch / f"{name}.json").write_text(json.dumps(_plan(cables.spaces, links)))
        program = [sys.executable, str(Path(__file__).resolve()), "--out", str(out), "--folder", folder, "--cards", *map(str, cards)]
        parameters = {
            "pml": "ob1",
            "btl": "self,tcp",
            "btl_tcp_if_include": f"{NETWORK}.0/24",
            "oob_tcp_if_include": f"{NETWORK}.0/24",
            "plm_rsh_agent": str(agent),
        }
        started = ["mpirun", "--allow-run-as-root", "-np", str(RANKS), "--hostfile", str(hosts), "--map-by", "slot", "--bind-to", "none"]
        command = [*started, *(part for name, value in parameters.items() for part in ("-mca", name, value)), *program, "--graphs", *graphs]
        entered = ["nsenter", f"--net=/run/netns/{cables.spaces[0]}", "unshare", "--uts", "sh", "-c"]
        failure = _to_end([*entered, f"hostname {cables.spaces[0]}; exec {shlex.join(command)}"])
        if not out.is_file():
            raise RuntimeError(f"the live job failed:\n{failure[-3000:]}")
        answers: list[dict[str, Any]] = json.loads(out.read_text())
        return answers


def _to_end(command: Sequence[str]) -> str:
    """Run to the end, or for START_SECONDS; what it printed as errors."""
    settings = {"OMP_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            return process.communicate(timeout=START_SECONDS)[1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # mpirun ends its ranks
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return f"no end within {START_SECONDS:g} s"


class Cables:
    """Network namespaces with shaped cables to a bridge in a namespace of its own; nothing else of this machine is touched."""

    def __init__(self, cards: Sequence[float]) -> None:
        """cards: Mbit/s of each node, each way."""
        self._cards, self._fabric = cards, f"hpr{os.getpid() % 100_000}f"
        self.spaces = [f"hpr{os.getpid() % 100_000}n{node}" for node in range(len(cards))]

    def __enter__(self) -> Cables:
        try:
            self._lay()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _lay(self) -> None:
        for space in (self._fabric, *self.spaces):
            _run("ip", "netns", "add", space)
            _run("ip", "-n", space, "link", "set", "lo", "up")
        _run("ip", "-n", self._fabric, "link", "add", "switch", "type", "bridge")
        _run("ip", "-n", self._fabric, "link", "set", "switch", "up")
        for node, space in enumerate(self.spaces):
            port = f"port{node}"
            _run("ip", "-n", self._fabric, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            _run("ip", "-n", self._fabric, "link", "set", port, "master", "switch", "up")
            _run("ip", "-n", space, "address", "add", f"{NETWORK}.{10 + node}/24", "dev", "eth0")
            _run("ip", "-n", space, "link", "set", "eth0", "up")
            for owner, device in ((space, "eth0"), (self._fabric, port)):  # what the card sends, and what it gets
                rate = f"{round(self._cards[node] * 1000)}kbit"
                _run("tc", "-n", owner, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "64kb", "limit", "300000")
            # The kernel's default may be bbr, which falls short of slow links with traffic both ways; every kernel has reno.
            _run("nsenter", f"--net=/run/netns/{space}", "sh", "-c", "echo reno >/proc/sys/net/ipv4/tcp_congestion_control")

    def __exit__(self, *_: object) -> None:
        for space in (*self.spaces, self._fabric):
            with contextlib.suppress(subprocess.CalledProcessError):
                _run("ip", "netns", "delete", space)


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True, timeout=60)


def links_of_cards(cards: Sequence[float]) -> dict[str, list[float]]:
    """Of a plan: a pair is as fast as its slower card."""
    pairs = [(one, other) for one in range(len(cards)) for other in range(one, len(cards))]
    return {
        "secondsPerByte": [8e-6 / min(cards[a], cards[b]) if a != b else 1.0 / INSIDE_BYTES_PER_SECOND for a, b in pairs],
        "latencySeconds": [LATENCY_SECONDS] * len(pairs),
    }


def _plan(spaces: Sequence[str], links: object) -> dict[str, object]:
    workers = [{"index": at, "rank": at, "node": spaces[at * len(spaces) // RANKS], "gpus": 1, "share": 1.0 / RANKS} for at in range(RANKS)]
    return {"version": 1, "job": "live/job", "planId": "0" * 16, "seed": 0, "partitions": RANKS, "workers": workers, "links": links}


if __name__ == "__main__":
    from benchmarks.part_ranks_rank import rank

    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--cards", type=float, nargs=NODES)
    parser.add_argument("--graphs", nargs="+")
    rank(parser.parse_args())
