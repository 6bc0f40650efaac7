"""What an MPIJob can hold by what is written on it: only a known job's own, and no more than that job's spec allows."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.cache.intake import MPIJOB, POD
from hyperscale.control.render.mpijob import plan_annotation
from hyperscale.model import constants
from hyperscale.model.plan import Plan
from tests.builders.seen import MPIJOB_UID, plan
from tests.unit.control.test_world import CORA, OTHER, TWO, cache, free, job, mpijob, pod

BOTH_FREE = {"node-a": 2, "node-b": 2}


def claiming(gpus: int, *nodes: str) -> str:
    """The annotation of a plan with this number of GPUs on each node."""
    made = plan(*nodes)
    return plan_annotation(msgspec.structs.replace(made, workers=tuple(msgspec.structs.replace(one, gpus=gpus) for one in made.workers)))


def annotated(text: str, **changes: Any) -> dict[str, Any]:
    """An MPIJob with this plan annotation."""
    resource = mpijob(**changes)
    resource["metadata"]["annotations"][constants.PLAN_ANNOTATION] = text
    return resource


@pytest.mark.parametrize("gpus", [8, 2, 1, -8, 2**62])
def test_the_plan_of_an_mpijob_that_belongs_to_no_job_holds_nothing_and_frees_nothing(gpus: int) -> None:
    seen = cache(with_job=False)
    seen.see_pod(pod("busy", on="node-b", gpus=2, job=""))
    seen.see_mpijob(annotated(claiming(gpus, "node-a", "node-b")))
    assert free(seen, OTHER) == {"node-a": 2, "node-b": 0}


def test_it_is_named_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    seen = cache(with_job=False)
    with caplog.at_level(logging.WARNING):
        for version in range(1, 4):
            seen.see_mpijob(annotated(claiming(8, "node-a"), version=version))
        seen.replace(MPIJOB, [annotated(claiming(8, "node-a"), version=5)], version=6)
    assert caplog.text.count("team/cora") == 1
    assert seen.intake.counts()[MPIJOB] == 1
    seen.replace(MPIJOB, [], version=9)
    assert seen.intake.counts()[MPIJOB] == 0


def test_an_mpijob_of_a_job_that_was_just_deleted_is_no_strangers(caplog: pytest.LogCaptureFixture) -> None:
    seen = cache()
    seen.see_mpijob(mpijob())
    seen.see_job(job(version=2), deleted=True)
    assert free(seen, OTHER) == BOTH_FREE
    assert not caplog.records


@pytest.mark.parametrize("owner", [{"uid": "job-of-others", "controller": True}, {"uid": "job-uid", "controller": False}, {}])
def test_an_mpijob_that_does_not_name_the_job_as_its_controller_holds_nothing(owner: dict[str, Any]) -> None:
    seen = cache()
    resource = mpijob()
    resource["metadata"]["ownerReferences"] = [owner]
    seen.see_mpijob(resource)
    assert free(seen, OTHER) == BOTH_FREE
    assert seen.plans_of(CORA).in_force is None
    assert seen.mpijob_named(CORA) is not None, "its name is taken all the same"


def test_once_the_status_names_an_mpijob_no_other_of_that_name_holds_anything() -> None:
    seen = cache()
    seen.see_job(job(version=2, mpiJobRef={"name": "cora", "uid": "the-first"}))
    seen.see_mpijob(mpijob())
    assert free(seen, OTHER) == BOTH_FREE
    seen.see_job(job(version=3, mpiJobRef={"name": "cora", "uid": MPIJOB_UID}))
    assert free(seen, OTHER) == {"node-a": 1, "node-b": 1}


def test_an_mpijob_that_this_process_made_anew_holds_its_plan_before_the_status_names_it() -> None:
    seen = cache()
    seen.see_job(job(version=2, mpiJobRef={"name": "cora", "uid": "the-first"}))
    seen.see_mpijob(mpijob(), created_here=True)
    assert free(seen, OTHER) == {"node-a": 1, "node-b": 1}


def test_jobs_may_be_heard_of_after_their_mpijobs() -> None:
    seen = cache(with_job=False)
    seen.see_mpijob(mpijob())
    assert free(seen, OTHER) == BOTH_FREE
    seen.see_job(job())
    assert free(seen, OTHER) == {"node-a": 1, "node-b": 1}


@given(
    workers=st.lists(st.tuples(st.sampled_from(["node-a", "node-b", "nowhere", ""]), st.integers(-(2**63), 2**63 - 1)), max_size=6),
    ranks=st.lists(st.integers(-2, 5), min_size=6, max_size=6),
)
def test_a_forged_plan_holds_no_more_than_the_jobs_own_spec_allows(workers: list[tuple[str, int]], ranks: list[int]) -> None:
    wire = {
        **msgspec.to_builtins(TWO),
        "workers": [{"rank": rank, "node": node, "gpus": gpus, "share": 0.5} for rank, (node, gpus) in zip(ranks, workers, strict=False)],
    }
    seen = cache()
    seen.see_mpijob(annotated(msgspec.json.encode(wire).decode()))
    held = {name: 2 - left for name, left in free(seen, OTHER).items()}
    assert all(gpus >= 0 for gpus in held.values())
    assert sum(held.values()) <= 2, "workers.maxReplicas is 2, of 1 GPU"


def test_a_status_written_by_hand_holds_no_more_than_the_spec_allows() -> None:
    greedy = msgspec.json.decode(claiming(2, "node-a", "node-b", "node-a"), type=Plan)
    seen = cache()
    seen.see_job(job(version=2, mpiJobRef={"name": "cora", "uid": MPIJOB_UID}, plan=msgspec.to_builtins(greedy)))
    seen.see_mpijob(mpijob())
    assert free(seen, OTHER) == {"node-a": 1, "node-b": 1}


def test_pods_count_whoever_made_them() -> None:
    seen = cache(with_job=False)
    seen.replace(POD, [pod("stray", on="node-a", gpus=2, job="nobodys")], version=3)
    assert free(seen, OTHER) == {"node-a": 0, "node-b": 2}
