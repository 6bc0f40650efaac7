"""The operator itself: running, alone, of one version; and pods of ours that cannot start. Pure."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Final

from hyperscale.doctor.common import DEFAULT_NAMESPACE, helm, not_available, operators, tag_of, unread, version_of, watched
from hyperscale.doctor.facts import Facts, LeaseFacts, Pod, PodTrouble, Unread, WorkloadFacts, or_empty
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import CheckResult, Finding, finding, plural, some
from hyperscale.model import constants

PULL_REASONS: Final = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "ImageInspectError",
)
MANY_RESTARTS: Final = 5
_SECRET = re.compile(r'secret "([a-z0-9.-]+)" not found')


def operator(facts: Facts) -> CheckResult:
    """Deployment, Lease, rivals, versions."""
    deployments = operators(facts)
    leases = [lease for lease in or_empty(facts.leases) if lease.name == constants.LEASE_NAME]
    findings: list[Finding | None] = [unread(facts.leases)]
    if not deployments:
        findings.append(_absent(facts, leases))
    for one in deployments:
        who = f"the operator in {one.namespace}"
        findings.append(not_available(Fault.OPERATOR_DOWN, one, who, " -l app.kubernetes.io/component=operator"))
        if one.ready:
            findings.append(_lease(facts, one, [lease for lease in leases if lease.namespace == one.namespace]))
    findings += [_overlap(first, second) for first, second in combinations(deployments, 2)]
    findings += [_foreign(facts, deployments, leases), _versions(facts, deployments), _crashing(facts, deployments)]
    shown = ", ".join(f"{one.place} {version_of(one)} {one.ready}/{one.wanted}" for one in deployments)
    return shown or "no Deployment", findings


def images(facts: Facts) -> CheckResult:
    """Pods of ours whose containers cannot be created."""
    by_image: dict[tuple[str, str], list[tuple[Pod, PodTrouble]]] = {}
    for pod in or_empty(facts.pods):
        for trouble in pod.troubles:
            kind = "pull" if trouble.reason in PULL_REASONS else trouble.reason
            by_image.setdefault((kind, trouble.image), []).append((pod, trouble))
    findings = [
        _pull(cases) if kind == "pull" else _broken(cases) for (kind, _), cases in sorted(by_image.items(), key=lambda item: item[0])
    ]
    return f"{plural(len(or_empty(facts.pods)), 'pod')} of ours looked at", findings


def _absent(facts: Facts, leases: list[LeaseFacts]) -> Finding:
    fresh = next((lease for lease in leases if lease.fresh), None)
    if fresh is not None:
        message = f"the Lease in {fresh.namespace} is held by {fresh.holder}, but no Deployment runs the operator"
        fix = f"install it with Helm where it should survive its node: {helm(facts)}"
        return finding(Fault.OPERATOR_OUTSIDE, message, "it runs outside of a Deployment", fix, (fresh.holder,))
    message = "no Deployment runs the operator, and its Lease has no holder"
    fix = f"kubectl create namespace {DEFAULT_NAMESPACE}; {helm(facts)}"
    return finding(Fault.OPERATOR_MISSING, message, "it is not installed in this cluster", fix)


def _lease(facts: Facts, one: WorkloadFacts, leases: list[LeaseFacts]) -> Finding | None:
    """A ready operator that does not renew its Lease serves no job."""
    restart = f"kubectl -n {one.namespace} rollout restart deployment/{one.name}; see its log where it comes back"
    if not leases:
        if isinstance(facts.leases, Unread):
            return None
        message = f"the operator in {one.namespace} has no Lease {constants.LEASE_NAME}"
        cause = "it has not started yet, or may not create leases (see the check of rights)"
        return finding(Fault.LEASE_MISSING, message, cause, restart, (one.place,))
    lease = leases[0]
    if lease.fresh:
        return None
    holder = lease.holder or "no holder"
    message = f"the Lease of the operator in {one.namespace} was last renewed {lease.silent_seconds:.0f} s ago by {holder}"
    cause = "the operator hangs, has lost the API server, or was killed; its clock may be wrong (see the check of clocks)"
    return finding(Fault.LEASE_STALE, message, cause, restart, (f"{lease.namespace}/{lease.name}",))


def _foreign(facts: Facts, deployments: tuple[WorkloadFacts, ...], leases: list[LeaseFacts]) -> Finding | None:
    """A fresh Lease that no pod of the operator holds: a second operator from outside."""
    if isinstance(facts.pods, Unread) or not deployments:
        return None
    lease = _foreign_lease(facts.pods, {one.namespace for one in deployments if one.ready}, leases)
    if lease is None:
        return None
    return finding(
        Fault.LEASE_FOREIGN,
        f"the Lease in {lease.namespace} is held by {lease.holder}, which is no pod of the operator there",
        "a second operator runs, from a checkout or of another release; the installed one waits, or both serve the same jobs",
        f"end that process, then: kubectl -n {lease.namespace} delete lease {lease.name}",
        (f"{lease.namespace}/{lease.name}",),
    )


def _foreign_lease(pods: tuple[Pod, ...], ready_in: set[str], leases: list[LeaseFacts]) -> LeaseFacts | None:
    """The first fresh Lease that no pod of the operator holds.

    ready_in: namespaces of ready operators; where one has no pod its pods could not be listed, and its Lease says nothing
    """
    operator_pods = {(pod.namespace, pod.name) for pod in pods if pod.component == "operator"}
    without_pods = ready_in - {namespace for namespace, _ in operator_pods}
    foreign = (lease for lease in leases if lease.fresh and (lease.namespace, lease.holder) not in operator_pods)
    return next((lease for lease in foreign if lease.namespace not in without_pods), None)


def _overlap(first: WorkloadFacts, second: WorkloadFacts) -> Finding | None:
    """Each has its own Lease in its own namespace, so nothing keeps two from serving one job."""
    one, other = set(watched(first)), set(watched(second))
    shared = one & other if one and other else one | other
    if one and other and not shared:
        return None
    served = some(shared) if shared else "all namespaces"
    versions = {version_of(first), version_of(second)}
    different = f", of versions {' and '.join(sorted(versions))}" if len(versions) > 1 else ""
    return finding(
        Fault.OPERATORS_OVERLAP,
        f"{first.place} and {second.place} both serve {served}{different}",
        "two releases without disjoint watchNamespaces: both write the same jobs",
        f"uninstall one: helm uninstall {second.labels.get('app.kubernetes.io/instance', second.name)} -n {second.namespace}; "
        "or give each its own watchNamespaces",
        (first.place, second.place),
    )


def _versions(facts: Facts, deployments: tuple[WorkloadFacts, ...]) -> Finding | None:
    """One release whose pods run different images, or another one than this command."""
    tags = {tag for pod in or_empty(facts.pods) if pod.component == "operator" for image in pod.images if (tag := tag_of(image))}
    if len(deployments) == 1 and len(tags) > 1:
        message = f"pods of the operator run different versions: {some(tags)}"
        fix = f"kubectl -n {deployments[0].namespace} rollout status deployment/{deployments[0].name}; delete pods that are left over"
        return finding(Fault.OPERATOR_VERSIONS, message, "an upgrade has not ended", fix, tags)
    other = sorted({version for one in deployments if (version := version_of(one)) and version != facts.version})
    if not other:
        return None
    message = f"the operator is of version {' and '.join(other)}, this command of {facts.version}"
    fix = "use the command of the same release: what it expects of CRDs and roles may differ"
    return finding(Fault.OPERATOR_OTHER_VERSION, message, "they were installed at different times", fix)


def _crashing(facts: Facts, deployments: tuple[WorkloadFacts, ...]) -> Finding | None:
    """Pods of operator and agent that restart again and again."""
    bad = [pod for pod in or_empty(facts.pods) if pod.component in ("operator", "agent") and pod.restarts >= MANY_RESTARTS and pod.ended]
    if not bad:
        return None
    pod = max(bad, key=lambda one: (one.restarts, one.name))
    memory = pod.ended == "OOMKilled"
    prefix = "agent." if pod.component == "agent" else ""
    return finding(
        Fault.POD_CRASHING,
        f"{pod.namespace}/{pod.name} restarted {pod.restarts} times, last by {pod.ended}",
        "it needs more memory than its limit" if memory else "see the log of the container before",
        helm(facts, f"{prefix}resources.limits.memory=2Gi", f"{prefix}resources.requests.memory=2Gi")
        if memory
        else f"kubectl -n {pod.namespace} logs {pod.name} --previous",
        (f"{one.namespace}/{one.name}" for one in bad),
    )


def _pull(cases: list[tuple[Pod, PodTrouble]]) -> Finding:
    pod, trouble = min(cases, key=lambda case: (case[0].namespace, case[0].name))
    names = [f"{one.namespace}/{one.name}" for one, _ in cases]
    message = f"{trouble.image} cannot be pulled ({trouble.reason}) by {plural(len(cases), 'pod')}: {some(names)}"
    return finding(Fault.IMAGE_PULL_FAILED, message, *_why(pod, trouble), names)


_PULL_CAUSES: Final = (
    (
        ("unauthorized", "denied", "forbidden", "authentication"),
        "the registry wants a login (or the repository does not exist)",
        "kubectl -n {pod.namespace} create secret docker-registry pull "
        "--docker-server=REGISTRY --docker-username=USER --docker-password=…; {secret}",
    ),
    (
        ("not found", "manifest unknown", "does not exist"),
        "the registry has no such repository or tag",
        "push the image (docs/install.md), or set {value}.registry, {value}.tag in the chart's values",
    ),
    (
        ("x509", "certificate"),
        "the node does not trust the registry's certificate",
        "add the registry's CA to the container runtime of the nodes",
    ),
    (
        ("no such host", "timeout", "refused", "i/o", "unreachable"),
        "the node cannot reach the registry",
        "check DNS and egress of node {node}, or mirror the image and set {value}.registry",
    ),
    (("",), "{message}", "kubectl -n {pod.namespace} describe pod {pod.name}; set {value}.* in the chart's values"),
)
"""What the container runtime's message may contain, with the cause and the fix; the first that fits."""


