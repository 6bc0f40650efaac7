"""The network that classifies nodes to jobs: the planner's twin of it, its weights, and the gate before they are published."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from hyperscale.learn.constructor import classes_lesson
from hyperscale.learn.constructor.classes_lesson import ClassModel, judge, train
from hyperscale.learn.constructor.joint_questions import JointQuestion, labelled, question
from hyperscale.learn.lesson import Assignment, LessonError
from hyperscale.planner.together.class_features import class_features
from hyperscale.planner.together.class_network import SHAPES, ClassesError, ClassNetwork, load_classes, published_classes, shipped_classes
from hyperscale.planner.together.joint_starts import CLASSIFIED, classified
from hyperscale.planner.together.shared_nodes import SharedNodes

SHIPPED = Path(__file__).resolve().parents[3] / "operator/hyperscale/planner/learned/weights"


def case(seed: int = 3) -> JointQuestion:
    shared = question("geo", seed)
    assert shared is not None
    return labelled(shared, seed)


def test_the_planner_s_network_has_the_figures_of_the_one_that_is_trained() -> None:
    torch.manual_seed(1)
    model, asked = ClassModel(), case()
    weights = model.weights()
    assert {name: tensor.shape for name, tensor in weights.items()} == SHAPES
    features = class_features(asked.shared)
    logits = ClassNetwork({name: tensor.astype(np.float64) for name, tensor in weights.items()}).logits(features)
    with torch.no_grad():
        trained = model(classes_lesson._case(asked)).numpy()
    usable = np.concatenate((features.usable > 0.0, np.ones((1, features.usable.shape[1]), dtype=np.bool_)))
    assert np.allclose(logits[usable], trained[usable], rtol=1e-4, atol=1e-4)


def test_the_owners_of_a_node_s_places_are_parts_of_a_whole() -> None:
    owners = case().owners
    assert np.allclose(owners.sum(axis=0), 1.0)
    assert (owners >= 0.0).all()


def test_the_shipped_network_has_a_place_for_every_job() -> None:
    asked = case().shared
    (start,) = classified(asked, shipped_classes())
    assert start.name == CLASSIFIED
    assert asked.fits(start.orders)


@pytest.mark.parametrize("change", [{"featureVersion": 0}, {"width": 1}, {"sha256": "0"}])
def test_weights_of_another_version_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    for name in ("classes.json", "classes.safetensors"):
        shutil.copy(SHIPPED / name, tmp_path / name)
    manifest = json.loads((tmp_path / "classes.json").read_text())
    (tmp_path / "classes.json").write_text(json.dumps({**manifest, **change}))
    with pytest.raises(ClassesError):
        load_classes(tmp_path)
    assert published_classes(tmp_path) is None
    assert shipped_classes() is not None
    assert published_classes(None) is None, "the shipped network is no start"


def test_a_few_steps_write_weights_that_the_gate_can_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = case()
    monkeypatch.setattr(classes_lesson, "drawn", lambda first_seed, count: [asked])
    files = train(Assignment(tmp_path, steps=16), lambda progress: None)
    assert [file.name for file in files] == ["classes.safetensors", "classes.json"]
    assert judge(tmp_path, None, 0).accepted
    first = files[0].read_bytes()
    train(Assignment(tmp_path, steps=16), lambda progress: None)
    assert files[0].read_bytes() == first
    assert judge(tmp_path, tmp_path, 0).accepted


def test_nothing_to_judge_and_nothing_to_continue_are_said(tmp_path: Path) -> None:
    with pytest.raises(LessonError, match="train first"):
        judge(tmp_path, None, 0)
    with pytest.raises(LessonError, match="keeps no checkpoint"):
        train(Assignment(tmp_path, resume=True), lambda progress: None)


def test_placements_that_cannot_work_are_no_base_of_the_classification(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, network = case().shared, shipped_classes()
    (plain,) = classified(asked, network)
    broken = [order.copy() for order in asked.one_by_one]
    figures = asked.seconds(asked.one_by_one)
    monkeypatch.setattr(SharedNodes, "seconds", lambda _, orders: figures * (np.inf if orders is broken else 1.0))
    (start,) = classified(asked, network, broken)
    assert [order.tolist() for order in start.orders] == [order.tolist() for order in plain.orders]
