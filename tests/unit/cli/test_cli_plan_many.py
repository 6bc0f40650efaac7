"""`hyperscale plan` of several jobs: decided together, as the operator would."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
import yaml

from tests.unit.cli.cli_samples import Files, files_fixture, job, run, snapshot

__all__ = ["files_fixture"]


def named(name: str, epochs: int = 10, **spec: Any) -> dict[str, Any]:
    made = job()
    made["metadata"]["name"] = name
    made["spec"]["model"]["epochs"] = epochs
    made["spec"] |= spec
    return made


def test_jobs_of_several_documents_are_ordered_by_their_length(files: Files) -> None:
    path = files.write("jobs.yaml", "---\n" + yaml.safe_dump_all([named("slow", 1000), named("quick", 10)]))
    ran = files.plan("-o", "json", job=path)
    assert ran.code == 0, ran.err
    turns = json.loads(ran.out)
    keys = [start["key"] for start in turns["starts"]] + [hold["key"] for hold in turns["holds"]]
    assert keys == ["team-a/quick", "team-a/slow"]
    assert turns["score"]["rule"] > 0


def test_a_list_is_several_jobs_too_and_priority_counts(files: Files) -> None:
    urgent = named("urgent", 1000, queueWeight=1000)
    path = files.write("jobs.json", json.dumps({"kind": "List", "items": [named("quick", 10), urgent]}))
    ran = files.plan(job=path)
    assert ran.code == 0, ran.err
    assert ran.out.index("team-a/urgent") < ran.out.index("team-a/quick")
    assert "as the rule orders them" in ran.out


def test_what_counts_for_one_job_only_is_refused(files: Files) -> None:
    path = files.write("jobs.yaml", yaml.safe_dump_all([named("a"), named("b")]))
    ran = files.plan("--workers", "2", job=path)
    assert (ran.code, ran.out) == (2, "")
    assert "--workers" in ran.err


def test_two_jobs_of_one_name_are_refused(files: Files) -> None:
    ran = files.plan(job=files.write("jobs.yaml", yaml.safe_dump_all([named("a"), named("a")])))
    assert ran.code == 2
    assert "same namespace and name" in ran.err


def test_a_fault_names_its_document(files: Files) -> None:
    ran = files.plan(
        job=files.write("jobs.yaml", yaml.safe_dump_all([named("a"), named("b", workers={"minReplicas": 5, "maxReplicas": 2})]))
    )
    assert ran.code == 2
    assert "document 2: spec.workers" in ran.err


KUEUE = {"kueue.x-k8s.io/queue-name": "gpu"}
NOT_STARTED: dict[str, tuple[dict[str, Any], dict[str, str], str, str]] = {
    "Never": ({"startPolicy": "Never"}, {}, "plan only", "spec.startPolicy is Never"),
    "Manual": (
        {"startPolicy": "Manual"},
        {},
        "waits for approval",
        "kubectl annotate --overwrite gnntj odd -n team-a hyperscale.dev/approved-plan=",
    ),
    "suspended": ({"runPolicy": {"suspend": True}}, {}, "suspended", "spec.runPolicy.suspend is true"),
    "queued": ({}, KUEUE, "waits for queue", 'Kueue admits it from queue "gpu"'),
    "Manual and queued": ({"startPolicy": "Manual"}, KUEUE, "waits for approval", 'then waits for queue "gpu"'),
}


def odd(spec: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    made = named("odd", **spec)
    made["metadata"]["labels"] = labels
    return made


@pytest.mark.parametrize("case", sorted(NOT_STARTED))
def test_a_job_that_the_operator_does_not_start_is_not_said_to_start(files: Files, case: str) -> None:
    spec, labels, decision, why = NOT_STARTED[case]
    path = files.write("jobs.yaml", [named("plain"), odd(spec, labels)])
    table = files.plan(job=path)
    assert table.code == 0, table
    rows = {line.split()[0]: line for line in table.out.splitlines() if line.startswith("team-a/")}
    assert "starts" in rows["team-a/plain"]
    assert "starts" not in rows["team-a/odd"]
    assert decision in rows["team-a/odd"]
    assert why in table.out
    document = json.loads(files.plan("-o", "json", job=path).out)
    assert [start["key"] for start in document["starts"]] == ["team-a/plain"]
    (other,) = document["others"]
    assert (other["key"], other["then"]) == ("team-a/odd", decision)
    assert why in other["message"]
    assert other["plan"]["workers"]


@pytest.mark.parametrize("case", sorted(NOT_STARTED))
def test_a_single_job_says_what_happens_with_its_plan(files: Files, case: str) -> None:
    spec, labels, _, why = NOT_STARTED[case]
    ran = files.plan(job=files.write("odd.yaml", odd(spec, labels)))
    assert ran.code == 0, ran
    then = next(line for line in ran.out.splitlines() if line.startswith("Then"))
    assert why in then
    assert "starts" not in then


def test_the_command_that_approves_names_the_plan_that_was_shown(files: Files) -> None:
    ran = files.plan(job=files.write("odd.yaml", odd({"startPolicy": "Manual"}, {})))
    plan_id = next(line.split()[-1] for line in ran.out.splitlines() if line.startswith("Plan id"))
    assert f"hyperscale.dev/approved-plan={plan_id}" in ran.out


def test_several_files_are_planned_together(files: Files) -> None:
    first, second = files.write("a.yaml", named("slow", 1000)), files.write("b.yaml", named("quick", 10))
    ran = run("plan", "-f", first, "-f", second, "--snapshot", files.snapshot, "-o", "json")
    assert ran.code == 0, ran
    document = json.loads(ran.out)
    assert [entry["key"] for entry in document["starts"] + document["holds"]] == ["team-a/quick", "team-a/slow"]
    assert run("plan", "-f", first, "-f", first, "--snapshot", files.snapshot).code == 2
    assert "standard input is named twice" in run("plan", "-f", "-", "-f", "-", "--snapshot", files.snapshot).err


def test_jobs_of_different_policies_are_not_decided_together(files: Files) -> None:
    ran = files.plan(job=files.write("jobs.yaml", [named("a", policyRef={"name": "x"}), named("b")]))
    assert ran.code == 2
    assert "different policies" in ran.err


def test_what_starts_leaves_less_for_a_job_that_waits_for_approval(files: Files) -> None:
    wide = {"workers": {"minReplicas": 16, "maxReplicas": 16, "resources": {"limits": {"nvidia.com/gpu": 2}}}, "startPolicy": "Manual"}
    beside = [named("plain", workers={"minReplicas": 8, "maxReplicas": 8, "resources": {"limits": {"nvidia.com/gpu": 2}}}), odd(wide, {})]
    document = json.loads(files.plan("-o", "json", job=files.write("jobs.yaml", beside)).out)
    taken = Counter[str]()
    for plan in (document["starts"][0]["plan"], document["others"][0]["plan"]):
        taken.update({worker["node"]: 0 for worker in plan["workers"]})
        for worker in plan["workers"]:
            taken[worker["node"]] += worker["gpus"]
    free = {node.name: node.free_gpus for node in snapshot().nodes}
    assert all(gpus <= free[name] for name, gpus in taken.items())
