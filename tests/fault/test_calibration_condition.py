"""The operator says how far its predictions can be trusted: Unknown from few runs, True or False once exact bounds say so."""

from __future__ import annotations

import math
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from e2e.cluster.control_plane import wait_until
from e2e.cluster.topology import DEFAULT_FILE, load
from e2e.jobs import PATIENCE_SECONDS, Job
from hyperscale.control.history.run_store import RunStore
from hyperscale.model.evaluation import EvaluationStatus, Interval, StageState, StageSummary
from tests.builders.history import RUN
from tests.fault.conftest import Stage
from tests.fault.process import running
from tests.unit.control.history.test_finished_runs import server  # noqa: F401 - a fixture

CLUSTER = "/apis/hyperscale.dev/v1alpha1/clustertopologies/default"
SIGMA = 0.2
NODES = len(load(DEFAULT_FILE).nodes)


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/history.sqlite" if request.param == "SQLite" else str(request.getfixturevalue("server"))


def seed(url: str, count: int, scale: float) -> None:
    """Finished runs whose epochs lie `scale` stated deviations from what their plans said."""
    errors = np.random.default_rng(3).normal(size=count) * scale * SIGMA
    half, now = math.exp(1.959964 * SIGMA), time.time()
    ranged = replace(RUN, predicted_seconds=10.0, low_seconds=10.0 / half, high_seconds=10.0 * half, hosts=1)
    with closing(RunStore(url)) as store:
        store.prune(math.inf)
        store.record(
            [
                replace(ranged, uid=f"{scale}-{place}", finished_at=now - count + place, measured_seconds=10.0 * math.exp(error))
                for place, error in enumerate(errors.tolist())
            ]
        )


def evaluated(place: int) -> dict[str, Any]:
    """What was predicted of a run that missed its forecast by up to three deviations and, where that was late, its deadline."""
    error = 3.0 * SIGMA * (place % 7 - 3) / 3.0
    score = 0.95 if error <= 0.0 else 0.3
    half = math.exp(1.959964 * SIGMA)
    said = EvaluationStatus(
        "0" * 16,
        (StageSummary("proof", StageState.PASSED, 1.0), StageSummary("twin", StageState.PASSED, score)),
        epoch_seconds=Interval(10.0, 10.0 / half, 10.0 * half),
        forecast_runs=40,
        deadline_seconds=1_000.0,
    )
    text = msgspec.json.encode(said).decode()
    return {"evaluation": text, "measured_seconds": 10.0 * math.exp(error), "run_seconds": 900.0 if error <= 0.0 else 1_100.0}


def test_the_evaluation_of_a_waiting_plan_learns_from_history(stage: Stage, job: Job, tmp_path: Path) -> None:
    url, now, count = f"sqlite:///{tmp_path}/history.sqlite", time.time(), 42
    ranged = replace(RUN, predicted_seconds=10.0, deadline_seconds=1_000.0, hosts=1)
    with closing(RunStore(url)) as store:
        store.record([replace(ranged, uid=str(place), finished_at=now - count + place, **evaluated(place)) for place in range(count)])
    stage.proxy.reset()
    with running(stage.operator(history_url=url), stage.api) as operator:
        operator.wait_ready()
        wait_until(lambda: operator.metric("hyperscale_scored_predictions", stage="forecast") == count, PATIENCE_SECONDS, "not scored")
        job.create(startPolicy="Manual", runPolicy={"activeDeadlineSeconds": 86_400})
        job.wait(lambda: bool(job.status().get("evaluation")), "the plan is not evaluated")
        found = job.status()["evaluation"]
        assert found.get("fault", "") == ""
        assert found["forecastRuns"] == count
        assert found["valueSource"].startswith(f'V is the chance of "ended in time", calibrated on {count} finished runs, of which 24 did')
        assert found["epochSeconds"]["low"] < found["epochSeconds"]["middle"] < found["epochSeconds"]["high"]
        assert job.mpijob() is None


def condition(stage: Stage) -> dict[str, Any]:
    status: dict[str, Any] = (stage.api.find(CLUSTER) or {}).get("status") or {}
    return next((each for each in status.get("conditions", ()) if each["type"] == "PredictionsCalibrated"), {})


def version(stage: Stage) -> str:
    return str((stage.api.find(CLUSTER) or {}).get("metadata", {}).get("resourceVersion"))


@pytest.mark.parametrize(
    ("count", "scale", "status", "reason", "words"),
    [
        (10, 1.0, "Unknown", "TooFewRuns", "Unknown (10 runs): plan: 10 runs are too few to judge"),
        (320, 1.0, "True", "Calibrated", "of 320 within the 68 % interval (true share "),
        (80, 2.5, "False", "TooNarrow", "plan: its intervals are too narrow"),
    ],
    ids=["few", "true", "overconfident"],
)
def test_the_condition_follows_exact_bounds_and_is_written_once(
    stage: Stage, url: str, count: int, scale: float, status: str, reason: str, words: str
) -> None:
    seed(url, count, scale)
    stage.proxy.reset()
    with running(stage.operator(history_url=url, topology_seconds=1), stage.api) as operator:
        operator.wait_ready()
        wait_until(lambda: condition(stage).get("reason") == reason, PATIENCE_SECONDS, f"not {reason}: {condition(stage)}")
        wait_until(lambda: operator.metric("hyperscale_scored_predictions", stage="plan") == count, PATIENCE_SECONDS, "not counted")
        shown = condition(stage)
        assert shown["status"] == status
        assert words in shown["message"]
        assert operator.metric("hyperscale_predictions_calibrated", status=status) == 1.0
        # The operator counts a write after it was made: on a busy machine the condition is there before the count.
        wait_until(lambda: operator.metric("hyperscale_topology_writes_total") >= 1.0, PATIENCE_SECONDS, "no write was counted")
        before, writes = version(stage), operator.metric("hyperscale_topology_writes_total")
        wait_until(lambda: len(_lives(url)) >= NODES, PATIENCE_SECONDS, "the lives of nodes are not kept")
        assert (version(stage), operator.metric("hyperscale_topology_writes_total")) == (before, writes), "an idle operator writes nothing"
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            assert connection.execute("SELECT count(*) FROM hyperscale_runs").fetchone() == (count,)


def _lives(url: str) -> tuple[object, ...]:
    """Of all nodes that the database holds."""
    with closing(RunStore(url, make=False)) as store, store._engine.connect() as connection:
        return tuple(connection.exec_driver_sql("SELECT node FROM hyperscale_node_lives").all())
