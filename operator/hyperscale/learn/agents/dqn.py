"""`hyperscale learn dqn`: the agent of AGPCS (64 hidden units, Adam 1e-3, ε from 1 to 0.1 over 1,000 episodes) on the stream of jobs.

It is there to be compared: nothing in the cluster runs it, so its gate only says how it does beside the operator's rule.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from hyperscale.learn.agents.dispatch_env import DispatchEnv, chosen_by, observe
from hyperscale.learn.agents.qnetwork import Habits, Layers, Report, load, save, teach, values
from hyperscale.learn.agents.stream_env import any_conditions
from hyperscale.learn.lesson import Assignment, LessonVerdict
from hyperscale.learn.streams.compare import cases, compare
from hyperscale.learn.streams.simulator import OPERATORS_RULE, Simulator, StreamOutcome, index
from hyperscale.learn.topologies import VALIDATION_SEEDS

NAME: Final = "dqn"
"""Of its file, without suffix."""
JUDGED_STREAMS: Final = 50
JOBS: Final = 50
"""Of one training stream."""
HABITS: Final = Habits(discount=0.99, steps_an_update=4, steps_a_target=1_000)


def train(assignment: Assignment, report: Report) -> tuple[Path, ...]:
    """Learn, and write the layers. Raises LessonError."""
    return (save(NAME, learn(assignment, report), assignment.folder),)


def learn(assignment: Assignment, report: Report) -> Layers:
    """Layers after the assignment's episodes. Raises LessonError."""
    return teach(NAME, DispatchEnv(assignment.seed, draw=lambda rng: any_conditions(rng, JOBS)), HABITS, assignment, report)


def judge(candidate: Path, in_use: Path | None, seed: int) -> LessonVerdict:
    """How it does beside the operator's rule; never accepted. Raises LessonError without weights."""
    layers = load(NAME, candidate)
    own, rule = [], []
    for number, conditions in enumerate(cases(JUDGED_STREAMS)):
        simulator = Simulator(VALIDATION_SEEDS + number, conditions)
        own.append(play(layers, simulator).mean_completion)
        rule.append(simulator.run(index(OPERATORS_RULE)).mean_completion)
    comparison = compare(own, rule)
    figures = {"ratio_to_rule": comparison.ratio, "p": comparison.p, "worst": comparison.worst}
    said = f"{comparison.ratio:.3f} of the operator's rule's weighted completion time (p = {comparison.p:.1g}); it is for comparison only"
    return LessonVerdict(False, said, figures)


def play(layers: Layers, simulator: Simulator) -> StreamOutcome:
    """One whole stream by the best rule at every decision."""
    return play_with(simulator, lambda: int(np.argmax(values(layers, observe(simulator)))))


def play_with(simulator: Simulator, rule: Callable[[], int]) -> StreamOutcome:
    """One whole stream; `rule` gives the number of the rule for the decision at hand."""
    going_on, decisions = simulator.reset(), 0
    while going_on:
        _, ended = simulator.step(chosen_by(rule(), simulator))
        going_on, decisions = not ended, decisions + 1
    arrival, weight, best, _ = simulator.stream.jobs_table()
    start, finish, communication, seconds, workers = simulator.stream.outcome()
    return StreamOutcome(arrival, weight, best, start, finish, communication, seconds, workers, decisions)
