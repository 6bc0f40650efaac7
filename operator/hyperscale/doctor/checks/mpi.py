"""The Kubeflow MPI Operator: there, running, and quick enough. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from hyperscale.doctor.common import named, not_available, unread
from hyperscale.doctor.facts import Facts, Unread, WorkloadFacts, or_empty
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import CheckResult, Finding, finding
from hyperscale.model import constants

CRD: Final = f"{constants.MPI_PLURAL}.{constants.MPI_GROUP}"
INSTALL: Final = (
    "kubectl apply --server-side -f https://raw.githubusercontent.com/kubeflow/mpi-operator/v0.8.2/deploy/v2beta1/mpi-operator.yaml"
)
LEASE: Final = "mpi-operator"
DEFAULTS: Final = {"kube-api-qps": 5.0, "kube-api-burst": 10.0, "threadiness": 2.0}
"""Of mpi-operator 0.8 (client-go's own)."""
ENOUGH: Final = {"kube-api-qps": 50.0, "kube-api-burst": 100.0, "threadiness": 4.0}
ADVISED: Final = {"kube-api-qps": 100, "kube-api-burst": 200, "threadiness": 10}
RESUME_RULE: Final = {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["update", "patch"]}


def mpi_operator(facts: Facts) -> CheckResult:
    """CRD, Deployment, flags, and the right that its own role forgot."""
    findings = [unread(facts.workloads)]
    if not isinstance(facts.crds, Unread):
        findings.append(_crd(facts))
    running = [one for one in named(facts, "mpi-operator") if one.kind == "Deployment"]
    if not running and not isinstance(facts.workloads, Unread):
        findings.append(_absent(facts))
    for one in running:
        findings += [not_available(Fault.MPI_OPERATOR_DOWN, one, "mpi-operator"), _slow(one), _gang(one)]
    findings.append(_resume(facts))
    flags = _flags(running[0].arguments) if running else {}
    limits = f", {flags['kube-api-qps']:g} requests/s, {flags['threadiness']:g} threads" if flags else ""
    return f"{running[0].place if running else 'no Deployment'}{limits}", findings


def _crd(facts: Facts) -> Finding | None:
    crd = next((one for one in or_empty(facts.crds) if one.name == CRD), None)
    if crd is None:
        message = f"{CRD} is not installed"
        return finding(Fault.MPI_CRD_MISSING, message, "the MPI Operator was never installed here", INSTALL, (CRD,))
    if not crd.established or constants.MPI_VERSION not in crd.served:
        message = f"{CRD} serves {', '.join(crd.served) or 'nothing'}, not {constants.MPI_VERSION}"
        cause = crd.complaint or "it is of an older MPI Operator, or of the training operator's v1"
        return finding(Fault.MPI_CRD_VERSION, message, cause, INSTALL, (CRD,))
    return None


def _absent(facts: Facts) -> Finding:
    lease = next((one for one in or_empty(facts.leases) if one.name == LEASE and one.fresh), None)
    if lease is not None:
        message = f"mpi-operator holds its Lease in {lease.namespace}, but no Deployment runs it"
        fix = "see that it was started with -kube-api-qps=100 -kube-api-burst=200 -threadiness=10"
        cause = "it runs outside of this cluster, or its Deployment has another name"
        return finding(Fault.MPI_OPERATOR_UNSEEN, message, cause, fix, (lease.holder,))
    message = "no Deployment runs mpi-operator, and its Lease has no holder"
    return finding(Fault.MPI_OPERATOR_MISSING, message, "MPIJobs are created, but no controller creates their pods", INSTALL)


def _slow(one: WorkloadFacts) -> Finding | None:
    flags = _flags(one.arguments)
    low = [flag for flag, least in ENOUGH.items() if flags[flag] < least]
    if not low:
        return None
    now = ", ".join(f"-{flag}={flags[flag]:g}" for flag in low)
    return finding(
        Fault.MPI_OPERATOR_SLOW,
        f"mpi-operator runs with {now}",
        "these limits, its defaults where not set, hold up more than a few jobs at once: a job of 16 workers needs about 20 requests",
        _patch(one, low),
        (one.place,),
    )


def _patch(one: WorkloadFacts, flags: Sequence[str]) -> str:
    """The command that appends flags; Go's flag package takes the last of two."""
    wanted = [f"-{flag}={ADVISED[flag]}" for flag in flags]
    path = "/spec/template/spec/containers/0/args"
    operations = [{"op": "add", "path": f"{path}/-", "value": flag} for flag in wanted]
    if not one.arguments:
        operations = [{"op": "add", "path": path, "value": wanted}]  # type: ignore[dict-item] # a list where there is none yet
    return f"kubectl -n {one.namespace} patch deployment {one.name} --type=json -p '{json.dumps(operations)}'"


def _gang(one: WorkloadFacts) -> Finding | None:
    flags = _given(one.arguments)
    if not flags.get("gang-scheduling"):
        return None
    return finding(
        Fault.MPI_OPERATOR_GANG,
        f"mpi-operator runs with --gang-scheduling={flags['gang-scheduling']}",
        "it sets a scheduler of its own on pods that HyperScale's gates already hold together; both can wait for each other",
        f"remove the flag: kubectl -n {one.namespace} edit deployment {one.name}",
        (one.place,),
    )


def _resume(facts: Facts) -> Finding | None:
    """kubeflow/mpi-operator#830: its own role lacks a right, so a suspended MPIJob never resumes."""
    if facts.mpi_may_resume is not False:
        return None
    used = not isinstance(facts.kueue, Unread) and bool(facts.kueue.served)
    suspended = any(job.suspended or job.queue for job in or_empty(facts.jobs))
    rule = json.dumps([{"op": "add", "path": "/rules/-", "value": RESUME_RULE}])
    return finding(
        Fault.MPI_OPERATOR_CANNOT_RESUME,
        "mpi-operator may not update jobs/status",
        "its role of release 0.8.2 lacks that (kubeflow/mpi-operator#830): a suspended MPIJob, as Kueue makes them, never resumes",
        f"kubectl patch clusterrole mpi-operator --type=json -p '{rule}'",
        state=FindingState.WARNING if used or suspended else FindingState.INFO,
    )


def _flags(arguments: Sequence[str]) -> dict[str, float]:
    """The limits in force."""
    given = _given(arguments)
    limits = {}
    for flag, default in DEFAULTS.items():
        try:
            limits[flag] = float(given.get(flag, default))
        except ValueError:
            limits[flag] = default
    return limits


def _given(arguments: Sequence[str]) -> dict[str, str]:
    """Go flags: `-name=value`, `--name value`, `-name`; the last one counts."""
    values: dict[str, str] = {}
    for at, argument in enumerate(arguments):
        if not argument.startswith("-"):
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        following = arguments[at + 1] if at + 1 < len(arguments) else ""
        values[name] = value if equals else ("true" if following.startswith("-") or not following else following)
    return values
