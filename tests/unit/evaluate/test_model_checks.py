"""Model checks: each kind of fault is named, sound models pass, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402 - torch is optional

from benchmarks.verify_models import MODEL_KINDS, ModelCase, sound  # noqa: E402
from hyperscale.evaluate.verify.model_checks import ModelSample, check_model, check_operations, weighted_mean  # noqa: E402

SOUND_MODELS = 6
PHRASES = {
    "model: wrong width": "",
    "model: wrong number of classes": "shapes: forward gives",
    "model: detached branch": "gradients: ",
    "model: frozen parameter": "are frozen",
    "model: parameter unused": "none reaches spare.weight",
    "model: branch times zero": "none reaches layers.",
    "model: label out of range": "labels: classes",
    "model: labels not whole numbers": "labels: they are torch.float32",
    "model: mean of means": "weight each part by its vertices",
    "model: mean of sums": "weight each part by its vertices",
    "model: wrong type": "types: ",
    "model: parameter not finite": "hold NaN or infinity",
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small models run faster so, above all beside other tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def a_model(seed: int) -> ModelCase:
    return sound(np.random.default_rng([11, seed]), seed)


@pytest.mark.parametrize("seed", range(SOUND_MODELS))
def test_a_sound_model_passes(seed: int) -> None:
    assert check_model(*a_model(seed)) == ()


@pytest.mark.parametrize("kind", MODEL_KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_each_kind_of_fault_is_named(kind: str, seed: int) -> None:
    faults = check_model(*MODEL_KINDS[kind](a_model(seed), np.random.default_rng(seed)))
    assert any(PHRASES[kind] in sentence for sentence in faults)


def test_a_check_leaves_parameters_mode_and_gradients_as_they_were() -> None:
    case = a_model(1)
    before = [value.clone() for value in case.model.parameters()]
    case.model.train()
    check_model(*case)
    assert case.model.training
    assert all(torch.equal(one, other) for one, other in zip(before, case.model.parameters(), strict=True))
    assert all(value.grad is None for value in case.model.parameters())


def test_labels_outside_of_the_training_split_may_be_anything() -> None:
    case = a_model(2)
    labels = torch.where(case.sample.train, case.sample.labels, torch.full_like(case.sample.labels, -1))
    assert check_model(*case._replace(sample=case.sample._replace(labels=labels))) == ()


def test_a_training_split_without_labels_is_named() -> None:
    case = a_model(3)
    empty = case.sample._replace(train=torch.zeros_like(case.sample.train))
    assert check_model(*case._replace(sample=empty)) == ("labels: no vertex of the training split has a label",)


def test_a_loss_that_fails_is_an_answer_and_no_traceback() -> None:
    faults = check_model(*a_model(4)._replace(loss=lambda logits, labels: functional.mse_loss(logits, labels)))
    assert len(faults) == 1
    assert faults[0].startswith("loss: it fails on")


def test_a_loss_for_each_vertex_is_no_single_number() -> None:
    def each(logits: Any, labels: Any) -> Any:
        return functional.cross_entropy(logits, labels, reduction="none")

    assert check_model(*a_model(5)._replace(loss=each)) == ("loss: it is no single number; reduce it to a mean or a sum",)


def test_the_weighted_mean_of_uneven_parts_is_the_mean_of_all() -> None:
    assert weighted_mean([1.0, 4.0], [3, 1]) == 1.75


def test_the_operation_graph_tells_a_wrong_number_of_classes() -> None:
    pytest.importorskip("dgl")
    from hyperscale.training.modelgraph.stock import stack

    model = stack("GCN", 12, 16, 5, 2, 1)
    assert check_operations(model, 12, 5, 1000, 5000) == ()
    assert "the loss needs 1000 x 7" in check_operations(model, 12, 7, 1000, 5000)[0]
    assert "the model fails on" in check_operations(model, 13, 5, 1000, 5000)[0]


@pytest.mark.parametrize("name", ["GCN", "GraphSAGE", "GAT"])
def test_the_networks_that_come_with_the_product_pass(name: str) -> None:
    pytest.importorskip("dgl")
    from hyperscale.training.modelgraph.analyze import VERTICES, sample_graph
    from hyperscale.training.modelgraph.stock import stack

    torch.manual_seed(0)
    train = torch.arange(VERTICES) % 3 > 0
    sample = ModelSample(sample_graph(), torch.randn(VERTICES, 12), torch.arange(VERTICES) % 5, train, 5)
    assert check_model(stack(name, 12, 16, 5, 2, 2), sample, functional.cross_entropy) == ()
