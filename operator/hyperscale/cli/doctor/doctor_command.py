"""`hyperscale doctor`: what is missing or wrong in an installation, and how to fix it. Reads only."""

from __future__ import annotations

import argparse

from hyperscale.cli import spinner
from hyperscale.cli.doctor.doctor_view import report_lines
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.plan import inputs
from hyperscale.cli.text_tables import print_answer


def run(arguments: argparse.Namespace) -> int:
    """Gather, judge, print; the exit code of the worst finding."""
    from hyperscale.cli.doctor.doctor_api import DoctorCluster  # the kubernetes client takes half a second to import
    from hyperscale.cli.doctor.doctor_gather import Wishes, gather
    from hyperscale.doctor.diagnose import diagnose

    url = arguments.prometheus or ""
    if url and not url.startswith(("http://", "https://")):
        raise InputError(f"--prometheus: {url!r} is no http URL; write for example http://localhost:9090")
    cluster = DoctorCluster.of_pod_or_kubeconfig(arguments.kubeconfig, arguments.context, arguments.timeout)
    named, access = url or inputs.prometheus_url(arguments), inputs.prometheus_access(arguments)
    wishes = Wishes(named, access, arguments.history_url or "", arguments.timeout)
    facts = gather(cluster, wishes, spinner.say)
    report = diagnose(facts, cluster.host)
    print_answer(report, report_lines(report), arguments.output)
    return report.exit_code
