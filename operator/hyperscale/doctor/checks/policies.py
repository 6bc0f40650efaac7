"""PlannerPolicies, and the database of finished runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hyperscale.doctor.common import DEFAULT_POLICY, helm, operators
from hyperscale.doctor.facts import Facts, or_empty
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.findings import CheckResult, Finding, finding, plural, some
from hyperscale.spec.parse import SpecError, parse_policy

HISTORY: Final = "HYPERSCALE_HISTORY_URL"
_LASTING: Final = "history.url=sqlite:////var/lib/hyperscale/history.sqlite"


def policy(facts: Facts) -> CheckResult:
    """Every PlannerPolicy is valid, and those that jobs name exist."""
    by_name = {str(one["metadata"]["name"]): one for one in or_empty(facts.policies)}
    default = "default is among them" if DEFAULT_POLICY in by_name else "no default: built-in figures hold"
    findings = [_invalid(name, one) for name, one in sorted(by_name.items())]
    findings.append(_missing(facts, by_name))
    return f"{plural(len(by_name), 'PlannerPolicy').replace('Policys', 'Policies')}; {default}", findings


def history(facts: Facts) -> CheckResult:
    """Finished runs are kept where they last, and the database answers."""
    deployment = next(iter(operators(facts)), None)
    url = facts.history.url
    if deployment is None and not url:
        return "no operator found whose history could be checked", []
    kept = deployment.referenced.get(HISTORY, "") if deployment is not None else ""
    if not url and kept:
        return f"URL is in {kept}; ask it with --history-url", []
    if not url:
        message = "no finished runs are kept"
        off = finding(Fault.HISTORY_OFF, message, "history.url is empty: predictions stay uncorrected", helm(facts, _LASTING))
        return "off", [off]
    return url, [_unreachable(facts), _volatile(facts)]


def _invalid(name: str, resource: Mapping[str, Any]) -> Finding | None:
    """What this release says to a stored policy: one of an older CRD may pass there and not here."""
    try:
        parse_policy(resource)
    except SpecError as error:
        return finding(
            Fault.POLICY_INVALID,
            f"PlannerPolicy {name}: {error.path}: {error.message}",
            "it was stored under another release's CRD, or past validation; jobs that use it are refused",
            f"kubectl edit plannerpolicy {name}: correct {error.path or 'it'}",
            (name,),
        )
    return None


def _missing(facts: Facts, by_name: Mapping[str, object]) -> Finding | None:
    lost = {f"{job.namespace}/{job.name}": job.policy for job in or_empty(facts.jobs) if job.policy and job.policy not in by_name}
    if not lost:
        return None
    wanted = min(lost.values())
    return finding(
        Fault.POLICY_MISSING,
        f"PlannerPolicy {some(lost.values())} does not exist, and {plural(len(lost), 'job')} refer to it: {some(lost)}",
        "it was deleted, or its name is misspelt; such jobs are refused",
        f"create PlannerPolicy {wanted}, or leave spec.policyRef out",
        lost,
    )


def _unreachable(facts: Facts) -> Finding | None:
    if not facts.history.complaint:
        return None
    return finding(
        Fault.HISTORY_UNREACHABLE,
        f"{facts.history.url}: {facts.history.complaint}",
        "the database is down, its Service has no endpoints, or the URL is wrong; runs are not recorded meanwhile",
        f"{helm(facts, 'history.url=postgresql+psycopg://USER@HOST:5432/hyperscale', 'networkPolicy.historyPorts={5432}')}",
    )


def _volatile(facts: Facts) -> Finding | None:
    url = facts.history.url
    if not url.startswith("sqlite") or not ("/tmp/" in url or url in ("sqlite://", "sqlite:///:memory:")):  # noqa: S108 - a URL's text
        return None
    message = f"finished runs are kept in {url}, which ends with the pod"
    cause = "that is the chart's default: it needs no volume"
    fix = f"{helm(facts, _LASTING)} with a PersistentVolumeClaim in extraVolumes and extraVolumeMounts, or a PostgreSQL URL"
    return finding(Fault.HISTORY_VOLATILE, message, cause, fix)
