"""What the operator tells machines: Prometheus metrics, liveness and readiness."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hyperscale import __version__
from hyperscale.control.telemetry.listener import Door
from hyperscale.model.admission_query import AdmissionResult, Chooser
from hyperscale.model.plan import Plan
from hyperscale.model.status import StateWord
from hyperscale.pictures import page as topologypage

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_REGRETS: Final = (0.0, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": topologypage.POLICY,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
_RATIOS: Final = (0.25, 0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0)
_WAITING_SECONDS: Final = (0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 28800.0, 86400.0, 604800.0)


class Telemetry:
    """All metrics of one operator process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._register_jobs()
        self._register_plans()
        self._register_changes()
        self._register_inputs()
        self._register_process()

    def _register_jobs(self) -> None:
        """Register what happens to jobs, and the passes over them."""
        self.jobs = Gauge("hyperscale_jobs", "GNNTrainingJobs by state.", ["state"], registry=self.registry)
        self.jobs_finished = Counter(
            "hyperscale_jobs_finished_total", "Jobs that ended, by state: Succeeded or Failed.", ["state"], registry=self.registry
        )
        self.scheduling_timeouts = Counter(
            "hyperscale_scheduling_timeouts_total",
            "Times that all ranks of a job were released because the scheduler left one out.",
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "hyperscale_reconcile_duration_seconds", "One pass over one job.", buckets=_SECONDS, registry=self.registry
        )
        self.reconcile_errors = Counter(
            "hyperscale_reconcile_errors_total", "Passes that are tried again.", ["error"], registry=self.registry
        )

    def _register_plans(self) -> None:
        """Register answers of the planners."""
        self.plan_seconds = Histogram(
            "hyperscale_plan_duration_seconds", "One question to the planners.", ["planner"], buckets=_SECONDS, registry=self.registry
        )
        self.plans = Counter("hyperscale_plans_total", "Answers of the planners.", ["planner", "outcome"], registry=self.registry)
        self.plan_wins = Counter(
            "hyperscale_plan_wins_total", "Plans by the planner whose placement was the best.", ["planner"], registry=self.registry
        )
        self.plan_regret = Histogram(
            "hyperscale_plan_regret_ratio",
            "Objective of a planner's best placement over the plan's, minus 1.",
            ["planner"],
            buckets=_REGRETS,
            registry=self.registry,
        )
        self.plan_gap = Histogram(
            "hyperscale_plan_optimality_gap_ratio",
            "Objective of the plan over the proven lower bound, minus 1; plans without a bound are not counted.",
            buckets=_REGRETS,
            registry=self.registry,
        )
        self.predicted_seconds = Gauge(
            "hyperscale_plan_predicted_epoch_seconds", "Predicted epoch of the plan in force.", ["namespace", "job"], registry=self.registry
        )

    def _register_changes(self) -> None:
        """Register decisions about running jobs and about the queue."""
        self.migrations = Counter(
            "hyperscale_migrations_total",
            "Migrations of running jobs: Proposed, Started or Abandoned.",
            ["outcome"],
            registry=self.registry,
        )
        self.preemptions = Counter(
            "hyperscale_preemptions_total",
            "Preemptions of running jobs: Proposed, Started, Abandoned or Resumed.",
            ["outcome"],
            registry=self.registry,
        )
        self.misplaced_workers = Counter(
            "hyperscale_misplaced_workers_total", "Workers that the scheduler bound to another node than planned.", registry=self.registry
        )
        self.queue_decisions = Counter(
            "hyperscale_queue_decisions_total",
            "Pending jobs decided on together, each time.",
            ["chooser", "outcome"],
            registry=self.registry,
        )
        self.queue_waiting_seconds = Histogram(
            "hyperscale_queue_waiting_seconds",
            "From the creation of a job to its plan, where it was decided on together with others.",
            buckets=_WAITING_SECONDS,
            registry=self.registry,
        )
        self.planner_failures = Counter(
            "hyperscale_planner_failures_total", "Fallbacks because the planner process failed.", ["fallback"], registry=self.registry
        )

    def _register_inputs(self) -> None:
        """Register the topology, Prometheus and the history of runs."""
        self.topology_nodes = Gauge("hyperscale_topology_nodes", "GPU nodes in the last snapshot.", registry=self.registry)
        self.topology_links = Gauge("hyperscale_topology_links", "Measured links in the last snapshot.", registry=self.registry)
        self.topology_age_seconds = Gauge("hyperscale_topology_age_seconds", "Age of the last metrics reading.", registry=self.registry)
        self.topology_writes = Counter(
            "hyperscale_topology_writes_total", "Writes of the ClusterTopology: Written or Failed.", ["outcome"], registry=self.registry
        )
        self.query_failures = Counter(
            "hyperscale_prometheus_query_failures_total", "Failed metric queries.", ["query"], registry=self.registry
        )
        self.prediction_ratio = Histogram(
            "hyperscale_prediction_ratio",
            "Measured epoch over the predicted one, of finished runs.",
            ["architecture"],
            buckets=_RATIOS,
            registry=self.registry,
        )
        self.history_failures = Counter("hyperscale_history_failures_total", "Failed reads and writes of history.", registry=self.registry)

    def _register_process(self) -> None:
        """Register what the operator process says of itself."""
        self.unreadable = Gauge(
            "hyperscale_unreadable_objects",
            "API objects that cannot be used as they are; the log names each.",
            ["kind"],
            registry=self.registry,
        )
        self.workqueue_depth = Gauge("hyperscale_workqueue_depth", "Jobs waiting to be reconciled.", registry=self.registry)
        self.loop_lag_seconds = Gauge("hyperscale_event_loop_lag_seconds", "How late the event loop was last.", registry=self.registry)
        build = Gauge("hyperscale_build_info", "Version of this operator.", ["version"], registry=self.registry)
        build.labels(version=__version__).set(1)

    def count_finished(self, before: StateWord, after: StateWord) -> None:
        """Count a job whose run has just ended."""
        if after != before and after in (StateWord.SUCCEEDED, StateWord.FAILED):
            self.jobs_finished.labels(state=str(after)).inc()

    def count_decisions(self, turns: AdmissionResult) -> None:
        """Count what was decided about each pending job, by the queue policy that decided."""
        used = turns.score.used if turns.score is not None else Chooser.RULE
        for outcome in ["Started" for _ in turns.starts] + [hold.reason for hold in turns.holds]:
            self.queue_decisions.labels(chooser=str(used), outcome=outcome).inc()

    def count_scores(self, plan: Plan) -> None:
        """Who won, and how far the others and the bound are from the plan."""
        self.plan_wins.labels(planner=plan.planner).inc()
        for score in plan.scores:
            self.plan_regret.labels(planner=score.planner).observe(score.regret)
        if plan.optimality_gap is not None:
            self.plan_gap.observe(plan.optimality_gap)

    def forget(self, namespace: str, job: str) -> None:
        """Drop what is reported of one job; jobs come and go, series must not pile up."""
        with contextlib.suppress(KeyError):
            self.predicted_seconds.remove(namespace, job)


