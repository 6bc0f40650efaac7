from __future__ import annotations

import socket
import threading
import tracemalloc
from collections.abc import Callable

import pytest

from hyperscale.model.api.policy import MetricQueries, PolicySpec
from hyperscale.model.metrics_reading import FIGURES, NOT_CONFIGURED, MetricsReading
from hyperscale.observe.prometheus.http import MAX_BODY_BYTES
from hyperscale.observe.prometheus.reader import PrometheusReader
from tests.unit.observe.stub_prometheus import Answer, Handler, serving

NOW = 1_800_000_000.0
OFF = dict.fromkeys(MetricQueries.__struct_fields__, "")
ONE = PolicySpec(queries=MetricQueries(**{**OFF, "power": "DCGM_FI_DEV_POWER_USAGE"}))
HANG_SECONDS = 30.0
"""A server that hangs does so for this long."""
DRIP_SECONDS = 0.05
ALL_SHORT = PolicySpec(metrics_timeout_seconds=1)
LABELS = {"__name__": "DCGM_FI_DEV_POWER_USAGE", "Hostname": "a", "UUID": "GPU-1", "modelName": "A100"}


def read(answer: Answer, policy: PolicySpec = ONE, max_body_bytes: int = MAX_BODY_BYTES) -> tuple[MetricsReading, list[str]]:
    with serving(answer) as (url, asked):
        return PrometheusReader(url, max_body_bytes=max_body_bytes).read(policy, NOW), asked


def good(handler: Handler, query: str) -> None:
    """A scrape that is 42 seconds old; timestamp() drops the metric's name as Prometheus does."""
    if query.startswith("timestamp("):
        handler.vector(({key: value for key, value in LABELS.items() if key != "__name__"}, NOW, str(NOW - 42)))
    else:
        handler.vector((LABELS, NOW, "300.5"))


def test_a_value_comes_with_the_time_of_its_scrape_and_only_the_labels_that_matter() -> None:
    reading, asked = read(good)
    (series,) = reading.series["power"]
    assert (series.labels, series.value, series.timestamp) == ({"Hostname": "a", "UUID": "GPU-1"}, 300.5, NOW - 42)
    assert reading.state.available
    assert asked == ["DCGM_FI_DEV_POWER_USAGE", "timestamp(DCGM_FI_DEV_POWER_USAGE)"]


def test_every_figure_that_is_not_switched_off_is_asked_for() -> None:
    _, asked = read(good, PolicySpec(queries=MetricQueries(xid="", power=" ", temperature="max by (UUID) (t)")))
    assert "max by (UUID) (t)" in asked
    assert not any("XID" in query or "POWER" in query for query in asked)
    assert len(asked) == 2 * (len(FIGURES) - 2)


def test_where_timestamp_is_refused_the_moment_of_evaluation_stands_in() -> None:
    def answer(handler: Handler, query: str) -> None:
        if query.startswith("timestamp("):
            handler.reply(b'{"status": "error", "error": "same labelset"}', 422)
        else:
            handler.vector((LABELS, NOW, "300"))

    reading, _ = read(answer)
    assert reading.series["power"][0].timestamp == NOW
    assert reading.state.failed_queries == ()


