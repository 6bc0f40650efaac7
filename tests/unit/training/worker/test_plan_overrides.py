"""The launcher tells all ranks of a plan that is newer than its own variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hyperscale.control.render.environment import contract
from hyperscale.control.render.plan_file import config_map
from hyperscale.training.worker.plan_overrides import plan_overrides
from tests.builders.placement import job, metadata, plan


def variables(folder: Path, of: str = "ab", now: str = "ab") -> dict[str, str]:
    """Those of a plan on the nodes `of`, with the file of a plan on `now`."""
    file = folder / "plan.json"
    file.write_text(config_map(metadata(), plan(*now), {})["data"]["plan.json"])
    return {**contract(metadata(), job(), plan(*of)), "HYPERSCALE_PLAN_FILE": str(file)}


def test_the_plan_of_the_variables_changes_nothing(tmp_path: Path) -> None:
    assert plan_overrides(variables(tmp_path)) == {}


def test_new_shares_and_the_new_plans_name_are_told(tmp_path: Path) -> None:
    old = {**variables(tmp_path), "HYPERSCALE_SHARES": "0.75,0.25", "HYPERSCALE_PLAN_ID": "old"}
    assert plan_overrides(old) == {"HYPERSCALE_SHARES": "0.5,0.5", "HYPERSCALE_PLAN_ID": "0123456789abcdef"}


def test_another_number_of_workers_is_told_with_what_follows_from_it(tmp_path: Path) -> None:
    overrides = plan_overrides(variables(tmp_path, of="abcd", now="ab"))
    assert overrides == {"HYPERSCALE_WORKERS": "2", "HYPERSCALE_PARTITIONS": "2", "HYPERSCALE_SHARES": "0.5,0.5"}


def test_without_a_number_of_workers_the_plan_file_is_not_ours(tmp_path: Path) -> None:
    overrides = variables(tmp_path, now="abc")
    del overrides["HYPERSCALE_WORKERS"]
    assert plan_overrides(overrides) == {}


@pytest.mark.parametrize(("now", "gpus", "ranks"), [("ab", 1, 2), ("abcd", 2, 8), ("abc", 1, 3)])
def test_the_launcher_starts_as_many_ranks_as_the_plan_in_force_has(tmp_path: Path, now: str, gpus: int, ranks: int) -> None:
    said = tmp_path / "said"
    code = f"import os, sys; open({str(said)!r}, 'w').write(' '.join([*sys.argv[1:], os.environ['HYPERSCALE_WORKERS']]))"
    overrides = {**os.environ, **variables(tmp_path, of="abc", now=now), "HYPERSCALE_GPUS_PER_WORKER": str(gpus)}
    overrides["HYPERSCALE_TERMINATION_LOG"] = str(tmp_path / "message")
    launch = [sys.executable, "-m", "hyperscale.training.worker.launch", "--", sys.executable, "-c", code]
    subprocess.run([*launch, "-np", str(3 * gpus), "--map-by", "slot"], env=overrides, check=True, timeout=60)
    assert said.read_text() == f"-np {ranks} --map-by slot {len(now)}"


def test_without_a_plan_file_the_variables_hold(tmp_path: Path) -> None:
    assert plan_overrides({"HYPERSCALE_PLAN_FILE": str(tmp_path / "none"), "HYPERSCALE_WORKERS": "2"}) == {}


def test_a_broken_plan_file_is_told_and_the_variables_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.json").write_text("{")
    assert plan_overrides({"HYPERSCALE_PLAN_FILE": str(tmp_path / "plan.json"), "HYPERSCALE_WORKERS": "2"}) == {}
    assert "going by the environment" in capsys.readouterr().err
