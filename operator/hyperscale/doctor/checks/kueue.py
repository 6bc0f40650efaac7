"""Kueue, where it is used. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.doctor.common import named, tag_of, unread
from hyperscale.doctor.facts import Facts, Kueue, Unread, WorkloadFacts, or_empty
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import CheckResult, Finding, finding, plural, some
from hyperscale.model import constants

FRAMEWORK: Final = "kubeflow.org/mpijob"
INSTALL: Final = "kubectl apply --server-side -f https://github.com/kubernetes-sigs/kueue/releases/latest/download/manifests.yaml"


def kueue(facts: Facts) -> CheckResult:
    """Installed where jobs name queues, handling MPIJobs, and not our own kind as well."""
    installed = facts.kueue
    if isinstance(installed, Unread):
        return "not checked", [unread(installed)]
    queued = {f"{job.namespace}/{job.name}": job.queue for job in or_empty(facts.jobs) if job.queue}
    if not installed.served:
        return "not installed", [_missing(queued)]
    controller = next((one for one in named(facts, "kueue-controller", "kueue/kueue") if one.kind == "Deployment"), None)
    version = next((tag for image in controller.images if (tag := tag_of(image))), "") if controller else ""
    summary = (
        f"kueue.x-k8s.io {', '.join(installed.served)}{f', release {version}' if version else ''}; {plural(len(queued), 'job')} in queues"
    )
    findings = [_down(controller), _frameworks(installed, controller, queued), _external(installed, controller), _queues(facts, installed)]
    return summary, findings


def _missing(queued: dict[str, str]) -> Finding | None:
    if not queued:
        return None
    return finding(
        Fault.KUEUE_MISSING,
        f"{plural(len(queued), 'job')} with the label {constants.KUEUE_QUEUE_LABEL}, but Kueue is not installed: {some(queued)}",
        "HyperScale leaves such jobs to Kueue, and without it they are never admitted",
        f"{INSTALL}; or take the label away: kubectl label gnntj -n {min(queued).replace('/', ' ')} {constants.KUEUE_QUEUE_LABEL}-",
        queued,
    )


def _down(controller: WorkloadFacts | None) -> Finding | None:
    if controller is None or controller.ready:
        return None
    message = f"Kueue's controller is not available: {controller.ready} of {controller.wanted} pods ready"
    fix = f"kubectl -n {controller.namespace} describe pods; kubectl -n {controller.namespace} logs deployment/{controller.name}"
    cause = controller.message or "its pod is not ready; its webhook then refuses every new job too"
    return finding(Fault.KUEUE_DOWN, message, cause, fix, (controller.place,))


def _frameworks(installed: Kueue, controller: WorkloadFacts | None, queued: dict[str, str]) -> Finding | None:
    """MPIJobs are not among what Kueue manages."""
    if installed.frameworks is None or FRAMEWORK in installed.frameworks:
        return None
    return finding(
        Fault.KUEUE_WITHOUT_MPI,
        f"Kueue does not manage MPIJobs: integrations.frameworks has {', '.join(installed.frameworks) or 'nothing'}",
        "jobs with a queue label start at once, or wait for a queue that never looks at them",
        f"add {FRAMEWORK} to integrations.frameworks: {_edit(controller)}",
        state=FindingState.ERROR if queued else FindingState.WARNING,
    )


def _external(installed: Kueue, controller: WorkloadFacts | None) -> Finding | None:
    ours = [name for name in installed.external if constants.JOB_KIND.lower() in name.lower()]
    if not ours:
        return None
    return finding(
        Fault.KUEUE_OWNS_OUR_KIND,
        f"Kueue lists {ours[0]} as an external framework",
        "then it suspends the MPIJob as a child of an unmanaged parent (kubernetes-sigs/kueue#2612), and jobs never start",
        f"remove it from integrations.externalFrameworks: {_edit(controller)}",
    )


def _queues(facts: Facts, installed: Kueue) -> Finding | None:
    """Jobs that name a LocalQueue that is not in their namespace."""
    if installed.queues is None:
        return None
    lost = {
        f"{job.namespace}/{job.name}": job
        for job in or_empty(facts.jobs)
        if job.queue and f"{job.namespace}/{job.queue}" not in installed.queues
    }
    if not lost:
        return None
    job = lost[min(lost)]
    there = [place.partition("/")[2] for place in installed.queues if place.startswith(f"{job.namespace}/")]
    fix = f"create LocalQueue {job.queue} in {job.namespace}"
    if there:
        fix = f"kubectl label gnntj -n {job.namespace} {job.name} {constants.KUEUE_QUEUE_LABEL}={min(there)} --overwrite"
    return finding(
        Fault.KUEUE_QUEUE_MISSING,
        f"{plural(len(lost), 'job')} with a queue that is no LocalQueue of the job's namespace: {some(lost)}",
        f"namespace {job.namespace} has {some(there) if there else 'no LocalQueue'}",
        fix,
        lost,
    )


def _edit(controller: WorkloadFacts | None) -> str:
    namespace = controller.namespace if controller else "kueue-system"
    name = controller.name if controller else "kueue-controller-manager"
    return f"kubectl -n {namespace} edit configmap kueue-manager-config; kubectl -n {namespace} rollout restart deployment {name}"
