"""All figures from Prometheus, in bounded time and memory. Blocking: call it in a thread. Never raises: the state says what failed."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import requests

from hyperscale.model.api.policy import MetricQueries, PolicySpec
from hyperscale.model.cluster import MetricsState
from hyperscale.model.metrics_reading import FIGURES, NOT_CONFIGURED, OPTIONAL, MetricsReading, Series
from hyperscale.observe.columns import Column
from hyperscale.observe.identity import NODE_LABELS, POD_LABELS
from hyperscale.observe.prometheus import credentials
from hyperscale.observe.prometheus.credentials import PLAIN, Access
from hyperscale.observe.prometheus.http import MAX_BODY_BYTES, BodyTooLargeError, BoundedSession, HttpRefusedError
from hyperscale.observe.prometheus.known_series import LEAST_SERIES, TARGET_LABELS, KnownSeries, one_by_one, target_query
from hyperscale.observe.prometheus.vector import Decoder, Floats, NotJsonError, SeriesShape, Vector
from hyperscale.observe.series.dcgm import INDEX_LABELS, MIG_LABELS, UUID_LABELS
from hyperscale.observe.series.debounce import History, advance

if TYPE_CHECKING:
    from prometheus_api_client import PrometheusConnect

UNREACHABLE: Final = "PrometheusUnreachable"
TIMEOUT: Final = "PrometheusTimeout"
REFUSED: Final = "PrometheusRefused"
DENIED: Final = "PrometheusDenied"
CREDENTIALS: Final = "PrometheusCredentials"
TOO_LARGE: Final = "PrometheusBodyTooLarge"
EMPTY: Final = "MetricsEmpty"

DENYING: Final = frozenset({401, 403, 407})
"""Statuses of a server that wants other credentials. Each failed attempt may count towards a lock: the other queries are not tried."""
CHANGE_CREDENTIALS: Final = "check prometheus.auth and prometheus.tenant of the chart, or --prometheus-token-file and its like"

READING_FACTOR: Final = 2.0
"""All queries together may take this many times what one may."""
PROBE: Final = "vector(1)"
"""Costs Prometheus nothing: tells a slow query from a Prometheus that hangs."""
PROBE_SECONDS: Final = 1.0
MAX_MESSAGE: Final = 1024
T = TypeVar("T")
_CONNECTION = re.compile(r"^(<[^>]*>|\w+\([^)]*\)): ")
KEPT_LABELS: Final = frozenset(
    {
        *TARGET_LABELS,
        *NODE_LABELS,
        *UUID_LABELS,
        *INDEX_LABELS,
        *MIG_LABELS,
        "source",
        "destination",
        "port",
        "kind",
        *sum(POD_LABELS, ()),
    }
)
"""Other labels (model, driver, container) are dropped at once: 5,000 nodes have a quarter of a million series."""


class QueryError(Exception):
    """One query failed."""

    def __init__(self, reason: str, message: str) -> None:
        """reason: CamelCase; message: for people, one line."""
        self.reason, self.message = reason, message
        super().__init__(f"{reason}: {message}")


class PrometheusReader:
    """Reads the figures that a policy asks for; keeps label sets and histories between readings: one thread at a time may read."""

    def __init__(self, url: str, access: Access = PLAIN, *, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        """url: base URL, empty for none; access: authority, credentials and tenant; limit of one answer in bytes."""
        self._url = url.rstrip("/")
        self._access = access
        self._max_body_bytes = max_body_bytes
        self._known = KnownSeries(KEPT_LABELS)
        self._history: History = {}

    def read(self, policy: PolicySpec, now: float) -> MetricsReading:
        """All figures at `now` (Unix seconds, the caller's clock)."""
        queries = configured(policy.queries)
        if not self._url or not queries:
            return MetricsReading(taken_at=now, state=NOT_CONFIGURED)
        try:
            with self._opened(policy.metrics_timeout_seconds) as reading:
                reading_with_verdicts, self._history = advance(self._history, reading.run(queries, now), policy.limits)
        except QueryError as error:
            return MetricsReading(taken_at=now, state=MetricsState(False, error.reason, error.message))
        return reading_with_verdicts

    def instant(self, query: str, limit_seconds: float) -> list[Series]:
        """Series of one instant query with all their labels, the metric's name as `__name__`; raises QueryError."""
        with self._opened(limit_seconds) as reading:
            return reading.ask(query, named=True)

    @contextmanager
    def _opened(self, query_seconds: float) -> Iterator[_Reading]:
        """A session that is closed at the end; raises QueryError where the URL or the credentials are none."""
        if not is_url(self._url):
            raise QueryError(UNREACHABLE, f"{self._url[:200]!r} is no URL; write one such as http://prometheus.monitoring:9090")
        try:
            given = credentials.read(self._access)
        except credentials.CredentialsError as error:
            raise QueryError(CREDENTIALS, str(error)[:MAX_MESSAGE]) from None
        with BoundedSession(self._max_body_bytes, given.hide) as session:
            yield _Reading(self._connect(session, given), session, query_seconds, self._host(), self._known)

    def _connect(self, session: BoundedSession, given: credentials.Credentials) -> PrometheusConnect:
        # Imported here: it brings dateparser and more, and planning from files does without them.
        from prometheus_api_client import PrometheusConnect

        session.verify = given.verify
        connection = PrometheusConnect(self._url, headers=given.headers, session=session)
        # The constructor has just mounted an unbounded adapter with three retries over ours.
        session.mount(self._url, session.adapter)
        return connection

    def _host(self) -> str:
        """Host and port for messages; never the credentials that a URL may hold."""
        return self._url.partition("://")[2].partition("/")[0].rpartition("@")[2] or self._url


class _Reading:
    """One run over all queries within one budget of time."""

    def __init__(
        self, connection: PrometheusConnect, session: BoundedSession, query_seconds: float, host: str, shapes: KnownSeries
    ) -> None:
        self._connection = connection
        self._session = session
        self._known = shapes
        self._query_seconds = query_seconds
        self._host = host
        self._end = time.monotonic() + query_seconds * READING_FACTOR

    def run(self, queries: Mapping[str, str], now: float) -> MetricsReading:
        """Ask for every figure; once Prometheus itself is gone the rest is not asked for."""
        series: dict[str, Sequence[Series]] = {}
        failures: dict[str, QueryError] = {}
        gone: QueryError | None = None
        for figure, query in queries.items():
            try:
                if gone is not None:
                    raise gone
                series[figure] = self._figure(figure, query)
            except QueryError as error:
                failures[figure] = error
                gone = gone or (error if self._is_gone(error) else None)
        self._known.sweep(queries)
        return MetricsReading(taken_at=now, state=_state(series, failures, self._host), series=series)

    def _figure(self, figure: str, query: str) -> Column:
        """Series of one query, each with the time of its own scrape.

        An instant query hides up to five minutes of age: it stamps every value with the moment of evaluation. `timestamp()` of a
        plain selector tells the real one; of an expression it is the moment of evaluation, and the age is then not known.
        """
        vector = self._vector(query, self._known.expected(figure))
        self._known.keep(figure, vector.shape)
        if not vector.shape.labels:
            return Column((), vector.values, vector.evaluated)
        return Column(vector.shape.labels, vector.values, self._scraped(figure, query, vector))

    def _scraped(self, figure: str, query: str, vector: Vector) -> Floats:
        """(n,) Unix seconds; the moment of evaluation where Prometheus does not tell."""
        moment = float(vector.evaluated[0])
        if len(vector.values) >= LEAST_SERIES:
            answer = self._told(target_query(query), self._known.expected(figure, of_targets=True), moment)
            if answer is not None and (times := self._known.times(figure, vector, answer)) is not None:
                return times
        answer = self._told(f"timestamp({query})", vector.shape, moment)
        return vector.evaluated if answer is None else one_by_one(vector, answer)

    def _told(self, query: str, expected: SeriesShape, evaluate_at: float) -> Vector | None:
        """One instant query; None where Prometheus answers, only not this: several metric names in one have no common timestamp()."""
        try:
            return self._vector(query, expected, evaluate_at)
        except QueryError as error:
            if error.reason != REFUSED:
                raise
            return None

    def _vector(self, query: str, expected: SeriesShape, evaluate_at: float | None = None) -> Vector:
        """One instant query, its answer decoded as it comes; raises QueryError."""

        def sent(params: Mapping[str, str], seconds: float) -> Vector:
            decoder = Decoder(self._known.sets, expected)
            url, given = f"{self._connection.url}/api/v1/query", {"query": query, **params}
            try:
                self._session.feed(decoder.feed, url, given, self._connection.headers, seconds)
                return decoder.finish()
            finally:
                decoder.close()  # who keeps an error keeps this frame: what had come, for each figure that failed

        return self._bounded(sent, evaluate_at)

    def ask(self, query: str, limit_seconds: float | None = None, *, named: bool = False) -> list[Series]:
        """One instant query within what time is left; raises QueryError."""

        def sent(params: Mapping[str, str], seconds: float) -> list[Series]:
            return [_series(entry, named) for entry in self._connection.custom_query(query, params=dict(params), timeout=seconds)]

        return self._bounded(sent, limit_seconds=limit_seconds)

    def _bounded(
        self, send: Callable[[Mapping[str, str], float], T], evaluate_at: float | None = None, limit_seconds: float | None = None
    ) -> T:
        """What `send` gets for these parameters within `limit_seconds`; raises QueryError and nothing else."""
        seconds = min(limit_seconds or self._query_seconds, self._end - time.monotonic())
        if seconds <= 0.01:
            raise QueryError(TIMEOUT, f"{self._host} was too slow: no time left")
        params = {"timeout": f"{max(1, round(seconds * 1000))}ms"}
        if evaluate_at is not None:
            params["time"] = f"{evaluate_at:.3f}"
        try:
            return send(params, seconds)
        except requests.Timeout as error:
            raise QueryError(TIMEOUT, f"{self._host} did not answer within {seconds:.1f} s") from error
        except BodyTooLargeError as error:
            raise QueryError(TOO_LARGE, f"{self._host}: {error}") from error
        except HttpRefusedError as error:
            if error.status in DENYING:
                raise QueryError(DENIED, f"{self._host} denies access ({error}): {CHANGE_CREDENTIALS}") from error
            raise QueryError(REFUSED, f"{self._host} refused the query: {error}") from error
        except (requests.exceptions.JSONDecodeError, NotJsonError) as error:
            raise QueryError(REFUSED, f"{self._host} answered with something that is not JSON: is this Prometheus?") from error
        except requests.RequestException as error:
            cause = _cause(error)
            hint = f": {credentials.certificate_hint(cause.verify_code)}" if isinstance(cause, ssl.SSLCertVerificationError) else ""
            raise QueryError(UNREACHABLE, f"{self._host} cannot be reached: {_line(cause)}{hint}") from error
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise QueryError(REFUSED, f"{self._host} answered with something that is not a query result") from error

    def _is_gone(self, error: QueryError) -> bool:
        """Whether Prometheus itself does not answer, so that asking further would only wait."""
        if error.reason != TIMEOUT:
            return error.reason in {UNREACHABLE, DENIED}
        try:
            self.ask(PROBE, limit_seconds=PROBE_SECONDS)
        except QueryError as probe:
            return probe.reason in {TIMEOUT, UNREACHABLE}
        return False


def configured(queries: MetricQueries) -> dict[str, str]:
    """The queries that are not switched off, by figure, in reading order."""
    return {figure: query for figure in FIGURES if (query := getattr(queries, figure).strip())}


def is_url(text: str) -> bool:
    """Whether `text` can be a Prometheus base URL."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _series(entry: Any, named: bool = False) -> Series:  # noqa: ANN401 - untrusted JSON
    """One element of an instant vector; the metric's name is dropped unless `named`: timestamp() has none to compare with."""
    metric, (stamp, text) = entry["metric"], entry["value"]
    labels = {key: value for key, value in metric.items() if (named or key != "__name__") and isinstance(value, str)}
    if not isinstance(text, str):
        raise TypeError("a sample value is text in Prometheus' API")
    return Series(labels, float(text), float(stamp))


def _state(series: Mapping[str, Sequence[Series]], failures: Mapping[str, QueryError], host: str) -> MetricsState:
    """What the reading amounts to: usable as soon as one figure has one series."""
    failed = tuple(failures)
    first = next(iter(failures.values()), None)
    if not any(each for figure, each in series.items() if figure not in OPTIONAL):
        if first is None:
            return MetricsState(False, EMPTY, f"{host} has no series for any query: are exporters scraped, are the queries right?")
        return MetricsState(False, first.reason, first.message[:MAX_MESSAGE], failed)
    texts = [f"{figure}: {error.message}" for figure, error in failures.items()]
    if silent := [figure for figure, each in series.items() if not each and figure not in OPTIONAL]:
        texts.append(f"no series for {', '.join(silent)}")
    return MetricsState(True, message="; ".join(texts)[:MAX_MESSAGE], failed_queries=failed)


def _cause(error: BaseException) -> BaseException:
    """The innermost reason: requests and urllib3 wrap "Connection refused" three times."""
    inner = getattr(error, "reason", None) or next((arg for arg in error.args if isinstance(arg, BaseException)), None)
    return _cause(inner) if isinstance(inner, BaseException) and inner is not error else error


def _line(error: BaseException) -> str:
    """The error's own words as one short line, without urllib3's name of the connection object."""
    return _CONNECTION.sub("", " ".join(str(error).split()))[:200]
