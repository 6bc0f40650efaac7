"""The real planner process under a limit: it ends with a named step down and never holds more than it may."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

import pytest

from benchmarks import generate
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.planner.service.process import PlannerProcess
from tests.builders.placement import cluster, node, request

LONG_SECONDS = 60.0
MIB = 2**20
POLICY = PolicySpec()


def process(memory_bytes: int) -> PlannerProcess:
    return PlannerProcess(memory_bytes=memory_bytes, grace_seconds=LONG_SECONDS, start_seconds=LONG_SECONDS)


def written_bytes(pid: int) -> int:
    """Resident memory of the process that belongs to no file."""
    return int(re.findall(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[0]) * 1024


GREEDY = """
import sys
from hyperscale.planner.service import worker
worker.make_plan = lambda *arguments, **options: bytearray(2**40)
sys.exit(worker.main())
"""


async def test_a_plan_that_needs_more_memory_ends_the_planner_with_a_named_step_down() -> None:
    planner = PlannerProcess((sys.executable, "-c", GREEDY), memory_bytes=256 * MIB, start_seconds=LONG_SECONDS)
    found = await planner.plan(request(deadline_seconds=LONG_SECONDS), cluster(node("node-a"), node("node-b")), POLICY)
    await planner.stop()
    assert isinstance(found, Infeasible)
    assert found.message == (
        "no planner gave a usable answer (PlannerOutOfMemory, PlannerOutOfMemory): the planner needs more memory than its limit of "
        "256 MiB: raise resources.limits.memory of the chart, or settings.plannerMemoryBytes where it is set"
    )


@pytest.mark.parametrize("limit", [112, 124, 140])
async def test_wherever_the_limit_is_reached_the_message_names_it_and_the_next_plan_is_made(limit: int) -> None:
    """Some libraries end the process at the limit instead of raising an error."""
    planner = process(limit * MIB)
    found = await planner.plan(request(deadline_seconds=LONG_SECONDS), generate.cluster(2000, 0), POLICY)
    assert isinstance(found, Infeasible)
    assert found.reason == "PlannerFailed"
    assert f"{limit} MiB" in found.message
    assert "raise resources.limits.memory" in found.message
    small = await planner.plan(request(deadline_seconds=LONG_SECONDS), cluster(node("node-a"), node("node-b")), POLICY)
    assert isinstance(small, Plan)
    await planner.stop()


async def test_what_the_planner_writes_stays_below_its_limit() -> None:
    """The limit counts what can be written; libraries that are mapped from files cost a container next to nothing."""
    planner = process(160 * MIB)
    await planner.start()
    assert planner.pid is not None
    assert resource.prlimit(planner.pid, resource.RLIMIT_DATA) == (160 * MIB, 160 * MIB)
    assert resource.prlimit(planner.pid, resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    found = await planner.plan(request(deadline_seconds=LONG_SECONDS), generate.cluster(1000, 0), POLICY)
    assert isinstance(found, Plan)
    assert "PlannerOutOfMemory" not in found.fallbacks
    assert written_bytes(planner.pid) < 160 * MIB
    await planner.stop()
