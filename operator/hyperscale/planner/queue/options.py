"""The worker counts that a pending job may start with, and how long it would run: from real placements, not from estimates. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from hyperscale.model.admission_query import Claim, QueuedJob
from hyperscale.model.history.corrections import RunAlone
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import AskedSize, PlanRequest
from hyperscale.planner.problem.amounts import amounts_of
from hyperscale.planner.queue.job_class import kind_of
from hyperscale.planner.queue.later_ends import LaterEnd, LaterTerms
from hyperscale.planner.queue.placement_oracle import PlacementOracle, is_large
from hyperscale.planner.queue.queue_types import LaterStart, Option, PendingJob
from hyperscale.planner.queue.rule import counted_seconds
from hyperscale.planner.queue.wait_bounds import PATIENCE_COSTS

MOST_COUNTS: Final = 4
"""Worker counts that are compared for one job: the fewest, the fastest alone, and two between: what one node holds, an even ratio."""
LARGE_NODES: Final = 400
"""Above, a placement takes so long that only the fewest and the fastest are compared."""


@dataclass(frozen=True)
class CatalogueEntry:
    """A pending job with what it would take on the empty cluster."""

    queued: QueuedJob
    kind: bytes
    """Jobs of one kind have the same options."""
    empty_seconds: Mapping[int, float]
    """Of the whole run, by worker count, rising; empty where it fits not even the empty cluster."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return self.queued.request.job_key

    @property
    def feasible(self) -> bool:
        """Whether it would fit if nothing of ours ran."""
        return bool(self.empty_seconds)

    @property
    def best_seconds(self) -> float:
        """The run on the empty cluster with the best count."""
        return min(self.empty_seconds.values())

    @property
    def runs_alone(self) -> tuple[RunAlone, ...]:
        """As plans keep them."""
        return tuple(RunAlone(count, seconds) for count, seconds in self.empty_seconds.items())

    @property
    def index(self) -> tuple[float, str]:
        """Order of the queue: weighted run time, then name."""
        return self.best_seconds / self.queued.weight, self.key


@dataclass
class FreeGpus:
    """What is free while a decision is being made."""

    base: Mapping[str, int]
    """Free GPUs by node as the snapshot has them, all nodes."""
    changed: dict[str, int]
    """By node where that is known better, or was taken since."""
    reserved: frozenset[str] = frozenset()
    """Nodes that wait for a job which has waited too long."""
    reserved_amounts: dict[str, dict[str, float]] = field(default_factory=dict)
    """Resources beside GPUs, by node and name, of ranks that are planned and not bound."""
    asked_sizes: tuple[AskedSize, ...] = ()
    """See `PlanRequest.asked_sizes`."""
    starts: dict[str, Plan] = field(default_factory=dict)

    def after(self, end: LaterEnd) -> FreeGpus:
        """The same when those jobs have ended, if nothing else starts or ends until then."""
        none = Claim()
        changed = {name: gpus + end.left.get(name, none).gpus + end.unplanned.get(name, none).gpus for name, gpus in self.changed.items()}
        amounts = {
            name: {key: max(0.0, amount - end.unplanned.get(name, none).further.get(key, 0.0)) for key, amount in reserved.items()}
            for name, reserved in self.reserved_amounts.items()
        }
        return FreeGpus(self.base, changed, self.reserved, amounts, self.asked_sizes)

    @property
    def free_slots(self) -> int:
        """GPUs that ordinary jobs may get."""
        return sum(max(0, self.changed.get(name, gpus)) for name, gpus in self.base.items() if name not in self.reserved)

    @property
    def open_nodes(self) -> frozenset[str]:
        """Nodes with such GPUs."""
        return frozenset(name for name, gpus in self.base.items() if self.changed.get(name, gpus) > 0 and name not in self.reserved)

    def open_to(self, request: PlanRequest, workers: int | None, *, reserved: bool = False) -> PlanRequest:
        """The request on what is free: for ordinary jobs, or with the nodes that are reserved for others.

        workers: None leaves the count to the request, which fixes it where the job has begun before
        """
        closed = {} if reserved else dict.fromkeys(self.reserved, 0)
        return replace(
            request,
            free_gpus={**self.changed, **closed},
            reserved_amounts=self.reserved_amounts,
            asked_sizes=self.asked_sizes,
            workers_fixed=workers or request.workers_fixed,
        )

    def take(self, request: PlanRequest, plan: Plan) -> None:
        """The plan's GPUs are gone, and what else its workers take."""
        for name, gpus in plan.gpus_by_node().items():
            self.changed[name] = self.changed.get(name, self.base[name]) - gpus
        amounts = amounts_of(request)
        taken = {name: dict(amounts_of_node) for name, amounts_of_node in self.reserved_amounts.items()}
        for worker in plan.workers:
            amounts_of_node = taken.setdefault(worker.node, {})
            for name, amount in amounts.items():
                amounts_of_node[name] = amounts_of_node.get(name, 0.0) + amount
        self.reserved_amounts = taken
        self.starts[request.job_key] = plan


