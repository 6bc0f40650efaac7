"""One plan, one object: what `hyperscale plan -o json` prints, what `status.plan` holds, what the MPIJob carries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from hyperscale.control.decide.chain import decide
from hyperscale.control.render.mpijob import plan_annotation
from hyperscale.control.status.conditions import derive
from hyperscale.model.plan import MAX_REJECTED, Correction, Plan, Rejection, bounded
from hyperscale.model.status import read_status, to_wire
from hyperscale.planner.check.artifact import to_json
from tests.builders.clusters import gpu_node, planned, random_cluster, snapshot
from tests.builders.seen import job_spec, seen

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "docs" / "reference" / "plan.schema.json").read_text())
WHOLE = planned(random_cluster(1, 8))
UNLABELLED = planned(snapshot(gpu_node("n0", product=None), gpu_node("n1", product=None)))
CORRECTED = msgspec.structs.replace(
    WHOLE, predicted=msgspec.structs.replace(WHOLE.predicted, calibration=Correction("A100", 1.5, 0.1, 7, by_curve=True))
)
NAMELESS = msgspec.structs.replace(
    UNLABELLED, predicted=msgspec.structs.replace(UNLABELLED.predicted, calibration=Correction("", 1.5, 0.1, 7))
)
PLANS = pytest.mark.parametrize("plan", [WHOLE, UNLABELLED, CORRECTED, NAMELESS], ids=["whole", "unlabelled", "corrected", "nameless"])


def in_status(plan: Plan) -> dict[str, Any]:
    """`status.plan` as the API server gives it back."""
    one = seen(job=job_spec(startPolicy="Never"), plan=plan)
    written: dict[str, Any] = json.loads(json.dumps(to_wire(derive(one, decide(one)))))
    plan_of: dict[str, Any] = written["plan"]
    return plan_of


@PLANS
def test_status_and_command_line_give_the_same_object(plan: Plan) -> None:
    assert in_status(plan) == json.loads(to_json(plan))


@PLANS
def test_both_hold_to_the_documented_schema(plan: Plan) -> None:
    for document in (in_status(plan), json.loads(to_json(plan)), json.loads(plan_annotation(plan))):
        jsonschema.validate(document, SCHEMA)


@PLANS
def test_the_status_reads_back_as_the_plan_that_was_printed(plan: Plan) -> None:
    assert read_status({"plan": in_status(plan)}).plan == msgspec.json.decode(to_json(plan), type=Plan) == plan


def test_a_plan_beyond_the_bounds_of_the_schema_is_cut_to_them() -> None:
    noisy = msgspec.structs.replace(
        WHOLE,
        rejected=tuple(Rejection(f"n{number}", "SlowerPlan", "x" * 5000) for number in range(MAX_REJECTED + 5)),
        reasons=("y" * 5000,) * 40,
        fallbacks=("z" * 500,) * 40,
    )
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(to_json(noisy)), SCHEMA)
    jsonschema.validate(in_status(noisy), SCHEMA)
    jsonschema.validate(json.loads(plan_annotation(noisy)), SCHEMA)
    assert msgspec.json.decode(to_json(bounded(noisy)), type=Plan) == bounded(noisy)
    assert bounded(WHOLE) is WHOLE
