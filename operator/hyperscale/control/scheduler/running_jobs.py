"""Running jobs as the planner sees them: how long each will still hold its GPUs, and what its bound pods take of each node."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator
from functools import reduce
from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.model.admission_query import LATER_ENDS, MAX_RUNNING, Claim, RunningShare, claims_of
from hyperscale.model.api.measured import Measured
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.plan import Plan
from hyperscale.model.pods import PodView
from hyperscale.planner.check.drained_snapshot import added
from hyperscale.util.rfc3339 import unix_seconds
from hyperscale.util.slices import Slices


class ClaimIndex:
    """Claims by node, kept up to date job by job."""

    def __init__(self) -> None:
        self._pods: dict[Key, tuple[PodView, ...]] = {}
        """Pods of each job as counted last."""
        self._on_node: dict[str, dict[Key, Claim]] = {}
        self._total: dict[str, Claim] = {}
        """Sorted by node; replaced, never changed: a question in progress keeps the one it was built with."""
        self._outdated: set[str] = set()
        """Nodes whose total does not count the last change yet."""

    def set(self, job: Key, pods: tuple[PodView, ...]) -> None:
        """Count these pods of the job from now on; () forgets it. The same tuple as before costs nothing."""
        before = self._pods.get(job, ())
        if before is pods:
            return
        if pods:
            self._pods[job] = pods
        else:
            self._pods.pop(job, None)
        nodes = _changed_nodes(before, pods)
        claims = claims_of(pod for pod in pods if pod.node in nodes)
        for node in nodes:
            on_node = self._on_node.setdefault(node, {})
            on_node.pop(job, None)
            if node in claims:
                on_node[job] = claims[node]
            if not on_node:
                del self._on_node[node]
        self._outdated |= nodes

    def keep_only(self, jobs: Collection[Key]) -> None:
        """Forget all other jobs."""
        for job in [job for job in self._pods if job not in jobs]:
            self.set(job, ())

    def of(self, job: Key) -> dict[str, Claim]:
        """What the job's pods take by node, as counted last."""
        return claims_of(self._pods.get(job, ()))

    def total(self) -> dict[str, Claim]:
        """Return the claims of all jobs by node, sorted; the caller must not change the result."""
        if self._outdated:
            gone = {node for node in self._outdated if node not in self._on_node}
            fresh = {node: self._sum(node) for node in self._outdated - gone}
            new = fresh.keys() - self._total.keys()
            left = {node: claim for node, claim in self._total.items() if node not in gone} if gone else self._total
            merged = left | fresh
            self._total = dict(sorted(merged.items())) if new else merged
            self._outdated = set()
        return self._total

    def _sum(self, node: str) -> Claim:
        """In order of the jobs' keys, so that the sum does not depend on which changed last."""
        return reduce(Claim.plus, (claim for _, claim in sorted(self._on_node[node].items())))


def _changed_nodes(before: tuple[PodView, ...], after: tuple[PodView, ...]) -> set[str]:
    """Nodes of pods that only one of the two has.

    A pod that changed is another object; comparing contents would cost as much as counting again.
    """
    old, new = {id(pod) for pod in before}, {id(pod) for pod in after}
    return {pod.node for pods, others in ((before, new), (after, old)) for pod in pods if id(pod) not in others}


LATE_RATIO: Final = 0.05
"""A job beyond its end is taken to need this part of its whole time still, predicted or passed: what it really needs is unknown."""

BINDING_SECONDS: Final = 60.0
"""A scheduler binds pods within seconds. Of a run with a pod that waits longer it is unknown when it begins, and when it ends."""
GRACE_SECONDS: Final = 30.0
"""Kubernetes' default for a pod's end."""
OVERDUE_SECONDS: Final = 60.0
"""A pod that is still there so long after its grace period is stuck, or stays: when it ends is unknown."""
ENDING: Final = "pods that end"
"""Stands for the key of their jobs."""


