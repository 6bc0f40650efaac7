"""Progress and results of running jobs, on their way into the status."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hyperscale.control.cache.records import Key
from hyperscale.control.controller.context import is_progress
from hyperscale.control.history.progress import MOST_WRITES
from hyperscale.control.status.conditions import derive
from hyperscale.model import constants
from hyperscale.model.api.measured import Measured
from hyperscale.model.decision import Reason, Wait
from hyperscale.model.plan import Correction, Prediction
from hyperscale.model.pods import PARTITION
from hyperscale.model.status import JobStatus, read_status, to_wire
from tests.builders.seen import MPIJOB_UID, launcher, seen
from tests.unit.control.partition_cases import (
    KEY,
    SAID,
    TWO,
    watch_over,
    wire_job,
    world_with,
)


def test_what_the_run_says_stays_in_status_until_it_says_something_else() -> None:
    first = derive(seen(plan=TWO, measured=SAID), Wait(Reason.RUNNING))
    assert first.measured == SAID
    later = derive(seen(plan=TWO, status=first), Wait(Reason.RUNNING))
    assert later.measured == SAID
    assert is_progress(first, replace(first, measured=replace(SAID, epoch=8)))
    assert read_status(to_wire(first)).measured == SAID


@pytest.mark.parametrize("by_curve", [False, True], ids=["by a factor", "by a curve"])
def test_calibration_and_allreduce_cost_survive_the_status(by_curve: bool) -> None:
    known = Correction("A100", 1.5, 0.1, 7, by_curve)
    corrected = replace(TWO, predicted=Prediction(1.5, 0.15, 1.0, 2.0, None, known))
    assert read_status(to_wire(JobStatus(plan=corrected))).plan == corrected


def test_only_jobs_that_got_on_are_woken_and_strangers_never() -> None:
    watch, woken = watch_over(world_with(2))
    told = {Key("team", "job-000"): SAID, Key("team", "unknown"): SAID}
    watch.take(told)
    watch.take(told)
    assert woken == [Key("team", "job-000")]


def test_of_many_jobs_those_told_longest_ago_come_first() -> None:
    cache = world_with(MOST_WRITES + 50)
    watch, woken = watch_over(cache)
    for epoch in (1, 2):
        watch.take({key: replace(SAID, epoch=epoch) for key in cache.jobs})
        assert len(woken) == epoch * MOST_WRITES
    assert len(set(woken)) == MOST_WRITES + 50


def test_the_result_beats_the_progress_and_the_last_launcher_counts() -> None:
    cache = world_with(1)
    key = Key("team", "job-000")
    cache.progress[key] = SAID
    newer = launcher(name="b", created="2026-01-02T00:00:00Z", termination='{"epoch": 9, "epochs": 9}')
    older = launcher(name="a", created="2026-01-01T00:00:00Z", termination='{"epoch": 1, "epochs": 9}')
    assert cache.measured(key, [newer, older]) == Measured(epoch=9, epochs=9)
    assert cache.measured(key, [launcher(termination="mpirun: a rank died")]) == SAID
    cache.see_job(wire_job("job-000", "uid-0"), deleted=True)
    assert cache.progress == {}


def test_partition_pods_are_the_jobs_but_none_of_the_mpijobs() -> None:
    cache = world_with(1)
    labels = {constants.PARTITION_KEY_LABEL: KEY, constants.JOB_NAME_LABEL: "job-000"}
    owner = [{"kind": "Job", "uid": "j", "controller": True}]
    cache.see_pod({"metadata": {"namespace": "team", "name": "p", "labels": labels, "ownerReferences": owner}, "spec": {}, "status": {}})
    assert [pod.name for pod in cache.batch_pods_of(Key("team", "job-000"), PARTITION)] == ["p"]
    assert cache.pods_of(Key("team", "job-000"), MPIJOB_UID) == ()
