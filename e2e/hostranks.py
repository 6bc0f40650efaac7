"""The ranks of a job whose pods are simulated, as processes of this machine: the launcher's own command, variables and plan file.

Pure but for `train`, which runs the command; the caller then ends the simulated launcher with the result, as its kubelet would.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from e2e.cluster.api import Object
from hyperscale.control.render import commands
from hyperscale.training.runtime.termination import MESSAGE_VARIABLE
from hyperscale.training.worker.plan_overrides import PROCESSES

LOOPBACK: Final = "lo"
LOCAL: Final = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "DGLBACKEND": "pytorch", "OMP_NUM_THREADS": "1"}
"""Open MPI asks root twice; more threads than one a rank would wait for each other on a small machine."""
OF_MPI_OPERATOR: Final = "OMPI_MCA_"
"""Its variables name a hostfile of the pod."""
OF_A_PLAN: Final = ("HYPERSCALE_PLAN_FILE", "HYPERSCALE_PLAN_ID", "HYPERSCALE_WORKERS", "HYPERSCALE_SHARES", "HYPERSCALE_PARTITIONS")
"""Variables that one process cannot follow: they deal out the graph to several ranks."""
SECONDS: Final = 900.0


class HostRanks(NamedTuple):
    """What to run instead of a launcher pod."""

    command: list[str]
    environment: dict[str, str]
    """To be put over this process's own."""


def of_launcher(container: Object, folder: Path, *, one_process: bool) -> HostRanks:
    """The command and variables of a launcher container, for this machine.

    folder: for checkpoints and the result; the plan file is expected there as plan.json
    one_process: without Open MPI; the process then trains on the whole graph and cannot follow the plan's ranks
    """
    literal = [entry for entry in container.get("env", ()) if "valueFrom" not in entry and not entry["name"].startswith(OF_MPI_OPERATOR)]
    told = {entry["name"]: str(entry.get("value", "")).replace("$$", "$") for entry in literal}
    environment = {**told, **LOCAL, "HYPERSCALE_METRICS_PORT": "0", MESSAGE_VARIABLE: str(folder / "result.json")}
    if "CHECKPOINT_DIR" in told:
        environment["CHECKPOINT_DIR"] = str(folder)
    if one_process:
        kept = {name: value for name, value in environment.items() if name not in OF_A_PLAN}
        absent = {"HYPERSCALE_PLAN_FILE": str(folder / "no-plan.json"), "HYPERSCALE_GPUS_PER_WORKER": "1"}
        return HostRanks([*_here(commands.LAUNCH_WRAPPER), *_here(("python3", *commands.DEFAULT_ENTRY))], {**kept, **absent})
    return HostRanks(_here(_on_loopback(container["command"])), {**environment, "HYPERSCALE_PLAN_FILE": str(folder / "plan.json")})


def _here(command: Sequence[str]) -> list[str]:
    """With this interpreter in place of the image's."""
    return [sys.executable if word == "python3" else word for word in command]


def _on_loopback(command: Sequence[str]) -> list[str]:
    """Mpirun on this machine alone: no ssh, the loopback interface, and more ranks than processors."""
    words: list[str] = []
    index = 0
    while index < len(command):
        if command[index] == "-mca" and command[index + 1].startswith("plm_rsh"):
            index += 3
            continue
        word = command[index]
        words += ["--oversubscribe", word] if word == PROCESSES else [LOOPBACK if word == commands.NETWORK_INTERFACE else word]
        index += 1
    return words


def train(ranks: HostRanks, folder: Path, own: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run to the end: exit code, and the termination message. Output passes through; raises subprocess.TimeoutExpired."""
    environment = {**(os.environ if own is None else own), **ranks.environment}
    code = subprocess.run(ranks.command, env=environment, cwd=folder, check=False, timeout=SECONDS).returncode
    message = Path(ranks.environment[MESSAGE_VARIABLE])
    return code, message.read_text(encoding="utf-8") if message.is_file() else ""


def ended(container: str, code: int, message: str, now: str) -> Object:
    """Status of a pod whose only container has ended; now: RFC 3339."""
    end = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "message": message, "startedAt": now, "finishedAt": now}
    states = [{"name": container, "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": {"terminated": end}}]
    return {"status": {"phase": "Succeeded" if code == 0 else "Failed", "containerStatuses": states}}
