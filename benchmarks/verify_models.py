"""Sound models and mutants of them for the benchmark of the model checks: small networks with drawn widths on drawn graphs.

The oracle knows the mutation: a model mutant is equivalent only where the drawn change leaves the model as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from hyperscale.evaluate.verify.model_checks import Combine, Loss, ModelSample, weighted_mean

Rng = np.random.Generator


class ModelCase(NamedTuple):
    """What one check takes."""

    model: nn.Module
    sample: ModelSample
    loss: Loss
    combine: Combine = weighted_mean


class Layer(nn.Module):
    """One layer over neighbours: own row and the mean of the neighbours (GraphSAGE), or the mean alone (GCN)."""

    def __init__(self, entering: int, leaving: int, own: bool) -> None:
        super().__init__()
        self.near = nn.Linear(entering, leaving)
        self.own = nn.Linear(entering, leaving) if own else None

    def forward(self, graph: Tensor, x: Tensor) -> Tensor:
        """(n, n) row-normalised adjacency, (n, entering) -> (n, leaving)."""
        near: Tensor = self.near(graph @ x)
        return near if self.own is None else near + self.own(x)


class Network(nn.Module):
    """Layers with an activation between them."""

    def __init__(self, widths: list[int], own: bool, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(*pair, own) for pair in pairwise(widths)])
        self.activation = activation
        self.detached: int | None = None

    def forward(self, graph: Tensor, x: Tensor) -> Tensor:
        """(n, n), (n, features) -> (n, classes)."""
        for at, layer in enumerate(self.layers):
            x = layer(graph, x)
            if at + 1 < len(self.layers):
                x = self.activation(x)
            if at == self.detached:
                x = x.detach()
        return x


def sound(rng: Rng, seed: int) -> ModelCase:
    """Return a drawn model with data that fit it."""
    torch.manual_seed(seed)
    vertices, features, classes = int(rng.integers(40, 120)), int(rng.integers(3, 40)), int(rng.integers(2, 12))
    widths = [features, *(int(width) for width in rng.integers(8, 48, size=int(rng.integers(1, 4)))), classes]
    graph = torch.from_numpy((rng.random((vertices, vertices)) < 0.1).astype(np.float32)) + torch.eye(vertices)
    graph = graph / graph.sum(1, keepdim=True)
    activation = (functional.elu, torch.tanh, functional.leaky_relu)[int(rng.integers(3))]
    labels = torch.from_numpy(rng.integers(0, classes, size=vertices))
    train = torch.from_numpy(rng.permutation(vertices) < vertices * 0.6)
    sample = ModelSample(graph, torch.from_numpy(rng.normal(size=(vertices, features)).astype(np.float32)), labels, train, classes)
    mean = bool(rng.random() < 0.6)
    loss = functional.cross_entropy if mean else _summed
    return ModelCase(Network(widths, bool(rng.random() < 0.5), activation), sample, loss, weighted_mean if mean else _of_sums)


def _summed(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(logits, labels, reduction="sum")


def _of_sums(losses: Any, sizes: Any) -> float:  # noqa: ANN401 - sequences of numbers
    return float(sum(losses) / sum(sizes))


def _layers(case: ModelCase) -> Any:  # noqa: ANN401 - a ModuleList of Layer
    return case.model.layers


def _wrong_width(case: ModelCase, rng: Rng) -> ModelCase:
    at = int(rng.integers(len(_layers(case))))
    near = _layers(case)[at].near
    wider = int(rng.choice([-1, 1, 2]))
    if rng.random() < 0.5:
        _layers(case)[at].near = nn.Linear(near.in_features + wider, near.out_features)
    else:
        _layers(case)[at].near = nn.Linear(near.in_features, near.out_features + max(1, wider))
    return case


def _wrong_classes(case: ModelCase, rng: Rng) -> ModelCase:
    last = _layers(case)[-1]
    fewer = int(rng.choice([-1, 1, 3]))
    for name in ("near", "own"):
        if (linear := getattr(last, name)) is not None:
            setattr(last, name, nn.Linear(linear.in_features, linear.out_features + fewer))
    return case


def _detached(case: ModelCase, rng: Rng) -> ModelCase:
    case.model.detached = int(rng.integers(len(_layers(case))))  # type: ignore[assignment] # of Network
    return case


def _frozen(case: ModelCase, rng: Rng) -> ModelCase:
    values = list(case.model.parameters())
    values[int(rng.integers(len(values)))].requires_grad_(False)
    return case


def _unused(case: ModelCase, rng: Rng) -> ModelCase:
    case.model.register_module("spare", nn.Linear(int(rng.integers(1, 9)), int(rng.integers(1, 9))))
    return case


def _zeroed(case: ModelCase, rng: Rng) -> ModelCase:
    """A branch that is multiplied by zero: its parameters are used and never learn."""
    layer = _layers(case)[int(rng.integers(len(_layers(case))))]
    layer.near.register_forward_hook(lambda module, given, result: result * 0.0)
    return case


def _label_beyond(case: ModelCase, rng: Rng) -> ModelCase:
    labels = case.sample.labels.clone()
    at = int(rng.choice(np.flatnonzero(case.sample.train.numpy())))
    labels[at] = int(rng.choice([-1, case.sample.classes, case.sample.classes + 5]))
    return case._replace(sample=case.sample._replace(labels=labels))


def _label_kind(case: ModelCase, rng: Rng) -> ModelCase:
    return case._replace(sample=case.sample._replace(labels=case.sample.labels.to(torch.float32)))


def _mean_of_means(case: ModelCase, rng: Rng) -> ModelCase:
    return case._replace(loss=functional.cross_entropy, combine=lambda losses, sizes: float(np.mean(losses)))


def _forgotten_weights(case: ModelCase, rng: Rng) -> ModelCase:
    return case._replace(loss=_summed, combine=lambda losses, sizes: float(np.mean(losses)))


def _wrong_type(case: ModelCase, rng: Rng) -> ModelCase:
    if rng.random() < 0.5:
        _layers(case)[int(rng.integers(len(_layers(case))))].to(torch.float64)
        return case
    kind = (torch.float64, torch.float16, torch.int64)[int(rng.integers(3))]
    return case._replace(sample=case.sample._replace(features=case.sample.features.to(kind)))


def _not_finite(case: ModelCase, rng: Rng) -> ModelCase:
    values = list(case.model.parameters())
    with torch.no_grad():
        values[int(rng.integers(len(values)))].view(-1)[0] = float(rng.choice([float("nan"), float("inf")]))
    return case


MODEL_KINDS: Final[dict[str, Callable[[ModelCase, Rng], ModelCase]]] = {
    "model: wrong width": _wrong_width,
    "model: wrong number of classes": _wrong_classes,
    "model: detached branch": _detached,
    "model: frozen parameter": _frozen,
    "model: parameter unused": _unused,
    "model: branch times zero": _zeroed,
    "model: label out of range": _label_beyond,
    "model: labels not whole numbers": _label_kind,
    "model: mean of means": _mean_of_means,
    "model: mean of sums": _forgotten_weights,
    "model: wrong type": _wrong_type,
    "model: parameter not finite": _not_finite,
}
