"""Weights that `hyperscale learn` published replace those of the package in the planner process, one learned planner at a time."""

from __future__ import annotations

import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from hyperscale.model.api.policy import QueueOrder, QueuePolicy
from hyperscale.planner.learned.learned_planner import Learned, planners
from hyperscale.planner.queue.queue_policies import AGENT_UNAVAILABLE, choosers

SHIPPED = Path(str(files("hyperscale.planner.learned"))) / "weights"
LEARNED = QueuePolicy(order=QueueOrder.LEARNED)


def test_a_folder_with_one_model_leaves_the_other_to_the_package(tmp_path: Path) -> None:
    for suffix in ("safetensors", "json"):
        shutil.copy(SHIPPED / f"stream.{suffix}", tmp_path)
    found = choosers(LEARNED, tmp_path)
    assert found.agent is not None
    assert found.fallbacks == ()
    assert any(isinstance(planner, Learned) for planner in planners(tmp_path))


def test_damaged_published_weights_are_refused_and_not_replaced_in_silence(tmp_path: Path) -> None:
    for name in ("stream", "constructor"):
        shutil.copy(SHIPPED / f"{name}.json", tmp_path)
        (tmp_path / f"{name}.safetensors").write_bytes(b"not weights")
    found = choosers(LEARNED, tmp_path)
    assert found.agent is None
    assert found.fallbacks == (AGENT_UNAVAILABLE,)
    with pytest.warns(RuntimeWarning, match="constructor"):
        assert not any(isinstance(planner, Learned) for planner in planners(tmp_path))
