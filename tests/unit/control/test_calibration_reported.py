"""What finished runs say of predictions reaches evaluations, metrics and the ClusterTopology; an idle cluster writes nothing."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from hyperscale.control.history.recorder import NodeSource, RunRecorder
from hyperscale.control.history.run_store import RunStore
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.control.topology import writer as publish
from hyperscale.control.topology.calibration_condition import MAX_MESSAGE, PREDICTIONS_CALIBRATED, calibration_condition
from hyperscale.control.topology.writer import TopologyWriter
from hyperscale.evaluate.calibration.calibration_report import CalibrationReport, combined
from hyperscale.evaluate.calibration.stage_verdict import CoverageVerdict
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.evaluation import EvaluationStatus, Interval, StageState, StageSummary
from tests.unit.control.history.test_node_lives import START, node
from tests.unit.control.partition_cases import SAID, TWO, ended
from tests.unit.control.test_topology_writer import OBJECT, Api, World, cluster, looked

FEW = combined({"plan": [0.1] * 5})
MORE = combined({"plan": [0.1] * 6})
NARROW = combined({"plan": [5.0] * 40})


def conditions(api: Api) -> dict[str, dict[str, str]]:
    return {each["type"]: each for each in api.objects[OBJECT]["status"]["conditions"]}


async def test_the_condition_is_written_when_it_changes_and_not_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "LOOK_SECONDS", 0.001)
    api, cache, reports = Api(), World(), list[CalibrationReport]()

    def writer() -> asyncio.Task[None]:
        made = TopologyWriter(
            api,  # type: ignore[arg-type] # a stand-in
            cache,  # type: ignore[arg-type] # a stand-in
            PolicySpec,
            Telemetry(),
            lambda: cache.clock,
            0.001,
            None,
            lambda: reports[-1] if reports else None,
        )
        return asyncio.create_task(made.run())

    task = writer()
    await looked(api, 1)
    assert PREDICTIONS_CALIBRATED not in conditions(api), "history was not read yet"
    for writes, report in ((2, FEW), (2, FEW), (3, MORE), (4, NARROW)):
        cache.clock += 60.0
        reports.append(report)
        await looked(api, writes)
        shown = conditions(api)[PREDICTIONS_CALIBRATED]
        assert (shown["status"], shown["reason"], shown["message"]) == (report.verdict.value, report.reason, report.message)
    task.cancel()
    reports.clear()
    task = writer()
    cache.now = cluster(free=1)
    await looked(api, 5)
    assert conditions(api)[PREDICTIONS_CALIBRATED]["status"] == "False", "a restart keeps it until history was read"
    task.cancel()


def test_the_condition_is_one_line_that_fits() -> None:
    long = CalibrationReport(CoverageVerdict.FALSE, "TooNarrow", "x" * 5000, 5)
    made = calibration_condition(long, 0.0)
    assert (made.status, len(made.message), made.last_transition_time) == ("False", MAX_MESSAGE, "1970-01-01T00:00:00Z")


def test_a_run_and_its_prediction_teach_the_next_evaluation(tmp_path: Path) -> None:
    reader, telemetry = JobReader(), Telemetry()
    nodes = (node("n1"), node("n2"))

    async def cluster_id() -> str:
        return "one"

    async def play() -> None:
        url = f"sqlite:///{tmp_path}/history.sqlite"
        recorder = RunRecorder(reader, telemetry, url, 1, lambda: START, nodes=NodeSource(lambda: nodes, cluster_id))
        ranged = replace(TWO, predicted=replace(TWO.predicted, low_seconds=0.5, high_seconds=2.0))
        said = EvaluationStatus(TWO.plan_id, (StageSummary("twin", StageState.PASSED, 0.9),), epoch_seconds=Interval(2.0, 1.0, 4.0))
        for number in range(3):
            look, status = ended(number, SAID, ranged)
            recorder.note(look, replace(status, evaluation=said, start_time="2025-12-31T23:59:00Z"))
        running = asyncio.create_task(recorder.run())
        async with asyncio.timeout(60):
            while recorder.report is None or recorder.report.runs < 3 or len(reader.lessons.nodes) < 2:  # noqa: ASYNC110 - it sends no event
                await asyncio.sleep(0.02)
        running.cancel()
        await asyncio.wait([running])
        assert recorder.report.message.startswith("Unknown (3 runs): ")
        assert {stage.stage for stage in recorder.report.stages} == {"plan", "forecast"}
        with closing(RunStore(url)) as store:
            assert [run.run_seconds for run in store.runs(10)] == [60.0] * 3
            assert [life.node for life in store.node_lives("one")] == ["n1", "n2"]

    asyncio.run(play())
    lessons = reader.lessons.about({"H100"}, START + 5.0)
    assert (len(lessons.runs), len(lessons.past), len(lessons.nodes), lessons.now) == (3, 3, 2, START + 5.0)
    assert telemetry.registry.get_sample_value("hyperscale_predictions_calibrated", {"status": "Unknown"}) == 1.0
    assert telemetry.registry.get_sample_value("hyperscale_scored_predictions", {"stage": "plan"}) == 3.0
