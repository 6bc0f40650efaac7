"""Workers of different speed on one machine: a quota for the thread that computes, a shaped link in a network namespace of its own.

The quota stands for a GPU's speed: only the thread that computes has one, what moves bytes beside it has not, as a pod's processors beside
its GPU. mpirun starts each worker through an agent, as it starts them in pods, so that ranks talk over the shaped links and over nothing
else. Quotas are of 10 ms, and are enforced whenever a computing thread is interrupted: by the scheduler's clock only every 4 ms at 250
Hz, after which a worker with a sixth of a core stands still for 20 ms and all others wait for it. A metronome, a thread with real-time
priority on each processor that wakes every 0.8 ms and does nothing, makes that steps of under 1 ms. The groups weigh more than what else
runs here, so that a quota is a speed. Needs root, iproute2 and the processor controller of cgroup v1, which takes single threads.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

PERIOD_US: Final = 10_000
"""Length of the scheduler's accounts: long ones let a worker run ahead and then stand still."""
CGROUPS: Final = Path("/sys/fs/cgroup/cpu")
NETWORK: Final = "10.203.77"
GROUPS: Final = "HYPERSCALE_BENCHMARK_GROUPS"
"""Variable that tells ranks the name of their groups."""
BEAT_SECONDS: Final = 0.0008
WEIGHT_COMPUTING: Final = 200_000
WEIGHT_TALKING: Final = 20_000
"""1024 is what a process has that belongs to no group."""


class ThrottleError(Exception):
    """Speeds cannot be set here; the message says what is missing."""


def why_not() -> str:
    """What is missing here, or nothing."""
    if os.geteuid() != 0:
        return "root is needed for cgroups and network namespaces"
    missing = [program for program in ("ip", "tc", "nsenter", "mpirun") if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} missing; install iproute2, util-linux and Open MPI"
    if not (CGROUPS / "tasks").is_file():
        return f"{CGROUPS} is not mounted as cgroup v1"
    return ""


