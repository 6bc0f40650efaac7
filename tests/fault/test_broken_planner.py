"""A planner that is killed, stopped or never comes up: jobs get a plan or a named reason, and the operator stays live."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess, running
from tests.fault.stopping import planning
from tests.fault.watching import wait_created


@pytest.fixture(scope="module")
def operator(stage: Stage) -> Iterator[OperatorProcess]:
    """It passes over one job at a time, and relists often."""
    stage.proxy.reset()
    with running(stage.operator(concurrent_reconciles=1, resync_seconds=3), stage.api) as process:
        process.wait_ready()
        yield process


def steps_down(job: Job) -> list[str]:
    found: list[str] = job.plan()["fallbacks"]
    return found


def test_a_planner_that_was_killed_idle_is_replaced_before_the_next_plan(operator: OperatorProcess, job: Job) -> None:
    killed = operator.planner_pid()
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{killed}").exists(), PATIENCE_SECONDS, "its threads live")
    job.create()
    wait_created(job)
    assert "PlannerCrashed" not in steps_down(job)
    assert operator.planner_pid() != killed


def test_a_planner_killed_while_it_plans_costs_one_step_down(operator: OperatorProcess, job: Job, policy: Callable[..., None]) -> None:
    policy(planDeadlineSeconds=60)
    with planning(operator, job) as waiting:
        assert operator.probe("/healthz") == 200
        os.kill(operator.planner_pid(), signal.SIGKILL)
    wait_created(job)
    assert steps_down(job)[0] == "PlannerCrashed"
    assert job.condition("Degraded")["status"] == "True"
    assert "PlannerCrashed" in job.condition("Degraded")["message"]
    waiting.wait_reason("StartPolicyNever")
    assert "PlannerCrashed" not in steps_down(waiting)


def test_a_planner_that_hangs_is_killed_at_its_deadline(operator: OperatorProcess, job: Job, policy: Callable[..., None]) -> None:
    policy(planDeadlineSeconds=5)
    planner = operator.planner_pid()
    os.kill(planner, signal.SIGSTOP)
    job.create()
    answers = []
    job.wait(lambda: answers.append(operator.probe("/healthz")) or "mpiJobRef" in job.status(), "no MPIJob")  # type: ignore[func-returns-value] # append returns None, which is falsy, and that is the point
    assert set(answers) == {200}
    assert steps_down(job)[0] == "PlannerTimeout"
    assert "PlannerTimeout" in job.condition("Degraded")["message"]
    assert planner not in operator.planner_pids()


@contextmanager
def killing_planners(operator: OperatorProcess) -> Iterator[None]:
    """Every planner is killed as soon as it is there."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.005):
            for pid in operator.planner_pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_without_any_planner_the_job_says_so_and_is_planned_when_there_is_one(operator: OperatorProcess, job: Job) -> None:
    idle = operator.planner_pid()
    with killing_planners(operator):
        wait_until(lambda: idle not in operator.planner_pids(), PATIENCE_SECONDS, "the idle planner is not killed")
        job.create()
        job.wait_reason("PlannerFailed")
        planned = job.condition("Planned")
        assert (planned["status"], planned["reason"]) == ("False", "PlannerFailed")
        assert "PlannerCrashed" in planned["message"]
        assert job.mpijob() is None
        assert operator.probe("/healthz") == 200
    wait_created(job)