class Catalogue:
    """Options of the jobs of one question."""

    def __init__(self, desk: PlacementOracle, claims: Mapping[str, Claim]) -> None:
        self._desk = desk
        self.later: LaterTerms | None = None
        """None: no job waits for running ones."""
        self._claims = claims
        self._empty: dict[bytes, dict[int, float]] = {}
        self._options: dict[tuple[bytes, int, bytes], dict[int, Option]] = {}
        self._after: dict[tuple[bytes, bytes, bytes], tuple[tuple[float, float], ...]] = {}

    def entry(self, queued: QueuedJob) -> CatalogueEntry | None:
        """The job and its times on the empty cluster; None where time does not allow to find out.

        It does for the first job unless all time is up.
        """
        request = queued.request
        kind = kind_of(request)
        if kind not in self._empty:
            if self._desk.hurried() and (self._empty or self._desk.expired()):
                return None
            self._empty[kind] = self._empty_epochs(request)
        epochs = request.job.model.epochs
        return CatalogueEntry(queued, kind, {count: seconds * epochs for count, seconds in self._empty[kind].items()})

    def _empty_epochs(self, request: PlanRequest) -> dict[int, float]:
        best = self._desk.empty(request, self._claims)
        if isinstance(best, Infeasible):
            return {}
        seconds = {len(best.workers): best.predicted.epoch_seconds}
        most = MOST_COUNTS if len(self._desk.graph.nodes) <= LARGE_NODES and not is_large(request) else 2
        counts = counts_of(request, len(best.workers), most, self._desk.node_gpus // request.job.workers.gpus_per_worker)
        fewest = min(counts, default=0)  # with them it fits soonest, so that they are looked at in any case
        for count in counts:
            if count not in seconds and (count == fewest or not self._desk.hurried()):
                answer = self._desk.empty(replace(request, workers_fixed=count), self._claims)
                if isinstance(answer, Plan):
                    seconds[count] = answer.predicted.epoch_seconds
        return dict(sorted(seconds.items()))

    def is_known(self, entry: CatalogueEntry, ledger: FreeGpus) -> bool:
        """Whether the options of the job are known without another placement: those of one like it are, or it has no room."""
        request = ledger.open_to(entry.queued.request, None)
        return self._options_key(entry, request) in self._options or not self._desk.may_fit(request)

    def _options_key(self, entry: CatalogueEntry, request: PlanRequest) -> tuple[bytes, int, bytes]:
        return entry.kind, request.job.model.epochs, self._desk.state(request)

    def options(self, entry: CatalogueEntry, ledger: FreeGpus) -> dict[int, Option]:
        """By worker count; `seconds` is +inf where it does not fit now."""
        request = ledger.open_to(entry.queued.request, None)
        key = self._options_key(entry, request)
        if key not in self._options:
            self._options[key] = {count: self._option(entry, request, count) for count in entry.empty_seconds}
        return self._options[key]

    def _option(self, entry: CatalogueEntry, request: PlanRequest, count: int) -> Option:
        answer = self._desk.now(replace(request, workers_fixed=count))
        empty = entry.empty_seconds[count]
        if isinstance(answer, Infeasible):
            return Option(workers=count, seconds=float("inf"), empty_seconds=empty)
        seconds = run_seconds(request, answer)
        return Option(
            workers=count,
            seconds=seconds,
            empty_seconds=min(empty, seconds),
            communication_seconds=answer.predicted.communication_seconds * request.job.model.epochs,
            speed_ratio=self._desk.speed_ratio(frozenset(answer.gpus_by_node())),
        )

    def pending(self, entry: CatalogueEntry, ledger: FreeGpus, ends: tuple[LaterEnd, ...] = ()) -> PendingJob:
        """The job as a chooser sees it."""
        options = tuple(self.options(entry, ledger).values())
        return PendingJob(
            key=entry.key,
            options=options,
            weight=entry.queued.weight,
            waited_seconds=entry.queued.waited_seconds,
            slots_per_worker=entry.queued.request.job.workers.gpus_per_worker,
            later=self._later_starts(entry, options, ledger, ends),
        )

    def _later_starts(
        self, entry: CatalogueEntry, options: tuple[Option, ...], ledger: FreeGpus, ends: tuple[LaterEnd, ...]
    ) -> tuple[LaterStart, ...]:
        """Starts at the next ends that could end the job enough sooner; none where it does not fit now, or where no job waits."""
        if self.later is None or not ends:
            return ()
        epochs = entry.queued.request.job.model.epochs
        now = min(counted_seconds(option, self.later.settings.communication_factor) for option in options)
        least = now / self.later.enough(entry.best_seconds) if math.isfinite(now) else 0.0
        starts: list[LaterStart] = []
        for end in ends:
            if end.wait_seconds + entry.best_seconds >= least:
                break
            for epoch_seconds, communication_seconds in self._epochs_after(entry, ledger, end, begun=end is ends[0]):
                starts.append(LaterStart(end.wait_seconds, end.freed_gpus, epochs * epoch_seconds, epochs * communication_seconds))
        return tuple(starts)

    def _epochs_after(self, entry: CatalogueEntry, ledger: FreeGpus, end: LaterEnd, *, begun: bool) -> tuple[tuple[float, float], ...]:
        """Seconds of an epoch, and of its communication, after an end, with the fewest workers and with the count that is fastest alone.

        There are many, so they are the planners' first placements. begun: to be found also where time is short
        """
        request = entry.queued.request
        key = (entry.kind, self._desk.state(ledger.open_to(request, None)), end.key)
        if key not in self._after:
            if self._desk.hurried() and not begun:
                return ()
            then, desk = ledger.after(end).open_to(request, None), self._desk.rough()
            counts = sorted({min(entry.empty_seconds), min(entry.empty_seconds, key=lambda count: entry.empty_seconds[count])})
            answers = [desk.after(replace(then, workers_fixed=count), end.left) for count in counts]
            fitting = [answer.predicted for answer in answers if isinstance(answer, Plan)]
            self._after[key] = tuple((each.epoch_seconds, each.communication_seconds) for each in fitting)
        return self._after[key]

    def ideal(self, entry: CatalogueEntry) -> PendingJob:
        """The job as it would run on the empty cluster."""
        options = tuple(Option(workers=count, seconds=seconds, empty_seconds=seconds) for count, seconds in entry.empty_seconds.items())
        slots = entry.queued.request.job.workers.gpus_per_worker
        return PendingJob(entry.key, options, entry.queued.weight, entry.queued.waited_seconds, slots)


def patience_seconds(entry: CatalogueEntry, options: tuple[Option, ...]) -> float:
    """How long it may wait for better nodes, by what those that are free cost it more (`rule.measure_seconds`)."""
    return PATIENCE_COSTS * (min(option.seconds for option in options) - entry.best_seconds)


def counts_of(request: PlanRequest, largest: int, limit: int = MOST_COUNTS, node_workers: int = 0) -> list[int]:
    """At most `limit` (two or more) worker counts that the job allows, from its fewest to `largest`, in even ratios.

    node_workers: workers that the largest node holds. The most of them that are allowed stand for the count of an even ratio nearest to it,
    since a job that leaves its node exchanges all over the network.
    """
    partitions = request.job.partitioning.count
    allowed = [
        count
        for count in range(request.job.workers.min_replicas, largest + 1)
        if partitions is None or partitions % (count * request.job.workers.gpus_per_worker) == 0
    ]
    if len(allowed) <= limit:
        return allowed
    ratio = (allowed[-1] / allowed[0]) ** (1 / (limit - 1))
    wanted = [allowed[0] * ratio**step for step in range(limit)]
    chosen = sorted({min(allowed, key=lambda count: (abs(count - each), count)) for each in wanted})
    whole = max((count for count in allowed if count <= node_workers), default=allowed[0])
    if len(chosen) > 2 and whole not in chosen:
        chosen[min(range(1, len(chosen) - 1), key=lambda at: abs(math.log(chosen[at] / whole)))] = whole
    return sorted(chosen)


def run_seconds(request: PlanRequest, plan: Plan) -> float:
    """Predicted seconds of all epochs."""
    return plan.predicted.epoch_seconds * request.job.model.epochs
