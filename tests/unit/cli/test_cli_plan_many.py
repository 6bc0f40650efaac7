"""`hyperscale plan` of several jobs: decided together, as the operator would."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.unit.cli.cli_samples import Files, files_fixture, job

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
    urgent = named("urgent", 1000, runPolicy={"priority": 1000})
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
    ran = files.plan(job=files.write("jobs.yaml", yaml.safe_dump_all([named("a"), named("b", workers={"min": 5, "max": 2})])))
    assert ran.code == 2
    assert "document 2: spec.workers" in ran.err
