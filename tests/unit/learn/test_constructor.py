"""The constructor's training: the numpy pass is the DGL pass, a training that stops continues as if it had not, bad weights stay out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from msgspec import json

from hyperscale.learn.constructor import constructor_lesson, train_constructor
from hyperscale.learn.constructor.labels import Example, example
from hyperscale.learn.constructor.network import Constructor, collate
from hyperscale.learn.constructor.train_constructor import ConstructorConfig, train_weights, weights_of
from hyperscale.learn.constructor.validate import validate
from hyperscale.learn.lesson import LessonError, LessonProgress
from hyperscale.planner.learned.learned_network import ConstructorNetwork
from hyperscale.planner.learned.learned_weights import load, manifest_of

TINY = ConstructorConfig(seed=3, steps=4, examples=5, batch=3, save_every=2, guided_from=1)


def made(*seeds: int) -> list[Example]:
    return [found for seed in seeds if (found := example(seed)) is not None]


def test_the_numpy_pass_is_the_dgl_pass() -> None:
    examples = made(*range(12))
    torch.manual_seed(1)
    model = Constructor()
    model.normalise(collate(examples))
    torch.nn.init.normal_(model.head_out.weight)
    tensors = model(collate(examples)).detach().numpy()
    network = ConstructorNetwork(weights_of(model))
    at = 0
    for one in examples:
        hidden, whole = network.embed(one.view)
        fixed = network.prepared(hidden, whole)
        for state in one.states:
            logits = network.logits(hidden, fixed, state.chosen[None, :], state.features[None])[0]
            theirs = tensors[at : at + len(logits)]
            at += len(logits)
            np.testing.assert_allclose(logits[state.feasible], theirs[state.feasible], rtol=1e-5, atol=1e-4)
    exact = Constructor().double()
    exact.load_state_dict(model.state_dict())
    double = exact(collate(examples, torch.float64)).detach().numpy()
    network = ConstructorNetwork(weights_of(exact))
    hidden, whole = network.embed(examples[0].view)
    first = examples[0].states[0]
    logits = network.logits(hidden, network.prepared(hidden, whole), first.chosen[None, :], first.features[None])[0]
    np.testing.assert_allclose(logits[first.feasible], double[: len(logits)][first.feasible], atol=1e-5, rtol=0.0)


def test_before_any_training_the_choice_is_greedys() -> None:
    examples = made(1, 2, 3)
    model = Constructor()
    network = ConstructorNetwork(weights_of(model))
    for one in examples:
        hidden, whole = network.embed(one.view)
        for state in one.states:
            logits = network.logits(hidden, network.prepared(hidden, whole), state.chosen[None, :], state.features[None])[0]
            open_logits = np.where(state.feasible, logits, -np.inf)
            assert state.features[int(np.argmax(open_logits)), 0] == state.features[state.feasible, 0].min()


def test_labels_name_the_candidate_that_greedy_completes_best() -> None:
    for one in made(4, 5):
        for state in one.states:
            assert state.cost[state.feasible].min() == 0.0
            assert (state.cost >= 0.0).all()
            assert (state.cost[~state.feasible] == 1.0).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_training_that_was_stopped_ends_with_the_same_weights(tmp_path: Path) -> None:
    seen: list[LessonProgress] = []
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    straight = weights_of(train_weights(TINY, whole, seen.append))

    class StoppedError(Exception):
        pass

    batches = train_constructor._chosen

    def stop(examples: list[Example], config: ConstructorConfig, step: int) -> list[Example]:
        if step == 3:
            raise StoppedError
        return batches(examples, config, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_constructor, "_chosen", stop)
        with pytest.raises(StoppedError):
            train_weights(TINY, parts, seen.append)
    resumed = weights_of(train_weights(TINY, parts, seen.append, resume=parts))
    assert straight.keys() == resumed.keys()
    assert all(np.array_equal(straight[name], resumed[name]) for name in straight)
    with pytest.raises(LessonError, match="other settings"):
        train_weights(ConstructorConfig(seed=4), parts, seen.append, resume=parts)


def written(folder: Path, model: Constructor) -> Path:
    folder.mkdir()
    packed = safetensors.numpy.save(weights_of(model))
    (folder / "constructor.safetensors").write_bytes(packed)
    (folder / "constructor.json").write_bytes(json.encode(manifest_of(packed, "hyperscale learn constructor --seed 0 --steps 0", 0, {})))
    return folder


def test_weights_that_learned_nothing_are_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constructor_lesson, "validate", lambda network, seed: validate(network, seed, cases=1))
    folder = written(tmp_path / "none", Constructor())
    assert load(folder) is not None
    verdict = constructor_lesson.judge(folder, None, 0)
    assert not verdict.accepted
    assert verdict.figures["over_greedy_nearest"] == pytest.approx(1.0, abs=1e-9)


def test_a_folder_without_weights_cannot_be_judged(tmp_path: Path) -> None:
    with pytest.raises(LessonError, match="train first"):
        constructor_lesson.judge(tmp_path, None, 0)