class _Run(NamedTuple):
    """One MPIJob."""

    view: MpiJobView
    share: RunningShare | None
    """With its whole time; None where it holds nothing."""
    started: float
    """Unix seconds; +inf before."""
    first_seen: float
    """Unix second at which it was first seen to run, or not to."""


class Running:
    """What runs, or is about to."""

    def __init__(self, cache: ClusterCache, reader: JobReader, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._reader = reader
        self._clock = clock
        self._runs: dict[Key, _Run] = {}
        self._reports: dict[Key, tuple[Measured | None, float]] = {}
        """Progress as seen last, and the Unix second since when."""
        self._claims: tuple[ClusterSnapshot, list[str], dict[str, Claim]] | None = None
        """What running jobs claim; by snapshot, and the uids of those that have stopped lately."""
        self._claim_index = ClaimIndex()

    def shares(self) -> tuple[RunningShare, ...]:
        """Jobs that hold GPUs, and pods that end; the soonest first, at most MAX_RUNNING. The first ones with what they leave."""
        everything = (*self._ending(), *self._shares())
        soonest = heapq.nsmallest(MAX_RUNNING, everything, key=lambda share: (share.remaining_seconds, share.key))
        return (*(self._with_claims(share) for share in soonest[:LATER_ENDS]), *soonest[LATER_ENDS:])

    def _with_claims(self, share: RunningShare) -> RunningShare:
        """By its pods once all are bound; before that by the plan, GPUs alone, for BINDING_SECONDS: then its end is unknown."""
        if share.claims:
            return share
        key = Key(*share.key.split("/"))
        view, plan = self._cache.live.get(key), self._cache.plans_of(key).in_force
        if view is not None and view.runs:
            self._count_pods(key)
            claims = self._claim_index.of(key)
            if sum(claim.gpus for claim in claims.values()) == share.gpus:
                return replace(share, claims=claims)
            if self._clock() - self._runs[key].first_seen > BINDING_SECONDS:
                return share
        by_node = plan.gpus_by_node() if plan is not None else {}
        return replace(share, claims={name: Claim(gpus) for name, gpus in sorted(by_node.items())})

    def every(self) -> list[RunningShare]:
        """All jobs that hold GPUs, and pods that end, the soonest first."""
        return sorted((*self._ending(), *self._shares()), key=lambda share: (share.remaining_seconds, share.key))

    async def tally(self) -> None:
        """Count what each job's pods take, so that `claims` has less left to do at once."""
        slices = Slices()
        for key in tuple(self._cache.live):
            self._count_pods(key)
            await slices.pause_if_due()

    def claims(self, snapshot: ClusterSnapshot) -> dict[str, Claim]:
        """What their bound pods take of each node of `snapshot`, and pods that end now."""
        stopped = [uid for uid, _, _ in self._stopped_lately()]
        if self._claims is None or self._claims[0] is not snapshot or self._claims[1] != stopped:
            self._claim_index.keep_only(self._cache.live)
            for key in self._cache.live:
                self._count_pods(key)
            self._claims = (snapshot, stopped, self._claim_index.total())
        ending = [share.claims for share in self._ending()]
        return added((self._claims[2], *ending)) if ending else self._claims[2]

    def _shares(self) -> Iterator[RunningShare]:
        now = self._clock()
        for key, view in self._cache.live.items():
            run = self._runs.get(key)
            if run is None or run.view is not view:
                run = self._runs[key] = self._run(key, view)
            if run.share is not None:
                yield _remaining(run.share, self._cache.progress.get(key), max(0.0, now - run.started), self._report_age(key, now))
        if len(self._runs) > 2 * len(self._cache.live) + MAX_RUNNING:
            self._runs = {key: run for key, run in self._runs.items() if key in self._cache.live}
            self._reports = {key: report for key, report in self._reports.items() if key in self._cache.live}
        for key, plan in self._cache.assumed():
            yield _share(key, plan, self._seconds(key, plan))

    def _ending(self) -> Iterator[RunningShare]:
        """The pods of our jobs that have stopped lately, all together: the job controller is about to remove them."""
        pods, left_seconds = list[PodView](), 0.0
        for uid, key, age_seconds in self._stopped_lately():
            # The launcher belongs to a Job, which anyone may make: workers alone count, by the uid of their controller.
            holding = [pod for pod in self._cache.snapshots.pods.of_job(key, uid) if pod.owner_uid == uid and pod.holds_resources]
            if any(pod.gpus for pod in holding):
                pods += holding
                left_seconds = max(left_seconds, GRACE_SECONDS - age_seconds)
        if pods:
            yield RunningShare(ENDING, sum(pod.gpus for pod in pods), left_seconds, len(pods), claims_of(pods))

    def _stopped_lately(self) -> Iterator[tuple[str, Key, float]]:
        """Uids of MPIJobs, their names, and the seconds since they stopped, while their pods may be about to end."""
        now = self._clock()
        for uid, (key, at) in self._cache.owners.stopped.items():
            view = self._cache.live.get(key)
            if 0.0 <= now - at <= GRACE_SECONDS + OVERDUE_SECONDS and (view is None or view.uid != uid or not view.runs):
                yield uid, key, now - at

    def _report_age(self, key: Key, now: float) -> float:
        """Seconds since the job's progress was seen to change."""
        progress = self._cache.progress.get(key)
        if key not in self._reports or self._reports[key][0] is not progress:
            self._reports[key] = progress, now
        return max(0.0, now - self._reports[key][1])

    def _run(self, key: Key, view: MpiJobView) -> _Run:
        """What of an MPIJob stays the same until it changes."""
        plan = self._cache.plans_of(key).recorded if view.runs else None
        share = _share(key, plan, self._seconds(key, plan)) if plan is not None else None
        last = self._runs.get(key)
        same = last is not None and (last.view.uid, last.view.runs) == (view.uid, view.runs)
        first_seen = last.first_seen if last is not None and same else self._clock()
        return _Run(view, share, unix_seconds(view.start_time), first_seen)

    def _seconds(self, key: Key, plan: Plan) -> float:
        """Predicted, of the whole run; of one epoch where the job cannot be read any more."""
        record = self._cache.jobs.get(key)
        job = self._reader.read(record.resource, self._cache.policies)[0] if record is not None else None
        return plan.predicted.epoch_seconds * (job.model.epochs if job is not None else 1)

    def _count_pods(self, key: Key) -> None:
        """Bring the claims of one MPIJob's pods up to date; one that does not run has none."""
        view = self._cache.live.get(key)
        runs = view is not None and view.runs
        self._claim_index.set(key, self._cache.pods_of(key, view.uid) if view is not None and runs else ())


def _remaining(share: RunningShare, progress: Measured | None, elapsed_seconds: float, report_age_seconds: float) -> RunningShare:
    """Return the share with what is left of its time: by the progress that the run reports, else by the predicted whole time.

    A report whose end is past says nothing any more: the job is late.
    """
    total = share.remaining_seconds
    late_seconds = LATE_RATIO * max(total, elapsed_seconds)
    if progress is not None and progress.epochs:
        epoch_seconds = progress.epoch_seconds or total / progress.epochs
        left = max(0, progress.epochs - progress.epoch) * epoch_seconds - report_age_seconds
        return replace(share, remaining_seconds=left if left > 0.0 else late_seconds)
    return replace(share, remaining_seconds=max(total - elapsed_seconds, late_seconds)) if elapsed_seconds else share


def _share(key: Key, plan: Plan, remaining_seconds: float) -> RunningShare:
    return RunningShare(str(key), sum(worker.gpus for worker in plan.workers), remaining_seconds, len(plan.workers))
