"""`hyperscale compare`: files and groups of runs against each other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from benchmarks.common import Row, goal, write
from hyperscale.control.history.run_store import RunStore
from tests.builders.history import RUN
from tests.unit.cli.cli_samples import run

CHANCE = np.random.default_rng(11)


def rows_file(file: Path, factors: dict[str, float], **changed: Any) -> str:
    """Rows of a benchmark: 8 cases, 2 seeds, and a goal."""
    rows = [
        Row("bench", f"case {case}", method, "epoch_seconds", factor * 2.0**case * float(CHANCE.lognormal(0.0, 0.03)), "s", seed)
        for method, factor in factors.items()
        for case in range(8)
        for seed in range(2)
    ]
    write([*rows, goal("bench", "all", "ours", 1.0, 2.0, "s")], file)
    if changed:
        file.write_text(json.dumps([{**row, **changed} for row in json.loads(file.read_text())]))
    return str(file)


@pytest.fixture(name="files")
def files_fixture(tmp_path: Path) -> tuple[str, str]:
    return rows_file(tmp_path / "after.json", {"ours": 0.8}), rows_file(tmp_path / "before.json", {"ours": 1.0})


def test_the_answer_begins_with_a_plain_sentence(files: tuple[str, str]) -> None:
    ran = run("compare", *files)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "Groups: after (16 rows), before (16 rows)"
    assert lines[2].startswith("bench epoch_seconds: after is ")
    assert lines[2].endswith("% faster than before on 8 of 8 cases (p = 0.0078, large effect; cases are means of 2 seeds)")
    assert "8 cases of 2 seeds" in ran.out
    assert "paired t-test" in lines[5]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("samples_per_s", "fast is 98 % faster than slow"),
        ("samples_per_second", "fast is 98 % faster than slow"),
        ("step_s", "fast is 98 % slower than slow"),
        ("images_per_ms", "fast is 98 % higher than slow"),
    ],
)
def test_more_of_a_rate_is_faster_and_more_of_a_time_slower(tmp_path: Path, column: str, words: str) -> None:
    for name, least in (("fast", 200), ("slow", 100)):
        (tmp_path / f"{name}.csv").write_text("\n".join([column, *(str(least + place) for place in range(6))]))
    assert words in run("compare", str(tmp_path / "fast.csv"), str(tmp_path / "slow.csv")).out


@pytest.mark.parametrize("order", [("none", "some"), ("some", "none")])
def test_zeros_beside_positive_times_are_no_crash(tmp_path: Path, order: tuple[str, str]) -> None:
    for name, factor in (("none", 0.0), ("some", 1.0)):
        rows_file(tmp_path / f"{name}.json", {"ours": factor})
    ran = run("compare", *(str(tmp_path / f"{name}.json") for name in order))
    assert (ran.code, ran.err) == (0, "")
    assert "than" in ran.out


def test_json_has_every_figure_and_goals_are_no_results(files: tuple[str, str]) -> None:
    answer = json.loads(run("compare", *files, "-o", "json").out)
    (one,) = answer["comparisons"]
    assert (one["first"], one["second"], one["shown"], one["lowerCases"], one["cases"]) == ("after", "before", True, 8, 8)
    assert one["result"]["paired"]
    assert one["result"]["low"] < one["result"]["estimate"] < one["result"]["high"] < 1.0
    assert [test["name"] for test in one["result"]["tests"]] == ["paired t-test", "Wilcoxon signed-rank test"]
    assert answer["notes"] == []


def test_methods_of_one_file_are_compared_by_column(tmp_path: Path) -> None:
    file = rows_file(tmp_path / "rows.json", {"a": 1.0, "b": 1.5, "c": 1.0})
    answer = json.loads(run("compare", file, "--by", "method", "--factor", "case", "-o", "json").out)
    assert [(one["first"], one["second"], one["shown"]) for one in answer["comparisons"]] == [
        ("a", "b", True),
        ("a", "c", False),
        ("b", "c", True),
    ]
    assert [one["factor"] for one in answer["overall"]] == ["", "case"]
    assert all(one["shown"] for one in answer["overall"])


def test_plain_numbers_give_scipys_tests(tmp_path: Path) -> None:
    columns = [CHANCE.normal(5.0, 1.0, 12), CHANCE.normal(7.0, 1.0, 12)]
    one, other = tmp_path / "one.csv", tmp_path / "other.json"
    one.write_text("\n".join(map(str, columns[0])) + "\n")
    other.write_text(json.dumps(columns[1].tolist()))
    (loose,) = json.loads(run("compare", str(one), str(other), "-o", "json").out)["comparisons"]
    assert loose["result"]["tests"][0]["pValue"] == pytest.approx(stats.ttest_ind(*columns, equal_var=False).pvalue)
    (paired,) = json.loads(run("compare", str(one), str(other), "--paired", "-o", "json").out)["comparisons"]
    assert paired["result"]["tests"][0]["pValue"] == pytest.approx(stats.ttest_rel(*columns).pvalue)


def test_a_table_is_compared_by_one_column_and_fitted_by_others(tmp_path: Path) -> None:
    file = tmp_path / "steps.csv"
    gpus, batch = np.tile([1, 2, 4, 8], 6), np.repeat([8, 16, 32, 64, 128, 256], 4)
    seconds = 0.1 + 0.5 / gpus + 0.01 * batch + CHANCE.normal(0.0, 0.01, 24)
    lines = [f"{'ab'[at % 2]},{g},{b},{s}" for at, (g, b, s) in enumerate(zip(gpus, batch, seconds, strict=True))]
    file.write_text("\n".join(["kind,gpus,batch,step_seconds", *lines, "a,1,8,"]))
    arguments = ("compare", str(file), "--regress", "step_seconds", "--on", "gpus,batch")
    ran = run(*arguments, "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    answer = json.loads(ran.out)
    slopes = {slope["name"]: slope["estimate"] for slope in answer["regression"]["slopes"]}
    assert slopes["batch"] == pytest.approx(0.01, rel=0.1)
    assert answer["regression"]["count"] == 24
    assert any("1 row left out" in note for note in answer["notes"])
    text = run("compare", str(file), "--by", "kind", "--column", "step_seconds").out
    assert "step_seconds: " in text
    assert "R squared 0.9" in run(*arguments).out


def test_unknown_values_are_left_out_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "holes.json"
    file.write_text("[1.0, null, NaN, Infinity, 2.0, 3.0, 2.5]")
    answer = json.loads(run("compare", str(file), str(file), "-o", "json").out)
    assert [group["name"] for group in answer["groups"]] == [str(file), f"{file} (2)"]
    assert [group["rows"] for group in answer["groups"]] == [4, 4]
    assert answer["notes"][0].endswith("3 rows left out: the value is unknown or infinite")
    assert answer["comparisons"][0]["sentence"].startswith("no difference shown: ")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no rows; give a list of numbers"),
        ("[]", "no rows"),
        ("{}", "holds one object; give a list"),
        ("[1, true]", "row 2: is no number"),
        ('[1, 2, 3, "x"]', "row 4: is no number"),
        ('[null, {"value": 1}, 2]', "row 1: is no object"),
        ('[{"value": 1}, 2]', "row 2: is no object"),
        ("[1, ", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ('[{"metric": "m", "value": "fast"}]', "row 1: value: 'fast' is no number"),
        ("a,b\n1,2\n", "several columns hold numbers; write --column with one of a, b"),
        ("a,b\n1\n", "row 1: 1 columns, 2 expected"),
        ("a,a\n1,2\n", "columns need names, each once"),
        ("a\nx\n", "no column holds numbers alone"),
        ("[null, NaN]", "no row has a value that can be compared"),
        (b"\xff\xfe\x00", "is no text in UTF-8"),
        ('a\n"1', "is no CSV"),
        ("[" + "1" * 400 + "]", "an integer of hundreds of digits"),
        ("[" + "1" * 5000 + "]", "is no JSON"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_exit_code_2(content: str | bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    ran = run("compare", str(file), str(file))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no file is named; write two result files, or --history URL"),
        (["{a}"], "one group, after; name a second file, or write --by"),
        (["{a}", "{b}", "--metric", "bytes"], "--metric: 'bytes' is none of the metrics; write one of epoch_seconds"),
        (["{a}", "--by", "colour"], "--by: no column 'colour'; write one of benchmark, case"),
        (["{a}", "{b}", "--factor", "colour"], "factor 'colour' is no column"),
        (["{a}", "{b}", "--regress", "value"], "--regress and --on go together"),
        (["{a}", "{b}", "--regress", "value", "--on", "value"], "--on: names a column twice"),
        (["{a}", "{b}", "--regress", "value", "--on", "case"], "is no number"),
        (["{a}", "/nowhere/at/all.json"], "cannot be read"),
        (["{a}", "{b}", "--paired", "--unpaired"], "not allowed with"),
        (["--history", "nonsense"], "--history: the history's URL cannot be read"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(arguments: list[str], says: str, files: tuple[str, str]) -> None:
    ran = run("compare", *(each.format(a=files[0], b=files[1]) for each in arguments))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err


def test_units_that_differ_are_refused(tmp_path: Path, files: tuple[str, str]) -> None:
    other = rows_file(tmp_path / "other.json", {"ours": 1.0}, unit="ms")
    ran = run("compare", files[0], other)
    assert ran.code == 2
    assert "metric 'epoch_seconds' has several units: 'ms' in other, 's' in after; convert them to one" in ran.err


@pytest.fixture(name="url")
def url_fixture(tmp_path: Path) -> str:
    """Eight workloads, each run twice by two planners, one of them 30 % slower."""
    address = f"sqlite:///{tmp_path}/history.sqlite"
    history = RunStore(address)
    runs = [
        replace(
            RUN,
            uid=f"{planner}-{size}-{repeat}",
            planner=planner,
            vertices=1000 * 4**size,
            measured_seconds=factor * 4.0**size * float(CHANCE.lognormal(0.0, 0.02)),
            accuracy=None,
        )
        for planner, factor in (("Heuristic", 1.0), ("Random", 1.3))
        for size in range(8)
        for repeat in range(2)
    ]
    history.record([*runs, replace(RUN, uid="failed", phase="Failed", planner="Random")])
    history.close()
    return address


def test_runs_of_history_pair_by_workload(url: str) -> None:
    answer = json.loads(run("compare", "--history", url, "--group-by", "planner", "-o", "json").out)
    by_metric = {one["metric"]: one for one in answer["comparisons"]}
    assert set(by_metric) == {"measured_seconds", "measured_over_predicted"}
    one = by_metric["measured_seconds"]
    assert (one["first"], one["second"], one["cases"], one["shown"]) == ("Heuristic", "Random", 8, True)
    assert "Heuristic is 2" in one["sentence"]
    assert "% faster than Random on 8 of 8 cases" in one["sentence"]
    assert answer["notes"][0] == "1 run left out: only runs that succeeded are compared"


def test_groups_of_history_may_be_named_and_must_exist(url: str) -> None:
    assert "Heuristic is 2" in run("compare", "--history", url, "Heuristic", "Random").out
    ran = run("compare", "--history", url, "Heuristic", "PPO")
    assert (ran.code, "no finished run has 'PPO'; write one of Heuristic, Random" in ran.err) == (2, True)
    ran = run("compare", "--history", url, "--group-by", "architecture")
    assert (ran.code, "all runs have architecture GCN; write another --group-by" in ran.err) == (2, True)


def test_history_explains_measured_seconds_by_columns(url: str) -> None:
    out = run("compare", "--history", url, "--regress", "measured_seconds", "--on", "vertices").out
    assert "measured_seconds: R squared 0.9" in out


def test_files_need_no_database_library(files: tuple[str, str]) -> None:
    script = "import sys; sys.modules['sqlalchemy'] = None\nfrom hyperscale.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", script, "compare", *files], capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr


def test_names_that_would_move_a_cursor_are_shown_as_question_marks(tmp_path: Path) -> None:
    file = rows_file(tmp_path / "rows.json", {"a\x1b[2J": 1.0, "b": 1.5})
    ran = run("compare", file, "--by", "method")
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert "a?[2J" in ran.out


def test_the_same_files_give_the_same_bytes(files: tuple[str, str]) -> None:
    assert run("compare", *files, "-o", "json").out == run("compare", *files, "-o", "json").out


def test_one_case_is_compared_alone_by_its_seeds(files: tuple[str, str]) -> None:
    ran = run("compare", *files, "--case", "case 3")
    assert ran.code == 0
    assert "2 pairs" in ran.out
    ran = run("compare", *files, "--case", "case 99")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "--case: 'case 99' is none of the cases; write one of case 0, case 1" in ran.err


def test_thousands_of_levels_or_groups_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "many.csv"
    file.write_text("metric,value,step\n" + "".join(f"m,{at % 7}.5,{at}\n" for at in range(5000)))
    for option in (("--factor", "step"), ("--by", "step")):
        ran = run("compare", str(file), *option)
        assert (ran.code, ran.err.count("\n"), ran.out) == (2, 1, "")
        assert "5,000" in ran.err
