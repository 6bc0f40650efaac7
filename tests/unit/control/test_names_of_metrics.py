"""Names and labels of the operator's metrics."""

from __future__ import annotations

import itertools
import re

import pytest
from prometheus_client import generate_latest

from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model.admission_query import AdmissionResult, Chooser, Deferral, QueueScore
from hyperscale.model.status import StateWord

LABELS = {
    "hyperscale_jobs": ("state",),
    "hyperscale_jobs_finished": ("state",),
    "hyperscale_migrations": ("outcome",),
    "hyperscale_misplaced_workers": (),
    "hyperscale_planner_failures": ("fallback",),
    "hyperscale_workqueue_depth": (),
}


def test_metrics_have_the_names_and_labels_of_the_reference() -> None:
    telemetry = Telemetry()
    declared = {metric._name: metric._labelnames for metric in vars(telemetry).values() if hasattr(metric, "_labelnames")}
    assert {name: declared.get(name) for name in LABELS} == LABELS


def test_only_a_job_that_ends_counts_as_finished() -> None:
    telemetry = Telemetry()
    steps = [
        StateWord.PENDING,
        StateWord.STARTING,
        StateWord.RUNNING,
        StateWord.STARTING,
        StateWord.RUNNING,
        StateWord.FAILED,
        StateWord.FAILED,
    ]
    for before, after in itertools.pairwise(steps):
        telemetry.count_finished(before, after)
    text = generate_latest(telemetry.registry).decode()
    assert re.findall(r"^hyperscale_jobs_finished_total\{(.*)\} (.*)$", text, re.MULTILINE) == [('state="Failed"', "1.0")]


@pytest.mark.parametrize(("used", "label"), [(Chooser.LEARNED, "Learned"), (Chooser.RULE, "Rule")])
def test_a_queue_decision_is_counted_by_the_policy_that_made_it(used: Chooser, label: str) -> None:
    telemetry = Telemetry()
    held = Deferral(key="team/cora", reason="WaitingForAdmission", message="another job is first")
    telemetry.count_decisions(AdmissionResult(holds=(held,), score=QueueScore(rule=1.0, agent=1.0, used=used)))
    labels = {"chooser": label, "outcome": "WaitingForAdmission"}
    assert telemetry.registry.get_sample_value("hyperscale_queue_decisions_total", labels) == 1.0
