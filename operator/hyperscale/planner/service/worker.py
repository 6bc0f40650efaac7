"""The planner process: `python -m hyperscale.planner.service.worker` answers questions on stdin with plans on stdout, one at a time.

It exists so that a planner that hangs, crashes or eats memory can be killed while the operator lives on (process.py). It is the one
place where the graph, workload and plan stages meet outside the operator. Whatever libraries print goes to stderr: stdout has frames only.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from hyperscale.model.admission_query import AdmissionResult
from hyperscale.model.api.policy import PolicySpec, QueuePolicy
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import MigrationAnswer, PreemptionAnswer
from hyperscale.planner.choice.given_order import plan_in_order
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.learned.learned_planner import planners
from hyperscale.planner.migration.migration_evaluation import evaluate_migrations
from hyperscale.planner.preempt.preemption_problem import Terms
from hyperscale.planner.preempt.preemption_question import evaluate_preemptions
from hyperscale.planner.queue.joint import OutOfTimeError, take_turns
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import Choosers, choosers
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.service.frames import (
    KEPT_WORLDS,
    OUT_OF_MEMORY_EXIT,
    Answer,
    Ask,
    AskMoves,
    AskStops,
    AskTurns,
    ClusterFrame,
    FrameError,
    MigrationAdvice,
    NotPlanned,
    Planned,
    PlannerTrouble,
    Ready,
    Stopped,
    Turned,
    pack,
    read_question,
)
from hyperscale.planner.together.class_network import published_classes
from hyperscale.planner.together.joint_starts import joint_starts
from hyperscale.planner.together.start_together import TogetherPlanner
from hyperscale.planner.workload.profile import profile
from hyperscale.util.child_process import begin
from hyperscale.util.memo import Memo

DEADLINE_FRACTION: Final = 0.8
"""Part of the deadline for the search itself; the rest is for building the graph and for the way back."""
HURRY_FRACTION: Final = 0.5
"""Part of that for the jobs that a decision about the queue begins to look at: the rest finishes what was begun."""
MAX_MESSAGE_LENGTH: Final = 500


class PlannerService:
    """Answers questions; builds the graph of each cluster once, when it is first asked about."""

    def __init__(self, clock: Callable[[], float], weights: Path | None = None) -> None:
        """Plan with published weights of the learned planners from a folder, or with those of the package."""
        self._clock = clock
        self._weights = weights
        self._clusters: dict[str, ClusterFrame] = {}
        self._graphs: dict[str, ClusterGraph] = {}
        self._desks: dict[str, PlacementOracle] = {}
        self._planners = planners(weights)
        self._classes = published_classes(weights)
        self._choosers: Memo[Choosers] = Memo(KEPT_WORLDS)
        self._heuristic = next(planner for planner in self._planners if isinstance(planner, Heuristic))

    def learn(self, cluster: ClusterFrame) -> None:
        """Keep a cluster to plan in, and forget the oldest."""
        self._clusters[cluster.name] = cluster
        while len(self._clusters) > KEPT_WORLDS:
            oldest = next(iter(self._clusters))
            del self._clusters[oldest]
            self._graphs.pop(oldest, None)
            self._desks.pop(oldest, None)

    def answer(self, ask: Ask | AskTurns | AskMoves | AskStops) -> Answer:
        """A plan, the reason why there is none, who starts, who would move or stop; or the trouble that the planners had.

        Raises MemoryError.
        """
        started = self._clock()
        try:
            if isinstance(ask, AskTurns):
                return Turned(ask.number, self._turns(ask, started))
            if isinstance(ask, AskMoves):
                return MigrationAdvice(ask.number, self._moves(ask, started))
            if isinstance(ask, AskStops):
                return Stopped(ask.number, self._stops(ask, started))
            answer = self._plan(ask, started)
        except MemoryError:
            raise  # ends the process: what it holds would be missing for the next question too
        except OutOfTimeError as error:
            return PlannerTrouble(ask.number, str(error), late=True)
        except Exception as error:  # any other error of a planner is answered, none ends the process
            return PlannerTrouble(ask.number, f"{type(error).__name__}: {error}".replace("\n", " ")[:MAX_MESSAGE_LENGTH])
        return Planned(ask.number, answer) if isinstance(answer, Plan) else NotPlanned(ask.number, answer)

    def _plan(self, ask: Ask, started: float) -> Plan | Infeasible:
        cluster, request = self._clusters[ask.cluster], ask.request
        expired = self._alarm(request.deadline_seconds, started)
        return make_plan(request, self._graph(cluster), profile(request.job), cluster.policy, expired=expired, planners=self._planners)

    def _turns(self, ask: AskTurns, started: float) -> AdmissionResult:
        cluster = self._clusters[ask.cluster]
        desk = self._desk(cluster, ask.question.deadline_seconds, started)
        together = TogetherPlanner(
            self._graph(cluster),
            cluster.policy,
            lambda request: profile(request.job),
            plan_in_order,
            partial(joint_starts, network=self._classes),
            desk.expired,
        )
        return take_turns(ask.question, desk, cluster.policy.queue, self._choosers_of(cluster.policy.queue), together)

    def _stops(self, ask: AskStops, started: float) -> PreemptionAnswer:
        cluster = self._clusters[ask.cluster]
        policy = cluster.policy
        desk = self._desk(cluster, ask.question.deadline_seconds, started)
        own = policy.queue.preemption
        terms = Terms(own.min_gain_ratio, own.hold_down_seconds, policy.migration.restart_seconds, own.max_jobs)
        return evaluate_preemptions(ask.question, desk, policy.queue, terms, self._choosers_of(policy.queue))

    def _choosers_of(self, policy: QueuePolicy) -> Choosers:
        """Return who may choose by `policy`; this planner reads the weights of a policy once."""
        return self._choosers.get(policy, lambda: choosers(policy, self._weights))

    def _desk(self, cluster: ClusterFrame, deadline_seconds: float, started: float) -> PlacementOracle:
        """Keeps what it has found on this cluster; under the deadline of the question in hand."""
        desk = self._desks.get(cluster.name)
        if desk is None:
            desk = self._desks[cluster.name] = PlacementOracle(self._graph(cluster), cluster.policy, partial(self._place, cluster.policy))
        desk.expired = self._alarm(deadline_seconds, started)
        desk.hurried = self._alarm(deadline_seconds * HURRY_FRACTION, started)
        return desk

    def _place(self, policy: PolicySpec, request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
        return make_plan(request, graph, profile(request.job), policy, expired=expired, planners=self._planners)

    def _moves(self, ask: AskMoves, started: float) -> MigrationAnswer:
        cluster = self._clusters[ask.cluster]
        expired = self._alarm(ask.question.deadline_seconds, started)
        return evaluate_migrations(
            ask.question, self._graph(cluster), cluster.policy, lambda job: profile(job.request.job), expired, self._heuristic
        )

    def _graph(self, cluster: ClusterFrame) -> ClusterGraph:
        if cluster.name not in self._graphs:
            self._graphs[cluster.name] = build(cluster.snapshot, cluster.policy)
        return self._graphs[cluster.name]

    def _alarm(self, deadline_seconds: float, started: float) -> Callable[[], bool]:
        """Tells a planner that it should come to an end with what it has."""
        ends = started + deadline_seconds * DEADLINE_FRACTION
        return lambda: self._clock() >= ends


def serve(source: BinaryIO, sink: BinaryIO, planner: PlannerService) -> None:
    """Answer every question of `source` until it ends; raises FrameError when it cannot be read."""
    _send(sink, Ready())
    while (question := read_question(source)) is not None:
        if isinstance(question, ClusterFrame):
            planner.learn(question)
        else:
            _send(sink, planner.answer(question))


def main() -> int:
    """Serve on the standard streams; 0 at the end of input, 1 when the input cannot be read, OUT_OF_MEMORY_EXIT at the limit."""
    options = _options()
    sink = begin(options.nice, options.memory_bytes)
    try:
        serve(sys.stdin.buffer, sink, PlannerService(time.monotonic, options.weights))
    except MemoryError:
        os._exit(OUT_OF_MEMORY_EXIT)  # nothing is left to clean up with
    except (FrameError, BrokenPipeError) as error:
        sys.stderr.write(f"planner: {error}\n")
        return 1
    return 0


def _send(sink: BinaryIO, answer: Answer) -> None:
    sink.write(pack(answer))
    sink.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Planner process of the HyperScale operator.")
    parser.add_argument("--nice", type=int, default=0, help="added to the niceness, so that planning never starves the operator")
    parser.add_argument("--memory-bytes", type=int, default=0, help="limit of what the process can write; 0 sets none")
    parser.add_argument("--weights", type=Path, help="folder of published weights of the learned planners")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
