"""`hyperscale learn queue`: streams from a cluster's history, and the command around them."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

import msgspec
import numpy as np
import pytest

from hyperscale.cli.training.past_runs import past_runs
from hyperscale.control.history.run_store import RunStore
from hyperscale.learn.lesson import Assignment, Lesson, LessonError, PastRun
from hyperscale.learn.streams import queue_lesson, stream_lesson
from hyperscale.learn.streams.guard_streams import _gap_variations
from hyperscale.learn.streams.history_streams import BLOCK, EARLY_PART, MIN_RUNS, history_of, judging_streams, resampled, split
from hyperscale.learn.streams.stream_lesson import network_of
from hyperscale.planner.queue.arrival_history import gap_variation
from hyperscale.planner.queue.likeness import FigureRange
from hyperscale.planner.queue.queue_agent import AgentManifest, load_agent
from hyperscale.planner.queue.queue_types import ArrivalHistory
from tests.builders.history import RUN
from tests.unit.cli.cli_samples import run


def runs(count: int = MIN_RUNS + 50, seed: int = 1) -> tuple[PastRun, ...]:
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(300.0, count))
    seconds, workers = rng.lognormal(7.0, 1.0, count), rng.choice((1, 2, 4, 8), count)
    return tuple(PastRun(float(at), float(long), int(size)) for at, long, size in zip(arrivals, seconds, workers, strict=True))


def test_the_order_of_the_rows_does_not_matter() -> None:
    assert history_of(runs()).digest == history_of(runs()[::-1]).digest


def test_what_judges_is_later_than_what_teaches() -> None:
    history = history_of(runs())
    earlier, later = split(history)
    assert len(earlier.gaps) == int(EARLY_PART * len(history.gaps))
    assert np.array_equal(np.concatenate((earlier.run_seconds, later.run_seconds)), history.run_seconds)


def test_drawn_jobs_are_blocks_of_the_history() -> None:
    history = history_of(runs())
    jobs = resampled(history, 2 * BLOCK, np.random.default_rng(5))
    work = history.run_seconds * history.workers / 4
    assert len(jobs.gaps) == 2 * BLOCK
    for first in (0, BLOCK):
        place = int(np.flatnonzero(np.isclose(work, jobs.work_seconds[first]))[0])
        assert np.allclose(jobs.work_seconds[first : first + BLOCK], work[place : place + BLOCK])


def test_recorded_streams_are_windows_of_the_later_part_in_their_order() -> None:
    _, later = split(history_of(runs(800)))
    recorded, drawn = judging_streams(later)
    assert len(recorded) == len(drawn) >= 20
    assert np.allclose(recorded[0].recorded.work_seconds, (later.run_seconds * later.workers / 4)[:150])  # type: ignore[union-attr]
    assert not {one.seed for one in recorded} & {one.seed for one in drawn}


def test_too_few_runs_and_runs_that_are_none_are_refused_in_words() -> None:
    with pytest.raises(LessonError, match="at least 200 are needed"):
        history_of(runs(MIN_RUNS - 1))
    with pytest.raises(LessonError, match="leave such runs out"):
        history_of((*runs(), PastRun(0.0, float("nan"), 2)))
    for figures in ((0.0, 1e9, 2, None), (0.0, 10.0, 10**30, None), (1e12, 10.0, 2, None), (0.0, 10.0, 2, float("inf"))):
        with pytest.raises(LessonError, match="leave such runs out"):
            history_of((*runs(), PastRun(*figures)))
    with pytest.raises(LessonError, match="arrived at once"):
        history_of(tuple(msgspec.structs.replace(one, arrival_seconds=5.0) for one in runs()))


def test_the_cluster_holds_as_many_workers_as_ran_at_once() -> None:
    started = tuple(msgspec.structs.replace(one, start_seconds=one.arrival_seconds, workers=10, run_seconds=700.0) for one in runs())
    assert history_of(started).nodes > 20
    after = tuple(msgspec.structs.replace(one, start_seconds=1000.0 * place) for place, one in enumerate(started))
    assert history_of(after).nodes == 20  # ten workers at a time: half of the nodes are the most that a job may have


@pytest.mark.long
def test_a_training_writes_weights_with_the_verdict_and_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    once, again = tmp_path / "once", tmp_path / "again"
    history = runs()
    queue_lesson.train(Assignment(once, steps=1, history=history), lambda _: None)
    queue_lesson.train(Assignment(again, steps=1, history=history), lambda _: None)
    queue_lesson.train(Assignment(again, steps=1, resume=True), lambda _: None)
    assert (once / "stream.safetensors").read_bytes() == (again / "stream.safetensors").read_bytes()
    manifest = load_agent(once).manifest
    assert isinstance(manifest, AgentManifest)
    shipped, _ = network_of(load_agent(resources.files("hyperscale.planner.learned") / "weights"))
    assert manifest.start == hashlib.sha256(shipped.tobytes()).hexdigest(), "the weights that training continued from are named"
    assert (manifest.judged is None) == bool(manifest.refusals)
    assert f"{queue_lesson.RECORDED}: worst stream" in manifest.figures
    with pytest.raises(LessonError, match="with another history or cluster; use the same: leave --history and --snapshot out"):
        queue_lesson.train(Assignment(once, steps=1, resume=True, history=runs(seed=2)), lambda _: None)


def test_runs_of_the_database_arrive_when_their_job_was_created(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite"
    store = RunStore(url)
    one = msgspec.structs.replace(RUN, uid="a", finished_at=1000.0, run_seconds=100.0, created_at=700.0, workers=3, gpus=6)
    old = msgspec.structs.replace(one, uid="b", created_at=None)
    store.record([one, old, msgspec.structs.replace(one, uid="c", run_seconds=None)])
    store.close()
    assert sorted(past_runs(url), key=lambda past: past.arrival_seconds) == [
        PastRun(700.0, 100.0, 3, 900.0, 2),
        PastRun(900.0, 100.0, 3, 900.0, 2),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("arrival_seconds,workers\n1,2\n", "has no column run_seconds"),
        ("arrival_seconds,run_seconds,workers\n1,2,3\n1,x,3\n", "line 3: write two numbers"),
        ("arrival_seconds,run_seconds,workers\n1,2,3\n1,2," + "9" * 140_000 + "\n", "line 3: field larger"),
        ("arrival_seconds,run_seconds,workers\n1,2,3\n1,2," + "9" * 40 + "\n", "line 3: a run of 2 s with more than 1,000 workers"),
        ("arrival_seconds,run_seconds,workers\n1,2,1001\n", "line 2: a run of 2 s with more than"),
        ("arrival_seconds,run_seconds,workers\n1,2,3\n1,1e300,3\n", "line 3: a run of 1e+300 s"),
        ("arrival_seconds,run_seconds,workers\n-1e308,2,3\n", "line 2: a run at -1e+308 s"),
        ("arrival_seconds,run_seconds,workers\nnan,2,3\n", "line 2: a run at nan s"),
    ],
)
def test_a_file_that_is_no_history_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(text)
    ran = run("learn", "queue", "--out", str(tmp_path / "out"), "--history", str(file))
    assert ran.code == 2
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_file_of_a_spreadsheet_is_read_with_its_mark_and_its_spaces(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    file.write_text("\ufeffarrival_seconds, run_seconds, workers\r\n1, 2, 3\r\n", encoding="utf-8")
    assert past_runs(str(file)) == (PastRun(1.0, 2.0, 3),)


@pytest.mark.parametrize("lesson", [queue_lesson, stream_lesson], ids=["queue", "streams"])
def test_damaged_weights_in_use_are_not_blamed_on_the_candidate(lesson: Lesson, tmp_path: Path) -> None:
    shipped, used = Path(str(resources.files("hyperscale.planner.learned") / "weights")), tmp_path / "used"
    used.mkdir()
    (used / "stream.json").write_text("{")
    with pytest.raises(LessonError, match=f"the weights in use in {used} cannot be read: .*name another folder with --baseline"):
        lesson.judge(shipped, used, 0)
    with pytest.raises(LessonError, match=f"cannot judge {used}: .*train first"):
        lesson.judge(used, shipped, 0)


@pytest.mark.parametrize(("nodes", "sequences"), [(4, 48), (24, 48), (25, 46), (48, 24), (64, 18)])
def test_a_step_on_a_larger_cluster_has_fewer_sequences(nodes: int, sequences: int) -> None:
    assert queue_lesson.sequences_on(nodes) == sequences


def test_a_load_outside_of_what_is_simulated_is_told() -> None:
    idle = tuple(msgspec.structs.replace(one, run_seconds=one.run_seconds / 50.0, start_seconds=one.arrival_seconds) for one in runs())
    parts = split(history_of(idle))
    figures = queue_lesson.loads_told(parts)
    assert figures["later history: load seen"] == pytest.approx(parts[1].load_seen)
    assert figures["later history: load seen"] < figures["later history: load used"] == 0.5
    assert "earlier history: load used" in figures
    assert queue_lesson.loads_told(split(history_of(runs()))) == {}


def test_without_a_history_the_command_says_what_to_name(tmp_path: Path) -> None:
    ran = run("learn", "queue", "--out", str(tmp_path / "out"))
    assert ran.code == 2
    assert "--history URL or FILE" in ran.err


@pytest.mark.parametrize(
    ("lesson", "option"), [("streams", "--history"), ("ppo", "--history"), ("ppo", "--start"), ("streams", "--snapshot")]
)
def test_an_option_of_another_lesson_is_refused_before_a_training_of_hours(tmp_path: Path, lesson: str, option: str) -> None:
    ran = run("learn", lesson, "--out", str(tmp_path / "out"), option, str(tmp_path / "file"))
    assert ran.code == 2
    assert f"{option} is for `learn " in ran.err
    assert f"leave it out for `learn {lesson}`" in ran.err
    assert not (tmp_path / "out").exists()


def test_a_range_of_gaps_can_be_read_back_where_a_sweep_comes_before_any_other_job() -> None:
    sweep = np.concatenate([np.zeros(80), np.arange(1.0, 71.0)])
    gaps = _gap_variations(sweep)
    written = FigureRange(min(gaps), max(gaps))
    assert msgspec.json.decode(msgspec.json.encode(written), type=FigureRange) == written
    assert written.holds(gap_variation(ArrivalHistory()))
