"""The operator as a process of its own, as a test sees it: its probes, its metrics, its log, its planner, its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from e2e.cluster.api import Api
from e2e.cluster.control_plane import wait_until
from e2e.cluster.operator import NAMESPACE, operator_command
from e2e.cluster.ports import LOOPBACK, free_ports

LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/hyperscale-operator"
READY_SECONDS: Final = 120.0
STOP_SECONDS: Final = 30.0
"""In which the operator must end when it is asked to: terminationGracePeriodSeconds of the chart."""
MOST_STARTS: Final = 5
PROBE_SECONDS: Final = 60.0
"""Patience with a busy machine; an operator that holds its event loop for good does not answer at all."""


class OperatorProcess:
    """One running operator."""

    def __init__(
        self,
        directory: Path,
        kubeconfig: Path,
        environment: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
        name: str = "one",
    ) -> None:
        """wrapper: arguments of a command that runs the operator, e.g. under another user."""
        self.health_port, self.metrics_port = free_ports(2)
        self.log_path = directory / f"operator-{name}.log"
        variables = {key: value for key, value in os.environ.items() if not key.startswith(("HYPERSCALE_", "KUBE"))}
        variables |= {
            "KUBECONFIG": str(kubeconfig),
            "HYPERSCALE_NAMESPACE": NAMESPACE,
            "HYPERSCALE_HEALTH_PORT": str(self.health_port),
            "HYPERSCALE_METRICS_PORT": str(self.metrics_port),
            "HYPERSCALE_RESYNC_SECONDS": "600",
            "PYTHONUNBUFFERED": "1",
            **(environment or {}),
        }
        self._child: subprocess.Popen[bytes]
        with self.log_path.open("wb") as log:
            command = [*wrapper, *operator_command(variables)]
            self._child = subprocess.Popen(command, env=variables, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    @property
    def ended(self) -> bool:
        return self._child.poll() is not None

    def wait_ready(self) -> None:
        """Until it passes over jobs."""
        self._wait_answer("/readyz", 200)

    def wait_ready_or_ended(self) -> None:
        """For an operator that is killed at a point of its first pass. A job that is due may take it there before it is ready."""
        wait_until(lambda: self.ended or self.probe("/readyz") == 200, READY_SECONDS, f"neither ready nor ended; see {self.log_path}")

    def wait_standby(self) -> None:
        """Until it lives, and waits for the Lease."""
        self._wait_answer("/healthz", 200)
        wait_until(lambda: "waiting for the Lease" in self.log, READY_SECONDS, f"it does not wait for the Lease:\n{self.log}")

    def _wait_answer(self, path: str, status: int) -> None:
        def answers() -> bool:
            assert not self.ended, f"the operator ended with {self._child.returncode}:\n{self.log}"
            return self.probe(path) == status

        wait_until(answers, READY_SECONDS, f"{path} does not answer {status}; see {self.log_path}")

    def probe(self, path: str) -> int:
        """HTTP status of a probe; 0 for no answer."""
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.health_port}{path}", timeout=PROBE_SECONDS) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def metric(self, name: str, **labels: str) -> float:
        """Sum of the series of that name that have these labels."""
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.metrics_port}/metrics", timeout=PROBE_SECONDS) as answer:
            text = answer.read().decode()
        found = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for given, value in found if all(f'{key}="{wanted}"' in given for key, wanted in labels.items()))

    def peak_memory_bytes(self) -> int:
        """Most memory that it ever held."""
        found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)
        assert found is not None
        return int(found.group(1)) * 1024

    def planner_pids(self) -> list[int]:
        """Process ids of its planners; there is one at a time."""
        found = []
        for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"hyperscale.planner.service.worker" in command:
                found.append(int(pid))
        return found

    def planner_pid(self) -> int:
        """Process id of its planner, once there is one."""
        wait_until(lambda: len(self.planner_pids()) == 1, READY_SECONDS, "there is no planner")
        (pid,) = self.planner_pids()
        return pid

    def terminate(self) -> int:
        """SIGTERM; the exit code, which must come in time."""
        self._child.terminate()
        return self.wait_ended(STOP_SECONDS)

    def kill(self) -> None:
        """SIGKILL."""
        self._child.kill()
        self._child.wait(STOP_SECONDS)

    def wait_ended(self, seconds: float = READY_SECONDS) -> int:
        """Its exit code."""
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the operator did not end within {seconds} s:\n{self.log}") from None

    def wait_killed(self, seconds: float = READY_SECONDS) -> None:
        """Until it has killed itself at its milestone; one that could not start has another exit code."""
        assert self.wait_ended(seconds) == -signal.SIGKILL, self.log

    def destroy(self) -> None:
        """However it is, it is no more."""
        if not self.ended:
            self._child.send_signal(signal.SIGCONT)
            self._child.kill()
        self._child.wait()


@contextmanager
def running(process: OperatorProcess, api: Api, may_fail: bool = False) -> Iterator[OperatorProcess]:
    """An operator until the end of the block, which must not have logged a traceback unless it may fail; afterwards the Lease is free."""
    try:
        yield process
        if not process.ended:
            assert process.terminate() == 0, process.log
        assert may_fail or "Traceback" not in process.log, process.log
    finally:
        process.destroy()
        api.delete(LEASE)


@contextmanager
def well_read(start: Callable[[], OperatorProcess], api: Api) -> Iterator[OperatorProcess]:
    """A ready operator whose first reading of the metrics is whole; one that could not read all of them ends, and another is started.

    The first reading comes before any policy is known: on a busy machine a query may take longer than the default allows.
    """
    for _ in range(MOST_STARTS):
        with running(start(), api) as process:
            process.wait_ready()
            if process.metric("hyperscale_prometheus_query_failures_total") == 0:
                yield process
                return
    raise AssertionError(f"none of {MOST_STARTS} operators could read the metrics in time")
