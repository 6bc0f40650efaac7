"""All checks over the facts of one moment. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from hyperscale.doctor.checks.api_server import api, clocks
from hyperscale.doctor.checks.crds import crds
from hyperscale.doctor.checks.gpus import device_plugin, discovery
from hyperscale.doctor.checks.kueue import kueue
from hyperscale.doctor.checks.link_probes import links, topology
from hyperscale.doctor.checks.mpi import mpi_operator
from hyperscale.doctor.checks.operator_pods import images, operator
from hyperscale.doctor.checks.policies import history, policy
from hyperscale.doctor.checks.prometheus import prometheus, queries
from hyperscale.doctor.checks.rights import rights
from hyperscale.doctor.checks.set_apart import objects
from hyperscale.doctor.common import unread
from hyperscale.doctor.facts import Facts, Unread
from hyperscale.doctor.findings import EXIT_CODES, CheckResult, CheckVerdict, Report, worst

CHECKS: Final[dict[str, tuple[Callable[[Facts], CheckResult], str]]] = {
    "api": (api, ""),
    "clocks": (clocks, ""),
    "crds": (crds, "crds"),
    "rights": (rights, "reviews"),
    "operator": (operator, "workloads"),
    "images": (images, "pods"),
    "policy": (policy, "policies"),
    "objects": (objects, "unusable"),
    "mpi-operator": (mpi_operator, ""),
    "gpus": (device_plugin, "nodes"),
    "labels": (discovery, "nodes"),
    "prometheus": (prometheus, ""),
    "queries": (queries, ""),
    "links": (links, ""),
    "topology": (topology, ""),
    "kueue": (kueue, "kueue"),
    "history": (history, ""),
}
"""Each check with the fact that it cannot do without, in the order in which they are shown: what others rest on comes first."""


def diagnose(facts: Facts, cluster: str) -> Report:
    """The report; an API server that does not answer at all leaves nothing else to say."""
    chosen = ["api"] if isinstance(facts.server, Unread) and facts.server.status == 0 else list(CHECKS)
    verdicts = tuple(_verdict(facts, name) for name in chosen)
    state = worst(one.state for one in verdicts)
    return Report(facts.version, cluster, state, EXIT_CODES[state], verdicts)


def _verdict(facts: Facts, name: str) -> CheckVerdict:
    check, needed = CHECKS[name]
    missing = unread(getattr(facts, needed)) if needed else None
    summary, findings = check(facts) if missing is None else ("not checked", [missing])
    listed = tuple(replace(one, check=name) for one in findings if one is not None)
    return CheckVerdict(name, worst(one.state for one in listed), summary, listed)