def _why(pod: Pod, trouble: PodTrouble) -> tuple[str, str]:
    """Cause and fix, by what the container runtime's message contains."""
    value = {"operator": "image", "agent": "agent.image"}.get(pod.component, "workerImage")
    if trouble.reason == "InvalidImageName":
        return "the reference is malformed", f"correct {value}.registry, {value}.repository and {value}.tag in the chart's values"
    _, cause, fix = next(one for one in _PULL_CAUSES if any(part in trouble.message.lower() for part in one[0]))
    of_chart = "--set image.pullSecrets={pull}"
    secret = of_chart if value != "workerImage" else "name it in imagePullSecrets of the namespace's default ServiceAccount"
    message = trouble.message[:200] or "the runtime gave no reason"
    return cause.format(message=message), fix.format(pod=pod, value=value, secret=secret, node=pod.node or "NODE")


def _broken(cases: list[tuple[Pod, PodTrouble]]) -> Finding:
    pod, trouble = min(cases, key=lambda case: (case[0].namespace, case[0].name))
    crash = trouble.reason == "CrashLoopBackOff"
    fix = f"kubectl -n {pod.namespace} logs {pod.name} --previous" if crash else f"kubectl -n {pod.namespace} describe pod {pod.name}"
    if lost := _SECRET.search(trouble.message):
        literal = "--from-literal=token=$(openssl rand -hex 32)" if pod.component == "agent" else "--from-literal=KEY=VALUE"
        fix = f"kubectl -n {pod.namespace} create secret generic {lost.group(1)} {literal}"
    return finding(
        Fault.POD_CRASHING if crash else Fault.POD_MISCONFIGURED,
        f"{pod.namespace}/{pod.name} does not start: {trouble.reason}",
        trouble.message[:200] or "see the pod's events",
        fix,
        (f"{one.namespace}/{one.name}" for one, _ in cases),
        state=FindingState.ERROR if pod.component in ("operator", "agent") else FindingState.WARNING,
    )
