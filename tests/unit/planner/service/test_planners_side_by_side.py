"""Several planners in one process: none learns from what another one was asked, and the order of questions changes no answer."""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

import hyperscale.planner
from hyperscale.model.admission_query import AdmissionRequest, QueuedJob
from hyperscale.model.api.policy import PolicySpec, QueueOrder, QueuePolicy
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.learned import weights_file
from hyperscale.planner.service.frames import Ask, AskTurns, ClusterFrame, Planned, Turned, pack
from hyperscale.planner.service.worker import PlannerService
from hyperscale.util.memo import Memo
from tests.builders.clusters import POLICY, gpu_node, random_cluster, snapshot, training

SHIPPED = Path(weights_file.__file__).parent / "weights"
LEARNED = PolicySpec(queue=QueuePolicy(order=QueueOrder.LEARNED))
TABLES = {"hyperscale.planner.cost.collective_tables.collective_table", "hyperscale.planner.search.ring.all_rings"}
"""Constant tables: read-only arrays, one for each of a few worker counts."""
PENDING = AdmissionRequest(
    jobs=tuple(
        QueuedJob(
            PlanRequest(job_key=f"team/job-{number}", job=training(workers={"minReplicas": 2, "maxReplicas": 3})),
            waited_seconds=float(number),
        )
        for number in range(4)
    ),
    deadline_seconds=60.0,
)
WORLDS = (
    ClusterFrame("quiet", snapshot(*(gpu_node(f"n{number}", free=2) for number in range(4))), POLICY),
    ClusterFrame("measured", random_cluster(3, 20, free_max=4), POLICY),
)


def service(folder: Path | None = None, *worlds: ClusterFrame) -> PlannerService:
    planner = PlannerService(lambda: 0.0, folder)
    for world in worlds or WORLDS:
        planner.learn(world)
    return planner


def questions() -> list[Ask | AskTurns]:
    jobs = (training(), training(workers={"minReplicas": 1, "maxReplicas": 2}), training(workers={"minReplicas": 2, "maxReplicas": 6}))
    plans = [
        Ask(number, world.name, PlanRequest(job_key="a/b", job=job, free_gpus=free))
        for number, (world, job, free) in enumerate(
            (world, job, free) for world in WORLDS for job in jobs for free in ({}, {world.snapshot.nodes[0].name: 0})
        )
    ]
    return [*plans, *(AskTurns(len(plans) + number, world.name, PENDING) for number, world in enumerate(WORLDS))]


def test_the_order_of_questions_changes_no_byte_of_any_answer() -> None:
    asked = questions()
    alone = {ask.number: pack(service().answer(ask)) for ask in asked}
    forth, back = service(), service()
    assert {ask.number: pack(forth.answer(ask)) for ask in asked} == alone
    assert {ask.number: pack(back.answer(ask)) for ask in reversed(asked)} == alone
    assert any(isinstance(service().answer(ask), Planned) for ask in asked)


def test_a_planner_reads_weights_that_were_damaged_when_another_one_read_them(tmp_path: Path) -> None:
    weights, manifest = ((SHIPPED / f"stream.{suffix}").read_bytes() for suffix in ("safetensors", "json"))
    (tmp_path / "stream.safetensors").write_bytes(b"damaged")
    (tmp_path / "stream.json").write_bytes(manifest)
    world, ask = replace(WORLDS[0], policy=LEARNED), AskTurns(1, WORLDS[0].name, PENDING)
    before = service(tmp_path, world).answer(ask)
    assert isinstance(before, Turned)
    assert before.turns.fallbacks == ("LearnedQueueUnavailable",)
    (tmp_path / "stream.safetensors").write_bytes(weights)
    assert json.loads(manifest)["sha256"] == hashlib.sha256(weights).hexdigest()
    after = service(tmp_path, world).answer(ask)
    assert isinstance(after, Turned)
    assert after.turns.fallbacks == ()
    assert after.turns.score is not None
    assert after.turns.score.agent is not None


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(hyperscale.planner.__path__, "hyperscale.planner."):
        if not found.ispkg and not found.name.endswith("service.worker"):
            yield importlib.import_module(found.name)


def test_no_module_of_the_planner_keeps_results() -> None:
    kept = {
        f"{module.__name__}.{name}"
        for module in modules()
        for name, value in vars(module).items()
        if isinstance(value, Memo) or (hasattr(value, "cache_info") and value.__module__ == module.__name__)
    }
    assert kept == TABLES


def test_the_table_of_rings_cannot_be_written_to() -> None:
    from hyperscale.planner.search.ring import all_rings

    with pytest.raises(ValueError, match="read-only"):
        all_rings(4)[0, 0] = 1


def test_the_table_of_collectives_cannot_be_written_to() -> None:
    from hyperscale.planner.cost.collective_tables import collective_table

    with pytest.raises(ValueError, match="read-only"):
        collective_table(4, 4, (0.0,))[0, 0, 0, 0] = 1.0
