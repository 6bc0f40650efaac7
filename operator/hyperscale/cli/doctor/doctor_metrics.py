"""What Prometheus tells `hyperscale doctor`: asked at its URL, or through the API server's proxy where only the cluster can reach it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from hyperscale.cli.doctor.doctor_api import DoctorCluster, RequestError
from hyperscale.cli.doctor.doctor_urls import service_of, without_secrets
from hyperscale.doctor.checks.prometheus import LOGIN_NEEDED, NOT_PERMITTED
from hyperscale.doctor.facts import Metrics, Ways
from hyperscale.doctor.series import LINK_FIGURES, SeriesFigure, metric_names, summarize
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.metrics_reading import FIGURES, Series
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.prometheus.credentials import Access
from hyperscale.observe.prometheus.reader import DENIED, DENYING, PrometheusReader, QueryError
from hyperscale.observe.quality import Point, QualityRule, judge, rules

KNOWN_NAMES: Final = "DCGM_FI_.+|dcgm_.+|nvidia_.+|hyperscale_link_.+|hyperscale_agent_.+|hyperscale_gpu_.+"
FROZEN_WINDOW: Final = "[15m:1m]"
REFUSED_QUERY: Final = "sum by (reason) (increase(hyperscale_link_probe_refused_total[10m]))"
AGENT_QUERY: Final = 'hyperscale_agent_state{state!~"Starting|Ready|LeftToDCGM|Off"} == 1'
GPU_QUERY: Final = 'hyperscale_agent_gpu_state{state!="Ready"} == 1'
EACH_WAY: Final = "(max by (node, gpu, peer, kind) (hyperscale_gpu_path))"
"""Once, however many jobs scrape it; summed up in Prometheus, since 5,000 nodes have 280,000 ways."""
GONE: Final = ("PrometheusUnreachable", "PrometheusTimeout")


Asker = Callable[[str], list[Series]]
"""Puts an instant query to Prometheus; series have the metric's name as `__name__`. Raises QueryError."""


def shown_url(url: str) -> str:
    """The URL without credentials."""
    return without_secrets(url, user=False).rstrip("/")


def direct(url: str, access: Access, limit_seconds: float) -> Asker:
    """Asks at the URL itself."""
    reader = PrometheusReader(url, access)
    return lambda query: reader.instant(query, limit_seconds)


def proxied(cluster: DoctorCluster, url: str, home: str, access: Access) -> Asker | None:
    """Asks through the API server where the URL's host is a Service; home: namespace of the operator, for names without one.

    access: the operator's; its tenant is sent too. Its credentials are not read, and the API server would not pass them on.
    """
    parts = urlsplit(url)
    service = service_of(url, home)
    if service is None:
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    scheme = "https:" if parts.scheme == "https" else ""
    proxy = f"/api/v1/namespaces/{service[0]}/services/{scheme}{service[1]}:{port}/proxy"
    path = f"{proxy}{parts.path.rstrip('/')}/api/v1/query"
    headers = {access.tenant_header: access.tenant} if access.tenant else {}

    def ask(query: str) -> list[Series]:
        try:
            answer = cluster.object(path, {"query": query}, headers=headers)
            return [_series(entry) for entry in answer["data"]["result"]]
        except RequestError as error:
            raise QueryError(_reason(error, access), error.message) from None
        except (KeyError, TypeError, ValueError) as error:
            raise QueryError("PrometheusRefused", "what answers there sends no query result") from error

    return ask


def _reason(error: RequestError, access: Access) -> str:
    """What a failure of the API server's proxy says of Prometheus."""
    status, message = error.status, error.message
    if status == 403 and "services/proxy" in message:
        return NOT_PERMITTED
    if status in DENYING:
        return LOGIN_NEEDED if access.has_credentials else DENIED
    if status == 404 and message.startswith("services "):
        return "PrometheusUnreachable"
    return "PrometheusRefused" if 0 < status < 500 else "PrometheusUnreachable"


