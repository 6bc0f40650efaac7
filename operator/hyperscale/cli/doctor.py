"""`hyperscale doctor`: what is missing or wrong in an installation, and how to mend it. Reads only."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from typing import Final

import msgspec

from hyperscale.cli import inputs
from hyperscale.cli.doctor_view import report_lines
from hyperscale.cli.errors import InputError, one_line

SLOW_SECONDS: Final = 2.0
"""Progress is told only when there is something to wait for."""


def run(arguments: argparse.Namespace) -> int:
    """Gather, judge, print; the exit code of the worst finding."""
    from hyperscale.cli.doctor_api import DoctorCluster  # the kubernetes client takes half a second to import
    from hyperscale.cli.doctor_gather import Wishes, gather
    from hyperscale.doctor.diagnose import diagnose

    url = arguments.prometheus or ""
    if url and not url.startswith(("http://", "https://")):
        raise InputError(f"--prometheus: {url!r} is no http URL; write for example http://localhost:9090")
    cluster = DoctorCluster.connect(arguments.kubeconfig, arguments.context)
    wishes = Wishes(url or inputs.prometheus_url(arguments), arguments.history_url or "", arguments.timeout)
    facts = gather(cluster, wishes, Progress())
    report = diagnose(facts, cluster.host)
    if arguments.output == "json":
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print("\n".join(report_lines(report)))
    return report.exit_code


class Progress:
    """Says on standard error what is being done, once it has taken a while and at most once a second."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SLOW_SECONDS
        self._lock = threading.Lock()

    def __call__(self, message: str) -> None:
        """Tell it, perhaps."""
        with self._lock:
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + 1.0
        print(one_line(message), file=sys.stderr)
