"""Ranks of a simulated launcher run on this machine as its pod would run them, but for the network and the interpreter."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from e2e import hostranks
from hyperscale.control.render.mpijob import render
from tests.builders.placement import DEFAULTS, job, metadata, plan

FOLDER = Path("/demo")


def launcher(**spec: Any) -> dict[str, Any]:
    """The launcher container that the operator renders for two workers."""
    rendered = render(metadata(), job(**spec), plan("a", "b"), DEFAULTS)
    container: dict[str, Any] = rendered["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    return container


def test_ranks_run_through_the_same_launcher_on_loopback_with_the_plan_file() -> None:
    ranks = hostranks.of_launcher(launcher(checkpoint={"claimName": "saves"}), FOLDER, one_process=False)
    assert ranks.command[:4] == [sys.executable, "-m", "hyperscale.training.worker.launch", "--"]
    assert ranks.command[-3:] == [sys.executable, "-m", "hyperscale.training.worker.train"]
    assert ranks.command[4:8] == ["mpirun", "--oversubscribe", "-np", "2"]
    assert "eth0" not in ranks.command
    assert not [word for word in ranks.command if "rsh" in word or "ssh" in word]
    assert ranks.environment["HYPERSCALE_PLAN_FILE"] == str(FOLDER / "plan.json")
    assert ranks.environment["CHECKPOINT_DIR"] == str(FOLDER)
    assert ranks.environment["HYPERSCALE_WORKERS"] == "2"
    assert ranks.environment["HYPERSCALE_TERMINATION_LOG"] == str(FOLDER / "result.json")


def test_one_process_is_told_nothing_of_the_plans_ranks() -> None:
    ranks = hostranks.of_launcher(launcher(), FOLDER, one_process=True)
    assert "mpirun" not in ranks.command
    assert ranks.environment["HYPERSCALE_PLAN_FILE"] == str(FOLDER / "no-plan.json")
    assert ranks.environment["HYPERSCALE_GPUS_PER_WORKER"] == "1"
    assert not {"HYPERSCALE_WORKERS", "HYPERSCALE_SHARES", "HYPERSCALE_PARTITIONS"} & ranks.environment.keys()
    assert ranks.environment["HYPERSCALE_MODEL"].startswith("{")


def test_values_arrive_as_the_kubelet_would_hand_them_over() -> None:
    container: dict[str, Any] = {
        "command": ["true"],
        "env": [{"name": "PRICE", "value": "5$$"}, {"name": "NODE", "valueFrom": {"fieldRef": {}}}],
    }
    container["env"].append({"name": "OMPI_MCA_orte_default_hostfile", "value": "/etc/mpi/hostfile"})
    environment = hostranks.of_launcher(container, FOLDER, one_process=False).environment
    assert environment["PRICE"] == "5$"
    assert not {"NODE", "OMPI_MCA_orte_default_hostfile"} & environment.keys()


def test_the_result_is_what_the_launcher_left(tmp_path: Path) -> None:
    program = "import os; open(os.environ['HYPERSCALE_TERMINATION_LOG'], 'w').write('said')"
    variables = {"HYPERSCALE_TERMINATION_LOG": str(tmp_path / "result.json")}
    assert hostranks.train(hostranks.HostRanks([sys.executable, "-c", program], variables), tmp_path) == (0, "said")
    assert hostranks.train(hostranks.HostRanks([sys.executable, "-c", "raise SystemExit(3)"], {**variables}), tmp_path)[0] == 3


def test_a_launcher_ends_as_its_ranks_ended() -> None:
    (state,) = hostranks.ended("launcher", 0, "{}", "2026-01-01T00:00:00Z")["status"]["containerStatuses"]
    assert (state["name"], state["state"]["terminated"]["message"]) == ("launcher", "{}")
    assert hostranks.ended("launcher", 2, "bad input", "2026-01-01T00:00:00Z")["status"]["phase"] == "Failed"
