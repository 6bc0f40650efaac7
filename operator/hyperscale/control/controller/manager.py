"""The running operator: what ties cache, planners, passes, probes and the Lease together in one process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from functools import partial
from typing import Any, Final

from hyperscale.control.apply import paths
from hyperscale.control.apply.actions import Actions
from hyperscale.control.apply.api_answers import ApiError
from hyperscale.control.apply.claims import Claims
from hyperscale.control.apply.client import ApiClient
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key, key_of
from hyperscale.control.controller.cluster_facts import cluster_id, served_previews
from hyperscale.control.controller.feed import Feed
from hyperscale.control.controller.metrics_poll import MetricsPoll
from hyperscale.control.controller.preview_server import Previews
from hyperscale.control.controller.reconciler import DEFAULT_HOOKS, ReconcileHooks, Reconciler
from hyperscale.control.controller.workqueue import WorkQueue
from hyperscale.control.history.decision_recorder import DecisionRecorder
from hyperscale.control.history.progress import ProgressWatch
from hyperscale.control.history.recorder import NodeSource, RunRecorder
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.planner_client import Planning
from hyperscale.control.settings import Settings, evaluation_limit_bytes, planner_limit_bytes
from hyperscale.control.specs.parsed_specs import DEFAULT_POLICY_NAME, JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.control.topology.writer import TopologyWriter
from hyperscale.evaluate.service.evaluation_process import EvaluationProcess
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.api.topology import topology_status
from hyperscale.model.meta import RenderDefaults
from hyperscale.model.status import StateWord
from hyperscale.observe.prometheus.reader import PrometheusReader
from hyperscale.pictures import page as topologypage
from hyperscale.planner.service.process import COMMAND, PlannerProcess
from hyperscale.util import gc_tuning
from hyperscale.util.slices import Slices
from hyperscale.util.threads import in_daemon_thread

_LOG = logging.getLogger(__name__)

Json = dict[str, Any]

SETTLE_SECONDS: Final = 0.2
"""Capacity events come in bunches (a job ends: several pods go); waiting jobs are asked once for all of them."""

PAGE_SECONDS: Final = 5.0
PAGE_REFRESH_SECONDS: Final = 15
HEARTBEAT_SECONDS: Final = 1.0
TIDY_SECONDS: Final = 300.0
STALLED_AFTER_SECONDS: Final = 180.0
"""Without a heartbeat of the event loop or a successful resync for so long the process is no longer live."""


class Operator:
    """One operator process."""

    def __init__(self, client: ApiClient, settings: Settings, hooks: ReconcileHooks = DEFAULT_HOOKS) -> None:
        self.settings = settings
        self.telemetry = Telemetry()
        self.synced = False
        claims = Claims(client, time.time)
        self._reader = JobReader(claims.claimed_volumes)
        self.cache = ClusterCache(may_start=self._reader.may_start)
        self.queue: WorkQueue[Key] = WorkQueue(settings.concurrent_reconciles, self._count_error)
        context = ControlContext(self.cache, self._reader, self.telemetry, time.time, self.queue.add)
        self.feed = Feed(client, self.cache, settings.watch_namespaces, self._enqueue_changed)
        command = (*COMMAND, "--weights", settings.weights_folder) if settings.weights_folder else COMMAND
        self._planner = PlannerProcess(command, memory_bytes=planner_limit_bytes(settings), on_failure=self._planner_failed)
        reader = PrometheusReader(settings.prometheus_url, settings.prometheus_access)
        self._metrics = MetricsPoll(self.cache.snapshots, reader, self._policy, self.telemetry, settings.metrics_poll_seconds)
        actions = Actions(client, self.cache, RenderDefaults(worker_image=settings.worker_image), hooks.on_milestone, time.time)
        evaluations = EvaluationProcess(memory_bytes=evaluation_limit_bytes(settings))
        planning = self._planning = Planning(context, self._planner, claims, evaluations)
        self._waiting = planning.waiting
        nodes = NodeSource(lambda: self.cache.snapshots.names()[0], partial(cluster_id, client))
        kept, dated = (settings.history_url, settings.history_min_runs), client.server_time.now
        self._recorder = RunRecorder(self._reader, self.telemetry, *kept, dated, settings.history_days, nodes)
        self._decisions = DecisionRecorder(self._reader, self.telemetry, kept[0], dated, settings.history_days)
        self.reconciler = Reconciler(context, self.queue, planning, actions, (self._recorder, self._decisions), hooks)
        self.previews = Previews(self.cache, self._reader, planning.pending, planning.running, bool(settings.weights_folder), time.time)
        self._progress = ProgressWatch(self.cache, reader, settings.progress_poll_seconds, time.time, self.queue.add)
        self._topology = TopologyWriter(
            client,
            self.cache,
            self._policy,
            self.telemetry,
            time.time,
            settings.topology_seconds,
            served_previews(settings),
            lambda: self._recorder.report,
        )
        self._page: tuple[float, bytes] | None = None
        self._page_lock = asyncio.Lock()
        self._asking: asyncio.TimerHandle | None = None
        self._beat_at = time.monotonic()
        self._resynced_at = time.monotonic()

    async def run(self) -> None:
        """Everything beside kopf's watches; until cancelled."""
        with gc_tuning.short_collections() as keeper:
            await self._run(keeper)

    async def _run(self, keeper: gc_tuning.Keeper) -> None:
        try:
            await asyncio.gather(self._planner.start(), self._metrics.read(), self._first_listing())
            await self._metrics.judge_again()  # the nodes are known only now
            keeper.keep()
            self._beat_at = time.monotonic()
            self.synced = True
            async with asyncio.TaskGroup() as group:
                group.create_task(self.queue.run(self.reconciler.reconcile))
                group.create_task(self._metrics.run())
                group.create_task(self._resync_forever())
                if self._planning.evaluator is not None:
                    group.create_task(self._planning.evaluator.run())
                group.create_task(self.reconciler.preflights.run())
                group.create_task(self._heartbeat())
                group.create_task(_tidy(keeper))
                searches = (self._planning.migration.run(), self._planning.preemption.run(), self._planning.alternatives.run())
                for component in (*searches, self._recorder.run(), self._decisions.run(), self._topology.run()):
                    group.create_task(component)
                if self.settings.prometheus_url:
                    group.create_task(self._progress.run())
        finally:
            await self._planner.stop()

    def _count_error(self, error: BaseException) -> None:
        self.telemetry.reconcile_errors.labels(error=type(error.__cause__ or error).__name__).inc()

    def _planner_failed(self, fallback: str) -> None:
        self.telemetry.planner_failures.labels(fallback=fallback).inc()

    def job_changed(self, resource: Json, deleted: bool) -> None:
        """A GNNTrainingJob was added, changed or deleted."""
        key = key_of(resource)
        before = self.cache.jobs.get(key)
        if self.cache.see_job(resource, deleted):
            if before is None and not deleted and not resource.get("status"):
                self.reconciler.enqueue_first(key)
            self.queue.add(key)

    def policy_changed(self, resource: Json, deleted: bool) -> None:
        """A policy moves every job that has not ended."""
        if self.cache.see_policy(resource, deleted):
            for key in sorted(self.cache.unfinished, key=self._waiting.age):
                self.queue.add_later(key)

    def mpijob_changed(self, resource: Json, deleted: bool) -> None:
        """An MPIJob moved; its job has the same name."""
        if self.cache.see_mpijob(resource, deleted):
            self.queue.add(key_of(resource))
            if deleted:
                self._ask_waiting_jobs()

    def pod_changed(self, resource: Json, deleted: bool) -> None:
        """A pod moved: its job may continue; where the pod set GPUs free, other jobs may."""
        before, after = self.cache.see_pod(resource, deleted)
        if before == after:
            return
        view = after or before
        if view is not None and view.job_name:
            self.queue.add(Key(view.namespace, view.job_name))
        held_gpus = before is not None and before.holds_resources and (before.gpus > 0 or before.unreadable)
        if held_gpus and (after is None or not after.holds_resources):
            self._ask_waiting_jobs()

    def node_changed(self, resource: Json, deleted: bool) -> None:
        """A node came, went, or changed in a way that plans depend on."""
        if self.cache.see_node(resource, deleted):
            self._ask_waiting_jobs()

    def liveness(self) -> str:
        """What is wrong; "" when the event loop turns and the API was read lately. Neither Prometheus nor planners count.

        A standby that waits for the Lease is live: that it answers here shows that its event loop turns.
        """
        if not self.synced:
            return ""
        now = time.monotonic()
        if now - self._beat_at > STALLED_AFTER_SECONDS:
            return "the event loop has not turned lately"
        if now - self._resynced_at > self.settings.resync_seconds + STALLED_AFTER_SECONDS:
            return "the API server has not answered a full listing lately"
        return ""

    def readiness(self) -> str:
        """What is missing; "" when jobs are being reconciled."""
        return "" if self.synced else "the first listing is not done"

    async def page(self) -> bytes:
        """The cluster for a browser; made in a thread, at most once in PAGE_SECONDS however often it is asked for."""
        async with self._page_lock:
            if self._page is None or time.monotonic() - self._page[0] >= PAGE_SECONDS:
                snapshot = self.cache.snapshot(self._policy(), time.time())
                html = await in_daemon_thread(lambda: topologypage.page(topology_status(snapshot), PAGE_REFRESH_SECONDS).encode())
                self._page = (time.monotonic(), html)
            return self._page[1]

    async def resync(self) -> None:
        """List everything and make it the truth: fixes whatever the watches lost.

        Every unfinished job gets a pass, and finished ones of which something has changed; at first all of them.
        """
        await self.feed.list_all()
        await self._read_fabric()
        self._resynced_at = time.monotonic()
        await self._enqueue(self.cache.unfinished | self.cache.changed())

    async def _first_listing(self) -> None:
        """Until the API server answers: a CRD that was just installed, or a server that just started, says 404, 429 or 503 for a while.

        A right that is missing (403) may be granted while this waits.
        """
        while True:
            try:
                return await self.resync()
            except ApiError as error:
                _LOG.warning("waiting for the API server: %s", error)
                await asyncio.sleep(1.0)

    async def _read_fabric(self) -> None:
        """Topology that other operators describe, where their CRDs are installed; no watch: switches move seldom."""
        hypernodes, topologies = [await self.feed.optional(choices) for choices in (paths.HYPERNODES, paths.KUEUE_TOPOLOGIES)]
        if hypernodes is not None and topologies is not None:
            await self.cache.snapshots.see_fabric(self.cache.intake.fabric(hypernodes, topologies))

    async def _enqueue_changed(self) -> None:
        """Jobs of which a listing may have told something that no event did."""
        await self._enqueue(self.cache.changed())

    async def _enqueue(self, keys: set[Key]) -> None:
        """Oldest first; what is left to do about jobs that have ended can wait, and has no order."""
        slices, unfinished = Slices(), keys & self.cache.unfinished
        for key in sorted(unfinished, key=self._waiting.age):
            self.queue.add(key)
            await slices.pause_if_due()
        for key in keys - unfinished:
            self.queue.add_later(key)
            await slices.pause_if_due()

    async def _resync_forever(self) -> None:
        while True:
            await asyncio.sleep(self.settings.resync_seconds)
            try:
                await self.resync()
            except ApiError as error:
                _LOG.warning("a full listing failed: %s", error)

    def _policy(self) -> PolicySpec:
        """The default policy."""
        return self._reader.policy_named(DEFAULT_POLICY_NAME, self.cache.policies)

    async def _heartbeat(self) -> None:
        while True:
            asked = time.monotonic()
            await asyncio.sleep(HEARTBEAT_SECONDS)
            self._beat_at = time.monotonic()
            self.telemetry.loop_lag_seconds.set(max(0.0, self._beat_at - asked - HEARTBEAT_SECONDS))
            self.telemetry.workqueue_depth.set(len(self.queue))
            self.telemetry.topology_age_seconds.set(max(0.0, time.time() - self.cache.snapshots.reading.taken_at))
            states = await self._count_states()
            for kind, count in self.cache.intake.counts().items():
                self.telemetry.unreadable.labels(kind=kind).set(count)
            self.telemetry.jobs.clear()
            for state, count in states.items():
                self.telemetry.jobs.labels(state=str(state)).set(count)

    async def _count_states(self) -> Counter[StateWord]:
        """Count jobs by state, letting the event loop turn: each state is read from the conditions."""
        states: Counter[StateWord] = Counter()
        slices = Slices()
        for record in [*self.cache.jobs.values()]:
            states[record.status.state] += 1
            await slices.pause_if_due()
        return states

    def _ask_waiting_jobs(self) -> None:
        """Soon pass over the jobs that room may help, oldest first, after what happens to others."""
        if self._asking is None:
            self._asking = asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._ask_now)

    def _ask_now(self) -> None:
        self._asking = None
        for key in self._waiting.to_ask():
            self.queue.add_later(key)


async def _tidy(keeper: gc_tuning.Keeper) -> None:
    """Now and then, where much was frozen, look for garbage among it."""
    while True:
        await asyncio.sleep(TIDY_SECONDS)
        if keeper.overgrown():
            keeper.clean()
