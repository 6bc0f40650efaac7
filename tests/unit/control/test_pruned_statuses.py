"""A status of which the API server drops a part is not written at every reconcile."""

from __future__ import annotations

from hyperscale.control.apply.undeclared_fields import RETRY_SECONDS, UndeclaredFields
from hyperscale.control.cache.records import Key
from hyperscale.control.controller.context import PRUNED_RETRY_SECONDS, PrunedStatuses
from hyperscale.model.status import JobStatus

KEY = Key("team", "cora")
WANTED, STORED = JobStatus(queue="a", restarts=1), JobStatus(queue="a")


def test_a_write_that_changed_nothing_is_vain_until_it_may_be_another() -> None:
    pruned = PrunedStatuses()
    assert not pruned.is_vain(KEY, WANTED, STORED, 0.0)
    pruned.note(KEY, WANTED, STORED, 10.0)
    assert pruned.is_vain(KEY, WANTED, STORED, 20.0)
    assert not pruned.is_vain(KEY, JobStatus(queue="b"), STORED, 20.0)
    assert not pruned.is_vain(KEY, WANTED, JobStatus(queue="c"), 20.0)
    assert not pruned.is_vain(KEY, WANTED, STORED, 10.0 + PRUNED_RETRY_SECONDS)


def test_a_status_that_came_back_whole_is_written_again_when_it_changed() -> None:
    pruned = PrunedStatuses()
    pruned.note(KEY, WANTED, STORED, 10.0)
    pruned.note(KEY, WANTED, WANTED, 11.0)
    assert not pruned.is_vain(KEY, WANTED, STORED, 12.0)
    pruned.note(KEY, WANTED, STORED, 13.0)
    pruned.forget(KEY)
    assert not pruned.is_vain(KEY, WANTED, STORED, 14.0)


REFUSAL = "failed to create typed patch object (a/b; hyperscale.dev/v1alpha1, Kind=GNNTrainingJob): "


def test_a_field_that_the_crd_does_not_know_is_left_out_for_a_while() -> None:
    fields = UndeclaredFields()
    status = {"plan": {"id": "a", "figures": 1}, "evaluation": {"planId": "a"}, "queue": "q"}
    assert not fields.learn("the object has been modified", 0.0)
    assert fields.left_out(status, 0.0) is status
    assert fields.learn(f"{REFUSAL}errors:\n  .status.evaluation: field not declared in schema", 0.0)
    assert fields.learn(f"{REFUSAL}.status.plan.figures: field not declared in schema", 0.0)
    assert fields.left_out(status, 1.0) == {"plan": {"id": "a"}, "queue": "q"}
    assert fields.left_out({"queue": "q"}, 1.0) == {"queue": "q"}
    assert status["evaluation"] == {"planId": "a"}
    assert fields.left_out(status, RETRY_SECONDS) == status
