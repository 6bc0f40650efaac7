"""API objects that the operator sets apart because it cannot use them. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.doctor.facts import Facts, Unusable, or_empty
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.findings import MAX_NAMES, CheckResult, Finding, finding, plural

CAUSES: Final = {
    "Pod": "what it holds cannot be read: all GPUs of its node count as taken until it is gone",
    "Node": "what it offers cannot be read: no rank is placed on it",
    "MPIJob": "a figure or the plan on it cannot be the operator's: it holds no GPUs by what is written on it",
    "GNNTrainingJob": "its spec or status cannot be read: nothing is created for it",
    "PlannerPolicy": "jobs that use it are refused",
}
OTHERS: Final = "plans do without it"


def objects(facts: Facts) -> CheckResult:
    """Every object of a kind that the operator watches or lists, read as the operator reads it."""
    by_kind: dict[str, list[Unusable]] = {}
    for one in or_empty(facts.unusable):
        by_kind.setdefault(one.kind, []).append(one)
    summary = f"{plural(sum(map(len, by_kind.values())), 'object')} cannot be used" if by_kind else "every object can be read"
    return summary, [_finding(kind, refused) for kind, refused in sorted(by_kind.items())]


def _finding(kind: str, refused: list[Unusable]) -> Finding:
    first = refused[0]
    namespace, _, name = first.name.rpartition("/")
    command = f"kubectl delete {kind.lower()} {name}{f' -n {namespace}' if namespace else ''}"
    listed = "; ".join(f"{one.name}: {one.message}" for one in refused[:MAX_NAMES])
    more = f" and {len(refused) - MAX_NAMES} more" if len(refused) > MAX_NAMES else ""
    return finding(
        Fault.OBJECTS_UNUSABLE,
        f"{plural(len(refused), kind)} cannot be used as stored: {listed}{more}",
        CAUSES.get(kind, OTHERS),
        f"correct the field, or delete the object: {command}",
        (one.name for one in refused),
    )
