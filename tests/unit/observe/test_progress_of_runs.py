"""What runs say of themselves: the termination message of the launcher, and Prometheus' series of rank 0."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model.api.measured import Measured, PairBytes, PhaseSeconds
from hyperscale.model.metrics_reading import Series
from hyperscale.observe.kube.fields import pod_view
from hyperscale.observe.prometheus.progress_query import QUERY, progress, read_progress
from hyperscale.observe.prometheus.reader import PrometheusReader, QueryError
from hyperscale.observe.run_report import checked, read_measured
from tests.unit.observe.stub_prometheus import Handler, serving

CORA = ("team", "cora")
DONE = Measured(epoch=100, epochs=100, loss=0.5, accuracy=0.8125, epoch_seconds=0.25, finished=True)


def one(figure: str, value: float, **labels: str) -> Series:
    base = {
        "__name__": f"hyperscale_training_{figure}",
        "job_namespace": "team",
        "job_name": "cora",
        "rank": "0",
        "instance": "10.0.0.1:9464",
    }
    return Series({**base, **labels}, value, 0.0)


def launcher_pod(message: str, **state: Any) -> dict[str, Any]:
    ended = {"terminated": {"exitCode": 0, "message": message}}
    labels = {"training.kubeflow.org/job-name": "cora", "training.kubeflow.org/job-role": "launcher"}
    return {"metadata": {"labels": labels}, "status": {"containerStatuses": [state or {"state": ended}]}}


def test_the_result_is_read_from_the_launchers_termination_message() -> None:
    pod = pod_view(launcher_pod(msgspec.json.encode(DONE).decode()))
    assert read_measured(pod.termination) == DONE


def test_a_container_that_runs_again_still_tells_of_its_last_end() -> None:
    pod = pod_view(launcher_pod("", state={"running": {}}, lastState={"terminated": {"message": "killed"}}))
    assert pod.termination == "killed"


def test_messages_of_workers_are_not_kept() -> None:
    pod = launcher_pod("secret")
    pod["metadata"]["labels"]["training.kubeflow.org/job-role"] = "worker"
    assert pod_view(pod).termination == ""


def test_unknown_fields_are_passed_over() -> None:
    assert read_measured('{"epoch": 1, "epochs": 2, "novelty": {"a": [1]}}') == Measured(epoch=1, epochs=2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mpirun: all ranks died",
        "[]",
        '{"epoch": 1}',
        '{"epoch": "1", "epochs": 2}',
        '{"epoch": 1, "epochs": 2, "loss": NaN}',
        '{"epoch": 1, "epochs": 2, "loss": 1e999}',
        '{"epoch": 1, "epochs": 2, "accuracy": 1.5}',
        '{"epoch": 1, "epochs": 2, "epochSeconds": -1.0}',
        '{"epoch": -1, "epochs": 2}',
        '{"epoch": 1, "epochs": 99999999999}',
        '{"epoch": 1, "epochs": 2' + ', "x": "' + "a" * 4096 + '"}',
        '{"epoch": 1, "epochs": 2, "phases": [{"phase": "forward", "seconds": -1.0}]}',
        '{"epoch": 1, "epochs": 2, "phases": [{"phase": "forward", "seconds": 1e999}]}',
        '{"epoch": 1, "epochs": 2, "phases": [{"phase": "' + "a" * 25 + '", "seconds": 1.0}]}',
        '{"epoch": 1, "epochs": 2, "phases": [' + ",".join(['{"phase": "a", "seconds": 1.0}'] * 13) + "]}",
        '{"epoch": 1, "epochs": 2, "rankComputeSeconds": [1.0, -1.0]}',
        '{"epoch": 1, "epochs": 2, "rankComputeSeconds": [1.0, 1e9]}',
        '{"epoch": 1, "epochs": 2, "rankComputeSeconds": [' + ",".join(["1.0"] * 65) + "]}",
        '{"epoch": 1, "epochs": 2, "busiestPairs": [{"sender": -1, "receiver": 0, "bytes": 1.0}]}',
        '{"epoch": 1, "epochs": 2, "busiestPairs": [{"sender": 1, "receiver": 0, "bytes": NaN}]}',
        '{"epoch": 1, "epochs": 2, "busiestPairs": [' + ",".join(['{"sender": 1, "receiver": 0, "bytes": 1.0}'] * 17) + "]}",
        "{" * 5000,
    ],
)
def test_what_is_no_result_is_none(text: str) -> None:
    assert read_measured(text) is None


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    assert isinstance(read_measured(text), Measured | None)


def test_figures_are_rounded_so_that_noise_is_no_news() -> None:
    found = checked(Measured(epoch=1, epochs=2, loss=0.123456789))
    assert found is not None
    assert found.loss == 0.123457


def test_figures_of_phases_and_pairs_are_rounded_too() -> None:
    found = checked(Measured(1, 2, phases=(PhaseSeconds("step", 0.123456789),), busiest_pairs=(PairBytes(1, 0, 1234567.8),)))
    assert found is not None
    assert (found.phases, found.busiest_pairs) == ((PhaseSeconds("step", 0.123457),), (PairBytes(1, 0, 1234570.0),))


def test_progress_is_put_together_from_rank_0s_series() -> None:
    found = progress([one("epoch", 7), one("epochs", 100), one("loss", 0.4), one("epoch_seconds", 0.2), one("phase_seconds", 9)])
    assert found == {CORA: Measured(epoch=7, epochs=100, loss=0.4, epoch_seconds=0.2)}


@pytest.mark.parametrize("figure", [1.0, 0.0])
def test_progress_on_a_generated_stand_in_says_so(figure: float) -> None:
    found = progress([one("epoch", 7), one("epochs", 100), one("accuracy", 0.8), one("generated", figure)])
    assert found[CORA].generated == bool(figure)


def test_a_result_says_generated_only_where_it_was() -> None:
    told = msgspec.json.encode(msgspec.structs.replace(DONE, generated=True)).decode()
    assert '"generated":true' in told
    assert read_measured(told) == msgspec.structs.replace(DONE, generated=True)
    assert b"generated" not in msgspec.json.encode(DONE)


def test_a_figure_that_is_none_is_left_out_and_the_rest_stays() -> None:
    assert progress([one("epoch", 7), one("epochs", 9), one("loss", float("nan"))]) == {CORA: Measured(epoch=7, epochs=9)}


def test_of_two_pods_that_speak_for_a_job_the_farther_is_believed_whole() -> None:
    old = [one("epoch", 9, instance="old"), one("loss", 0.1, instance="old")]
    new = [one("epoch", 5, instance="new"), one("loss", 0.9, instance="new")]
    assert progress([*new, *old])[CORA].loss == progress([*old, *new])[CORA].loss == 0.1


def test_a_pod_speaks_only_for_jobs_of_its_own_namespace() -> None:
    assert progress([one("epoch", 9, namespace="stranger")]) == {}
    assert CORA in progress([one("epoch", 9, namespace="team")])


def test_all_jobs_are_asked_about_in_one_query() -> None:
    def answer(handler: Handler, query: str) -> None:
        assert query == QUERY
        handler.vector(*((series.labels, 1.0, str(series.value)) for series in (one("epoch", 3), one("epochs", 4))))

    with serving(answer) as (url, asked):
        assert read_progress(PrometheusReader(url), 2.0) == {CORA: Measured(epoch=3, epochs=4)}
        assert len(asked) == 1


def test_a_prometheus_that_is_away_is_a_query_error() -> None:
    with pytest.raises(QueryError) as caught:
        read_progress(PrometheusReader("http://127.0.0.1:1"), 1.0)
    assert caught.value.reason == "PrometheusUnreachable"
    with pytest.raises(QueryError):
        read_progress(PrometheusReader("nonsense"), 1.0)
