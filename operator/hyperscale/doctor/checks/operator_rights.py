"""The operator's rights. Pure."""

from __future__ import annotations

from collections import defaultdict

from msgspec.structs import replace

from hyperscale.doctor.checks.rights import WHY, words
from hyperscale.doctor.common import helm, operators
from hyperscale.doctor.facts import Facts, Review, Right, or_empty
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import MAX_NAMES, CheckResult, Finding, finding, plural

_HARMLESS = frozenset(
    {
        "clustertopologies",
        "customresourcedefinitions",
        "endpointslices",
        "events",
        "hypernodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses",
        "topologies",
        "workloads",
    }
)
"""Without these jobs still run."""


def rights(facts: Facts) -> CheckResult:
    """Every right that the chart's roles grant is there."""
    reviews = or_empty(facts.reviews)
    counts = ", ".join(f"{review.account}: {plural(review.asked, 'right')} asked" for review in reviews)
    findings = [one for review in reviews for one in _missing(facts, review)]
    return counts or "no operator found whose rights could be asked", findings


def _missing(facts: Facts, review: Review) -> list[Finding]:
    """One finding for each resource."""
    by_resource: dict[tuple[str, str], list[Right]] = defaultdict(list)
    for right in review.denied:
        by_resource[right.group, right.resource].append(right)
    return [_finding(facts, review, resource, denied) for resource, denied in sorted(by_resource.items())]


def _finding(facts: Facts, review: Review, resource: tuple[str, str], denied: list[Right]) -> Finding:
    listed = ", ".join(words(right) for right in denied[:4]) + (f" and {len(denied) - 4} more" if len(denied) > 4 else "")
    operator = next((one for one in operators(facts) if review.account == f"system:serviceaccount:{one.namespace}:{one.account}"), None)
    by_hand = f"; with rbac.create=false bind the rules of docs/rbac.md to {review.account}"
    fix = f"{helm(facts, 'rbac.create=true', of=operator)}{by_hand}"
    if review.account == "you":
        fix = "run the operator under an account with the rules of docs/rbac.md, e.g. that of the chart"
    harmless = resource[1] in _HARMLESS or review.account == "you"
    cause = f"a role or its binding is missing or was changed; {WHY.get(resource, 'some requests fail')}"
    state = FindingState.WARNING if harmless else None
    names = tuple(words(right) for right in denied[:MAX_NAMES])  # as they were asked about, not by name
    return replace(finding(Fault.RIGHT_MISSING, f"{review.account} may not {listed}", cause, fix, state=state), where=names)
