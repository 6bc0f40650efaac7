"""Asks the API server what the accounts of operator, agent and mpi-operator may do, for `hyperscale doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from hyperscale.cli.doctor.doctor_api import DoctorCluster, RequestError
from hyperscale.doctor.checks.rights import agent_rights, operator_rights
from hyperscale.doctor.common import DEFAULT_NAMESPACE, agents, named, operators, watched
from hyperscale.doctor.facts import Facts, Review, Right, Unread, WorkloadFacts

THREADS: Final = 8

Json = dict[str, Any]


def reviews(cluster: DoctorCluster, facts: Facts) -> tuple[Review, ...]:
    """The rights of every operator's and agent's account; of the caller where no Deployment runs an operator."""
    if isinstance(facts.workloads, Unread):
        raise RequestError(facts.workloads)  # whose rights to ask about is not known
    deployments = operators(facts)
    if not deployments:
        return (_review(cluster, "you", "SelfSubjectAccessReview", {}, operator_rights(DEFAULT_NAMESPACE, ())),)
    asked = []
    for one in deployments:
        rights = operator_rights(one.namespace, watched(one))
        asked.append(_review(cluster, account_of(one), "SubjectAccessReview", subject_of(one), rights))
    probing = [one for one in agents(facts) if one.environment.get("HYPERSCALE_AGENT_LINKS") == "on"]
    asked += [_review(cluster, account_of(one), "SubjectAccessReview", subject_of(one), agent_rights(one.namespace)) for one in probing]
    return tuple(asked)


def account_of(one: WorkloadFacts) -> str:
    """User name of a workload's account."""
    return f"system:serviceaccount:{one.namespace}:{one.account}"


def subject_of(one: WorkloadFacts) -> Json:
    """The account as an access review wants it."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{one.namespace}", "system:authenticated"]
    return {"user": account_of(one), "groups": groups}


def _review(cluster: DoctorCluster, account: str, kind: str, subject: Json, rights: Sequence[Right]) -> Review:
    """Raises RequestError where the question itself is not allowed."""

    # Threads of their own: this runs in the pool that waits for it.
    def allowed(right: Right) -> bool:
        attributes = {key: value for key, value in right._asdict().items() if value}
        return cluster.review(kind, {**subject, "resourceAttributes": attributes})

    with ThreadPoolExecutor(THREADS, thread_name_prefix="reviews") as reviewers:
        answers = list(reviewers.map(allowed, rights))
    return Review(account, tuple(right for right, yes in zip(rights, answers, strict=True) if not yes), len(rights))


def may_resume(cluster: DoctorCluster, facts: Facts) -> bool | None:
    """Whether mpi-operator may update the status of Jobs; None where it cannot be asked."""
    one = next((one for one in named(facts, "mpi-operator") if one.kind == "Deployment"), None)
    if one is None:
        return None
    attributes = {"verb": "update", "group": "batch", "resource": "jobs", "subresource": "status"}
    try:
        return cluster.review("SubjectAccessReview", {**subject_of(one), "resourceAttributes": attributes})
    except RequestError:
        return None
