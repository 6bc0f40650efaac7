"""The API server and the clocks. Pure."""

from __future__ import annotations

import re
from typing import Final

from hyperscale.doctor.common import unread
from hyperscale.doctor.facts import Facts, Unread, or_empty
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import CheckResult, Finding, finding, plural, some

OLDEST_MINOR: Final = 30
"""Scheduling gates and CEL with field paths."""
SLOW_SECONDS: Final = 2.0
WARN_SECONDS: Final = 5.0
"""NTP keeps machines within milliseconds: five seconds mean that it does not run."""
ERROR_SECONDS: Final = 30.0
"""Half of what makes a sample "in the future", a quarter of what makes it stale."""
_MINOR = re.compile(r"^v?1\.(\d+)")
NTP: Final = "start time synchronization (chrony or systemd-timesyncd), e.g. `timedatectl set-ntp true`"


def api(facts: Facts) -> CheckResult:
    """Reachable, new enough, quick enough."""
    server = facts.server
    if isinstance(server, Unread):
        fix = "check the address and `kubectl cluster-info`; log in again where the answer was 401"
        unreachable = finding(Fault.API_UNREACHABLE, f"the API server gives no version: {server.message}", "", fix)
        return "not reachable", [unreachable]
    minor = _MINOR.match(server.version)
    old = slow = None
    if minor is None or int(minor.group(1)) < OLDEST_MINOR:
        old = finding(
            Fault.API_TOO_OLD,
            f"Kubernetes is {server.version or 'of an unknown version'}",
            "scheduling gates and the CRDs' rules need 1.30",
            "upgrade the control plane to Kubernetes 1.30 or newer",
        )
    if server.answered_seconds > SLOW_SECONDS:
        slow = finding(
            Fault.API_SLOW,
            f"the API server took {server.answered_seconds:.1f} s for its version",
            "it is overloaded, or the way to it is long",
            "raise settings.requestTimeoutSeconds in the chart's values if the operator reports timeouts",
        )
    return f"Kubernetes {server.version}, answered in {server.answered_seconds * 1e3:.0f} ms", [old, slow]


def clocks(facts: Facts) -> CheckResult:
    """API server, Prometheus, this machine and the nodes agree on the time."""
    ahead = None if isinstance(facts.server, Unread) else facts.server.ahead_seconds
    doubt = 0.0 if isinstance(facts.server, Unread) else facts.server.doubt_seconds
    metrics = facts.metrics
    findings = [
        _skew(Fault.CLOCK_SKEW, "the API server", ahead, doubt, "this machine or the control plane"),
        _skew(Fault.PROMETHEUS_CLOCK_SKEW, "Prometheus", metrics.ahead_seconds, metrics.doubt_seconds, "Prometheus' node or this machine"),
        unread(facts.node_clocks),
    ]
    findings.append(_nodes(or_empty(facts.node_clocks)))
    compared = [name for name, value in (("API server", ahead), ("Prometheus", metrics.ahead_seconds)) if value is not None]
    return f"compared with {' and '.join(compared) or 'nothing: no times were sent'}", findings


def _skew(fault: Fault, whose: str, ahead: float | None, doubt: float, suspects: str) -> Finding | None:
    """A clock that is off by more than can be explained by how it was read."""
    if ahead is None or abs(ahead) - doubt < WARN_SECONDS:
        return None
    state = FindingState.ERROR if abs(ahead) - doubt >= ERROR_SECONDS else FindingState.WARNING
    direction = "ahead of" if ahead > 0 else "behind"
    return finding(
        fault,
        f"the clock of {whose} is {abs(ahead):.0f} s {direction} this machine's",
        f"{suspects} is not synchronized; samples count as stale or as from the future then",
        f"{NTP} on {suspects}",
        state=state,
    )


def _nodes(ahead: tuple[tuple[str, float], ...]) -> Finding | None:
    """Nodes whose kubelet writes times that have not come yet."""
    off = [(name, seconds) for name, seconds in ahead if seconds >= WARN_SECONDS]
    if not off:
        return None
    most = max(seconds for _, seconds in off)
    names = [name for name, _ in off]
    return finding(
        Fault.NODE_CLOCK_SKEW,
        f"the clocks of {plural(len(off), 'node')} are ahead of the API server's, by up to {most:.0f} s: {some(names)}",
        "their kubelets renew heartbeats with times that have not come yet",
        f"{NTP} on those nodes",
        names,
    )
