"""`hyperscale learn allreduce`: AGPCS's agent (64 hidden units, Adam 1e-3, ε from 1 to 0.1 over 1,000 episodes) puts gradients together.

It is there to be scored against the exact schedule, which it cannot beat: nothing in a job runs it, so its gate only says how far it got.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from hyperscale.learn.agents.allreduce_env import AllreduceEnv, Channel
from hyperscale.learn.agents.allreduce_instances import AllreduceInstance, draw
from hyperscale.learn.agents.qnetwork import Habits, Layers, Report, load, save, teach, values
from hyperscale.learn.lesson import Assignment, LessonVerdict
from hyperscale.training.allreduce.schedule import Groups, schedule

NAME: Final = "allreduce-dqn"
"""Of its file, without suffix."""
JUDGED: Final = 200
JUDGED_SEED: Final = 1_000_003
"""No training seed: these are 0 to 2^31 − 1 with another second word."""
HABITS: Final = Habits(discount=1.0, steps_an_update=1, steps_a_target=500)


def train(assignment: Assignment, report: Report) -> tuple[Path, ...]:
    """Learn, and write the layers. Raises LessonError."""
    return (save(NAME, learn(assignment, report), assignment.folder),)


def learn(assignment: Assignment, report: Report) -> Layers:
    """Layers after the assignment's episodes. Raises LessonError."""
    return teach(NAME, AllreduceEnv(assignment.seed), HABITS, assignment, report)


def judge(candidate: Path, in_use: Path | None, seed: int) -> LessonVerdict:
    """How far it is from the exact schedule on models it has not seen; never accepted. Raises LessonError without weights."""
    layers = load(NAME, candidate)
    rng = np.random.default_rng([JUDGED_SEED, 29])
    ratios = [ratio(layers, draw(rng)) for _ in range(JUDGED)]
    figures = {
        "mean_ratio": float(np.mean(ratios)),
        "worst_ratio": float(np.max(ratios)),
        "optimal": float(np.mean(np.less(ratios, 1 + 1e-9))),
    }
    said = f"ends {figures['mean_ratio'] - 1:.1%} after the exact schedule on average; this agent is for comparison only"
    return LessonVerdict(False, said, figures)


def play(layers: Layers, instance: AllreduceInstance) -> tuple[Groups, float]:
    """What the agent sends, and when the last message ends."""
    channel = Channel(instance)
    while not channel.ended:
        channel.act(int(np.argmax(values(layers, channel.observe()))))
    return channel.groups, channel.now


def ratio(layers: Layers, instance: AllreduceInstance) -> float:
    """End of the agent's last message as a multiple of the exact schedule's."""
    exact = schedule(instance.ready_seconds, instance.sizes_bytes, instance.alpha, instance.beta)
    return play(layers, instance)[1] / exact.finish_seconds
