"""A question about stopping running jobs, told in kinds of GPU: what every job would take on each, from real placements. Pure."""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import Final

import msgspec
from msgspec.structs import replace

from hyperscale.model.admission_query import QueuedJob
from hyperscale.model.history.corrections import COST_MODEL
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import PreemptibleJob, PreemptionQuestion
from hyperscale.planner.check.drained_snapshot import added, without
from hyperscale.planner.preempt.preempt import feasible
from hyperscale.planner.queue.gpu_kinds import kinds_of
from hyperscale.planner.queue.job_class import kind_of
from hyperscale.planner.queue.kinds import NOWHERE, Contender, KindDemand
from hyperscale.planner.queue.options import LARGE_NODES, MOST_COUNTS, counts_of
from hyperscale.planner.queue.placement_oracle import PlacementOracle

FEW_COUNTS: Final = 2
"""Worker counts where a placement takes long."""


class Terms(msgspec.Struct, frozen=True):
    """When a stop pays."""

    min_gain_ratio: float
    """See `preempt.advise`."""
    hold_down_seconds: float
    """A job is not stopped so soon after its ranks started."""
    restart_seconds: float
    """Price of a stop beside the work that is done again."""
    max_stops: int | None = None
    """Most jobs of one answer; None: any number."""


class PreemptionProblem:
    """The question over kinds of GPU."""

    def __init__(self, question: PreemptionQuestion, desk: PlacementOracle, terms: Terms) -> None:
        self.question = question
        self.desk = desk
        self.terms = terms
        self.kinds = kinds_of(desk.graph, desk.policy)
        self.free = self.kinds.counted({name: max(0, gpus) for name, gpus in desk.free(question.free_gpus).items()})
        self.running = {job.running.request.job_key: job for job in question.running}
        self._epochs: dict[bytes, tuple[tuple[float, ...], float]] = {}

    def contenders(self) -> list[Contender]:
        """All jobs of the question of which something is known, and the others that run; where time is short, some of either kind."""
        jobs = self._others()
        for queued, job in zip_longest(self.question.pending, self.question.running):
            waiting = self._pending(queued) if queued is not None else None
            jobs += [waiting] if waiting is not None else []
            jobs += [self._running(job)] if job is not None else []
        return feasible(jobs, self.free)

    def _pending(self, queued: QueuedJob) -> Contender | None:
        demands = self._demands(queued.request, float(queued.request.job.model.epochs))
        if not demands:
            return None
        return Contender(queued.request.job_key, demands, weight=queued.weight, waited_seconds=queued.waited_seconds)

    def _running(self, job: PreemptibleJob) -> Contender:
        running = job.running
        gpus_by_kind = self.kinds.counted({name: claim.gpus for name, claim in running.claims.items()})
        left = running.remaining_epochs * running.plan.predicted.epoch_seconds
        # What an earlier cost model predicted cannot be weighed against what today's predicts of other counts and nodes.
        comparable = running.plan.predicted.cost_model == COST_MODEL
        may = job.held_seconds >= self.terms.hold_down_seconds and any(gpus_by_kind) and comparable
        demands = self._demands(resumed(job), running.remaining_epochs + running.redone_epochs) if may else ()
        return Contender(
            running.request.job_key,
            demands or _anywhere(gpus_by_kind, left),
            weight=job.weight,
            start_seconds=self.terms.restart_seconds,
            gpus_by_kind=gpus_by_kind,
            left_seconds=left,
            stoppable=bool(demands),
        )

    def _others(self) -> list[Contender]:
        """Jobs that must not be stopped, on the kinds of GPU that no other job's claims explain."""
        claims = without(self.question.claims, added(job.running.claims for job in self.question.running))
        rest = list(self.kinds.counted({name: claim.gpus for name, claim in claims.items()}))
        others = []
        for share in sorted(self.question.others, key=lambda share: share.key):
            gpus_by_kind, wanted = [0] * len(rest), share.gpus
            for kind in sorted(range(len(rest)), key=lambda kind: -rest[kind]):
                gpus_by_kind[kind] = min(wanted, rest[kind])
                wanted, rest[kind] = wanted - gpus_by_kind[kind], rest[kind] - gpus_by_kind[kind]
            left = max(0.0, share.remaining_seconds)
            others.append(
                Contender(share.key, _anywhere(tuple(gpus_by_kind), left), weight=0.0, gpus_by_kind=tuple(gpus_by_kind), left_seconds=left)
            )
        return others

    def _demands(self, request: PlanRequest, epochs: float) -> tuple[KindDemand, ...]:
        """What is left on each kind by worker count; empty where it does not fit, or time does not allow to find out."""
        slots = request.job.workers.gpus_per_worker
        demands = []
        for count in self._counts(request):
            asked = replace(request, workers_fixed=count)
            kind = kind_of(asked)
            if kind not in self._epochs:
                if self.desk.hurried():
                    break
                self._epochs[kind] = self._epoch_seconds(asked)
            on_kinds, mixed = self._epochs[kind]
            if math.isfinite(min(*on_kinds, mixed)):
                demands.append(KindDemand(count * slots, tuple(seconds * epochs for seconds in on_kinds), mixed * epochs))
        return tuple(demands)

    def _counts(self, request: PlanRequest) -> list[int]:
        """Worker counts that are compared, as the queue has them."""
        workers = request.job.workers
        if request.workers_fixed is not None or workers.min_replicas == workers.max_replicas:
            return [request.workers_fixed or workers.min_replicas]
        best = self.desk.empty(request, self.question.claims)
        if isinstance(best, Infeasible):
            return []
        most = MOST_COUNTS if len(self.desk.graph.nodes) <= LARGE_NODES else FEW_COUNTS
        node_workers = self.desk.node_gpus // workers.gpus_per_worker
        return sorted({*counts_of(request, len(best.workers), most, node_workers), len(best.workers)})

    def _epoch_seconds(self, request: PlanRequest) -> tuple[tuple[float, ...], float]:
        """Seconds of an epoch on each kind alone, and on all nodes where no kind alone has the room."""
        alone = tuple(_epoch(self.desk.alone(request, self.question.claims, names)) for names in self.kinds.nodes)
        if len(alone) == 1 or math.isfinite(min(alone)):
            return alone, NOWHERE
        return alone, _epoch(self.desk.empty(request, self.question.claims))


def resumed(job: PreemptibleJob) -> PlanRequest:
    """Return the request of a stopped job: nowhere in particular, with as many workers as its MPIJob has unless the count may change."""
    request = replace(job.running.request, workers_fixed=None, pinned={}, free_gpus={}, reserved_amounts={})
    if job.resizable:
        return request
    count = len(job.running.plan.workers)
    counts = replace(request.job.workers, min_replicas=count, max_replicas=count)
    return replace(request, workers_fixed=count, job=replace(request.job, workers=counts))


def _anywhere(gpus_by_kind: tuple[int, ...], left_seconds: float) -> tuple[KindDemand, ...]:
    """Of a job that continues where it is."""
    return (KindDemand(sum(gpus_by_kind), (left_seconds,) * len(gpus_by_kind), left_seconds),)


def _epoch(answer: Plan | Infeasible) -> float:
    return answer.predicted.epoch_seconds if isinstance(answer, Plan) else NOWHERE
