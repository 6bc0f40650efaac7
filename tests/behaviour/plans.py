"""Plans as the planner process makes them, with a clock that does not move: what is found is by work done, not by time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from hyperscale.control.specs.plan_question import question_about
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.service.frames import Answer, Ask, ClusterFrame, NotPlanned, Planned, PlannerTrouble
from hyperscale.planner.service.worker import PlannerService
from hyperscale.spec.parse import parse_job, parse_policy
from tests.behaviour.clusters import Json
from tests.behaviour.plan_cases import PlanCase

KIND: Final = "plans"
API_VERSION: Final = "hyperscale.dev/v1alpha1"


def output(case: PlanCase) -> Json:
    """What is recorded of a case: a digest of the input, and the answer without ids and texts for people."""
    policy = policy_of(case)
    return {"input": digest(case), "answer": answer_record(answered(snapshot_of(case), request_of(case, policy), policy))}


def digest(case: PlanCase) -> str:
    """Of the whole input, so that a changed case is not taken for a changed plan."""
    whole = [case.snapshot, case.spec, case.policy, case.asked]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


def snapshot_of(case: PlanCase) -> ClusterSnapshot:
    return msgspec.convert(case.snapshot, ClusterSnapshot)


def policy_of(case: PlanCase) -> PolicySpec:
    return parse_policy({"apiVersion": API_VERSION, "kind": "PlannerPolicy", "metadata": {"name": "default"}, "spec": case.policy})


def request_of(case: PlanCase, policy: PolicySpec) -> PlanRequest:
    """The question as the operator asks it, and what the case adds."""
    metadata = {"name": "gnn", "namespace": "team-a"}
    job = parse_job({"apiVersion": API_VERSION, "kind": "GNNTrainingJob", "metadata": metadata, "spec": case.spec})
    request = question_about("team-a/gnn", job, policy)
    return msgspec.convert(msgspec.to_builtins(request) | case.asked, PlanRequest, str_keys=True)


def answered(snapshot: ClusterSnapshot, request: PlanRequest, policy: PolicySpec) -> Answer:
    """The answer of a planner that has not been asked anything before."""
    planner = PlannerService(lambda: 0.0)
    planner.learn(ClusterFrame("case", snapshot, policy))
    return planner.answer(Ask(1, "case", request))


def answer_record(answer: Answer) -> Json:
    """The answer; ids, digests, links, reasons and messages left out."""
    if isinstance(answer, Planned):
        wire: dict[str, Any] = msgspec.to_builtins(answer.plan)
        # Links are the snapshot's own figures, which the input's digest covers.
        for name in ("id", "snapshot", "reasons", "links"):
            wire.pop(name, None)
        wire["fallbacks"] = codes(wire.get("fallbacks", ()))
        wire["rejected"] = _rejected(wire.get("rejected", []))
        wire["scores"] = [score | {"regret": distance(score["regret"])} for score in wire.get("scores", [])]
        wire["optimalityGap"] = distance(wire.get("optimalityGap"))
        return {"plan": wire}
    if isinstance(answer, NotPlanned):
        wire = msgspec.to_builtins(answer.infeasible)
        return {"refusal": {"reason": wire["reason"], "rejected": _rejected(wire["rejected"])}}
    assert isinstance(answer, PlannerTrouble), answer
    return {"error": answer.message.partition(":")[0]}


def _rejected(entries: list[Json]) -> list[list[str]]:
    return [[entry["node"], entry["reason"]] for entry in entries]


def codes(steps: Iterable[str]) -> list[str]:
    """Steps down without their details."""
    return [step.partition(":")[0] for step in steps]


def distance(ratio: float | None) -> float | None:
    """A small difference of two figures of nine digits: what lies beyond the sixth is the order of a sum."""
    return None if ratio is None else round(ratio, 6)
