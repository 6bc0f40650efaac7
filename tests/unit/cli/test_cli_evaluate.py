"""`hyperscale evaluate`: what it prints, what it refuses, what it writes.

Longer than other modules: one command, so that what it prints stands beside what it refuses.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from hyperscale.cli.evaluate.past_runs import read_runs
from hyperscale.control.history.run_store import RunStore
from tests.builders.history import RUN
from tests.unit.cli.cli_samples import Files, Ran, files_fixture, job, run

__all__ = ["files_fixture"]

FEW = ("--futures", "200")


def evaluated(files: Files, *more: str) -> Ran:
    """The sample job on the sample cluster."""
    return run("evaluate", "-f", files.job, "--snapshot", files.snapshot, *FEW, *more)


def answer(files: Files, *more: str) -> dict[str, Any]:
    ran = evaluated(files, "-o", "json", *more)
    assert (ran.code, ran.err) == (0, "")
    document: dict[str, Any] = json.loads(ran.out)
    return document


def plan_file(files: Files, **changes: Any) -> str:
    document = json.loads(files.plan("-o", "json").out)
    return files.write("plan.json", json.dumps({**document, **changes}))


def test_people_read_first_whether_it_ends_in_time(files: Files) -> None:
    lines = evaluated(files, "--deadline-seconds", "86400").out.splitlines()
    assert lines[0].split() == ["Job", "team-a/products"]
    assert lines[2].startswith("Ends within 24 h")
    assert [line.split()[:2] for line in lines if line.startswith(("proof", "twin"))] == [["proof", "Passed"], ["twin", "Passed"]]


def test_a_plan_from_a_file_is_evaluated_as_it_is(files: Files) -> None:
    assert answer(files, "--plan", plan_file(files)) == answer(files)


def test_a_plan_that_breaks_a_condition_ends_with_one(files: Files) -> None:
    document = json.loads(files.plan("-o", "json").out)
    first = {**document["workers"][0], "node": "gpu-node-07"}
    ran = evaluated(files, "--plan", plan_file(files, workers=[first, *document["workers"][1:]]), "-o", "json")
    assert ran.code == 1
    proof = next(stage for stage in json.loads(ran.out)["stages"] if stage["stage"] == "proof")
    assert proof["state"] == "Failed"
    assert any("gpu-node-07" in finding for finding in proof["findings"])


def test_the_same_seed_gives_the_same_bytes(files: Files) -> None:
    assert evaluated(files, "-o", "json").out == evaluated(files, "-o", "json").out
    often = ("--failure-rate", "1000000", "-o", "json")
    assert evaluated(files, *often).out != evaluated(files, *often, "--seed", "5").out


def test_more_failures_end_later_and_less_often_in_time(files: Files) -> None:
    middle = answer(files)["endSeconds"]["middle"]
    by = ("--deadline-seconds", str(max(1.0, 1.5 * middle)))
    calm, rough = answer(files, "--failure-rate", "0", *by), answer(files, "--failure-rate", "1000000", *by)
    assert rough["endsByDeadline"]["middle"] <= calm["endsByDeadline"]["middle"]
    assert rough["endSeconds"]["high"] >= calm["endSeconds"]["high"] if "endSeconds" in rough else True


def proof_of(ran: Ran) -> dict[str, Any]:
    return next(dict(stage) for stage in json.loads(ran.out)["stages"] if stage["stage"] == "proof")


def test_a_plan_of_another_job_is_taken_as_given_with_a_warning(files: Files) -> None:
    other = files.write("other.yaml", yaml.safe_dump(job(model={"architecture": "GCN", "hiddenSize": 64})))
    ran = run("evaluate", "-f", other, "--snapshot", files.snapshot, *FEW, "--plan", plan_file(files), "-o", "json")
    assert ran.code == 0
    proof = proof_of(ran)
    assert proof["state"] == "Warned"
    assert proof["findings"][0].startswith("Its figures are taken as given: the plan was made for another job or cluster")


def test_a_plan_whose_figures_contradict_the_cost_model_is_refused(files: Files) -> None:
    document = json.loads(files.plan("-o", "json").out)
    predicted = {**document["predicted"], "epochSeconds": 1e-6, "lowSeconds": 1e-7, "highSeconds": 1e-5}
    ran = evaluated(files, "--plan", plan_file(files, predicted=predicted), "-o", "json")
    assert ran.code == 1
    assert proof_of(ran)["sentence"] == "figures of the plan contradict the cost model"
    assert "contradicts the cost model, which has" in proof_of(ran)["findings"][0]


def test_a_plan_of_an_earlier_cost_model_is_taken_as_given_with_a_warning(files: Files) -> None:
    document = json.loads(files.plan("-o", "json").out)
    predicted = {name: value for name, value in document["predicted"].items() if name != "costModel"} | {"epochSeconds": 1e-6}
    ran = evaluated(files, "--plan", plan_file(files, predicted=predicted), "-o", "json")
    assert ran.code == 0
    assert proof_of(ran)["state"] == "Warned"
    assert proof_of(ran)["findings"][0].startswith("Its figures are taken as given: an earlier cost model predicted them")


CORRECTED = {"products": "x", "spread": 0.1, "runs": 3}


@pytest.mark.parametrize(
    ("changed", "state", "words"),
    [
        ({"calibration": {**CORRECTED, "factor": 0.0}}, "Failed", "predicted.calibration.factor 0 is no factor of a time"),
        ({"calibration": {**CORRECTED, "factor": 1e-320}}, "Failed", "contradicts the cost model"),
        ({"calibration": {**CORRECTED, "factor": 1.1}}, "Passed", "corrected by 3 finished runs, which is taken as given"),
        ({"costPerEpoch": 1e308}, "Warned", "the policy has no price of these GPUs"),
        ({"communicationSeconds": 1e308}, "Warned", "predicted.communicationSeconds 1e+308 s is taken as given"),
        ({"lowSeconds": 1e-9}, "Warned", "predicted.lowSeconds 1e-09 s is taken as given"),
    ],
)
def test_a_figure_that_was_changed_by_hand_is_named(files: Files, changed: dict[str, Any], state: str, words: str) -> None:
    document = json.loads(files.plan("-o", "json").out)
    ran = evaluated(files, "--plan", plan_file(files, predicted={**document["predicted"], **changed}), "-o", "json")
    proof = proof_of(ran)
    assert (ran.code, proof["state"]) == (1 if state == "Failed" else 0, state)
    assert any(words in finding for finding in proof["findings"])


def test_a_plan_that_was_changed_by_hand_is_noticed(files: Files) -> None:
    document = json.loads(files.plan("-o", "json").out)
    assert len(document["workers"]) > 1
    workers = [{**worker, "share": 1.0 / len(document["workers"])} for worker in document["workers"]]
    workers[0]["share"] += 0.01
    workers[1]["share"] -= 0.01
    ran = evaluated(files, "--plan", plan_file(files, workers=workers), "-o", "json")
    assert proof_of(ran)["state"] == "Warned"


def test_a_plan_made_before_the_cluster_changed_says_so(files: Files) -> None:
    before = plan_file(files)
    later = json.loads(Path(files.snapshot).read_text())
    later["nodes"][-1]["allocatableCpuCores"] = 1.0
    ran = run("evaluate", "-f", files.job, "--snapshot", files.write("later.json", json.dumps(later)), *FEW, "--plan", before, "-o", "json")
    assert proof_of(ran)["findings"] == ["The cluster's figures have changed since the plan was made."]
    assert proof_of(ran)["state"] == "Passed"


def twin_findings(document: dict[str, Any]) -> list[str]:
    return next(list(stage["findings"]) for stage in document["stages"] if stage["stage"] == "twin")


def test_the_policys_figures_count_unless_the_command_line_gives_others(files: Files) -> None:
    said = {"failuresPerThousandNodeDays": "2", "repairSeconds": 3600, "restartSeconds": 30, "checkpointWriteSeconds": "0.5"}
    resource = {"kind": "PlannerPolicy", "metadata": {"name": "default"}, "spec": {"evaluation": said}}
    by = ("--policy", files.write("policy.json", json.dumps(resource)))
    sentences = twin_findings(answer(files, *by))
    assert sentences[0] == "By the PlannerPolicy: 2 failures per 1,000 node-days."
    assert sentences[1] == "Taken: 60 min until a failed node is back and no spare node, then 30 s to train again; 500 ms a checkpoint."
    other = twin_findings(answer(files, *by, "--failure-rate", "3", "--repair-seconds", "60"))
    assert other[0] == "As given: 3 failures per 1,000 node-days."
    assert other[1].startswith("Taken: 60 s until a failed node is back and no spare node, then 30 s")


def test_a_policy_whose_comparisons_contradict_each_other_is_bad_input(files: Files) -> None:
    comparisons = [
        {"stage": stage, "comparedWith": other, "importance": importance}
        for stage, other, importance in (("Proof", "Forecast", "9"), ("Forecast", "Twin", "9"), ("Twin", "Proof", "9"))
    ]
    resource = {"kind": "PlannerPolicy", "metadata": {"name": "default"}, "spec": {"evaluation": {"comparisons": comparisons}}}
    ran = evaluated(files, "--policy", files.write("policy.json", json.dumps(resource)))
    assert ran.code == 2
    assert "spec.evaluation.comparisons" in ran.err
    assert "Proof to Forecast to Twin" in ran.err or "Forecast to Twin to Proof" in ran.err or "Twin to Proof to Forecast" in ran.err


def test_a_table_of_failures_is_fitted_and_said(files: Files) -> None:
    rows = "\n".join(f"n{unit},2026-01-01T00:00:00Z,2026-03-{1 + unit % 28:02d}T00:00:00Z,memory" for unit in range(60))
    table = files.write("events.csv", f"location,insert,remove,cause\n{rows}\n")
    twin = next(stage for stage in answer(files, "--failures", table)["stages"] if stage["stage"] == "twin")
    assert any("Fitted to 60 rows, 60 of which are failures (memory)" in finding for finding in twin["findings"])


def test_the_report_is_one_page_without_scripts(files: Files) -> None:
    path = files.folder / "report.html"
    ran = evaluated(files, "--report", str(path), "--deadline-seconds", "3600")
    page = path.read_text()
    assert ran.code == 0
    assert page.startswith("<!doctype html>")
    assert "<script" not in page
    assert "team-a/products" in page


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--plan", "absent.json"), "absent.json: no such file"),
        (("--deadline-seconds", "0"), "is no number from 1 to"),
        (("--deadline-seconds", "nan"), "is no number from 1 to"),
        (("--failure-rate", "-1"), "is no number from 0 to"),
        (("--futures", "1"), "is no whole number from 100 to"),
        (("--stage", "luck"), "invalid choice: 'luck'"),
        (("--failures", "absent.csv"), "--failures: absent.csv: No such file"),
        (("--failures", "a", "--failure-rate", "1"), "not allowed with argument"),
        (("--history", "nonsense"), "--history: "),
        (("--report", "/nowhere/report.html"), "--report: folder '/nowhere' does not exist"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_asked_for_is_one_line(files: Files, more: tuple[str, ...], words: str) -> None:
    ran = evaluated(files, *more)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert words in ran.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ("{}", "missing required field"),
        ('{"planner": 1}', "Expected `str`"),
        ("[" * 100_000, "--plan: "),
    ],
    ids=["empty", "no fields", "a number", "nested"],
)
def test_a_file_that_is_no_plan_is_one_line(files: Files, text: str, words: str) -> None:
    ran = evaluated(files, "--plan", files.write("plan.json", text))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert words in ran.err


def test_a_plan_without_workers_or_with_absurd_figures_is_no_crash(files: Files) -> None:
    assert evaluated(files, "--plan", plan_file(files, workers=[])).code == 2
    for figures in ({"epochSeconds": 0.0, "communicationSeconds": 0.0}, {"epochSeconds": 1e300, "communicationSeconds": 0.0}):
        ran = evaluated(files, "--plan", plan_file(files, predicted=figures))
        assert ran.code == 2
        assert "predicted.epochSeconds" in ran.err


def test_a_worker_of_a_million_gpus_is_refused_before_its_ranks_are_counted(files: Files) -> None:
    workers = json.loads(files.plan("-o", "json").out)["workers"]
    ran = evaluated(files, "--plan", plan_file(files, workers=[{**workers[0], "gpus": 10**12}, *workers[1:]]))
    assert ran.code == 2
    assert "workers[0].gpus: 1000000000000 is no number of GPUs" in ran.err


def test_a_plan_that_counts_no_ranks_is_refuted_not_a_crash(files: Files) -> None:
    ran = evaluated(files, "--plan", plan_file(files, ranksByNode={}))
    assert (ran.code, ran.err) == (1, "")
    assert "ranks by node are {}" in ran.out


def test_a_node_without_a_name_is_refuted_and_not_played(files: Files) -> None:
    workers = json.loads(files.plan("-o", "json").out)["workers"]
    ran = evaluated(files, "--plan", plan_file(files, workers=[{**workers[0], "node": ""}, *workers[1:]]), "-o", "json")
    assert (ran.code, ran.err) == (1, "")
    states = {stage["stage"]: stage for stage in json.loads(ran.out)["stages"]}
    assert (states["proof"]["state"], states["twin"]["state"]) == ("Failed", "Skipped")
    assert states["twin"]["sentence"].startswith("not played, as the plan breaks its conditions: nodes[0].name")


def test_lives_that_are_all_equal_are_taken_as_a_rate_and_said(files: Files) -> None:
    rows = "\n".join(f"n{unit},0,864000,memory" for unit in range(60))
    table = files.write("events.csv", f"location,insert,remove,cause\n{rows}\n")
    document = answer(files, "--failures", table, "--deadline-seconds", "700000")
    assert "All failures of memory came at one age: a constant rate is taken" in twin_findings(document)[0]


EXAMPLES = ("arxiv-sage-s3", "cora-gat-manual", "cora-gcn", "plan-only", "suspended-queue", "own-script/job", "citation-impact/job")


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_that_fits_the_shipped_cluster_is_evaluated(name: str) -> None:
    examples = Path(__file__).resolve().parents[3] / "examples"
    ran = run("evaluate", "-f", str(examples / f"{name}.yaml"), "--snapshot", str(examples / "cluster.json"), *FEW, "-o", "json")
    assert (ran.code, ran.err) == (0, "")


def test_what_no_future_was_played_for_is_not_said(files: Files) -> None:
    assert "Takes" not in evaluated(files, "--stage", "proof").out
    assert "--rewrite: builds on the stage twin" in evaluated(files, "--stage", "proof", "--rewrite", "new.yaml").err


def test_a_job_without_a_plan_says_why(files: Files) -> None:
    wide = files.write("wide.yaml", job(workers={"minReplicas": 900, "maxReplicas": 900}))
    ran = run("evaluate", "-f", wide, "--snapshot", files.snapshot, *FEW)
    assert ran.code == 1
    assert ran.err.startswith("no plan: ")


def test_runs_of_the_history_that_ended_well_teach(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    store = RunStore(url)
    others: list[dict[str, Any]] = [
        {"phase": "Failed"},
        {"replans": 1},
        {"measured": '{"generated":true}'},
        {"measured": '{"hostStaging":true}'},
    ]
    store.record([RUN, *(replace(RUN, uid=str(place), **other) for place, other in enumerate(others, 1))])
    store.close()
    found = read_runs(url)
    runs, facts = found.runs, found.facts
    assert found.past == ()
    assert [each.failed for each in facts].count(True) == 1
    assert len(facts) == 5
    assert len(runs) == 1
    assert runs[0].ranks >= runs[0].hosts >= 1


def test_the_smallest_contradiction_of_an_impossible_job_is_named(files: Files) -> None:
    pytest.importorskip("z3")
    wide = files.write("wide.yaml", job(workers={"minReplicas": 900, "maxReplicas": 900}))
    ran = run("evaluate", "-f", wide, "--snapshot", files.snapshot, "-o", "json")
    document = json.loads(ran.out)
    assert ran.code == 1
    assert any(clash["field"] == "spec.workers.minReplicas" for clash in document["contradiction"])
    assert any("900" in clash["sentence"] for clash in document["contradiction"])
    assert "Cannot hold together" in run("evaluate", "-f", wide, "--snapshot", files.snapshot).out


def test_a_rewritten_job_is_written_and_shown_as_a_diff(files: Files) -> None:
    checkpointed = job()
    checkpointed["spec"]["checkpoint"] = {"claimName": "kept", "everyEpochs": 1}
    source, target = files.write("often.yaml", checkpointed), files.folder / "better.yaml"
    often = ("--snapshot", files.snapshot, *FEW, "--write-seconds", "3600")
    ran = run("evaluate", "-f", source, *often, "--rewrite", str(target))
    assert ran.code == 0
    assert "spec.checkpoint.everyEpochs: 1 to" in ran.out
    assert "-    everyEpochs: 1" in ran.out.splitlines()
    better = yaml.safe_load(target.read_text())
    assert better["spec"]["checkpoint"]["everyEpochs"] > 1
    assert better["spec"]["model"] == checkpointed["spec"]["model"]
    assert run("evaluate", "-f", str(target), *often).code == 0


@pytest.mark.parametrize(("ending", "first"), [("v", "(*"), ("lean", "prelude")])
def test_a_certificate_is_written_in_the_language_of_its_ending(files: Files, ending: str, first: str) -> None:
    path = files.folder / f"plan.{ending}"
    assert evaluated(files, "--certificate", str(path)).code == 0
    assert first in path.read_text()
    assert "--certificate: 'plan.txt' ends with neither" in evaluated(files, "--certificate", "plan.txt").err


def test_a_second_file_is_refused_and_not_taken_in_place_of_the_first(files: Files) -> None:
    ran = evaluated(files, "-f", files.job)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "argument -f/--filename: was given twice" in ran.err


def test_the_example_of_a_whole_number_is_allowed(files: Files) -> None:
    assert "write for example 100;" in evaluated(files, "--futures", "0").err


@pytest.mark.parametrize("workers", ["512", "60"])
def test_too_many_workers_are_lowered_by_the_option_that_gave_them(files: Files, workers: str) -> None:
    many = files.write("many.yaml", yaml.safe_dump(job(workers={"minReplicas": 1, "maxReplicas": 600})))
    for command in ("plan", "evaluate"):
        ran = run(command, "-f", many, "--snapshot", files.snapshot, "--workers", workers)
        assert ran.code == 1
        assert "ive --workers a smaller number" in ran.err
        assert "MPIJob" not in ran.err