def test_special_values_pass_through_to_be_judged_later() -> None:
    def answer(handler: Handler, query: str) -> None:
        if query.startswith("timestamp("):
            handler.vector()
        else:
            handler.vector(*(({**LABELS, "gpu": text}, NOW, text) for text in ("NaN", "+Inf", "-Inf", "1e3")))

    reading, _ = read(answer)
    assert [str(series.value) for series in reading.series["power"]] == ["nan", "inf", "-inf", "1000.0"]


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        pytest.param(b"<html>it works</html>", 200, "PrometheusRefused", id="some other server"),
        pytest.param(b"", 200, "PrometheusRefused", id="empty body"),
        pytest.param(b"\xff\xfe\x00\x01" * 50, 200, "PrometheusRefused", id="binary garbage"),
        pytest.param(b"[" * 100_000, 200, "PrometheusRefused", id="deeply nested"),
        pytest.param(b"null", 200, "PrometheusRefused", id="null"),
        pytest.param(b'{"data": {}}', 200, "PrometheusRefused", id="no result"),
        pytest.param(b'{"data": {"result": 7}}', 200, "PrometheusRefused", id="a result that is a number"),
        pytest.param(b'{"data": {"resultType": "scalar", "result": [1, "2"]}}', 200, "PrometheusRefused", id="a scalar"),
        pytest.param(b'{"data": {"result": [{"metric": {}, "value": [1]}]}}', 200, "PrometheusRefused", id="half a value"),
        pytest.param(b'{"data": {"result": [{"metric": {}, "value": [1, "x"]}]}}', 200, "PrometheusRefused", id="a word"),
        pytest.param(b'{"data": {"result": [{"metric": {}, "value": [1, 2]}]}}', 200, "PrometheusRefused", id="a number for text"),
        pytest.param(b'{"data": {"result": [{"metric": [], "value": [1, "2"]}]}}', 200, "PrometheusRefused", id="labels that are none"),
        pytest.param(b'{"data": {"result": [{"metric": {}, "histogram": [1, {}]}]}}', 200, "PrometheusRefused", id="a native histogram"),
        pytest.param(b'{"status": "error", "error": "parse error"}', 400, "PrometheusRefused", id="bad query"),
        pytest.param(b"who are you", 401, "PrometheusDenied", id="not allowed"),
        pytest.param(b"later", 503, "PrometheusRefused", id="starting up"),
        pytest.param(b'{"data": {"result": []}}', 200, "MetricsEmpty", id="nothing scraped"),
    ],
)
def test_a_bad_answer_is_a_reason_and_never_an_error(body: bytes, status: int, reason: str) -> None:
    reading, _ = read(lambda handler, _query: handler.reply(body, status))
    assert (reading.state.available, reading.state.reason) == (False, reason)
    assert reading.state.failed_queries == (() if reason == "MetricsEmpty" else ("power",))
    assert len(reading.state.message) < 400
    assert "\n" not in reading.state.message


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (
            b'{"status": "error", "error": "1:5: parse error: unexpected identifier"}',
            400,
            "HTTP 400: 1:5: parse error: unexpected identifier",
        ),
        (b"not for you\n", 422, "HTTP 422: not for you"),
        (b"<html>" + b"x" * 5000, 502, "refused the query: HTTP 502"),
    ],
)
def test_a_refusal_is_told_in_prometheus_own_words(body: bytes, status: int, words: str) -> None:
    reading, _ = read(lambda handler, _query: handler.reply(body, status))
    assert reading.state.message.endswith(words)


def test_one_failed_figure_does_not_take_the_others_with_it() -> None:
    def answer(handler: Handler, query: str) -> None:
        if "GPU_TEMP" in query:
            handler.reply(b"no", 400)
        elif "link" in query:
            handler.vector()
        else:
            good(handler, query)

    reading, _ = read(answer, PolicySpec())
    assert reading.state.available
    assert reading.state.failed_queries == ("temperature",)
    assert "no series for link_latency, link_bandwidth" in reading.state.message
    assert "temperature" not in reading.series


def test_a_refused_connection_is_told_as_such_for_every_figure() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    state = PrometheusReader(f"http://user:secret@127.0.0.1:{port}").read(PolicySpec(), NOW).state
    assert (state.available, state.reason, len(state.failed_queries)) == (False, "PrometheusUnreachable", len(FIGURES))
    assert state.message == (f"127.0.0.1:{port} cannot be reached: Failed to establish a new connection: [Errno 111] Connection refused")
    assert "secret" not in state.message


@pytest.mark.parametrize(
    "url", ["prometheus:9090", "ftp://prometheus", "http://", "http://[::1", "http://\udcff", "nonsense", "http://a b"]
)
def test_an_address_that_is_none_is_unreachable(url: str) -> None:
    state = PrometheusReader(url).read(ALL_SHORT, NOW).state
    assert (state.available, state.reason) == (False, "PrometheusUnreachable")


