"""What the operator and its planner process say to each other: length-prefixed JSON frames on a pipe.

A frame is four bytes of length, most significant first, and that many bytes of JSON. Nothing is ever unpickled: the other side may be
wrong, but it cannot run code here.
"""

from __future__ import annotations

from typing import BinaryIO, Final

import msgspec

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import MigrationAnswer, MigrationQuestion, PreemptionAnswer, PreemptionQuestion

HEADER_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 64 * 2**20
"""A snapshot of 5,000 nodes with all GPUs and links is below 40 MiB; a longer frame is a mistake or an attack."""

KEPT_WORLDS: Final = 4
"""Worlds that a planner keeps, oldest forgotten first; both sides count alike. One for each policy in use is enough."""

OUT_OF_MEMORY_EXIT: Final = 12
"""Exit code of a planner that reached its memory limit (ENOMEM)."""


class FrameError(Exception):
    """A frame is too long, cut off, or not what was expected; the connection cannot be used any more."""


class ClusterFrame(msgspec.Struct, frozen=True, rename="camel", tag="cluster"):
    """A cluster and the policy to plan by, sent once for all requests against it."""

    name: str
    """By which requests refer to it."""
    snapshot: ClusterSnapshot
    policy: PolicySpec


class Ask(msgspec.Struct, frozen=True, rename="camel", tag="ask"):
    """One question."""

    number: int
    """Comes back in the answer."""
    cluster: str
    request: PlanRequest


class AskTurns(msgspec.Struct, frozen=True, rename="camel", tag="askTurns"):
    """A question about several pending jobs."""

    number: int
    cluster: str
    question: AdmissionRequest


class AskMoves(msgspec.Struct, frozen=True, rename="camel", tag="askMoves"):
    """A question about running jobs."""

    number: int
    cluster: str
    question: MigrationQuestion


class AskStops(msgspec.Struct, frozen=True, rename="camel", tag="askStops"):
    """A question about running jobs that others might need the GPUs of."""

    number: int
    cluster: str
    question: PreemptionQuestion


class Ready(msgspec.Struct, frozen=True, rename="camel", tag="ready"):
    """The planner has loaded its code and waits for questions."""


class Planned(msgspec.Struct, frozen=True, rename="camel", tag="planned"):
    """The answer is a plan."""

    number: int
    plan: Plan


class NotPlanned(msgspec.Struct, frozen=True, rename="camel", tag="notPlanned"):
    """The answer is that there is no plan."""

    number: int
    infeasible: Infeasible


class Turned(msgspec.Struct, frozen=True, rename="camel", tag="turned"):
    """Who of the pending jobs starts."""

    number: int
    turns: AdmissionResult


class MigrationAdvice(msgspec.Struct, frozen=True, rename="camel", tag="moved"):
    """Which running jobs would be better off elsewhere."""

    number: int
    moves: MigrationAnswer


class Stopped(msgspec.Struct, frozen=True, rename="camel", tag="stopped"):
    """Which running jobs would better be stopped for others."""

    number: int
    stops: PreemptionAnswer


class PlannerTrouble(msgspec.Struct, frozen=True, rename="camel", tag="trouble"):
    """The planner failed on this question."""

    number: int
    message: str
    """Kind of the error and its text, one line."""
    late: bool = False
    """Time was up before there was an answer; nothing is wrong with the planner."""


Question = ClusterFrame | Ask | AskTurns | AskMoves | AskStops
Answer = Ready | Planned | NotPlanned | Turned | MigrationAdvice | Stopped | PlannerTrouble

_QUESTIONS: msgspec.json.Decoder[Question] = msgspec.json.Decoder(Question)
_ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def pack(message: Question | Answer) -> bytes:
    """The frame of a message; raises FrameError when it is too long."""
    body = msgspec.json.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"a message of {len(body)} bytes is longer than {MAX_FRAME_BYTES}")
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def body_length(header: bytes) -> int:
    """Length in bytes of the body that follows `header`; raises FrameError when it is too long."""
    length = int.from_bytes(header, "big")
    if length > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {length} bytes is longer than {MAX_FRAME_BYTES}")
    return length


def unpack_answer(body: bytes) -> Answer:
    """The answer in a body; raises FrameError when it is none."""
    try:
        return _ANSWERS.decode(body)
    except msgspec.DecodeError as error:
        raise FrameError(f"not an answer of a planner: {error}") from error


def read_question(source: BinaryIO) -> Question | None:
    """The next question from a blocking stream; None at its end. Raises FrameError when the stream breaks off inside a frame."""
    header = source.read(HEADER_BYTES)
    if not header:
        return None
    if len(header) < HEADER_BYTES:
        raise FrameError("the stream ended inside a header")
    length = body_length(header)
    body = source.read(length)
    if len(body) < length:
        raise FrameError("the stream ended inside a frame")
    try:
        return _QUESTIONS.decode(body)
    except msgspec.DecodeError as error:
        raise FrameError(f"not a question: {error}") from error