class Machines:
    """Some workers' cgroups and namespaces, made and taken away together."""

    def __init__(self, cores: Sequence[float], megabits: float) -> None:
        """cores: processor quota of each worker; megabits per second: of each worker's link, in each direction."""
        self._cores, self._megabits = tuple(cores), megabits
        self._name = f"hst{os.getpid() % 100_000}"
        self._scratch = Path(tempfile.mkdtemp(prefix="hyperscale-throttled-"))
        self._metronomes: list[subprocess.Popen[bytes]] = []

    @property
    def fabric(self) -> str:
        """Namespace of the switch, where mpirun itself runs."""
        return f"{self._name}f"

    def address(self, worker: int) -> str:
        """Of a worker."""
        return f"{NETWORK}.{worker + 10}"

    def up(self) -> None:
        """Make everything; raises ThrottleError."""
        _run("ip", "netns", "add", self.fabric)
        inside = ("ip", "-n", self.fabric)
        _run(*inside, "link", "set", "lo", "up")
        _run(*inside, "link", "add", "switch", "type", "bridge")
        _run(*inside, "address", "add", f"{NETWORK}.1/24", "dev", "switch")
        _run(*inside, "link", "set", "switch", "up")
        for worker, cores in enumerate(self._cores):
            self._cable(worker)
            for group, weight in ((self._group(worker), WEIGHT_TALKING), (self._slow(worker), WEIGHT_COMPUTING)):
                group.mkdir()
                (group / "cpu.shares").write_text(str(weight))
            (self._slow(worker) / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self._slow(worker) / "cpu.cfs_quota_us").write_text(str(max(1000, round(cores * PERIOD_US))))
        agent = self._scratch / "agent"
        agent.write_text(
            f"#!/bin/sh\nhost=$1; shift; n=$((${{host##*.}} - 10))\n"
            f"echo $$ > {CGROUPS}/{self._name}w$n/cgroup.procs\n"
            # Daemons that start at once on one machine would make the same session directory, and one of them would fail.
            f"export TMPDIR={self._scratch}/w$n; mkdir -p $TMPDIR\n"
            f'exec nsenter --net=/run/netns/{self._name}w$n sh -c "$*"\n'
        )
        agent.chmod(0o755)
        for processor in sorted(os.sched_getaffinity(0)):
            command = [sys.executable, str(Path(__file__).resolve()), str(processor)]
            self._metronomes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))

    def down(self) -> None:
        """Take everything away that is there."""
        for metronome in self._metronomes:
            metronome.kill()
            metronome.wait()
        for worker in range(len(self._cores)):
            for group in (self._slow(worker), self._group(worker)):
                _end(group)
            _try("ip", "netns", "delete", f"{self._name}w{worker}")
        _try("ip", "netns", "delete", self.fabric)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def mpirun(self, command: Sequence[str], environment: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
        """One rank on each worker."""
        hosts = ",".join(f"{self.address(worker)}:1" for worker in range(len(self._cores)))
        network = f"{NETWORK}.0/24"
        started = ["nsenter", f"--net=/run/netns/{self.fabric}", "mpirun", "--allow-run-as-root", "-np", str(len(self._cores)), "-H", hosts]
        started += ["--bind-to", "none", "--map-by", "slot", "-mca", "plm_rsh_agent", str(self._scratch / "agent"), "-mca", "plm", "rsh"]
        started += ["-mca", "oob_tcp_if_include", network, "-mca", "btl", "self,tcp", "-mca", "btl_tcp_if_include", network]
        variables = {**environment, GROUPS: self._name}
        forwarded = [part for name in sorted(variables) for part in ("-x", name)]
        return subprocess.run(
            [*started, *forwarded, *command],
            env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=seconds,
        )  # fmt: skip

    def _group(self, worker: int) -> Path:
        return CGROUPS / f"{self._name}w{worker}"

    def _slow(self, worker: int) -> Path:
        return CGROUPS / f"{self._name}s{worker}"

    def _cable(self, worker: int) -> None:
        place, port = f"{self._name}w{worker}", f"port{worker}"
        _run("ip", "netns", "add", place)
        _run("ip", "-n", place, "link", "set", "lo", "up")
        _run("ip", "-n", self.fabric, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", place)
        _run("ip", "-n", self.fabric, "link", "set", port, "master", "switch", "up")
        _run("ip", "-n", place, "address", "add", f"{self.address(worker)}/24", "dev", "eth0")
        _run("ip", "-n", place, "link", "set", "eth0", "up")
        for space, device in ((place, "eth0"), (self.fabric, port)):
            _run("tc", "-n", space, "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "1")
            rate = f"{round(self._megabits * 1000)}kbit"
            shape = ("rate", rate, "ceil", rate, "quantum", "60000", "burst", "64k", "cburst", "64k")
            _run("tc", "-n", space, "class", "add", "dev", device, "parent", "1:", "classid", "1:1", "htb", *shape)


@contextlib.contextmanager
def machines(cores: Sequence[float], megabits: float) -> Iterator[Machines]:
    """Workers of these speeds while the block runs; raises ThrottleError."""
    missing = why_not()
    if missing:
        raise ThrottleError(missing)
    made = Machines(cores, megabits)
    try:
        made.up()
        yield made
    finally:
        made.down()


def compute_here(rank: int) -> None:
    """From now on the calling thread has the quota of its worker; what it has started before has not."""
    (CGROUPS / f"{os.environ[GROUPS]}s{rank}" / "tasks").write_text(str(threading.get_native_id()))


def _end(group: Path) -> None:
    """Kill what is left in a group and remove it."""
    with contextlib.suppress(OSError):
        for process in (group / "cgroup.procs").read_text().split():
            os.kill(int(process), signal.SIGKILL)
    for _ in range(50):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        if not group.is_dir():
            return
        time.sleep(0.1)


def _try(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _run(*command: str) -> None:
    ended = _try(*command)
    if ended.returncode:
        raise ThrottleError(f"{' '.join(command)}: {ended.stderr.strip()}")


def metronome(processor: int) -> None:
    """Interrupts whatever runs on a processor until the parent ends."""
    parent = os.getppid()
    os.sched_setaffinity(0, {processor})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    while os.getppid() == parent:
        time.sleep(BEAT_SECONDS)


if __name__ == "__main__":
    metronome(int(sys.argv[1]))