def test_no_address_or_no_query_is_not_configured() -> None:
    assert PrometheusReader("").read(PolicySpec(), NOW).state == NOT_CONFIGURED
    assert PrometheusReader("http://127.0.0.1:1").read(PolicySpec(queries=MetricQueries(**OFF)), NOW).state == NOT_CONFIGURED


def stalls(release: threading.Event) -> Answer:
    return lambda _handler, _query: (release.wait(HANG_SECONDS), None)[1]


def until_released(release: threading.Event, act: Callable[[], object]) -> None:
    """Act again and again; for HANG_SECONDS at most, so that a reader that never gives up fails a test instead of hanging it."""
    for _ in range(int(HANG_SECONDS / DRIP_SECONDS)):
        if release.wait(DRIP_SECONDS):
            return
        act()


def drips_headers(release: threading.Event) -> Answer:
    def answer(handler: Handler, _query: str) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        until_released(release, lambda: handler.wfile.write(b"x"))

    return answer


def drips_body(release: threading.Event) -> Answer:
    def answer(handler: Handler, _query: str) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        until_released(release, lambda: handler.wfile.write(b" "))

    return answer


@pytest.mark.parametrize("behaviour", [stalls, drips_headers, drips_body])
def test_a_prometheus_that_hangs_costs_one_deadline_and_not_one_per_query(behaviour: object) -> None:
    release = threading.Event()
    with serving(behaviour(release)) as (url, asked):  # type: ignore[operator] # parametrised as object
        state = PrometheusReader(url).read(ALL_SHORT, NOW).state
        release.set()
    assert (state.available, state.reason, len(state.failed_queries)) == (False, "PrometheusTimeout", len(FIGURES))
    assert len(asked) == 2


def test_a_slow_query_does_not_stop_those_that_are_fast() -> None:
    release = threading.Event()

    def answer(handler: Handler, query: str) -> None:
        if "GPU_UTIL" in query:
            release.wait(30)
        else:
            good(handler, query)

    queries = MetricQueries(**{**OFF, "gpu_utilization": "DCGM_FI_DEV_GPU_UTIL", "power": "DCGM_FI_DEV_POWER_USAGE"})
    with serving(answer) as (url, _):
        reading = PrometheusReader(url).read(PolicySpec(queries=queries, metrics_timeout_seconds=1), NOW)
        release.set()
    assert reading.state.available
    assert reading.state.failed_queries == ("gpu_utilization",)
    assert "power" in reading.series


def test_an_endless_body_is_cut_off() -> None:
    def answer(handler: Handler, _query: str) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            handler.wfile.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")

    state = read(answer, max_body_bytes=1_000_000)[0].state
    assert (state.available, state.reason) == (False, "PrometheusBodyTooLarge")


def test_bodies_that_were_cut_off_are_not_kept_until_all_figures_are_read() -> None:
    limit = 2_000_000

    def answer(handler: Handler, _query: str) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b" " * limit + b" " * 0x20000)

    tracemalloc.start()
    try:
        state = read(answer, PolicySpec(), max_body_bytes=limit)[0].state
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (state.reason, len(state.failed_queries)) == ("PrometheusBodyTooLarge", len(FIGURES))
    assert peak < 6 * limit  # the stub's own copies included; every figure's body would be 16 times the limit


def test_a_connection_that_breaks_off_is_unreachable() -> None:
    def answer(handler: Handler, _query: str) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        handler.close_connection = True

    assert read(answer)[0].state.reason == "PrometheusUnreachable"


def test_redirects_are_not_followed() -> None:
    with serving(good) as (elsewhere, asked_elsewhere):
        reading, asked = read(lambda handler, _query: handler.reply(b"", 302, Location=f"{elsewhere}/api/v1/query?query=up"))
    assert reading.state.reason == "PrometheusRefused"
    assert (len(asked), asked_elsewhere) == (1, [])


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    assert read(good)[0].state.available
