"""`hyperscale doctor`: what is missing or wrong in an installation, and how to fix it. Reads only.

As text: one line a check, then what was found and what fixes it.
"""

from __future__ import annotations

import argparse
import textwrap
from typing import Final

from hyperscale.cli import spinner
from hyperscale.cli.plan import inputs
from hyperscale.cli.text_tables import counted, print_answer, printable, table
from hyperscale.doctor.faults import FindingState
from hyperscale.doctor.findings import Finding, Report

WIDTH: Final = 118
_MARKS: Final = {FindingState.OK: "ok", FindingState.INFO: "info", FindingState.WARNING: "WARNING", FindingState.ERROR: "ERROR"}


def run(arguments: argparse.Namespace) -> int:
    """Gather, judge, print; the exit code of the worst finding."""
    from hyperscale.cli.doctor.doctor_api import DoctorCluster  # the kubernetes client takes half a second to import
    from hyperscale.cli.doctor.doctor_gather import Wishes, gather
    from hyperscale.doctor.diagnose import diagnose

    named, access = inputs.prometheus_url(arguments), inputs.prometheus_access(arguments)
    cluster = DoctorCluster.of_pod_or_kubeconfig(arguments.kubeconfig, arguments.context, arguments.timeout)
    wishes = Wishes(named, access, arguments.history_url or "", arguments.timeout)
    facts = gather(cluster, wishes, spinner.say)
    report = diagnose(facts, cluster.host)
    print_answer(report, report_lines(report), arguments.output)
    return report.exit_code


def report_lines(report: Report) -> list[str]:
    """The table of checks, then the findings, worst first, and a last line that sums up."""
    rows = [(_MARKS[one.state], one.check, one.summary) for one in report.checks]
    lines = table(("STATE", "CHECK", "LOOKED AT"), rows)
    for finding in report.findings:
        lines += ["", *_finding(finding)]
    return [*lines, "", _summary(report)]


def _finding(finding: Finding) -> list[str]:
    head = f"{_MARKS[finding.state]:<8} {finding.check}: {finding.fault}"
    parts = [("", finding.message), ("cause: ", finding.cause), ("fix:   ", finding.fix)]
    return [head, *(line for title, text in parts if text for line in _block(title, printable(text), title == "fix:   "))]


def _block(title: str, text: str, whole: bool) -> list[str]:
    """Wrapped text; a fix stays on one line, so that it can be copied."""
    if whole:
        return [f"  {title}{text}"]
    return textwrap.wrap(text, WIDTH, initial_indent=f"  {title}", subsequent_indent="  " + " " * len(title), break_on_hyphens=False)


def _summary(report: Report) -> str:
    counts = {state: sum(finding.state is state for finding in report.findings) for state in FindingState}
    if report.state in (FindingState.OK, FindingState.INFO):
        notes = f", {counted(counts[FindingState.INFO], 'note')}" if counts[FindingState.INFO] else ""
        return f"{counted(len(report.checks), 'check')} without a fault{notes}."
    kinds = ((FindingState.ERROR, "error"), (FindingState.WARNING, "warning"), (FindingState.INFO, "note"))
    return ", ".join(counted(counts[state], word) for state, word in kinds) + "."