class QueryAsked:
    """One round of questions."""

    def __init__(self, ask: Asker, policy: PolicySpec, index: NodeIndex, gpu_nodes: frozenset[str], say: Callable[[str], None]) -> None:
        self._ask, self._policy, self._index, self._gpu_nodes, self._say = ask, policy, index, gpu_nodes, say
        self._with_series: set[str] = set()
        self._pairs: dict[str, set[tuple[str, str]]] = {figure: set() for figure in LINK_FIGURES}
        self._rules = rules(policy.limits)

    def metrics(self, url: str, way: str) -> Metrics:
        """Everything, or the first failure where Prometheus itself does not answer."""
        started, wall = time.monotonic(), time.time()
        try:
            stamp = self._ask("vector(time())")[0].value
        except QueryError as error:
            return Metrics(url=url, way=way, failure=(error.reason, error.message))
        except IndexError:
            return Metrics(url=url, way=way, failure=("PrometheusRefused", "vector(time()) gave nothing: is this Prometheus?"))
        took = time.monotonic() - started
        figures: dict[str, SeriesFigure] = {}
        for figure in FIGURES:
            query = str(getattr(self._policy.queries, figure)).strip()
            if query:
                self._say(f"asking Prometheus for {figure}")
                figures[figure] = self._figure(figure, query, stamp + (time.monotonic() - started))
        latency, bandwidth = (self._pairs[figure] for figure in LINK_FIGURES)
        return Metrics(
            url=url,
            way=way,
            ahead_seconds=stamp - (wall + took / 2),
            doubt_seconds=0.1 + took / 2,
            figures=figures,
            names=self._names(),
            targets=self._targets(),
            pairs=(len(latency), len(bandwidth)),
            linked=frozenset(node for pair in latency | bandwidth for node in pair),
            with_series=frozenset(self._with_series),
            refused={reason: count for (reason,), count in self._by_labels(REFUSED_QUERY, "reason").items()},
            agent_states={state: tuple(dict.fromkeys(node for node, _ in gone)) for state, gone in self._unread(AGENT_QUERY).items()},
            gpu_states=self._unread(GPU_QUERY),
            ways=self._ways(),
            frozen=self._frozen(figures),
        )

    def _figure(self, figure: str, query: str, now: float) -> SeriesFigure:
        try:
            answered = self._ask(query)
            if not answered:
                return self._empty(query)
            series = self._scraped(query, answered)
        except QueryError as error:
            return SeriesFigure(query=query, failure=(error.reason, error.message))
        place = self._pair(figure) if figure in LINK_FIGURES else self._node
        return summarize(query, series, place, self._fault(figure, now), now)

    def _scraped(self, query: str, series: list[Series]) -> list[Series]:
        """The same series with the times of their scrapes: an instant query stamps them with its own."""
        try:
            stamps = {_key(one.labels): one.value for one in self._ask(f"timestamp({query})")}
        except QueryError as error:
            if error.reason in GONE:
                raise
            stamps = {}
        return [Series(one.labels, one.value, stamps.get(_key(one.labels), one.timestamp)) for one in series]

    def _empty(self, query: str) -> SeriesFigure:
        """For a query without series: what its metrics look like without its selectors."""
        alone: dict[str, int] = {}
        labels: set[str] = set()
        for name in metric_names(query)[:4]:
            if (counted := self._series(f"count({name})")) is not None:
                alone[name] = _total(counted)
                examples = self._series(f"topk(3, {name})") if alone[name] else None
                labels |= {label for one in examples or () for label in one.labels}
        return SeriesFigure(query=query, alone=alone, alone_labels=frozenset(labels))

    def _node(self, labels: Mapping[str, str]) -> str | None:
        node = self._index.of_series(labels)
        if node is not None:
            self._with_series.add(node)
        return node

    def _pair(self, figure: str) -> Callable[[Mapping[str, str]], tuple[str, str] | None]:
        def place(labels: Mapping[str, str]) -> tuple[str, str] | None:
            source, destination = self._index.node(labels.get("source", "")), self._index.node(labels.get("destination", ""))
            if source is None or destination is None or source == destination:
                return None
            if {source, destination} <= self._gpu_nodes:
                self._pairs[figure].add((source, destination))
            return source, destination

        return place

    def _fault(self, figure: str, now: float) -> Callable[[float, float], str | None]:
        rule, limit = self._rules.get(figure, QualityRule(1.0, math.inf)), self._policy.limits.max_age_seconds
        return lambda value, stamp: judge([Point(value, stamp)], rule, now, limit).fault

    def _series(self, query: str) -> list[Series] | None:
        """The answer; None where the question fails."""
        try:
            return self._ask(query)
        except QueryError:
            return None

    def _names(self) -> dict[str, int] | None:
        counts = self._series(f'count by (__name__) ({{__name__=~"{KNOWN_NAMES}"}})')
        return None if counts is None else {one.labels["__name__"]: _total([one]) for one in counts if "__name__" in one.labels}

    def _targets(self) -> tuple[tuple[str, int, int], ...]:
        """Scrape jobs with their targets up and down."""
        everything = self._by_labels("count by (job) (up)", "job")
        down = self._by_labels("count by (job) (up == 0)", "job")
        return tuple((job[0], round(total) - round(down.get(job, 0)), round(down.get(job, 0))) for job, total in sorted(everything.items()))

    def _frozen(self, figures: Mapping[str, SeriesFigure]) -> tuple[int, int] | None:
        """GPUs whose power did not change in a quarter of an hour in which it was scraped ten times, and GPUs asked."""
        power = figures.get("power")
        if power is None or not power.count:
            return None
        window = f"(({power.query}){FROZEN_WINDOW})"
        asked = self._series(f"count(count_over_time{window} >= 10)")
        still = None if asked is None else self._series(f"count((changes{window} == 0) and (count_over_time{window} >= 10))")
        return None if asked is None or still is None else (_total(still), _total(asked))

    def _unread(self, query: str) -> dict[str, tuple[tuple[str, str], ...]]:
        """(node, gpu) of the series, sorted, by state; `gpu` is "" where a series has none."""
        gpus: dict[str, set[tuple[str, str]]] = {}
        for one in self._series(query) or ():
            gpus.setdefault(one.labels.get("state", ""), set()).add((one.labels.get("node", ""), one.labels.get("gpu", "")))
        return {state: tuple(sorted(gpus[state])) for state in sorted(gpus)}

    def _ways(self) -> dict[str, dict[str, Ways]]:
        """Ways between GPUs by node and kind; nothing where either question fails."""
        pairs, links = (self._by_labels(f"{total} by (node, kind) {EACH_WAY}", "node", "kind") for total in ("count", "sum"))
        ways: dict[str, dict[str, Ways]] = {}
        for node, kind in sorted(pairs.keys() & links.keys()):
            ways.setdefault(node, {})[kind] = Ways(round(pairs[node, kind]), round(links[node, kind]))
        return ways

    def _by_labels(self, query: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Finite values by labels; nothing where the question fails."""
        series = self._series(query) or ()
        return {tuple(one.labels.get(label, "") for label in labels): one.value for one in series if math.isfinite(one.value)}


def _total(series: list[Series]) -> int:
    """The sum of counts; what is no count is none."""
    total = sum(one.value for one in series if math.isfinite(one.value))
    return round(total) if math.isfinite(total) else 0


def _key(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, value in labels.items() if key != "__name__")


def _series(entry: Any) -> Series:  # noqa: ANN401 - untrusted JSON
    metric, (stamp, text) = entry["metric"], entry["value"]
    return Series({str(key): str(value) for key, value in metric.items()}, float(text), float(stamp))
