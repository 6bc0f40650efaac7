"""The operator's rights. Pure."""

from __future__ import annotations

from collections import defaultdict

from hyperscale.doctor.checks.rights import WHY, words
from hyperscale.doctor.common import helm, operators, unread
from hyperscale.doctor.facts import Facts, Review, Right, Unread
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.findings import MAX_NAMES, CheckVerdict, Finding, FindingState, plural, verdict

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


def rights(facts: Facts) -> CheckVerdict:
    """Every right that the chart's roles grant is there."""
    if isinstance(facts.reviews, Unread):
        return verdict("rights", "not checked", [unread("rights", facts.reviews)])
    findings = [finding for review in facts.reviews for finding in _missing(facts, review)]
    counts = ", ".join(f"{review.account}: {plural(review.asked, 'right')} asked" for review in facts.reviews)
    return verdict("rights", counts or "no operator found whose rights could be asked", findings)


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
    return Finding(
        "rights",
        Fault.RIGHT_MISSING,
        FindingState.WARNING if harmless else FindingState.ERROR,
        f"{review.account} may not {listed}",
        f"a role or its binding is missing or was changed; {WHY.get(resource, 'some requests fail')}",
        fix,
        tuple(words(right) for right in denied[:MAX_NAMES]),
    )
