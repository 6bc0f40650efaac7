"""All checks over the facts of one moment. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hyperscale.doctor.checks.api_server import api, clocks
from hyperscale.doctor.checks.crds import crds
from hyperscale.doctor.checks.gpus import device_plugin, discovery
from hyperscale.doctor.checks.kueue import kueue
from hyperscale.doctor.checks.link_probes import links, topology
from hyperscale.doctor.checks.mpi import mpi_operator
from hyperscale.doctor.checks.operator_pods import images, operator
from hyperscale.doctor.checks.operator_rights import rights
from hyperscale.doctor.checks.policies import history, policy
from hyperscale.doctor.checks.prometheus import prometheus, queries
from hyperscale.doctor.checks.set_apart import objects
from hyperscale.doctor.facts import Facts, Unread
from hyperscale.doctor.findings import EXIT_CODES, CheckVerdict, Report, worst

CHECKS: Final[dict[str, Callable[[Facts], CheckVerdict]]] = {
    "api": api,
    "clocks": clocks,
    "crds": crds,
    "rights": rights,
    "operator": operator,
    "images": images,
    "policy": policy,
    "objects": objects,
    "mpi-operator": mpi_operator,
    "gpus": device_plugin,
    "labels": discovery,
    "prometheus": prometheus,
    "queries": queries,
    "links": links,
    "topology": topology,
    "kueue": kueue,
    "history": history,
}
"""In the order in which they are shown: what others rest on comes first."""


def diagnose(facts: Facts, cluster: str) -> Report:
    """The report; an API server that does not answer at all leaves nothing else to say."""
    chosen = {"api": api} if isinstance(facts.server, Unread) and facts.server.status == 0 else CHECKS
    verdicts = tuple(check(facts) for check in chosen.values())
    state = worst(one.state for one in verdicts)
    return Report(facts.version, cluster, state, EXIT_CODES[state], verdicts)
