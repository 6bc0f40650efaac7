"""The launcher tells all ranks of a plan that is newer than its own variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperscale.render.environment import contract
from hyperscale.render.runplan import config_map
from hyperscale.worker.replanned import replanned
from tests.builders.placement import job, metadata, plan


def variables(folder: Path, of: str = "ab", now: str = "ab") -> dict[str, str]:
    """Those of a plan on the nodes `of`, with the file of a plan on `now`."""
    file = folder / "plan.json"
    file.write_text(config_map(metadata(), plan(*now), {})["data"]["plan.json"])
    return {**contract(metadata(), job(), plan(*of)), "HYPERSCALE_PLAN_FILE": str(file)}


def test_the_plan_of_the_variables_changes_nothing(tmp_path: Path) -> None:
    assert replanned(variables(tmp_path)) == {}


def test_new_shares_and_the_new_plans_name_are_told(tmp_path: Path) -> None:
    old = {**variables(tmp_path), "HYPERSCALE_SHARES": "0.75,0.25", "HYPERSCALE_PLAN_ID": "old"}
    assert replanned(old) == {"HYPERSCALE_SHARES": "0.5,0.5", "HYPERSCALE_PLAN_ID": "0123456789abcdef"}


def test_a_plan_for_another_number_of_workers_is_not_ours(tmp_path: Path) -> None:
    assert replanned(variables(tmp_path, now="abc")) == {}


def test_without_a_plan_file_the_variables_hold(tmp_path: Path) -> None:
    assert replanned({"HYPERSCALE_PLAN_FILE": str(tmp_path / "none"), "HYPERSCALE_WORKERS": "2"}) == {}


def test_a_broken_plan_file_is_told_and_the_variables_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.json").write_text("{")
    assert replanned({"HYPERSCALE_PLAN_FILE": str(tmp_path / "plan.json"), "HYPERSCALE_WORKERS": "2"}) == {}
    assert "going by the environment" in capsys.readouterr().err
