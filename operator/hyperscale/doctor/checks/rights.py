"""The operator's rights: all that its chart grants, as templates/rbac.yaml lists them (a test compares both). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from hyperscale.doctor.common import helm, operators
from hyperscale.doctor.facts import Facts, Review, Right, or_empty
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import MAX_NAMES, CheckResult, Finding, finding, plural
from hyperscale.model import constants

CORE: Final = ""
_CLUSTER: Final = (
    (CORE, "nodes", "get list watch"),
    (constants.GROUP, constants.POLICY_PLURAL, "get list watch"),
    (constants.GROUP, constants.TOPOLOGY_PLURAL, "get create patch"),
    (constants.GROUP, f"{constants.TOPOLOGY_PLURAL}/status", "patch"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "list watch"),
    (CORE, "pods", "get list watch"),
    ("kueue.x-k8s.io", "topologies", "list"),
    ("topology.volcano.sh", "hypernodes", "list"),
    (CORE, "persistentvolumes", "get"),
    ("storage.k8s.io", "storageclasses", "get"),
)
_JOBS: Final = (
    (constants.GROUP, constants.JOB_PLURAL, "get list watch"),
    (constants.GROUP, f"{constants.JOB_PLURAL}/status", "patch"),
    (constants.GROUP, f"{constants.JOB_PLURAL}/finalizers", "update"),
    (constants.MPI_GROUP, constants.MPI_PLURAL, "get list watch create patch"),
    (CORE, "pods", "get list watch create patch"),
    (CORE, "configmaps", "get create patch delete"),
    (CORE, "persistentvolumeclaims", "get"),
    ("batch", "jobs", "get create delete"),
    ("networking.k8s.io", "networkpolicies", "get create delete"),
    ("kueue.x-k8s.io", "workloads", "list"),
    (CORE, "events", "create"),
)
MAX_NAMESPACES: Final = 20
"""Asked about of watchNamespaces; a Role is the same in each."""

WHY: Final = {
    (constants.MPI_GROUP, constants.MPI_PLURAL): "no job can start",
    (CORE, "pods"): "ranks stay gated and GPUs that others hold are not seen",
    (constants.GROUP, constants.JOB_PLURAL): "jobs are not seen or their status is not written",
    (CORE, "nodes"): "nothing can be planned",
    (CORE, "configmaps"): "pods wait for their plan file",
    (CORE, "persistentvolumeclaims"): "a job whose volume is missing holds GPUs for pods that never start",
    (CORE, "persistentvolumes"): "plans do not know from which nodes a volume can be reached",
    ("storage.k8s.io", "storageclasses"): "plans do not know for which nodes a volume may be made",
    ("batch", "jobs"): "training graphs are not partitioned into volumes",
    ("networking.k8s.io", "networkpolicies"): "no preflight begins, so that jobs with preflight Require do not start",
    (CORE, "events"): "changes of jobs show in no event",
    ("kueue.x-k8s.io", "workloads"): "a job that Kueue suspended does not name its Workload",
    ("kueue.x-k8s.io", "topologies"): "Kueue's levels of topology are not known",
    ("topology.volcano.sh", "hypernodes"): "Volcano's HyperNodes are not known",
    ("discovery.k8s.io", "endpointslices"): "agents do not find each other, and no link is measured",
    ("coordination.k8s.io", "leases"): "the operator does not start",
    (constants.GROUP, constants.POLICY_PLURAL): "policies are ignored",
    (constants.GROUP, constants.TOPOLOGY_PLURAL): "the ClusterTopology is not written",
    ("apiextensions.k8s.io", "customresourcedefinitions"): "a kind that is installed later is not noticed",
}
"""What a missing right leads to, by group and resource."""
_NEEDED: Final = ("configmaps", "gnntrainingjobs", "jobs", "leases", "mpijobs", "nodes", "plannerpolicies", "pods")
"""Without the others jobs still run."""


def operator_rights(namespace: str, watched: Sequence[str]) -> tuple[Right, ...]:
    """All rights of an operator.

    namespace: its own, where its Lease lives
    watched:   namespaces that it serves; empty for all
    """
    rights = _spread(_CLUSTER, "")
    for served in sorted(watched)[:MAX_NAMESPACES] or [""]:
        rights += _spread(_JOBS, served)
    lease = "coordination.k8s.io", "leases"
    rights.append(Right("create", *lease, "", namespace))
    rights += [Right(verb, *lease, "", namespace, constants.LEASE_NAME) for verb in ("get", "update")]
    return tuple(dict.fromkeys(rights))


def agent_rights(namespace: str) -> tuple[Right, ...]:
    """What a node agent that probes links needs: the list of its peers."""
    return (Right("list", "discovery.k8s.io", "endpointslices", "", namespace),)


def words(right: Right) -> str:
    """`patch pods/status in team-a`."""
    resource = f"{right.resource}.{right.group}" if right.group else right.resource
    path = f"{resource}/{right.subresource}" if right.subresource else resource
    named = f" {right.name}" if right.name else ""
    return f"{right.verb} {path}{named}{f' in {right.namespace}' if right.namespace else ''}"


def _spread(table: Sequence[tuple[str, str, str]], namespace: str) -> list[Right]:
    rights = []
    for group, path, verbs in table:
        resource, _, subresource = path.partition("/")
        rights += [Right(verb, group, resource, subresource, namespace) for verb in verbs.split()]
    return rights


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
    harmless = resource[1] not in _NEEDED or review.account == "you"
    cause = f"a role or its binding is missing or was changed; {WHY.get(resource, 'some requests fail')}"
    state = FindingState.WARNING if harmless else None
    names = tuple(words(right) for right in denied[:MAX_NAMES])  # as they were asked about, not by name
    return replace(finding(Fault.RIGHT_MISSING, f"{review.account} may not {listed}", cause, fix, state=state), where=names)
