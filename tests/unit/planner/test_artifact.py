"""The plan as bytes, its identity and its documented schema."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from hyperscale.model.api.job import PlannerChoice
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.artifact import plan_id, to_json
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.choice.reasons import CUT_SHORT
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, answer, gpu_node, planned, random_cluster, snapshot, training

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference"
SEEN = random_cluster(1, 8)


def test_the_documented_schema_is_the_one_of_the_type() -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "HyperScale plan", **msgspec.json.schema(Plan)}
    assert json.loads((DOCS / "plan.schema.json").read_text()) == json.loads(json.dumps(schema))


def test_every_field_of_the_plan_is_described_in_the_document() -> None:
    text = (DOCS / "plan-schema.md").read_text()
    plan = json.loads(to_json(planned(SEEN)))
    fields = {*plan, *plan["workers"][0], *plan["predicted"], *plan["rejected"][0]}
    assert [field for field in sorted(fields) if f"`{field}`" not in text] == []


def test_json_has_the_keys_that_tools_rely_on() -> None:
    plan = json.loads(to_json(planned(SEEN)))
    assert {"planner", "seed", "id", "partitions", "workers", "predicted", "objective", "rejected"} <= plan.keys()
    assert plan["workers"][0].keys() == {"index", "rank", "node", "gpus", "product", "share"}
    assert {"epochSeconds", "communicationSeconds"} <= plan["predicted"].keys()


def test_bytes_end_with_a_newline_and_start_with_the_planner() -> None:
    data = to_json(planned(SEEN))
    assert data.startswith(b'{\n  "planner": "Heuristic"')
    assert data.endswith(b"}\n")


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"planner": 1}', b"\x00\xff"])
def test_what_is_no_plan_is_refused(data: bytes) -> None:
    with pytest.raises((msgspec.ValidationError, msgspec.DecodeError)):
        msgspec.json.decode(data, type=Plan)


def test_the_id_changes_with_job_demand_seed_snapshot_and_exclusions() -> None:
    plans = [
        planned(SEEN),
        planned(SEEN, training(workers={"minReplicas": 1, "maxReplicas": 3})),
        planned(SEEN, seed=1),
        planned(random_cluster(2, 8)),
        planned(SEEN, excluded_nodes=("nowhere",)),
    ]
    assert len({plan.plan_id for plan in plans}) == len(plans)
    assert planned(SEEN).plan_id == plans[0].plan_id


def test_what_does_not_concern_the_plan_does_not_change_its_id() -> None:
    assert planned(SEEN).plan_id == planned(SEEN, training(startPolicy="Never", recovery={"maxPlanChanges": 9})).plan_id


def test_a_preview_under_another_name_has_the_id_of_the_plan() -> None:
    graph, job = build(SEEN, POLICY), training()
    made = [make_plan(PlanRequest(job_key=key, job=job), graph, profile(job), POLICY) for key in ("team/cora", "team/cora-plan-x7k2p")]
    assert len({plan.plan_id for plan in made if isinstance(plan, Plan)}) == 1


def test_a_plan_whose_worker_count_the_queue_chose_has_the_id_of_the_same_plan_made_alone() -> None:
    alone = planned(SEEN)
    fixed = planned(SEEN, workers_fixed=len(alone.workers))
    assert fixed.workers == alone.workers
    assert fixed.plan_id == alone.plan_id


def test_an_id_is_sixteen_hex_digits() -> None:
    made = plan_id(PlanRequest(job_key="a/b", job=training()), "0" * 64, "Heuristic", ())
    assert len(made) == 16
    int(made, 16)


def test_a_learned_plan_that_nobody_can_make_falls_back_by_name() -> None:
    plan = planned(SEEN, training(planner="Learned"))
    assert (plan.planner, plan.fallbacks[0]) == ("Heuristic", "LearnedUnavailable")
    assert "LearnedUnavailable" not in planned(SEEN, training(planner="Auto")).fallbacks


def test_a_job_without_a_planner_is_refused() -> None:
    assert training(planner="None").planner is PlannerChoice.NONE
    with pytest.raises(ValueError, match=r"^spec\.planner: None"):
        answer(SEEN, training(planner="None"))


def test_a_rank_pinned_to_an_unknown_node_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="rank 0 is pinned to node gone"):
        answer(snapshot(gpu_node("n0")), pinned={0: "gone"})


def test_a_plan_whose_search_was_cut_short_says_so_and_no_other_does() -> None:
    graph, job = build(SEEN, POLICY), training()
    request = PlanRequest(job_key="a/b", job=job)
    cut = make_plan(request, graph, profile(job), POLICY, expired=lambda: True)
    assert isinstance(cut, Plan)
    assert CUT_SHORT in cut.reasons
    assert CUT_SHORT not in planned(SEEN).reasons
