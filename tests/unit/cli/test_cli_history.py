"""`hyperscale history`, and what `explain` says of measured beside predicted."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from hyperscale.cli.explain.explanation import ExplainedJob, explain, plan_sentence
from hyperscale.control.history.run_store import RunStore
from hyperscale.model.api.measured import Measured, PairBytes, PhaseSeconds
from hyperscale.model.history.corrections import COST_MODEL
from hyperscale.model.plan import Correction, Prediction
from hyperscale.model.status import StateWord
from tests.builders import history as recorded
from tests.builders.seen import plan, status
from tests.unit.cli.cli_samples import run

RUN = replace(recorded.RUN, finished_at=0.0, layers=2, hidden_size=64, correction=2.0, measured_seconds=3.0, accuracy=0.8125, measured="{}")


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = f"sqlite:///{tmp_path}/history.sqlite"
    history = RunStore(made)
    history.record([replace(RUN, uid=str(number), name=f"cora-{number}", finished_at=float(number)) for number in range(5)])
    history.record([replace(RUN, uid="gat", name="gat", architecture="GAT", measured_seconds=None, accuracy=None, phase="Failed")])
    history.close()
    return made


def test_runs_are_shown_predicted_beside_measured_and_what_follows(url: str) -> None:
    ran = run("history", "--url", url)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[1].split() == [
        "team/cora-4",
        "1970-01-01T00:00:04Z",
        "Succeeded",
        "GCN",
        "A100",
        "2",
        "2",
        "s",
        "3",
        "s",
        "1.5",
        "factor",
        "81.25%",
    ]
    assert ran.out.splitlines()[-1].split() == ["GCN", "A100", "3", "0", "5"]
    assert "unknown" in next(line for line in ran.out.splitlines() if "team/gat" in line)


def test_json_holds_runs_and_corrections(url: str) -> None:
    shown = json.loads(run("history", "--url", url, "--limit", "2", "-o", "json").out)
    assert [one["job"] for one in shown["runs"]] == ["team/cora-4", "team/cora-3"]
    assert shown["runs"][0]["ratio"] == 1.5
    assert shown["calibrations"]["GCN"] == [{"products": "A100", "factor": 3.0, "spread": 0.0, "runs": 5}]


def test_accuracy_on_a_generated_stand_in_is_marked(tmp_path: Path) -> None:
    made = f"sqlite:///{tmp_path}/history.sqlite"
    history = RunStore(made)
    history.record([replace(RUN, measured='{"epoch":9,"epochs":9,"generated":true}')])
    history.close()
    assert "81.25% (generated graph)" in run("history", "--url", made).out
    assert json.loads(run("history", "--url", made, "-o", "json").out)["runs"][0]["generated"]


def test_one_architecture_can_be_asked_for(url: str) -> None:
    assert "cora" not in run("history", "--url", url, "--architecture", "GAT").out
    assert "no architecture has 9 finished runs" in run("history", "--url", url, "--min-runs", "9").out


def test_the_url_may_come_from_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSCALE_HISTORY_URL", url)
    assert "team/cora-4" in run("history").out


def test_an_empty_history_says_so(tmp_path: Path) -> None:
    RunStore(f"sqlite:///{tmp_path}/new.sqlite").close()
    assert run("history", "--url", f"sqlite:///{tmp_path}/new.sqlite").out == "No run has finished yet.\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--url: no database is named"),
        (["--url", "nonsense"], "write sqlite:"),
        (["--url", "sqlite:////nowhere/at/all/h"], "no history of runs is there"),
        (["--url", "sqlite://"], "no history of runs is there"),
        (["--url", "sqlite:///x", "--architecture", "CNN"], "write one of GCN"),
        (["--limit", "0"], "write a whole number from 1"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HYPERSCALE_HISTORY_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    ran = run("history", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err


def test_explain_says_how_far_a_run_is_and_what_was_predicted() -> None:
    said = Measured(epoch=7, epochs=100, loss=0.4, accuracy=0.8, epoch_seconds=2.0)
    told = status(StateWord.RUNNING, observed_generation=1, plan=plan("a", "b"), measured=said)
    summary = explain(ExplainedJob("cora", "team", 1, False, told, ())).summary
    assert "Epoch 7 of 100: loss 0.4, accuracy 80.00%." in summary
    assert "An epoch takes 2 s, 2 × the predicted 1 s." in summary
    stand_in = replace(told, measured=replace(said, generated=True))
    summary = explain(ExplainedJob("cora", "team", 1, False, stand_in, ())).summary
    assert "Epoch 7 of 100: loss 0.4, accuracy 80.00% on a generated graph." in summary


TOLD = Measured(
    epoch=9,
    epochs=9,
    peer_bytes=3000.0,
    phases=(PhaseSeconds("forward", 0.003), PhaseSeconds("halo", 0.02)),
    rank_compute_seconds=(0.004, 0.02, 0.01),
    busiest_pairs=(PairBytes(1, 0, 2000.0), PairBytes(0, 1, 1000.0)),
)


def test_explain_says_where_an_epoch_goes_who_computes_longest_and_who_sends_most() -> None:
    told = status(StateWord.SUCCEEDED, observed_generation=1, plan=plan("a", "b"), measured=TOLD)
    summary = explain(ExplainedJob("cora", "team", 1, False, told, ())).summary
    assert "A mean epoch of the slowest rank: forward 3 ms, halo 20 ms." in summary
    assert "Rank 1 computes longest, 20 ms; rank 0 shortest, 4 ms." in summary
    assert "Most is sent by rank 1 to rank 0: 2 kB an epoch of all ranks' 3 kB." in summary


@pytest.mark.parametrize(
    ("seconds", "sentence"),
    [
        ((1.0, 1.0), "All ranks compute alike: 1 s an epoch."),
        ((1.0004, 1.0), "All ranks compute alike: 1 s an epoch."),
        ((0.0, 0.0), "All ranks compute alike: 0 µs an epoch."),
        ((1.0, 1.06), "Rank 1 computes longest, 1.06 s; rank 0 shortest, 1 s."),
        ((1.0, 0.0), "Rank 0 computes longest, 1 s; rank 1 shortest, 0 µs."),
    ],
)
def test_explain_names_a_longest_rank_only_where_ranks_differ(seconds: tuple[float, ...], sentence: str) -> None:
    measured = replace(TOLD, rank_compute_seconds=seconds)
    told = status(StateWord.SUCCEEDED, observed_generation=1, plan=plan("a", "b"), measured=measured)
    assert sentence in explain(ExplainedJob("cora", "team", 1, False, told, ())).summary


def test_json_tells_phases_ranks_and_pairs_of_each_run(tmp_path: Path) -> None:
    made = f"sqlite:///{tmp_path}/history.sqlite"
    history = RunStore(made)
    history.record([replace(RUN, measured=msgspec.json.encode(TOLD).decode())])
    history.close()
    (one,) = json.loads(run("history", "--url", made, "-o", "json").out)["runs"]
    assert one["phases"] == [{"phase": "forward", "seconds": 0.003}, {"phase": "halo", "seconds": 0.02}]
    assert one["rankComputeSeconds"] == [0.004, 0.02, 0.01]
    assert one["busiestPairs"][0] == {"sender": 1, "receiver": 0, "bytes": 2000.0}


def test_the_plan_says_what_it_was_corrected_by() -> None:
    corrected = replace(plan("a"), predicted=Prediction(2.0, 0.2, calibration=Correction("A100", 2.0, 0.1, 7)))
    assert "corrected by 2, the median of 7 finished runs on A100 (spread 0.1)." in plan_sentence(corrected)


def test_the_plan_says_that_a_curve_predicted_it() -> None:
    by_curve = replace(plan("a"), predicted=Prediction(2.0, 0.2, calibration=Correction("A100", 2.0, 0.1, 30, by_curve=True)))
    assert "predicted from the steps of 30 finished runs of this workload on A100 (spread 0.1)." in plan_sentence(by_curve)


def test_looking_makes_no_database_and_no_table_in_anothers(tmp_path: Path) -> None:
    import sqlite3

    absent, other = tmp_path / "typo.sqlite", tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("create table theirs (a text)")
    connection.commit()
    before = other.read_bytes()
    for file in (absent, other):
        ran = run("history", "--url", f"sqlite:///{file}")
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert f"{file}: no history of runs is there; write the database that the operator records to" in ran.err
    assert not absent.exists()
    assert other.read_bytes() == before
    connection.close()


def measured_table(file: Path, rows: int = 60) -> Path:
    """Steps that follow a curve but for 2 %."""
    chance = np.random.default_rng(4)
    lines = ["placement,local_bsz,step_time_s,other"]
    for number in range(rows):
        placement = ("1", "2", "4", "11", "22", "44", "211", "4-4-4", "10-2", "1111")[number % 10]
        gpus = sum(map(int, placement.split("-") if "-" in placement else placement))
        batch = 8 * (1 + number // 10)
        lines.append(f"{placement},{batch},{(0.1 + 0.01 * batch + 0.05 * (gpus - 1)) * chance.normal(1.0, 0.02)},x")
    file.write_text("\n".join(lines))
    return file


def test_a_measured_table_is_fitted_and_judged_on_its_other_half(tmp_path: Path) -> None:
    file = measured_table(tmp_path / "table.csv")
    shown = json.loads(run("history", "--placements", str(file), "-o", "json").out)
    assert (shown["file"], shown["rows"], shown["placements"], shown["seed"]) == ("table.csv", 60, 10, 0)
    assert shown["error"] < 0.06
    assert min(shown["tauSeconds"], shown["tauSpeed"]) > 0.85
    assert shown["curve"]["links"][1]["leastGpus"] == 2
    text = run("history", "--placements", str(file), "--seed", "3").out
    assert "table.csv: 60 measured steps of 10 placements" in text
    assert "seed 3" in text


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("placement,local_bsz\n1,2\n", "line 1: no column step_time_s; write a header with placement, local_bsz, step_time_s"),
        ("placement,local_bsz,step_time_s\n1,8,0.1\n1x,8,0.1\n", "line 3: "),
        ("placement,local_bsz,step_time_s\n1,8,nan\n", "line 2: needs a GPU, and a batch and seconds above 0"),
        ("placement,local_bsz,step_time_s\n00,8,1\n", "line 2: needs a GPU"),
        ("placement,local_bsz,step_time_s\n1-0--2,8,1\n", "line 2: "),
        ("placement,local_bsz,step_time_s\n1\n", "line 2: "),
        ("placement,local_bsz,step_time_s\n1,8,1\n", "1 rows; half of them must be 12 or more"),
        (b"\xff\xfe\x00", "--placements: "),
    ],
)
def test_a_table_that_cannot_be_read_is_one_line(table: str | bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_bytes(table.encode() if isinstance(table, str) else table)
    ran = run("history", "--placements", str(file))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err


def test_runs_say_which_correction_was_used_and_curves_how_good_they_are(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/h.sqlite"
    history = RunStore(url)
    shapes = [(1,), (2,), (4,), (1, 1), (2, 2), (4, 4), (1, 1, 1), (2, 2, 2)]
    runs = []
    for number in range(24):
        shape = shapes[number % 8]
        plan_json = {
            "workers": [{"node": f"n{place}", "gpus": 1} for place, count in enumerate(shape) for _ in range(count)],
            "predicted": {"calibration": {"byCurve": number == 23}, "costModel": COST_MODEL},
        }
        seconds = 10.0 / sum(shape) + 3.0 * (len(shape) - 1)
        runs.append(
            replace(RUN, uid=str(number), finished_at=float(number), measured_seconds=seconds, plan=msgspec.json.encode(plan_json).decode())
        )
    history.record(runs)
    history.close()
    shown = json.loads(run("history", "--url", url, "-o", "json").out)
    assert [one["byCurve"] for one in shown["runs"]][:2] == [True, False]
    (curve,) = shown["curves"]
    assert (curve["runs"], curve["placements"], curve["workload"]["architecture"]) == (24, 8, "GCN")
    assert curve["curve"]["logError"] < 0.2
    text = run("history", "--url", url).out
    assert "error of runs held out" in text
    assert "full graph" in text
    assert run("history", "--url", url, "--architecture", "GAT").out == "No run has finished yet.\n"


def test_how_often_intervals_held_is_a_table(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/h.sqlite"
    ranged = replace(RUN, predicted_seconds=10.0, correction=1.0, low_seconds=5.0, high_seconds=20.0)
    measured = [10.0 * 1.1 ** (place % 5 - 2) for place in range(30)]
    history = RunStore(url)
    history.record(
        [replace(ranged, uid=str(place), finished_at=1000.0 + place, measured_seconds=seconds) for place, seconds in enumerate(measured)]
    )
    history.close()
    ran = run("history", "--url", url)
    (row,) = [line.split() for line in ran.out.splitlines() if line.startswith("plan ")]
    assert row[:6] == ["plan", "30", "28", "False", "TooWide", "+0.00"]
    assert row[8:10] == ["100", "%"]


@pytest.mark.parametrize(("at", "shown"), [(9e18, "9999-12-31T23:59:59Z"), (-9e18, "1970-01-01T00:00:00Z")])
def test_a_time_that_no_calendar_has_is_shown_as_the_end_of_it(url: str, at: float, shown: str) -> None:
    store = RunStore(url)
    store.record([replace(RUN, uid="late", name="late", finished_at=at)])
    store.close()
    ran = run("history", "--url", url, "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    assert {one["finished"] for one in json.loads(ran.out)["runs"] if one["uid"] == "late"} == {shown}
    assert run("history", "--url", url).code == 0
