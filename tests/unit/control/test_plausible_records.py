"""What can be a figure of a status: its writer may write any number."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hyperscale.model.api.policy import MAX_GIGAFLOPS, GpuModel, PolicySpec
from hyperscale.model.status import JobStatus, LastMigration, LastPreemption, QueueDecision
from hyperscale.spec.plausible import is_plan, is_status
from tests.builders.clusters import gpu_node, planned, snapshot, training


@pytest.mark.parametrize("number", [10**400, -(10**400), 10**16, -1])
def test_a_status_with_a_number_beyond_any_figure_is_none_of_ours(number: int) -> None:
    assert not is_status(JobStatus(observed_generation=number))


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), -float("inf")])
def test_a_status_with_a_figure_that_is_not_finite_is_none_of_ours(figure: float) -> None:
    assert not is_status(JobStatus(queue_decision=QueueDecision(position=1, pending=1, chosen_by="Rule", rule_score=figure)))


@pytest.mark.parametrize(
    "status",
    [
        JobStatus(last_preemption=LastPreemption("", (), completed_epochs=1.0, waited_seconds=1e14)),
        JobStatus(last_migration=LastMigration("", migrated_workers=1, completed_epochs=1.0)),
    ],
    ids=["preemption", "migration"],
)
def test_a_preemption_or_migration_without_a_time_is_none_of_ours(status: JobStatus) -> None:
    assert not is_status(status)


@pytest.mark.parametrize("gigaflops", [1, 1_000_001, MAX_GIGAFLOPS])
def test_a_plan_by_any_speed_that_a_policy_can_state_is_one(gigaflops: int) -> None:
    policy = PolicySpec(gpus=(GpuModel(product="NVIDIA-A100", gigaflops=gigaflops),))
    plan = planned(snapshot(*(gpu_node(name) for name in "ab")), training(), policy)
    assert gigaflops * 1e9 in {part.rate for part in plan.predicted.parts}
    assert is_plan(plan)
    assert is_status(JobStatus(plan=plan))
    beyond = tuple(replace(part, rate=part.rate and 1.01 * MAX_GIGAFLOPS * 1e9) for part in plan.predicted.parts)
    assert not is_plan(replace(plan, predicted=replace(plan.predicted, parts=beyond)))
