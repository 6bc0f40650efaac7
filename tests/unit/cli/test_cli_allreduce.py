"""`hyperscale allreduce`: the schedule of a table of gradients beside what other rules take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.cli_samples import run

LAYERS = "name,numel,forward_order\nconv.weight,400000,0\nconv.bias,64,1\nlinear.weight,1000000,2\nlinear.bias,1000,3\n"
NETWORK = ("--alpha", "5.2e-4", "--beta", "8.6e-10")


@pytest.fixture(name="layers")
def layers_fixture(tmp_path: Path) -> str:
    file = tmp_path / "layers.csv"
    file.write_text(LAYERS)
    return str(file)


def test_json_has_groups_by_name_bounds_and_what_other_rules_take(layers: str) -> None:
    ran = run("allreduce", layers, *NETWORK, "--backward-seconds", "0.02", "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    answer = json.loads(ran.out)
    assert [name for group in answer["groups"] for name in group] == ["linear.bias", "linear.weight", "conv.bias", "conv.weight"]
    assert answer["bounds"]["bestSeconds"] <= answer["finishSeconds"]
    assert all(rule["ratio"] >= 1 - 1e-12 for rule in answer["rules"])
    assert answer["environment"]["HOROVOD_DISABLE_GROUP_FUSION"] == "1"
    assert answer["messages"][-1]["endSeconds"] == answer["finishSeconds"]


def test_the_table_draws_every_message(layers: str) -> None:
    ran = run("allreduce", layers, *NETWORK, "--backward-seconds", "0.02")
    assert ran.code == 0
    assert ran.out.count("#|") + ran.out.count("# ") >= 2
    assert "Horovod, default settings" in ran.out
    assert "HOROVOD_CYCLE_TIME=" in ran.out


def test_measured_ready_times_need_no_backward_seconds(tmp_path: Path) -> None:
    file = tmp_path / "measured.csv"
    file.write_text("name,bytes,ready_seconds\na,1000,0.002\nb,2000,0.001\n")
    answer = json.loads(run("allreduce", str(file), *NETWORK, "-o", "json").out)
    assert [name for group in answer["groups"] for name in group] == ["b", "a"]
    assert answer["backwardSeconds"] == 0.002


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,numel\n", "0 rows; give a header line"),
        ("title,numel\na,1\n", "columns are numel, title; give name, and bytes or numel"),
        ("name,numel\na,1\na,2\n", "line 3: name: 'a' occurs twice"),
        ("name,numel\na,many\n", "line 2: numel: 'many' is no number"),
        ("name,bytes,ready_seconds\na,1,nan\n", "line 2: ready_seconds: 'nan' is no number"),
        ("name,bytes\na\n", "line 2: bytes: None is no number"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "layers.csv"
    file.write_text(text)
    ran = run("allreduce", str(file), *NETWORK, "--backward-seconds", "1")
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_variants_are_taken_where_they_pay(layers: str) -> None:
    offered = ("--backward-seconds", "0.001", "--two-levels", "1e-4", "1e-10", "-o", "json")
    answer = json.loads(run("allreduce", layers, *NETWORK, *offered, "--cast", "1e-9").out)
    assert (answer["twoLevels"], answer["half"]) == (True, False)
    assert answer["environment"]["HOROVOD_HIERARCHICAL_ALLREDUCE"] == "1"
    assert answer["finishSeconds"] < answer["plainSeconds"]
    slow = json.loads(run("allreduce", layers, "--alpha", "1e-4", "--beta", "1e-8", *offered[:2], *offered[5:], "--cast", "1e-12").out)
    assert slow["half"]
    assert slow["bytes"] == 2 * (400_000 + 64 + 1_000_000 + 1000)
    shown = run("allreduce", layers, "--alpha", "1e-4", "--beta", "1e-8", "--backward-seconds", "0.001", "--cast", "1e-12").out
    assert "half precision; the plain schedule would end after" in shown


def test_without_any_times_it_says_what_to_give(layers: str) -> None:
    ran = run("allreduce", layers, *NETWORK)
    assert ran.code == 2
    assert "--backward-seconds" in ran.err


@pytest.mark.parametrize("arguments", [("--alpha", "-1", "--beta", "0"), ("--alpha", "x", "--beta", "0"), ("--alpha", "1")])
def test_costs_that_are_none_are_refused(layers: str, arguments: tuple[str, ...]) -> None:
    assert run("allreduce", layers, *arguments).code == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    ran = run("allreduce", str(tmp_path / "none.csv"), *NETWORK)
    assert ran.code == 2
    assert "none.csv: cannot be read" in ran.err
