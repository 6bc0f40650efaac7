"""The installation under test, and what is asked of the doctor's report about it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from e2e.cluster.api import Api
from hyperscale.cli.doctor.doctor_command import report_lines
from hyperscale.cli.main import main
from hyperscale.doctor.findings import Report
from tests.api import doctor_scraped as scraped
from tests.api import doctor_world as world

REPOSITORY = Path(__file__).parents[2]


@dataclass
class Site:
    """The installation under test."""

    api: Api
    kubeconfig: Path
    exporter: scraped.Exporter
    url: str
    tools: str
    """Folders with kubectl and helm, as PATH."""

    def doctor(self, *arguments: str, prometheus: bool = True) -> tuple[int, dict[str, Any], str]:
        """Exit code, report, and the same report as the table that people see."""
        if self.fresh:
            world.renew(self.api)
        own = [f"http://127.0.0.1:{self.exporter.port}" if one == "EXPORTER" else one for one in arguments]
        asked = ["doctor", "--kubeconfig", str(self.kubeconfig), *(["--prometheus", self.url] if prometheus else []), *own, "-o", "json"]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = main(asked)
        table = "\n".join(report_lines(msgspec.json.decode(out.getvalue(), type=Report)))
        sys.stdout.write(f"{table}\n\n")
        return code, json.loads(out.getvalue()), table

    fresh: bool = True
    """Whether the operator renews its Lease."""


def run_as_printed(site: Site, command: str) -> None:
    """What a person does who copies the fix into a shell at the repository's root."""
    environment = {**os.environ, "KUBECONFIG": str(site.kubeconfig), "PATH": f"{site.tools}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        ["/bin/bash", "-c", command], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, f"{command}\n{ran.stderr}"


def all_fixes(report: dict[str, Any], fault: str) -> list[str]:
    """Fixes of every finding of a fault."""
    return [one["fix"] for check in report["checks"] for one in check["findings"] if one["fault"] == fault]


def findings(report: dict[str, Any], least: str = "warning") -> dict[str, dict[str, Any]]:
    """Findings by fault, from a severity on."""
    order = ["ok", "info", "warning", "error"]
    found = [finding for check in report["checks"] for finding in check["findings"]]
    return {one["fault"]: one for one in found if order.index(one["state"]) >= order.index(least)}
