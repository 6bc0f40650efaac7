"""Questions about several jobs at once: who of the pending ones starts, which running one moves, which one is preempted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from hyperscale.model.admission_query import AdmissionRequest, Claim, QueuedJob, RunningShare
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import MigrationQuestion, PreemptibleJob, PreemptionQuestion, RunningJob
from hyperscale.planner.service.frames import AskMoves, AskStops, AskTurns, ClusterFrame, MigrationAdvice, Stopped, Turned
from hyperscale.planner.service.worker import PlannerService
from tests.behaviour.clusters import A100, T4, Json, cluster, link, mesh, mixed, node
from tests.behaviour.plan_cases import ARXIV, GCN, PlanCase
from tests.behaviour.plan_cases import job as spec
from tests.behaviour.plans import answer_record, codes, distance, policy_of, request_of, snapshot_of
from tests.builders.placement import plan

KIND: Final = "queues"
LEFT_OUT: Final = frozenset({"id", "snapshot", "reasons", "message"})


def pending(name: str, least: int, most: int, *, epochs: int = 200, waited: float = 60.0, weight: float = 1.0) -> QueuedJob:
    return QueuedJob(asked(name, least, most, epochs), waited_seconds=waited, weight=weight)


def asked(name: str, least: int, most: int, epochs: int = 200, **fields: Any) -> PlanRequest:
    case = PlanCase({}, spec(least, most, model=GCN | {"epochs": epochs}, dataset=ARXIV))
    return msgspec.structs.replace(request_of(case, policy_of(case)), job_key=f"team/{name}", **fields)


def _slow_links() -> Json:
    """Three nodes, two of them in use; the links of one of these are slow now."""
    nodes = [node("a", requestedGpus=1, load=0.95), node("b", requestedGpus=1, load=0.95), node("c")]
    slow = (1e-2, 1e7)
    return cluster(nodes, mesh(nodes, lambda one, other: slow if "b" in (one["name"], other["name"]) else (1e-4, 1e9)))


def _full() -> Json:
    nodes = [node("a", A100, requestedGpus=1, load=0.95), node("b", T4)]
    return cluster(nodes, [link("a", "b", 1e-4, 1e9), link("b", "a", 1e-4, 1e9)])


TURNS: Final = AdmissionRequest(
    jobs=tuple(pending(f"job-{number}", 1 + number % 3, 4, epochs=50 * (number + 1), waited=600.0 - 60 * number) for number in range(6)),
    running=(RunningShare("team/long", 2, 900.0, 2),),
    free_gpus={"n000": 0},
)
RUNNING: Final = RunningJob(
    asked("gnn", 2, 2, workers_fixed=2),
    plan("a", "b"),
    {"a": Claim(gpus=1), "b": Claim(gpus=1)},
    remaining_epochs=100_000.0,
    redone_epochs=10.0,
)
LONG: Final = RunningJob(asked("long", 1, 1, 1_000_000, workers_fixed=1), plan("a"), {"a": Claim(gpus=1)}, 1_000_000.0, 10.0)


def _stops(held_seconds: float) -> PreemptionQuestion:
    return PreemptionQuestion(
        pending=(pending("short", 1, 1, epochs=2000, weight=5.0),),
        running=(PreemptibleJob(LONG, held_seconds=held_seconds),),
        free_gpus={"b": 0},
        claims={"a": Claim(gpus=1)},
    )


QUESTIONS: Final[dict[str, tuple[Json, Json, AdmissionRequest | MigrationQuestion | PreemptionQuestion]]] = {
    "turns-by-arrival": (mixed(51, 8, most_gpus=2), {"queue": {"order": "Arrival"}}, TURNS),
    "turns-by-rule": (mixed(51, 8, most_gpus=2), {}, TURNS),
    "turns-by-agent": (mixed(51, 8, most_gpus=2), {"queue": {"order": "Learned"}}, TURNS),
    "turn-of-one-job": (mixed(52, 5), {}, AdmissionRequest(jobs=(pending("alone", 1, 5),))),
    "turns-on-a-full-cluster": (_full(), {}, AdmissionRequest(jobs=(pending("large", 4, 8), pending("small", 1, 1)), free_gpus={"b": 0})),
    "a-move-pays": (_slow_links(), {}, MigrationQuestion((RUNNING,))),
    "a-move-does-not-pay": (_slow_links(), {}, MigrationQuestion((msgspec.structs.replace(RUNNING, remaining_epochs=1.0),))),
    "a-stop-pays": (_full(), {}, _stops(100_000.0)),
    "a-stop-too-soon": (_full(), {}, _stops(1.0)),
}


def output(question: str) -> Json:
    """The answer to one of the questions, without ids and texts for people."""
    snapshot, policy, what = QUESTIONS[question]
    case = PlanCase(snapshot, {}, policy)
    return {"answer": _answered(case, policy_of(case), what)}


def _answered(case: PlanCase, policy: PolicySpec, question: AdmissionRequest | MigrationQuestion | PreemptionQuestion) -> Any:
    planner = PlannerService(lambda: 0.0)
    planner.learn(ClusterFrame("case", snapshot_of(case), policy))
    if isinstance(question, AdmissionRequest):
        answer = planner.answer(AskTurns(1, "case", question))
        return _plain(answer.turns) if isinstance(answer, Turned) else answer_record(answer)
    if isinstance(question, MigrationQuestion):
        answer = planner.answer(AskMoves(1, "case", question))
        return _plain(answer.moves) if isinstance(answer, MigrationAdvice) else answer_record(answer)
    answer = planner.answer(AskStops(1, "case", question))
    return _plain(answer.stops) if isinstance(answer, Stopped) else answer_record(answer)


def _plain(value: Any) -> Any:
    """JSON without what depends on ids, without sentences, and with figures of nine digits: some of these are sums that are not rounded."""
    value = msgspec.to_builtins(value, str_keys=True) if isinstance(value, msgspec.Struct) else value
    if isinstance(value, dict):
        return {key: SPECIAL.get(key, _plain)(entry) for key, entry in value.items() if key not in LEFT_OUT}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


SPECIAL: Final[dict[str, Callable[[Any], Any]]] = {"regret": distance, "optimalityGap": distance, "fallbacks": codes}
"""What is recorded of these fields as of those of a single plan."""
