"""`hyperscale plan`: the three forms, exit codes, determinism, what is imported.

Longer than other modules: one command, so that what it prints stands beside what it refuses.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from hyperscale.cli.plan import operator_preview, plan_command
from hyperscale.model.cluster import Taint
from hyperscale.model.plan import Infeasible, Plan, Rejection
from hyperscale.observe.files.snapshot_files import write_snapshot
from hyperscale.planner.search.heuristic import Heuristic
from tests.unit.cli.cli_samples import Files, files_fixture, job, run, snapshot

__all__ = ["files_fixture"]

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.yaml"))
HULK = Path(__file__).resolve().parents[3] / "../shared/data/hulk"

DOCUMENTED_KEYS = {
    "planner",
    "seed",
    "id",
    "partitions",
    "workers",
    "ranksByNode",
    "predicted",
    "objective",
    "rejected",
    "snapshot",
    "reasons",
    "fallbacks",
    "optimalityGap",
    "scores",
    "allreduce",
    "figures",
}


def tainted_cluster(files: Files, taint: Taint) -> str:
    """A snapshot file of the sample cluster with `taint` on every node."""
    path = files.folder / "tainted.json"
    seen = snapshot()
    write_snapshot(path, replace(seen, nodes=tuple(replace(node, taints=(taint,)) for node in seen.nodes)))
    return str(path)


def test_the_table_names_every_rank_its_node_and_the_reasons(files: Files) -> None:
    ran = files.plan()
    assert (ran.code, ran.err) == (0, "")
    plan = json.loads(files.plan("-o", "json").out)
    rows = [line.split() for line in ran.out.split("RANK", 1)[1].splitlines()[1 : 1 + len(plan["workers"])]]
    assert [(row[0], row[2]) for row in rows] == [(str(worker["index"]), worker["node"]) for worker in plan["workers"]]
    for reason in plan["reasons"]:
        assert reason in ran.out
    assert plan["id"] in ran.out
    assert "Not used:" in ran.out


def test_json_holds_the_documented_keys_and_is_a_plan(files: Files) -> None:
    out = files.plan("-o", "json").out
    document = json.loads(out)
    assert document.keys() == DOCUMENTED_KEYS
    assert {step.partition(":")[0] for step in document["fallbacks"]} == {"IntraNodeLinkAssumed"}
    assert {"index", "rank", "node", "gpus", "share"} <= document["workers"][0].keys()
    assert {"epochSeconds", "communicationSeconds"} <= document["predicted"].keys()
    assert abs(sum(worker["share"] for worker in document["workers"]) - 1.0) < 1e-9
    assert isinstance(msgspec.json.decode(out, type=Plan), Plan)


def test_yaml_holds_the_same_data_in_the_same_order(files: Files) -> None:
    document = json.loads(files.plan("-o", "json").out)
    same = yaml.safe_load(files.plan("-o", "yaml").out)
    assert same == document
    assert list(same) == list(document)


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_same_input_and_seed_give_the_same_bytes_in_any_process(form: str, files: Files) -> None:
    here = files.plan("--seed", "7", "-o", form).out
    command = [
        sys.executable,
        "-m",
        "hyperscale.cli.main",
        "plan",
        "-f",
        files.job,
        "--snapshot",
        files.snapshot,
        "--seed",
        "7",
        "-o",
        form,
    ]
    for hash_seed in ("1", "2"):
        there = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": hash_seed})
        assert there.stdout == here


def test_the_seed_of_the_command_line_goes_before_that_of_the_policy(files: Files) -> None:
    policy = {
        "apiVersion": "hyperscale.dev/v1alpha1",
        "kind": "PlannerPolicy",
        "metadata": {"name": "default"},
        "spec": {"seed": 11},
    }
    path = files.write("policy.yaml", policy)
    assert json.loads(files.plan("--policy", path, "-o", "json").out)["seed"] == 11
    assert json.loads(files.plan("--policy", path, "--seed", "5", "-o", "json").out)["seed"] == 5
    assert json.loads(files.plan("-o", "json").out)["seed"] == 0


def test_workers_fixes_the_number_of_workers(files: Files) -> None:
    for wanted in (2, 3):
        assert len(json.loads(files.plan("--workers", str(wanted), "-o", "json").out)["workers"]) == wanted


def test_without_weights_the_learned_planner_falls_back_and_says_so(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_preview, "planners", lambda: (Heuristic(),))
    ran = files.plan("--planner", "Learned")
    assert ran.code == 0
    assert "Fallbacks" in ran.out
    assert "Learned" in ran.out.split("Fallbacks", 1)[1]


def test_tolerations_of_the_worker_template_open_tainted_nodes(files: Files) -> None:
    tolerant = job(
        workers={
            "minReplicas": 1,
            "maxReplicas": 1,
            "resources": {"limits": {"nvidia.com/gpu": 2}},
            "gpuProducts": ["Tesla-T4"],
            "template": {"spec": {"tolerations": [{"key": "maintenance", "operator": "Exists"}]}},
        },
    )
    ran = files.plan("-o", "json", job=files.write("tolerant.yaml", tolerant))
    assert ran.code == 0, ran
    assert {worker["node"] for worker in json.loads(ran.out)["workers"]} == {"gpu-node-11"}


def test_an_infeasible_job_ends_with_1_and_one_reason(files: Files) -> None:
    path = files.write("big.yaml", job(workers={"minReplicas": 100, "maxReplicas": 100}))
    ran = files.plan(job=path)
    assert ran.code == 1
    assert ran.err.startswith("no plan: ")
    assert ran.err.count("\n") == 1
    document = json.loads(files.plan("-o", "json", job=path).out)
    assert document["message"] in ran.err
    assert document["reason"]
    assert yaml.safe_load(files.plan("-o", "yaml", job=path).out) == document


def test_a_refusal_shows_the_nodes_that_were_turned_down(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = Infeasible("NoMatchingNodes", "needs a unicorn; 0 found", (Rejection("gpu-node-00", "NodeSelector", "no horn"),))
    monkeypatch.setattr(operator_preview, "make_plan", lambda *_, **__: refusal)
    ran = files.plan()
    assert (ran.code, ran.err) == (1, "no plan: needs a unicorn; 0 found\n")
    assert "gpu-node-00  NodeSelector  no horn" in ran.out


def test_a_planner_that_hangs_is_stopped(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: Any, **__: Any) -> Plan:
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(operator_preview, "make_plan", hang)
    monkeypatch.setattr(plan_command, "GRACE_SECONDS", 0.05)
    ran = files.plan("--deadline", "0.05")
    assert ran.code == 1
    assert "no planner answered within 0.05 s" in ran.err


def test_a_policy_that_a_snapshot_cannot_hold_is_noted(files: Files) -> None:
    ran = files.plan(job=files.write("with-policy.yaml", job(policyRef={"name": "fast"})))
    assert ran.code == 0
    assert "fast" in ran.err
    assert "--policy" in ran.err


def test_the_namespace_option_counts_where_the_file_names_none(files: Files) -> None:
    resource = job()
    del resource["metadata"]["namespace"]
    path = files.write("anywhere.yaml", resource)
    assert "Job            team-b/products" in files.plan("-n", "team-b", job=path).out
    assert "Job            default/products" in files.plan(job=path).out


def test_the_same_job_as_json_gives_the_same_plan(files: Files) -> None:
    assert files.plan(job=files.write("job.json", json.dumps(job()))).out == files.plan().out


def test_anchors_of_yaml_may_be_used(files: Files) -> None:
    text = yaml.safe_dump(job()).replace("maxReplicas: 4", "maxReplicas: &most 2").replace("minReplicas: 2", "minReplicas: *most")
    assert files.plan(job=files.write("anchors.yaml", text)).code == 0


def test_missing_metrics_are_told(files: Files) -> None:
    blind = replace(snapshot(), metrics=type(snapshot().metrics)(available=False, reason="PrometheusUnreachable", message="refused"))
    write_snapshot(files.snapshot, blind)
    assert "Metrics        none (refused)" in files.plan().out


def test_a_terminal_without_greek_letters_gets_question_marks(files: Files) -> None:
    command = [sys.executable, "-m", "hyperscale.cli.main", "topology", "--snapshot", files.snapshot]
    ran = subprocess.run(command, capture_output=True, check=True, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert ran.stderr == b""
    assert b"210 ?s" in ran.stdout


@pytest.fixture(name="fresh")
def fresh_python() -> Any:
    """Run code in a new interpreter and return its lines."""

    def run_code(code: str, *arguments: str) -> list[str]:
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    return run_code


HEAVY = ("kopf", "kubernetes", "matplotlib", "torch", "dgl", "requests", "prometheus_api_client")


def test_an_offline_plan_loads_nothing_that_it_does_not_need(files: Files, fresh: Any) -> None:
    code = (
        "import sys; from hyperscale.cli.main import main; main(sys.argv[1:]); "
        f"print('loaded', [name for name in {(*HEAVY, 'networkx')} if name in sys.modules])"
    )
    assert fresh(code, "plan", "-f", files.job, "--snapshot", files.snapshot)[-1] == "loaded []"


def test_help_loads_nothing_but_the_parser(fresh: Any) -> None:
    code = (
        "import sys; from hyperscale.cli.main import main; main(['--help']); "
        f"print('loaded', [name for name in {(*HEAVY, 'numpy', 'msgspec', 'yaml', 'networkx')} if name in sys.modules])"
    )
    assert fresh(code)[-1] == "loaded []"


@pytest.mark.skipif(not HULK.is_dir(), reason="shared/data is not beside this repository")
def test_hulks_47_machines_hold_8_workers(files: Files) -> None:
    path = files.write("hulk.yaml", job(workers={"minReplicas": 8, "maxReplicas": 8}))
    ran = run("plan", "-f", path, "--snapshot", str(HULK), "-o", "json")
    assert ran.code == 0, ran
    assert len(json.loads(ran.out)["workers"]) == 8


@pytest.mark.parametrize("example", [path.name for path in EXAMPLES if "kind: GNNTrainingJob" in path.read_text()])
def test_every_example_is_read_and_answered(example: str, files: Files) -> None:
    ran = files.plan(job=str(EXAMPLES[0].parent / example))
    assert ran.code in (0, 1), ran


def test_an_object_as_the_api_server_returns_it_can_be_piped_in(files: Files) -> None:
    resource = job()
    resource["metadata"] |= {"uid": "1-2-3", "resourceVersion": "7", "managedFields": [{"manager": "kubectl"}], "generation": 1}
    resource["status"] = {"phase": "Running", "observedGeneration": 1}
    assert json.loads(files.plan("-o", "json", job=files.write("got.yaml", resource)).out) == json.loads(files.plan("-o", "json").out)


def test_nodes_with_the_taint_that_gpu_nodes_have_are_planned_on_as_the_operator_plans_on_them(files: Files) -> None:
    path = tainted_cluster(files, Taint(key="nvidia.com/gpu", value="present"))
    assert run("plan", "-f", files.job, "--snapshot", path).code == 0
    assert run("plan", "-f", files.write("two.yaml", [job(), {**job(), "metadata": {"name": "other"}}]), "--snapshot", path).code == 0


def test_the_node_selector_of_the_worker_template_counts(files: Files) -> None:
    pinned = job(
        workers={
            "minReplicas": 2,
            "maxReplicas": 4,
            "resources": {"limits": {"nvidia.com/gpu": 2}},
            "gpuMemory": "24Gi",
            "template": {"spec": {"nodeSelector": {"topology.kubernetes.io/region": "ap-south"}}},
        }
    )
    plan = json.loads(run("plan", "-f", files.write("pinned.yaml", pinned), "--snapshot", files.snapshot, "-o", "json").out)
    assert {worker["node"] for worker in plan["workers"]} <= {f"gpu-node-{index:02d}" for index in range(4)}


def test_a_worker_template_that_cannot_be_rendered_is_refused_with_its_path(files: Files) -> None:
    broken = job(
        workers={
            "minReplicas": 2,
            "maxReplicas": 4,
            "resources": {"limits": {"nvidia.com/gpu": 2}},
            "gpuMemory": "24Gi",
            "template": {"spec": {"nodeSelector": ["eu"]}},
        }
    )
    ran = run("plan", "-f", files.write("broken.yaml", broken), "--snapshot", files.snapshot)
    assert ran.code == 2
    assert "broken.yaml: spec.workers.template.spec.nodeSelector" in ran.err
