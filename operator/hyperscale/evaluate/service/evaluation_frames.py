"""What the operator and its evaluation process say to each other: one JSON document each way."""

from __future__ import annotations

import itertools
from typing import Final

import msgspec
from msgspec.structs import replace

from hyperscale.evaluate.calibration.lessons import NO_LESSONS, Lessons
from hyperscale.evaluate.impact.queue_figures import QueueFigures
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, Link
from hyperscale.model.evaluation import QUESTION_TOO_LARGE, EvaluationStatus
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest

MAX_QUESTION_BYTES: Final = 16 * 2**20
"""1,000 nodes, as many as a plan can have, take below 8 MiB with all of their GPUs."""
MAX_DEAD_LINKS: Final = 1_000
"""Kept of a plan's: one of them breaks it."""
MAX_ANSWER_BYTES: Final = 1 << 20


class EvaluationAsk(msgspec.Struct, frozen=True, rename="camel"):
    """One planned job."""

    plan: Plan
    request: PlanRequest
    snapshot: ClusterSnapshot
    """Of the planned nodes and the links that `part_of` keeps."""
    futures: int
    policy: PolicySpec = PolicySpec()
    lessons: Lessons = NO_LESSONS
    """What history teaches about such a plan."""
    queue: QueueFigures | None = None


class QuestionTooLargeError(Exception):
    """The question is longer than MAX_QUESTION_BYTES."""


def packed(ask: EvaluationAsk) -> bytes:
    """Return the question as JSON; raises QuestionTooLargeError before more than MAX_QUESTION_BYTES are written at once."""
    sizes = 0
    for one in (ask.plan, ask.request, *ask.snapshot.nodes, *ask.snapshot.links):
        sizes += len(msgspec.json.encode(one))
        if sizes > MAX_QUESTION_BYTES:
            nodes, most = len(ask.snapshot.nodes), MAX_QUESTION_BYTES >> 20
            raise QuestionTooLargeError(f"{QUESTION_TOO_LARGE}: plan and {nodes} planned nodes take more than {most} MiB of JSON")
    return msgspec.json.encode(ask)


def part_of(snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    """Return the planned nodes with the links that its proof reads: those of the ring, and dead ones between planned nodes."""
    planned = set(plan.ranks_by_node) | {worker.node for worker in plan.workers}
    nodes = [worker.node for worker in plan.workers]
    hops = set(zip(nodes, nodes[1:] + nodes[:1], strict=True))
    read = (link for link in snapshot.links if (link.source, link.destination) in hops or _is_dead(link, planned))
    links = tuple(itertools.islice(read, len(hops) + MAX_DEAD_LINKS))
    return replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name in planned), links=links)


def _is_dead(link: Link, planned: set[str]) -> bool:
    return link.bandwidth_bytes_per_second.value == 0.0 and link.source in planned and link.destination in planned


QUESTIONS: Final[msgspec.json.Decoder[EvaluationAsk]] = msgspec.json.Decoder(EvaluationAsk)
ANSWERS: Final[msgspec.json.Decoder[EvaluationStatus]] = msgspec.json.Decoder(EvaluationStatus)
