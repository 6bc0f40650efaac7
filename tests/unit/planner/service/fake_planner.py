"""Planners that misbehave: `python fake_planner.py BEHAVIOUR [MARKER]` speaks the frames of a planner process."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from hyperscale.model.plan import Infeasible
from hyperscale.planner.service.frames import Answer, Ask, ClusterFrame, NotPlanned, Planned, PlannerTrouble, Ready, pack, read_question
from tests.builders.placement import plan

FOREVER_SECONDS = 3600
OUT = sys.stdout.buffer


def put(frame: bytes) -> None:
    OUT.write(frame)
    OUT.flush()


def say(ask: Ask, text: str) -> Answer:
    return NotPlanned(ask.number, Infeasible(reason="InsufficientGPUs", message=text))


def misbehave(behaviour: str, ask: Ask) -> Answer | None:
    """What it does instead of planning; None when it behaves."""
    if behaviour == "hang" or (behaviour == "slow" and ask.request.deadline_seconds > 1.0):
        time.sleep(FOREVER_SECONDS)
    if behaviour == "crash":
        sys.stderr.write("ValueError: bad luck\n")
        sys.stderr.flush()
        os._exit(9)
    if behaviour == "garbage":
        put(b"{'not': 'a frame'} at all, but long enough to be read")
        time.sleep(FOREVER_SECONDS)
    if behaviour == "nonsense":
        put(len(b"[1, 2]").to_bytes(4, "big") + b"[1, 2]")
        time.sleep(FOREVER_SECONDS)
    if behaviour == "endless":
        put(b"\xff\xff\xff\xff" + b"x" * 1000)
        time.sleep(FOREVER_SECONDS)
    answers: dict[str, Answer] = {
        "trouble": PlannerTrouble(ask.number, "ZeroDivisionError: division by zero"),
        "late": PlannerTrouble(ask.number, "time ran out before any job was looked at", late=True),
        "other-question": Planned(ask.number + 7, plan("node-a", "node-b")),
        "infeasible-plan": Planned(ask.number, plan("node-a", "node-that-is-not-there")),
        "ready-again": Ready(),
    }
    return answers.get(behaviour)


def is_due(when: str, marker: Path | None, ask: Ask) -> bool:
    """Whether to misbehave: for the planner named after `-if-` or any, with a marker only until a first question made it."""
    bad = when in ("", ask.request.job.planner.value)
    if marker is not None:
        bad = bad and not marker.exists()
        marker.touch()
    return bad


def tell(behaviour: str, ask: Ask, worlds: int) -> Answer | None:
    """What it answers about itself; None when the behaviour is not to tell."""
    if behaviour == "worlds":
        return say(ask, str(worlds))
    if behaviour == "environment":
        return say(ask, ",".join(sorted(os.environ)))
    return None


def main() -> None:
    behaviour, _, when = sys.argv[1].partition("-if-")
    marker = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    worlds = 0
    if behaviour == "never-ready":
        time.sleep(FOREVER_SECONDS)
    put(pack(Ready()))
    while (question := read_question(sys.stdin.buffer)) is not None:
        if isinstance(question, ClusterFrame):
            worlds += 1
            continue
        if not isinstance(question, Ask):
            raise TypeError("this planner is asked for single plans only")
        answer = misbehave(behaviour, question) if is_due(when, marker, question) else None
        answer = tell(behaviour, question, worlds) or answer
        if behaviour == "noisy":
            sys.stderr.write("noise\n" * 200_000)
        put(pack(answer or Planned(question.number, plan("node-a", "node-b"))))


if __name__ == "__main__":
    main()
