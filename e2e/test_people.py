"""A person decides: a plan waits with alternatives, one is preferred, compared, approved and runs; a rejected one never does."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Iterator

import pytest

from e2e.cluster.api import Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import OperatorProcess, start_operator
from e2e.jobs import COMPUTING, Job, namespace
from hyperscale.cli.main import main

POLICIES = "/apis/hyperscale.dev/v1alpha1/plannerpolicies"
ADVISE = {"preferences": {"mode": "Advise"}}
ANNOTATION = "hyperscale.dev/{}-plan"
UP_TO_FOUR = {"minReplicas": 1, "maxReplicas": 4}
MODEL = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256}
FOLLOWED_SECONDS = 180.0
"""Choices are read once a minute, and a job that waits is looked at once a minute."""


@pytest.fixture(scope="module", name="url")
def url_fixture(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the database of history."""
    return f"sqlite:///{tmp_path_factory.mktemp('people')}/history.sqlite"


@pytest.fixture(scope="module")
def operator(installed: Cluster, url: str) -> Iterator[OperatorProcess]:
    """As that of other modules, with history."""
    process = start_operator(installed, {"HYPERSCALE_HISTORY_URL": url})
    yield process
    process.stop()


@pytest.fixture
def space(calm: Cluster, operator: OperatorProcess, request: pytest.FixtureRequest) -> Iterator[str]:
    with namespace(calm.api(), "people-" + str(abs(hash(request.node.name)))[:8]) as name:
        yield name


def hyperscale(calm: Cluster, job: Job, command: str, *more: str) -> str:
    """What the command line prints about the job."""
    return printed(command, job.name, *more, "-n", job.namespace, "--kubeconfig", str(calm.kubeconfig))


def printed(*arguments: str) -> str:
    """What the command line prints; it must end well."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        code = main(arguments)
    assert code == 0
    return text.getvalue()


def offers(job: Job) -> list[Object]:
    listed: list[Object] = (job.status().get("alternatives") or {}).get("offers") or []
    return listed


def waiting(calm: Cluster, space: str, name: str, **spec: Object) -> Job:
    """A job that waits for a person, with alternatives."""
    job = Job(calm.api(), space, name)
    job.create(startPolicy="Manual", model=MODEL, dataset=COMPUTING["dataset"], workers=UP_TO_FOUR, **spec)
    job.wait_reason("AwaitingApproval")
    job.wait(lambda: len(offers(job)) > 1, "no alternatives were found")
    return job


def annotate(job: Job, **decisions: str) -> None:
    """As GitOps does."""
    job.patch(metadata={"annotations": {ANNOTATION.format(kind): plan for kind, plan in decisions.items()}})


def test_an_alternative_is_explained_preferred_compared_and_approved_and_runs(calm: Cluster, space: str) -> None:
    job = waiting(calm, space, "preferred")
    own, other, *_ = offers(job)
    assert own["id"] == job.plan()["id"]
    explained = hyperscale(calm, job, "explain")
    assert other["id"] in explained
    assert other["trades"] in explained
    assert "goes from" in hyperscale(calm, job, "prefer", other["id"], "--dry-run")
    assert job.plan()["id"] == own["id"]
    hyperscale(calm, job, "prefer", other["id"], "--because", "cost matters more")
    job.wait(lambda: job.plan()["id"] == other["id"], "the alternative is not the plan")
    job.wait_reason("AwaitingApproval")
    assert job.mpijob() is None
    compared = hyperscale(calm, job, "approve", "--dry-run")
    assert f"Against plan {own['id']}" in compared
    assert job.mpijob() is None
    hyperscale(calm, job, "approve", "--plan", other["id"])
    job.wait_bound()
    assert job.plan()["id"] == other["id"]
    assert job.pod_nodes() == [worker["node"] for worker in other["plan"]["workers"]]
    job.wait_state("Running")


def test_annotations_alone_do_the_same(calm: Cluster, space: str) -> None:
    job = waiting(calm, space, "by-annotation")
    other = offers(job)[1]
    annotate(job, preferred=other["id"], approved=other["id"])
    job.wait_bound()
    assert job.pod_nodes() == [worker["node"] for worker in other["plan"]["workers"]]


def test_a_rejected_plan_never_starts(calm: Cluster, space: str) -> None:
    job = waiting(calm, space, "rejected")
    planned = job.plan()["id"]
    hyperscale(calm, job, "reject", "--because", "the nodes are for others")
    job.wait_reason("RejectedByPerson")
    assert "the nodes are for others" in job.condition("Approved")["message"]
    annotate(job, approved=planned)
    time.sleep(3)
    assert job.mpijob() is None
    assert job.condition("Approved")["status"] == "False"
    hyperscale(calm, job, "approve")
    job.wait_bound()
    assert job.plan()["id"] == planned


def test_an_impossible_alternative_never_becomes_an_mpijob(calm: Cluster, space: str) -> None:
    job = waiting(calm, space, "impossible")
    planned, whole = job.plan()["id"], job.status()["alternatives"]
    other = whole["offers"][1]["plan"]
    away = [{**worker, "node": "no-such-node"} for worker in other["workers"]]
    forged = {**other, "id": "f" * 16, "workers": away, "ranksByNode": {"no-such-node": sum(worker["gpus"] for worker in away)}}
    offered = [whole["offers"][0], {**whole["offers"][1], "id": "f" * 16, "plan": forged}]
    calm.api().patch(f"{job.path}/status", {"status": {"alternatives": {**whole, "offers": offered}}})
    annotate(job, preferred="f" * 16, approved="f" * 16)
    job.wait(lambda: "does not fit any more" in job.condition("Approved").get("message", ""), "the plan is not refused")
    time.sleep(2)
    assert job.mpijob() is None
    assert job.plan()["id"] == planned
    annotate(job, approved=planned)
    job.wait_bound()
    assert job.plan()["id"] == planned


def test_choices_are_kept_reveal_weights_and_mark_an_alternative(calm: Cluster, space: str, url: str) -> None:
    policy = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "people"}, "spec": ADVISE}
    calm.api().create(POLICIES, policy)
    try:
        first = waiting(calm, space, "first", policyRef={"name": "people"})
        other = offers(first)[1]["id"]
        hyperscale(calm, first, "prefer", other, "--because", "cost matters")
        first.wait(lambda: any(row["uid"] == first.resource()["metadata"]["uid"] for row in decisions(url)), "the choice is not in history")
        row = next(row for row in decisions(url) if row["job"] == "first")
        assert (row["decision"], row["plan"], row["because"], row["namespace"]) == ("Preferred", other, "cost matters", space)
        assert row["manager"]
        assert sorted(row["offered"]) == sorted(offer["id"] for offer in offers(first))
        (shown,) = json.loads(printed("preferences", "-n", space, "--url", url, "-o", "json"))
        assert len(shown["answers"]) == len(row["offered"]) - 1
        second = waiting(calm, space, "second", policyRef={"name": "people"})
        second.wait(lambda: "recommended" in second.status()["alternatives"], "no plan is recommended", FOLLOWED_SECONDS)
        assert second.status()["alternatives"]["recommended"] in {offer["id"] for offer in offers(second)}
        assert "rated best by preferences" in hyperscale(calm, second, "explain")
    finally:
        calm.api().delete(f"{POLICIES}/people")


def decisions(url: str) -> list[Object]:
    """Rows of history, newest first; none before the operator has made the table."""
    try:
        rows: list[Object] = json.loads(printed("history", "--decisions", "--url", url, "-o", "json"))
    except AssertionError:
        return []
    return rows
