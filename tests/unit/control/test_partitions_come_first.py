"""Decisions about partitions: they come before the MPIJob, and what refuses them is passed on."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.control.decide.chain import decide
from hyperscale.control.scheduler.planner_client import steady
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.status.conditions import derive
from hyperscale.model.decision import CreateMpiJob, EnsurePartitions, MakePlan, Reason, ReleaseWorkers, Stop, Wait
from hyperscale.model.observed.owned_objects import BatchJobView
from hyperscale.model.status import StateWord
from tests.builders.seen import GONE, MEASURED, changed, launcher, mpijob, plan, seen, worker
from tests.unit.control.partition_cases import (
    TRAINS_ITSELF,
    TWO,
    VIEW,
    partition_pod,
    planned,
    replaced,
    wire_job,
    with_shares,
)

LARGE_GRAPH = {
    "source": {"generated": {"kind": "SBM"}},
    "vertices": 100_000_000,
    "edges": 1_000_000_000,
    "featureSize": 128,
    "classes": 10,
}


def test_partitions_come_before_the_mpijob() -> None:
    assert isinstance(decide(planned()), EnsurePartitions)
    assert isinstance(decide(planned(replace(VIEW, succeeded=True))), CreateMpiJob)


def test_without_a_volume_nothing_waits_for_partitions() -> None:
    assert isinstance(decide(seen(plan=TWO, metrics=MEASURED)), CreateMpiJob)


def test_the_partition_job_is_looked_at_once_a_pass_and_then_waited_for() -> None:
    assert isinstance(decide(planned(VIEW)), EnsurePartitions)
    decision = decide(planned(VIEW, partition_read=True))
    assert isinstance(decision, Wait)
    assert (decision.reason, decision.retry_after_seconds) == (Reason.PARTITIONING, 5.0)


def test_once_its_pod_has_ended_the_partition_job_is_asked_soon() -> None:
    decision = decide(planned(VIEW, partition_read=True, partition_pods=(partition_pod(phase="Succeeded"),)))
    assert isinstance(decision, Wait)
    assert decision.retry_after_seconds == 1.0


def test_why_the_partition_pod_does_not_start_is_passed_on() -> None:
    decision = decide(planned(VIEW, partition_read=True, partition_pods=(partition_pod(unschedulable="Insufficient memory"),)))
    assert "Insufficient memory" in decision.message


def test_a_failed_partition_job_stops_with_the_last_word_of_its_own_program() -> None:
    pods = (partition_pod(termination="needs 40 GiB\n"), partition_pod(owner_uid="other", termination="not ours"))
    decision = decide(planned(replace(VIEW, failed=True, message="BackoffLimitExceeded"), partition_read=True, partition_pods=pods))
    assert isinstance(decision, Stop)
    assert (decision.reason, decision.message) == (Reason.PARTITIONING_FAILED, "needs 40 GiB")
    assert decide(planned(replace(VIEW, failed=True, message="why"), partition_read=True)).message == "why"


@pytest.mark.parametrize("other", [replace(VIEW, key="other", succeeded=True), replace(VIEW, deleting=True)], ids=["other parts", "going"])
def test_a_partition_job_for_other_parts_makes_way_first(other: BatchJobView) -> None:
    assert isinstance(decide(planned(other)), EnsurePartitions)
    assert isinstance(decide(planned(other, partition_read=True)), Wait)


def test_a_plan_that_went_stale_while_partitions_were_written_is_made_anew() -> None:
    assert isinstance(decide(planned(VIEW, misfits=(GONE,))), MakePlan)


def test_a_job_whose_parts_cannot_be_written_is_not_planned_again_while_others_take_its_nodes() -> None:
    """Its plan holds nothing any more; the reason of the failure must stay readable however full the cluster becomes."""
    failed = planned(replace(VIEW, failed=True, message="why"), misfits=(GONE,))
    assert isinstance(decide(failed), EnsurePartitions), "whether the failed Job is still there is read once a pass"
    assert decide(changed(failed, partition_read=True)).reason == Reason.PARTITIONING_FAILED
    other_parts = planned(replace(VIEW, failed=True, key="other"), misfits=(GONE,))
    assert isinstance(decide(other_parts), MakePlan)


def test_a_replaced_rank_waits_for_the_parts_of_its_new_shares() -> None:
    assert isinstance(decide(replaced(replace(VIEW, key="old", succeeded=True))), EnsurePartitions)
    assert isinstance(decide(replaced(replace(VIEW, succeeded=True))), ReleaseWorkers)


def test_a_running_job_does_not_ask_for_partitions_again() -> None:
    pods = (launcher(), worker(0, node="node-a", ready=True), worker(1, node="node-b", ready=True))
    running = planned(mpijob=mpijob(conditions={"Running": (True, "", "")}), pods=pods)
    assert decide(running).reason == Reason.RUNNING


def test_partitioning_is_a_phase_and_a_condition() -> None:
    waiting = planned(VIEW, partition_read=True)
    status = derive(waiting, decide(waiting))
    assert status.state is StateWord.PARTITIONING
    assert [(found.status, found.reason) for found in status.conditions if found.type == "Partitioned"] == [("False", "Partitioning")]
    done = planned(replace(VIEW, succeeded=True), status=status, mpijob=mpijob())
    assert [found.status for found in derive(done, Wait(Reason.STARTING)).conditions if found.type == "Partitioned"] == ["True"]


def test_a_failed_partition_job_is_stalled() -> None:
    status = derive(planned(replace(VIEW, failed=True)), Stop(Reason.PARTITIONING_FAILED, "needs 40 GiB"))
    assert {"Stalled", "Partitioned"} <= {found.type for found in status.conditions}
    assert status.state is StateWord.PENDING


def test_less_memory_than_the_graph_alone_is_refused_by_its_path() -> None:
    large = wire_job("large")
    large["spec"]["dataset"] = LARGE_GRAPH
    large["spec"]["workers"]["resources"] = {"limits": {"memory": "16Gi"}}
    _, fault = JobReader().read(large, {})
    assert fault is not None
    assert (fault.path, "53.6 GiB" in fault.message) == ("spec.workers.resources.limits.memory", True)
    large["spec"]["dataset"] = {**LARGE_GRAPH, "source": {"persistentVolumeClaim": {"claimName": "graphs"}}}
    large["spec"]["partitioning"] = {"method": "Precomputed"}
    _, fault = JobReader().read(large, {})
    assert fault is not None, "ranks read the whole graph to take their part of it, wherever the parts come from"
    large["spec"]["partitioning"] = {"claimName": "parts"}
    assert JobReader().read(large, {})[1] is None


@pytest.mark.parametrize("volume", [{}, {"claimName": "parts"}], ids=["no volume", "volume"])
def test_method_none_has_no_job_that_partitions_so_that_the_graph_must_fit_with_a_volume_too(volume: dict[str, str]) -> None:
    large = wire_job("large")
    large["spec"]["dataset"] = LARGE_GRAPH
    large["spec"]["workers"]["resources"] = {"limits": {"memory": "16Gi"}}
    large["spec"]["partitioning"] = {"method": "None", **volume}
    _, fault = JobReader().read(large, {})
    assert fault is not None
    assert fault.path == "spec.workers.resources.limits.memory"
    assert "name a spec.partitioning.claimName with another spec.partitioning.method than None" in fault.message


@pytest.mark.parametrize("own", [{"model": {"script": "train.py"}}, {"launcher": {"template": TRAINS_ITSELF}}], ids=["script", "command"])
def test_what_a_users_own_program_reads_is_its_own_affair(own: dict[str, Any]) -> None:
    large = wire_job("large")
    large["spec"]["dataset"] = LARGE_GRAPH
    large["spec"]["workers"]["resources"] = {"limits": {"memory": "16Gi"}}
    for field, value in own.items():
        large["spec"][field] = large["spec"].get(field, {}) | value
    assert JobReader().read(large, {})[1] is None


def test_shares_that_moved_with_a_measurement_stay_and_so_do_the_partitions() -> None:
    assert steady(with_shares(0.51, 0.49), TWO) == TWO
    assert steady(with_shares(0.6, 0.4), TWO) == with_shares(0.6, 0.4)
    assert steady(with_shares(0.51, 0.49), None) == with_shares(0.51, 0.49)
    assert steady(plan("a", "b", "c"), TWO) == plan("a", "b", "c")