class TelemetryServer:
    """HTTP for probes, metrics and the page of the cluster; nothing else is served and no request body is read."""

    def __init__(
        self, telemetry: Telemetry, live: Callable[[], str], ready: Callable[[], str], page: Callable[[], Awaitable[bytes]] | None = None
    ) -> None:
        """page: the HTML document of now; None serves none."""
        self._page = page
        self._telemetry = telemetry
        self._live = live
        self._ready = ready
        self._doors: list[Door] = []
        self._runners: list[web.AppRunner] = []

    async def start(self, health_port: int, metrics_port: int, topology_port: int = 0) -> None:
        """Listen on both ports, and on the loopback for the page where its port is not 0."""
        await self._listen(health_port, {"/healthz": self._healthz, "/readyz": self._readyz})
        await self._listen(metrics_port, {"/metrics": self._metrics})
        if topology_port and self._page is not None:
            await self._listen_for_people(topology_port, self._page)

    async def stop(self) -> None:
        """Stop listening."""
        for door in self._doors:
            await door.stop()
        for runner in self._runners:
            await runner.cleanup()

    async def _listen(self, port: int, routes: dict[str, Callable[[web.Request], web.Response]]) -> None:
        application = web.Application(client_max_size=1024)
        for path, respond in routes.items():

            async def handler(request: web.Request, respond: Callable[[web.Request], web.Response] = respond) -> web.Response:
                response = respond(request)
                response.force_close()  # one request a connection: the door gives each a short time
                return response

            application.router.add_get(path, handler)
        door = Door(application)
        self._doors.append(door)
        await door.start(port)

    async def _listen_for_people(self, port: int, page: Callable[[], Awaitable[bytes]]) -> None:
        """The page, to browsers that came by the loopback: a host name that a third party pointed there is refused."""

        async def respond(request: web.Request) -> web.Response:
            if request.host.rpartition(":")[0].strip("[]") not in _LOOPBACK:
                return web.Response(status=403, text="this page is for the loopback only\n")
            if fault := self._ready():  # a cluster that was not listed yet has no 0 nodes
                return web.Response(status=503, text=f"{fault}\n", headers={"Retry-After": "5", "Refresh": "5"})
            return web.Response(body=await page(), content_type="text/html", charset="utf-8", headers=_PAGE_HEADERS)

        application = web.Application(client_max_size=1024)
        application.router.add_get("/topology", respond)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        self._runners.append(runner)

    def _healthz(self, _: web.Request) -> web.Response:
        return _probe(self._live())

    def _readyz(self, _: web.Request) -> web.Response:
        return _probe(self._ready())

    def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._telemetry.registry), content_type="text/plain", charset="utf-8")


def _probe(fault: str) -> web.Response:
    return web.Response(status=503 if fault else 200, text=(fault or "ok") + "\n")
