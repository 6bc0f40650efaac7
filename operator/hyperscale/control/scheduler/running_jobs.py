"""Running jobs as decisions about pending ones need them: what they hold, and when it comes free: by their own words, else as predicted."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.claim_index import ClaimIndex
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.model.admission_query import MAX_RUNNING, Claim, RunningShare
from hyperscale.model.api.measured import Measured
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.plan import Plan
from hyperscale.util.rfc3339 import unix_seconds
from hyperscale.util.slices import Slices

LATE_RATIO: Final = 0.05
"""A job beyond its predicted end is taken to need this part of its whole time still: what it really needs is unknown."""


class _Run(NamedTuple):
    """One MPIJob."""

    view: MpiJobView
    share: RunningShare | None
    """With its whole time; None where it holds nothing."""
    started: float
    """Unix seconds; +inf before."""


class Running:
    """What runs, or is about to."""

    def __init__(self, cache: ClusterCache, reader: JobReader, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._reader = reader
        self._clock = clock
        self._runs: dict[Key, _Run] = {}
        self._claims: tuple[ClusterSnapshot, dict[str, Claim]] | None = None
        self._claim_index = ClaimIndex()

    def shares(self) -> tuple[RunningShare, ...]:
        """Jobs that hold GPUs, the soonest to end first; at most MAX_RUNNING."""
        return tuple(heapq.nsmallest(MAX_RUNNING, self._shares(), key=lambda share: (share.remaining_seconds, share.key)))

    def every(self) -> list[RunningShare]:
        """All jobs that hold GPUs, the soonest to end first."""
        return sorted(self._shares(), key=lambda share: (share.remaining_seconds, share.key))

    async def tally(self) -> None:
        """Count what each job's pods take, so that `claims` has less left to do at once."""
        slices = Slices()
        for key in tuple(self._cache.live):
            self._count_pods(key)
            await slices.pause_if_due()

    def claims(self, snapshot: ClusterSnapshot) -> dict[str, Claim]:
        """What their bound pods take of each node of `snapshot`."""
        if self._claims is None or self._claims[0] is not snapshot:
            self._claim_index.keep_only(self._cache.live)
            for key in self._cache.live:
                self._count_pods(key)
            self._claims = (snapshot, self._claim_index.total())
        return self._claims[1]

    def _shares(self) -> Iterator[RunningShare]:
        now = self._clock()
        for key, view in self._cache.live.items():
            run = self._runs.get(key)
            if run is None or run.view is not view:
                run = self._runs[key] = self._run(key, view)
            if run.share is not None:
                yield _remaining(run.share, self._cache.progress.get(key), max(0.0, now - run.started))
        if len(self._runs) > 2 * len(self._cache.live) + MAX_RUNNING:
            self._runs = {key: run for key, run in self._runs.items() if key in self._cache.live}
        for key, plan in self._cache.assumed():
            yield _share(key, plan, self._seconds(key, plan))

    def _run(self, key: Key, view: MpiJobView) -> _Run:
        """What of an MPIJob stays the same until it changes."""
        plan = self._cache.plans_of(key).recorded if is_running(view) else None
        share = _share(key, plan, self._seconds(key, plan)) if plan is not None else None
        return _Run(view, share, unix_seconds(view.start_time))

    def _seconds(self, key: Key, plan: Plan) -> float:
        """Predicted, of the whole run; of one epoch where the job cannot be read any more."""
        record = self._cache.jobs.get(key)
        job = self._reader.read(record.resource, self._cache.policies)[0] if record is not None else None
        return plan.predicted.epoch_seconds * (job.model.epochs if job is not None else 1)

    def _count_pods(self, key: Key) -> None:
        """Bring the claims of one MPIJob's pods up to date; one that does not run has none."""
        view = self._cache.live.get(key)
        runs = view is not None and is_running(view)
        self._claim_index.set(key, self._cache.pods_of(key, view.uid) if view is not None and runs else ())


def is_running(view: MpiJobView) -> bool:
    """Whether an MPIJob of ours holds what its plan says."""
    return view.gated and not view.suspended and not view.is_true("Succeeded") and not view.is_true("Failed")


def _remaining(share: RunningShare, progress: Measured | None, elapsed_seconds: float) -> RunningShare:
    """Return the share with what is left of its time: by the progress that the run reports, else by the predicted whole time."""
    total = share.remaining_seconds
    if progress is not None and progress.epochs:
        epoch_seconds = progress.epoch_seconds or total / progress.epochs
        return replace(share, remaining_seconds=max(0, progress.epochs - progress.epoch) * epoch_seconds)
    return replace(share, remaining_seconds=max(total - elapsed_seconds, LATE_RATIO * total)) if elapsed_seconds else share


def _share(key: Key, plan: Plan, remaining_seconds: float) -> RunningShare:
    return RunningShare(str(key), sum(worker.gpus for worker in plan.workers), remaining_seconds, len(plan.workers))
