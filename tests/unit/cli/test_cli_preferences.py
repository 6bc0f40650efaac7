"""`hyperscale preferences` and `history --decisions`: what people decided, the weights that follow, and changes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperscale.control.history.decision_store import DecisionStore
from hyperscale.control.history.decisions_table import DecisionKind
from hyperscale.model.status import JobStatus, to_wire
from tests.unit.cli.cli_samples import run
from tests.unit.control.history.test_decisions_of_people import CHEAP, FAST, OFFERED, OFFERS, SAFE, chosen, url_of


@pytest.fixture(name="history")
def history_fixture(tmp_path: Path) -> str:
    store = DecisionStore(url_of(tmp_path))
    store.record([chosen(CHEAP.plan_id, 1_700_000_000.0), chosen(SAFE.plan_id, 1_700_000_001.0, "u2", DecisionKind.REJECTED)])
    store.close()
    return url_of(tmp_path)


def preferences(history: str, *more: str) -> Any:
    ran = run("preferences", "--url", history, "-o", "json", *more)
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def test_preferences_are_shown_with_answers_and_the_next_comparison(history: str) -> None:
    (shown,) = preferences(history)
    assert shown["namespace"] == "team"
    assert sum(shown["weights"].values()) == pytest.approx(1.0, abs=1e-5)
    assert len(shown["answers"]) == 2
    assert {shown["nextComparison"]["first"], shown["nextComparison"]["second"]} <= {one.plan_id for one in OFFERS}
    text = run("preferences", "--url", history).out
    assert "the comparison that would teach most" in text
    assert f"u1:{CHEAP.plan_id}:{FAST.plan_id}" in text


def test_the_next_comparison_is_looked_for_among_jobs_that_wait(history: str, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.json"
    waiting = {
        "kind": "GNNTrainingJob",
        "metadata": {"name": "now", "namespace": "team"},
        "status": to_wire(JobStatus(alternatives=OFFERED)),
    }
    jobs.write_text(json.dumps({"kind": "List", "items": [waiting, {**waiting, "status": 3}, 4]}))
    (shown,) = preferences(history, "-f", str(jobs))
    assert shown["nextComparison"]["job"] == "now"
    other = {**waiting, "metadata": {"name": "now", "namespace": "new"}}
    jobs.write_text(json.dumps({"kind": "List", "items": [other]}))
    assert [one["namespace"] for one in preferences(history, "-f", str(jobs))] == ["new", "team"]
    jobs.write_text("{}")
    assert "holds no GNNTrainingJob" in run("preferences", "--url", history, "-f", str(jobs)).err


def test_an_answer_is_forgotten_recalled_and_weights_are_set_and_cleared(history: str) -> None:
    (before,) = preferences(history)
    answer = before["answers"][0]["identifier"]
    (forgotten,) = preferences(history, "-n", "team", "--forget", answer, "--because", "a test")
    assert [one["counts"] for one in forgotten["answers"]] == [False, True]
    assert forgotten["weights"] != before["weights"]
    assert preferences(history, "-n", "team", "--recall", answer) == [before]
    (fixed,) = preferences(history, "-n", "team", "--set", "time=0.2,cost=0.6,risk=0.2")
    assert fixed["wasSet"]
    assert fixed["weights"] == {"time": 0.2, "cost": 0.6, "risk": 0.2}
    assert preferences(history, "-n", "team", "--clear") == [before]
    kinds = [row["decision"] for row in json.loads(run("history", "--decisions", "--url", history, "-o", "json").out)]
    assert kinds == ["WeightsCleared", "WeightsSet", "Recalled", "Forgotten", "Rejected", "Preferred"]


@pytest.mark.parametrize(
    "more",
    [
        ("--set", "time=0.2,cost=0.6,risk=0.2"),
        ("-n", "team", "--set", "time=0.2,cost=0.6"),
        ("-n", "team", "--set", "time=nan,cost=0.6,risk=0.2"),
        ("-n", "team", "--set", "time=0.5,cost=0.6,risk=0.2"),
        ("-n", "team", "--set", "\x1b[2J" * 999),
        ("-n", "team", "--forget", "x" * 5000),
        ("-n", "Team A/../x", "--set", "time=0.2,cost=0.6,risk=0.2"),
        ("-n", "", "--clear"),
        ("-n", "team", "--recall", f"u1:{CHEAP.plan_id}:{FAST.plan_id}"),
        ("-n", "team", "--clear", "--because", "x" * 1001),
    ],
)
def test_a_change_that_says_nothing_sensible_is_one_line_and_no_row(history: str, more: tuple[str, ...]) -> None:
    ran = run("preferences", "--url", history, *more)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert len(json.loads(run("history", "--decisions", "--url", history, "-o", "json").out)) == 2


def test_decisions_are_printed_newest_first_with_the_reason(history: str) -> None:
    lines = run("history", "--decisions", "--url", history).out.splitlines()
    assert lines[0].split() == ["TIME", "JOB", "DECISION", "PLAN", "OR", "WEIGHTS", "OFFERED", "BY", "BECAUSE"]
    assert lines[1].split() == ["2023-11-14T22:13:21Z", "team/cora", "Rejected", SAFE.plan_id, "3", "-", "-"]
    assert len(lines) == 3


def test_weights_that_are_cut_to_the_bounds_are_told(history: str) -> None:
    assert preferences(history, "-n", "team", "--set", "time=0.2,cost=0.7,risk=0.1")[0]["note"] == ""
    (shown,) = preferences(history, "-n", "team", "--set", "time=0,cost=1,risk=0")
    assert shown["note"].startswith("cut to the bounds of the policy: time 0, cost 1, risk 0 was set, time 0.05, cost 0.9, risk 0.05 holds")
    assert f"team: {shown['note']}." in run("preferences", "--url", history).out


def test_weights_that_were_set_are_shown_with_the_decision(history: str) -> None:
    preferences(history, "-n", "team", "--set", "time=0.2,cost=0.7,risk=0.1")
    newest, before, *_ = json.loads(run("history", "--decisions", "--url", history, "-o", "json").out)
    assert newest["weights"] == {"time": 0.2, "cost": 0.7, "risk": 0.1}
    assert before["weights"] is None
    assert "time=0.2,cost=0.7,risk=0.1" in run("history", "--decisions", "--url", history).out.splitlines()[1]


def test_a_database_without_decisions_is_one_line(tmp_path: Path) -> None:
    assert run("preferences", "--url", url_of(tmp_path)).err.count("\n") == 1
    assert run("preferences", "--url", "nonsense").code == 2
    DecisionStore(url_of(tmp_path)).close()
    assert run("preferences", "--url", url_of(tmp_path)).out == "No decision of a person is in history.\n"
    assert run("history", "--decisions", "--url", url_of(tmp_path)).out == "No person has decided on a plan yet.\n"
