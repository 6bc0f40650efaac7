"""MPIJobs that a tenant made by hand with a job's uid: they hold nothing for a job that may not start."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.decide.chain import decide
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.model import constants
from hyperscale.model.decision import Reason, Stop
from tests.builders.seen import MPIJOB_UID, seen
from tests.unit.control.test_world import CORA, OTHER, TWO, free, job, mpijob, node

HELD, FREE = {"node-a": 1, "node-b": 1}, {"node-a": 2, "node-b": 2}
SPEC: dict[str, Any] = {
    "model": {"architecture": "GCN"},
    "dataset": {"source": {"builtin": {"name": "Cora"}}},
    "workers": {"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 1}}, "gpuMemory": "8Gi"},
}


def cache(annotations: dict[str, str] | None = None, **spec: Any) -> ClusterCache:
    """Two nodes, and a job with an MPIJob that nothing but its owner reference ties to it."""
    made = ClusterCache(may_start=JobReader().may_start)
    made.replace("Node", [node("node-a"), node("node-b")])
    resource = job()
    resource["metadata"] |= {"annotations": annotations or {}, "generation": 1}
    made.see_job(resource | {"spec": {**SPEC, **spec}})
    made.see_mpijob(mpijob())
    return made


def test_an_mpijob_of_a_job_that_may_start_holds_its_plan_before_the_status_names_it() -> None:
    assert free(cache(), OTHER) == HELD


@pytest.mark.parametrize(
    "spec",
    [
        {"startPolicy": "Never"},
        {"startPolicy": "Manual"},
        {"policyRef": {"name": "missing"}},
        {"runPolicy": {"suspend": True}},
        {"planner": "None"},
        {"dataset": {}},
    ],
    ids=["never", "not approved", "no policy", "suspended", "no planner", "bad spec"],
)
def test_one_of_a_job_that_may_not_start_holds_nothing(spec: dict[str, Any]) -> None:
    assert free(cache(**spec), OTHER) == FREE


def test_an_approved_plan_may_start_and_no_other() -> None:
    assert free(cache({constants.APPROVED_PLAN_ANNOTATION: TWO.plan_id}, startPolicy="Manual"), OTHER) == HELD
    assert free(cache({constants.APPROVED_PLAN_ANNOTATION: "another"}, startPolicy="Manual"), OTHER) == FREE


def test_one_that_this_process_made_is_the_jobs_whatever_its_spec_has_become() -> None:
    made = cache(startPolicy="Never")
    made.see_mpijob(mpijob(version=2), created_here=True)
    assert free(made, OTHER) == HELD


def test_one_that_the_status_names_is_the_jobs_whatever_its_spec_has_become() -> None:
    made = cache()
    resource = job(version=2, mpiJobRef={"name": "cora", "uid": MPIJOB_UID})
    resource["metadata"] |= {"generation": 2}
    made.see_job(resource | {"spec": {**SPEC, "startPolicy": "Never"}})
    assert free(made, OTHER) == HELD


def test_a_policy_that_comes_later_lets_its_jobs_hold_their_plans() -> None:
    made = cache(policyRef={"name": "late"})
    assert free(made, OTHER) == FREE
    made.see_policy({"metadata": {"name": "late", "uid": "p", "generation": 1, "resourceVersion": "9"}, "spec": {}})
    assert free(made, OTHER) == HELD


def test_the_job_says_that_the_name_is_taken() -> None:
    made = cache(startPolicy="Never")
    view = made.mpijob_named(CORA)
    assert view is not None
    assert made.is_forged(CORA)
    decision = decide(seen(mpijob=replace(view, owner_uid="")))
    assert isinstance(decision, Stop)
    assert decision.reason == Reason.NAME_CONFLICT
    assert "did not make" in decision.message
