"""The time of a scrape is reported once a target where that is the time of all its series. Else it is reported series by series."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from hyperscale.model.api.policy import MetricQueries, PolicySpec
from hyperscale.model.metrics_reading import Series
from hyperscale.observe.prometheus import known_series, reader
from hyperscale.observe.prometheus.reader import PrometheusReader
from tests.unit.observe.stub_prometheus import Handler, serving

NOW = 1_800_000_000.0
POWER = "DCGM_FI_DEV_POWER_USAGE"
OFF = dict.fromkeys(MetricQueries.__struct_fields__, "")
POLICY = PolicySpec(queries=MetricQueries(**{**OFF, "power": POWER, "temperature": "DCGM_FI_DEV_GPU_TEMP"}))
ONLY_POWER = PolicySpec(queries=MetricQueries(**{**OFF, "power": POWER}))
Scraped = list[tuple[dict[str, str], float]]


@pytest.fixture(autouse=True)
def _any_number_of_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LEAST_SERIES", 1)


def gpu(node: int, number: int, **more: str) -> dict[str, str]:
    labels = {"Hostname": f"n{node}", "UUID": f"GPU-{node}-{number}", "instance": f"10.0.0.{node}:9400", "job": "dcgm"}
    return {key: text for key, text in {**labels, **more}.items() if text}


def evaluated(query: str, scraped: Scraped) -> list[tuple[dict[str, str], float, str]]:
    """What Prometheus answers to Q, timestamp(Q) and the query for targets."""
    inner = query.partition("timestamp(")[2].partition(")")[0]
    if not inner:
        return [({**labels, "__name__": query}, NOW, "1") for labels, _ in scraped]
    if query == f"timestamp({inner})":
        return [(labels, NOW, str(stamp)) for labels, stamp in scraped]
    assert query == f"max by (instance, job) (timestamp({inner})) == min by (instance, job) (timestamp({inner}))"
    groups: dict[tuple[tuple[str, str], ...], set[float]] = {}
    for labels, stamp in scraped:
        groups.setdefault(tuple((key, labels[key]) for key in ("instance", "job") if key in labels), set()).add(stamp)
    return [(dict(group), NOW, str(min(stamps))) for group, stamps in groups.items() if len(stamps) == 1]


def read(
    *readings: Scraped, policy: PolicySpec = ONLY_POWER, answer: Callable[[Handler, str], bool] = lambda *_: False
) -> tuple[list[Sequence[Series]], list[str]]:
    """The series of power in each reading, and the queries of all."""
    current = [readings[0]]

    def answered(handler: Handler, query: str) -> None:
        if not answer(handler, query):
            handler.vector(*evaluated(query, current[0]))

    with serving(answered) as (url, asked):
        reader = PrometheusReader(url)
        found = []
        for scraped in readings:
            current[0] = scraped
            found.append(reader.read(policy, NOW).series["power"])
        return found, list(asked)


def stamps(series: Sequence[Series]) -> list[float]:
    return [one.timestamp for one in series]


def test_each_series_has_the_time_of_its_target_and_no_series_is_asked_for_its_own() -> None:
    scraped = [(gpu(node, number), NOW - node) for node in (1, 2) for number in (0, 1)]
    (found,), asked = read(scraped)
    assert stamps(found) == [NOW - 1, NOW - 1, NOW - 2, NOW - 2]
    assert asked == [POWER, known_series.target_query(POWER)]


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param([(gpu(2, 0), NOW - 2), (gpu(2, 1), NOW - 90)], id="an exporter that sets times of its own"),
        pytest.param([(gpu(2, 0, instance=""), NOW - 2), (gpu(3, 0, instance=""), NOW - 90)], id="no instance"),
        pytest.param([(gpu(2, 0, instance="", job=""), NOW - 2), (gpu(3, 0, instance="", job=""), NOW - 90)], id="no target labels at all"),
        pytest.param([(gpu(2, 0), NOW - 2), (gpu(2, 0, pod="second"), NOW - 90)], id="two exporters under one name"),
    ],
)
def test_where_a_target_has_two_times_every_series_is_asked_for_its_own(odd: Scraped) -> None:
    scraped = [(gpu(1, 0), NOW - 1), *odd]
    (found,), asked = read(scraped)
    assert stamps(found) == [stamp for _, stamp in scraped]
    assert asked[-1] == f"timestamp({POWER})"


def test_series_without_any_target_labels_share_a_time_where_they_have_one() -> None:
    scraped = [(gpu(node, 0, instance="", job=""), NOW - 7) for node in range(3)]
    (found,), asked = read(scraped)
    assert stamps(found) == [NOW - 7] * 3
    assert len(asked) == 2


def test_two_jobs_that_scrape_one_address_have_their_own_times() -> None:
    scraped = [(gpu(1, 0), NOW - 1), (gpu(1, 1, job="other"), NOW - 50)]
    (found,), asked = read(scraped)
    assert stamps(found) == [NOW - 1, NOW - 50]
    assert len(asked) == 2


def test_a_target_that_comes_goes_or_gets_stale_is_followed_from_reading_to_reading() -> None:
    both = [(gpu(1, 0), NOW - 1), (gpu(2, 0), NOW - 2)]
    later = [(gpu(1, 0), NOW + 14), (gpu(2, 0), NOW - 2)]
    more = [(gpu(0, 0), NOW + 20), *later, (gpu(3, 0), NOW + 21)]
    found, _ = read(both, later, more, both[1:], both, policy=POLICY)
    assert [stamps(one) for one in found] == [[stamp for _, stamp in scraped] for scraped in (both, later, more, both[1:], both)]
    assert [[one.labels["Hostname"] for one in series] for series in found[2:4]] == [["n0", "n1", "n2", "n3"], ["n2"]]


def test_a_server_that_knows_no_such_query_is_asked_for_every_series() -> None:
    def refused(handler: Handler, query: str) -> bool:
        if query.startswith("max by"):
            handler.reply(b'{"status":"error","error":"what is max?"}', 400)
        return query.startswith("max by")

    (found,), asked = read([(gpu(1, 0), NOW - 9)], answer=refused)
    assert stamps(found) == [NOW - 9]
    assert asked[-1] == f"timestamp({POWER})"


@pytest.mark.parametrize("target", [{"instance": "10.0.0.9:9400", "job": "dcgm"}, {"Hostname": "n1"}, {"instance": "10.0.0.1:9400"}])
def test_an_answer_that_names_other_targets_is_none(target: dict[str, str]) -> None:
    def astray(handler: Handler, query: str) -> bool:
        if query.startswith("max by"):
            handler.vector((target, NOW, str(NOW - 1)))
        return query.startswith("max by")

    (found,), _ = read([(gpu(1, 0), NOW - 9)], answer=astray)
    assert stamps(found) == [NOW - 9]


def test_a_target_told_twice_is_not_believed() -> None:
    def twice(handler: Handler, query: str) -> bool:
        if query.startswith("max by"):
            target = {"instance": "10.0.0.1:9400", "job": "dcgm"}
            handler.vector((target, NOW, str(NOW - 1)), (target, NOW, str(NOW - 2)))
        return query.startswith("max by")

    (found,), _ = read([(gpu(1, 0), NOW - 9)], answer=twice)
    assert stamps(found) == [NOW - 9]
