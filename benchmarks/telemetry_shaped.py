"""Agents in network namespaces, with a shaper and a delay of their own for every ordered pair. Needs root and iproute2.

The fabric is a namespace of its own with a cable to every agent; what A sends to B leaves on B's cable through a class of htb for A's
address. Where delays are asked for, all that an agent sends first takes a detour through a process that holds it (many kernels have no
netem). No other interface of this machine is touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from e2e.cluster.real import delay
from hyperscale.agent.probe.probe_client import GAP_SECONDS

NETWORK: Final = "10.203"
ROUTES: Final = "100"
SERIES: Final = re.compile(r"^(hyperscale_link_\w+)\{(.*)\} (\S+)$")
SPENT: Final = re.compile(r"^hyperscale_link_probe_spent_bytes_total (\S+)$", re.MULTILINE)
ENDS: Final = re.compile(r'(source|destination)="node(\d+)"')
PORT: Final = 9466
TOKEN: Final = "0123456789abcdef0123456789abcdef"  # noqa: S105 - of namespaces that live a minute


class Shape(NamedTuple):
    """What one node may send to another."""

    megabits: float
    delay_ms: float = 0.0


def why_not() -> str:
    """What is missing here, or nothing."""
    if os.geteuid() != 0:
        return "root is needed for network namespaces"
    missing = [program for program in ("ip", "tc", "nsenter") if shutil.which(program) is None]
    return f"{', '.join(missing)} missing; install iproute2, util-linux" if missing else ""


class Machines:
    """Agents and the network between them."""

    def __init__(self, count: int, shapes: Mapping[tuple[int, int], Shape], agent: tuple[str, ...]) -> None:
        """shapes: of every ordered pair; agent: command that is one agent and writes its metrics to the file METRICS_FILE."""
        self.count, self.shapes, self._agent = count, dict(shapes), agent
        self._name = f"hsl{os.getpid() % 100_000}"
        self._scratch = Path(tempfile.mkdtemp(prefix="hyperscale-links-"))
        self._filtered: set[tuple[int, int]] = set()
        self._processes: list[subprocess.Popen[bytes]] = []

    def up(self) -> None:
        """Lay the network and start the agents."""
        _run("ip", "netns", "add", self._space("f"))
        inside = ("ip", "-n", self._space("f"))
        _run(*inside, "link", "set", "lo", "up")
        _run(*inside, "link", "add", "switch", "type", "bridge")
        _run(*inside, "link", "set", "switch", "up")
        for node in range(self.count):
            self._cable(node)
        if any(shape.delay_ms for shape in self.shapes.values()):
            for node in range(self.count):
                self._detour(node)
        for pair in sorted(self.shapes):
            self.shape(*pair, self.shapes[pair])
        (self._scratch / "token").write_text(TOKEN + "\n")
        for node in range(self.count):
            self._start(node)

    def down(self) -> None:
        """Take everything away."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            process.kill()
            process.wait()
        for node in (*range(self.count), "f"):
            with contextlib.suppress(subprocess.CalledProcessError):
                _run("ip", "netns", "delete", self._space(node))
        shutil.rmtree(self._scratch, ignore_errors=True)

    def shape(self, source: int, destination: int, shape: Shape) -> None:
        """Set, or change, one direction."""
        device, number = f"port{destination}", source + 1
        space = ("tc", "-n", self._space("f"))
        rate = f"{round(shape.megabits * 1000)}kbit"
        _run(*space, "class", "replace", "dev", device, "parent", "1:", "classid", f"1:{number}", "htb", "rate", rate, "ceil", rate,
             "quantum", "60000", "burst", "64k", "cburst", "64k")  # fmt: skip
        _run(*space, "qdisc", "replace", "dev", device, "parent", f"1:{number}", "handle", f"1{number}:", "bfifo", "limit", "300000")
        if (source, destination) not in self._filtered:
            self._filtered.add((source, destination))
            _run(*space, "filter", "add", "dev", device, "parent", "1:", "protocol", "ip", "u32", "match", "ip", "src",
                 f"{self._address(source)}/32", "flowid", f"1:{number}")  # fmt: skip
        self.shapes[(source, destination)] = shape

    def direct(self, source: int, destination: int, count: int = 40) -> float:
        """Median round trip in seconds that ICMP measures, with the kernel's arrival times."""
        command = (sys.executable, "-m", "benchmarks.telemetry_shaped", "--direct", self._address(destination), str(count))
        found = _run("nsenter", f"--net=/run/netns/{self._space(source)}", *command)
        return statistics.median(map(float, found.split()))

    def figures(self) -> dict[tuple[str, int, int], float]:
        """Latest figures of all agents by (metric, source, destination)."""
        found = {}
        for node in range(self.count):
            file = self._scratch / f"metrics{node}"
            for line in file.read_text().splitlines() if file.is_file() else ():
                match = SERIES.match(line)
                ends = dict(ENDS.findall(match[2])) if match else {}
                if match and len(ends) == 2:
                    found[(match[1], int(ends["source"]), int(ends["destination"]))] = float(match[3])
        return found

    def spent_bytes(self) -> float:
        """What the agents' budgets have granted so far."""
        files = [self._scratch / f"metrics{node}" for node in range(self.count)]
        return sum(float(found) for file in files if file.is_file() for found in SPENT.findall(file.read_text()))

    def costs(self) -> list[tuple[float, float]]:
        """Processor seconds and resident bytes of every agent so far."""
        found = []
        for process in self._processes[-self.count :]:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            found.append((seconds, float(int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))))
        return found

    def log(self, node: int) -> str:
        """What an agent said."""
        return (self._scratch / f"log{node}").read_text()

    def _start(self, node: int) -> None:
        peers = ",".join(f"node{other}={self._address(other)}:{PORT}" for other in range(self.count))
        variables = {
            "NODE_NAME": f"node{node}",
            "POD_IP": self._address(node),
            "HYPERSCALE_AGENT_PEERS": peers,
            "HYPERSCALE_AGENT_TOKEN_FILE": str(self._scratch / "token"),
            "METRICS_FILE": str(self._scratch / f"metrics{node}"),
        }
        command = ("nsenter", f"--net=/run/netns/{self._space(node)}", *self._agent)
        with (self._scratch / f"log{node}").open("wb") as log:
            self._processes.append(subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log))

    def _cable(self, node: int) -> None:
        place, port = self._space(node), f"port{node}"
        _run("ip", "netns", "add", place)
        _run("ip", "-n", place, "link", "set", "lo", "up")
        _run("ip", "-n", self._space("f"), "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", place)
        _run("ip", "-n", self._space("f"), "link", "set", port, "master", "switch", "up")
        _run("ip", "-n", place, "address", "add", f"{self._address(node)}/16", "dev", "eth0")
        _run("ip", "-n", place, "link", "set", "eth0", "up")
        space = ("tc", "-n", self._space("f"))
        _run(*space, "qdisc", "add", "dev", port, "root", "handle", "1:", "htb", "default", "99")
        _run(*space, "class", "add", "dev", port, "parent", "1:", "classid", "1:99", "htb", "rate", "40gbit", "burst", "1m")

    def _detour(self, node: int) -> None:
        """Own packets go to a tun device, and from there, when they are due, out on the cable."""
        place, network = self._space(node), f"{NETWORK}.0.0/16"
        inside = ("nsenter", f"--net=/run/netns/{place}")
        file = self._scratch / f"delays{node}"
        rows = {pair: shape.delay_ms / 1000 for pair, shape in self.shapes.items() if pair[0] == node}
        delay.write(file, {(f"{NETWORK}.{80 + a}.0/24", f"{NETWORK}.{80 + b}.0/24"): seconds for (a, b), seconds in rows.items()})
        command = (*inside, sys.executable, "-m", "e2e.cluster.real.delay", "--device", "tun0", "--delays", str(file))
        self._processes.append(subprocess.Popen(command))
        for _ in range(100):
            if "tun0" in _run("ip", "-n", place, "link", "show"):
                break
            time.sleep(0.1)
        _run("ip", "-n", place, "link", "set", "tun0", "up")
        # What comes back from the detour has this node's own address as its source.
        switches = " ".join(f"{name}/rp_filter=0 {name}/accept_local=1" for name in ("all", "tun0", "eth0"))
        script = "for s in $0; do echo ${s#*=} >/proc/sys/net/ipv4/conf/${s%=*}; done; echo 1 >/proc/sys/net/ipv4/ip_forward"
        _run(*inside, "sh", "-c", script, switches)
        _run("ip", "-n", place, "route", "add", network, "dev", "tun0", "src", self._address(node), "table", ROUTES)
        _run("ip", "-n", place, "rule", "add", "iif", "lo", "to", network, "lookup", ROUTES)

    def _space(self, node: int | str) -> str:
        return f"{self._name}{node}"

    def _address(self, node: int) -> str:
        return f"{NETWORK}.{80 + node}.10"


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def direct(address: str, count: int) -> None:
    """Print round trips by ICMP in seconds, one a line, at the agents' own pace: a processor that slept longer answers later."""
    from e2e.cluster.real.direct import round_trip

    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as endpoint:
        endpoint.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
        for number in range(count):
            if number % 5 == 0:
                time.sleep(0.2)
            found = round_trip(endpoint, address, number)
            if found is not None:
                print(f"{found:.9f}")
            time.sleep(GAP_SECONDS)


async def agent() -> None:
    """One agent without GPUs: the link probe of this node, metrics to a file."""
    from prometheus_client import CollectorRegistry, generate_latest

    from hyperscale.agent import agent_settings
    from hyperscale.agent.probe import probe

    registry = CollectorRegistry()
    probing = asyncio.create_task(probe.run(agent_settings.from_environment(os.environ), registry))
    file = Path(os.environ["METRICS_FILE"])
    while not probing.done():
        fresh = file.with_suffix(".new")
        fresh.write_bytes(generate_latest(registry))
        fresh.replace(file)
        await asyncio.sleep(0.5)


if __name__ == "__main__":
    import logging

    if "--direct" in sys.argv:
        direct(sys.argv[-2], int(sys.argv[-1]))
        sys.exit()
    logging.basicConfig(level=logging.DEBUG if "-v" in sys.argv else logging.INFO)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(agent())
