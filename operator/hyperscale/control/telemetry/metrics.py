"""What the operator tells machines: Prometheus metrics, liveness and readiness."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hyperscale import __version__
from hyperscale.control.telemetry.listener import Door
from hyperscale.evaluate.calibration.calibration_report import CalibrationReport
from hyperscale.evaluate.calibration.stage_verdict import CoverageVerdict
from hyperscale.model.admission_query import AdmissionResult, Chooser
from hyperscale.model.api.preflight_report import PreflightStatus
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
        self._register_jobs_and_plans()
        self._register_changes()
        self._register_inputs()
        self._register_history()
        Gauge("hyperscale_build_info", "Version of this operator.", ["version"], registry=self.registry).labels(__version__).set(1)

    def _register_jobs_and_plans(self) -> None:
        """Register what happens to jobs, the passes over them, and answers of the planners."""
        self.jobs = self._gauge("hyperscale_jobs", "GNNTrainingJobs by state.", "state")
        self.jobs_finished = self._counter("hyperscale_jobs_finished_total", "Jobs that ended, by state: Succeeded or Failed.", "state")
        self.scheduling_timeouts = self._counter(
            "hyperscale_scheduling_timeouts_total", "Times that all ranks of a job were released because the scheduler left one out."
        )
        self.reconcile_seconds = self._histogram("hyperscale_reconcile_duration_seconds", "One pass over one job.", _SECONDS)
        self.reconcile_errors = self._counter("hyperscale_reconcile_errors_total", "Passes that are tried again.", "error")
        self.plan_seconds = self._histogram("hyperscale_plan_duration_seconds", "One question to the planners.", _SECONDS, "planner")
        self.plans = self._counter("hyperscale_plans_total", "Answers of the planners.", "planner", "outcome")
        self.plan_wins = self._counter("hyperscale_plan_wins_total", "Plans by the planner whose placement was the best.", "planner")
        self.plan_regret = self._histogram(
            "hyperscale_plan_regret_ratio", "Objective of a planner's best placement over the plan's, minus 1.", _REGRETS, "planner"
        )
        self.plan_gap = self._histogram(
            "hyperscale_plan_optimality_gap_ratio",
            "Objective of the plan over the proven lower bound, minus 1; plans without a bound are not counted.",
            _REGRETS,
        )
        self.predicted_seconds = self._gauge(
            "hyperscale_plan_predicted_epoch_seconds", "Predicted epoch of the plan in force.", "namespace", "job"
        )

    def _register_changes(self) -> None:
        """Register what changes running and pending jobs."""
        self.migrations = self._counter(
            "hyperscale_migrations_total", "Migrations of running jobs: Proposed, Started or Abandoned.", "outcome"
        )
        self.preemptions = self._counter(
            "hyperscale_preemptions_total", "Preemptions of running jobs: Proposed, Started, Abandoned or Resumed.", "outcome"
        )
        self.misplaced_workers = self._counter(
            "hyperscale_misplaced_workers_total", "Workers that the scheduler bound to another node than planned."
        )
        self.queue_decisions = self._counter(
            "hyperscale_queue_decisions_total", "Pending jobs decided on together, each time.", "chooser", "outcome"
        )
        self.queue_waiting_seconds = self._histogram(
            "hyperscale_queue_waiting_seconds",
            "Wait of a job until its plan, where it was decided on together with others.",
            _WAITING_SECONDS,
        )
        self.planner_failures = self._counter(
            "hyperscale_planner_failures_total", "Fallbacks because the planner process failed.", "fallback"
        )
        self.evaluations = self._counter(
            "hyperscale_evaluations_total", "Evaluated plans, by the worst stage: Passed, Warned, Failed, Unknown or Skipped.", "outcome"
        )
        self.preflights = self._counter("hyperscale_preflights_total", "Ended preflights: Passed, Failed or Unknown.", "outcome")

    def _register_inputs(self) -> None:
        """Register what plans rest on, and how the process itself does."""
        self.topology_nodes = self._gauge("hyperscale_topology_nodes", "GPU nodes in the last snapshot.")
        self.topology_links = self._gauge("hyperscale_topology_links", "Measured links in the last snapshot.")
        self.topology_age_seconds = self._gauge("hyperscale_topology_age_seconds", "Age of the last metrics reading.")
        self.topology_writes = self._counter(
            "hyperscale_topology_writes_total", "Writes of the ClusterTopology: Written or Failed.", "outcome"
        )
        self.query_failures = self._counter("hyperscale_prometheus_query_failures_total", "Failed metric queries.", "query")
        self.unreadable = self._gauge(
            "hyperscale_unreadable_objects", "API objects that cannot be used as they are; the log names each.", "kind"
        )
        self.workqueue_depth = self._gauge("hyperscale_workqueue_depth", "Jobs waiting to be reconciled.")
        self.loop_lag_seconds = self._gauge("hyperscale_event_loop_lag_seconds", "How late the event loop was last.")

    def _register_history(self) -> None:
        """Register what finished runs say of predictions."""
        self.prediction_ratio = self._histogram(
            "hyperscale_prediction_ratio", "Measured epoch over the predicted one, of finished runs.", _RATIOS, "architecture"
        )
        self.history_failures = self._counter(
            "hyperscale_history_failures_total", "Failed reads and writes of history, and rows that the database did not keep."
        )
        self.calibrated = self._gauge(
            "hyperscale_predictions_calibrated", "1 for the status of the condition PredictionsCalibrated, else 0.", "status"
        )
        self.scored = self._gauge("hyperscale_scored_predictions", "Finished runs that a stage was scored by.", "stage")
        self.coverage = self._gauge(
            "hyperscale_prediction_coverage_ratio",
            "Part of the judged runs within the interval of this level in percent.",
            "stage",
            "level",
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def count_finished(self, before: StateWord, after: StateWord) -> None:
        """Count a job whose run has just ended."""
        if after != before and after in (StateWord.SUCCEEDED, StateWord.FAILED):
            self.jobs_finished.labels(state=str(after)).inc()

    def count_preflight(self, before: PreflightStatus | None, after: PreflightStatus | None) -> None:
        """Count a preflight that has ended since `before` was written."""
        if after is not None and (before is None or before.key != after.key):
            self.preflights.labels(outcome=str(after.outcome)).inc()

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

    def show_calibration(self, report: CalibrationReport) -> None:
        """What finished runs say of the predictions made of them."""
        for verdict in CoverageVerdict:
            self.calibrated.labels(status=verdict.value).set(verdict is report.verdict)
        for stage in report.stages:
            self.scored.labels(stage=stage.stage).set(stage.runs)
            for coverage in (stage.one_sigma, stage.two_sigma):
                if coverage is not None:
                    level = f"{100 * coverage.stated:.0f}"
                    self.coverage.labels(stage=stage.stage, level=level).set(coverage.covered / coverage.runs)

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
