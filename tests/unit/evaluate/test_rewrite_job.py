"""The job file as it should be: what changes, why, and what stays."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from hyperscale.evaluate.twin.rewrite_job import RewriteFindings, rewrite_job
from hyperscale.evaluate.twin.twin_types import IntervalChoice, Outlook, SpareWorth
from hyperscale.spec.parse import parse_job

HOUR = 3600.0
GIB = 1 << 30
INTERVAL = IntervalChoice(500.0, 90.0 * HOUR, 100.0 * HOUR, 500.0, 90.0 * HOUR, 480.0, 90.1 * HOUR, epochs=5)
OUTLOOK = Outlook(
    1000, 99.0 * HOUR, 0.5, 0.47, 0.53, 0, 100.0 * HOUR, 98.0 * HOUR, 120.0 * HOUR, 0.8, 3.2, INTERVAL, SpareWorth(0, 0.0, 0.0), ()
)
NEEDS_SPARE = replace(OUTLOOK, best_interval=replace(INTERVAL, epochs=None), spare_worth=SpareWorth(0, 8.0 * HOUR, 0.12))


def job(**spec: Any) -> dict[str, Any]:
    example: dict[str, Any] = yaml.safe_load((Path(__file__).parents[3] / "examples/arxiv-sage-s3.yaml").read_text())
    del example["spec"]["partitioning"]
    example["spec"].update(spec)
    return example


def changed(original: dict[str, Any], findings: RewriteFindings) -> dict[str, tuple[Any, Any]]:
    before = copy.deepcopy(original)
    rewrite = rewrite_job(original, findings)
    assert original == before
    parse_job(rewrite.job)
    assert all(change.reason for change in rewrite.changes)
    return {change.path: (change.before, change.after) for change in rewrite.changes}


def test_without_findings_nothing_changes() -> None:
    assert changed(job(), RewriteFindings()) == {}
    assert rewrite_job(job(), RewriteFindings()).job == job()


def test_the_interval_becomes_the_best_one_with_its_gain_as_reason() -> None:
    assert changed(job(), RewriteFindings(OUTLOOK)) == {"checkpoint.everyEpochs": (2, 5)}
    reason = rewrite_job(job(), RewriteFindings(OUTLOOK)).changes[0].reason
    assert reason == "ends 10 h earlier in the mean (3.2 failures expected)"


@pytest.mark.parametrize(
    "best", [replace(INTERVAL, current_end_seconds=90.1 * HOUR), replace(INTERVAL, epochs=2), replace(INTERVAL, epochs=None)]
)
def test_an_interval_that_gains_nothing_stays(best: IntervalChoice) -> None:
    assert changed(job(), RewriteFindings(replace(OUTLOOK, best_interval=best))) == {}


def test_a_job_without_checkpoints_gets_a_note_since_only_a_person_can_name_a_claim() -> None:
    original = job()
    del original["spec"]["checkpoint"]
    rewrite = rewrite_job(original, RewriteFindings(OUTLOOK))
    assert rewrite.changes == ()
    assert "checkpoint.claimName" in rewrite.notes[0]


def test_a_rise_of_a_chance_is_in_points() -> None:
    reason = rewrite_job(job(), RewriteFindings(NEEDS_SPARE)).changes[0].reason
    assert reason.endswith("; P(ends by deadline) would rise by 12 points")


def test_a_spare_that_pays_lets_the_job_continue_with_fewer_workers() -> None:
    assert changed(job(), RewriteFindings(NEEDS_SPARE)) == {"recovery.shrinkAfterSeconds": (None, 600)}
    rigid = job(recovery={"replaceLostWorkers": False})
    rigid["spec"]["workers"]["minReplicas"] = 8
    assert changed(rigid, RewriteFindings(NEEDS_SPARE)) == {
        "recovery.replaceLostWorkers": (False, True),
        "workers.minReplicas": (8, 7),
        "recovery.shrinkAfterSeconds": (None, 600),
    }


def test_a_job_that_cannot_shrink_gets_a_note() -> None:
    assert "partitioning.count" in rewrite_job(job(partitioning={"count": 16}), RewriteFindings(NEEDS_SPARE)).notes[0]
    single = job()
    single["spec"]["workers"] |= {"minReplicas": 1, "maxReplicas": 1}
    assert "leave one node" in rewrite_job(single, RewriteFindings(NEEDS_SPARE)).notes[0]


def test_memory_is_raised_to_what_the_estimate_needs() -> None:
    assert changed(job(), RewriteFindings(needed_gpu_memory_bytes=30 * GIB + 1)) == {"workers.gpuMemory": ("24Gi", "31Gi")}
    assert changed(job(), RewriteFindings(needed_gpu_memory_bytes=20 * GIB)) == {}


def test_a_batch_that_no_gpu_can_hold_becomes_the_largest_that_fits() -> None:
    findings = RewriteFindings(needed_gpu_memory_bytes=100 * GIB, largest_gpu_memory_bytes=80 * GIB, largest_batch_size=768)
    assert changed(job(), findings) == {"model.batchSize": (1024, 768)}
    rewrite = rewrite_job(job(), replace(findings, largest_batch_size=None))
    assert rewrite.changes == ()
    assert "100 GiB" in rewrite.notes[0]


def test_the_planners_partitioning_replaces_all_but_a_persons_own() -> None:
    findings = RewriteFindings(partitioning_method="METIS", partitioning_reason="cuts 40 % fewer edges")
    assert changed(job(), findings) == {"partitioning.method": (None, "METIS")}
    assert changed(job(partitioning={"method": "Random"}), findings) == {"partitioning.method": ("Random", "METIS")}
    assert changed(job(partitioning={"method": "METIS"}), findings) == {}
    assert changed(job(partitioning={"method": "Precomputed"}), findings) == {}


@pytest.mark.parametrize(
    ("original", "findings", "words"),
    [
        ({}, RewriteFindings(), "spec: no object"),
        ({"spec": []}, RewriteFindings(), "spec: no object"),
        (job(checkpoint=7), RewriteFindings(OUTLOOK), "spec.checkpoint.everyEpochs: a field above"),
        (
            job(checkpoint={"claimName": "c", "everyEpochs": "two"}),
            RewriteFindings(OUTLOOK),
            "spec.checkpoint.everyEpochs: 'two' is no whole number",
        ),
        (
            job(workers={"gpuMemory": "lots"}),
            RewriteFindings(needed_gpu_memory_bytes=1),
            "spec.workers.gpuMemory: 'lots' is not a quantity",
        ),
        (job(workers=None), RewriteFindings(NEEDS_SPARE), None),
    ],
)
def test_what_is_no_job_gives_one_line(original: dict[str, Any], findings: RewriteFindings, words: str | None) -> None:
    if words is None:
        assert rewrite_job(original, findings).notes
        return
    with pytest.raises(ValueError, match="spec") as error:
        rewrite_job(original, findings)
    assert words in str(error.value)
