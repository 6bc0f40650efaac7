"""GCN, GraphSAGE and GAT in double precision with a row for each edge: benchmarks/gpu.py compares the worker's layers with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.gpu_cases import Case
from hyperscale.model.adjacency import LocalPart
from hyperscale.model.api.choices import Architecture
from hyperscale.training.engine.models import GraphNetwork


def logits_and_gradients(case: Case, part: LocalPart, network: GraphNetwork) -> list[Tensor]:
    """Logits (n, C) and the gradients of all parameters of the summed loss over train, in float64 on the processor; nothing is dropped."""
    weights = {name: value.detach().double().cpu().requires_grad_() for name, value in network.named_parameters()}
    *_, x = _sums(case, part, weights)
    train = torch.from_numpy(part.train)
    loss = functional.cross_entropy(x[train], torch.from_numpy(part.labels)[train], reduction="sum")
    loss.backward()  # type: ignore[no-untyped-call] # torch annotates only a part of Tensor
    return [x.detach(), *(value.grad for value in weights.values() if value.grad is not None)]


NEAR: Final = 1e-6
"""Of the largest input of a ReLU: nearer to 0 than this, single precision may take either side, and both gradients are right."""


def settled(case: Case, part: LocalPart, network: GraphNetwork) -> LocalPart:
    """The part without those training vertices whose logits depend on a ReLU input near 0. ELU has the same slope on both sides."""
    if case.architecture == Architecture.GAT:
        return part
    weights = {name: value.detach().double().cpu() for name, value in network.named_parameters()}
    *hidden, _ = _sums(case, part, weights)
    near = np.zeros(len(part.owned), bool)
    for inputs in hidden:
        near |= (inputs.abs() < NEAR * inputs.abs().max()).any(dim=1).numpy()
        # What a row gathers, and so every later layer, depends on it too.
        rows = np.repeat(np.arange(len(near)), np.diff(part.indptr))
        near |= np.bincount(rows, weights=near[part.indices], minlength=len(near)) > 0
    return dataclasses.replace(part, train=part.train & ~near)


def _sums(case: Case, part: LocalPart, weights: dict[str, Tensor]) -> Iterator[Tensor]:
    """What each layer gives before its activation (n, width); the last one's are the logits."""
    count = len(part.owned)
    source = torch.from_numpy(part.indices.astype(np.int64))
    destination = torch.from_numpy(np.repeat(np.arange(count), np.diff(part.indptr)))
    x = torch.from_numpy(part.features).double()
    layers = 1 + max(int(name.split(".")[1]) for name in weights)
    for at in range(layers):
        one = {name.split(".")[2]: value for name, value in weights.items() if name.startswith(f"layers.{at}.")}
        last = at == layers - 1
        if case.architecture == Architecture.GAT:
            x = _gat(x, one, source, destination, last=last)
        elif case.architecture == Architecture.GCN:
            x = _gcn(x, one, source, destination, part)
        else:
            received = torch.from_numpy(part.in_degree).double().clamp(min=1.0).unsqueeze(1)
            mean = torch.zeros_like(x).index_add(0, destination, x[source]) / received
            x = x @ one["weight"] + mean @ one["neighbour"] + one["bias"]
        yield x
        x = functional.elu(x) if case.architecture == Architecture.GAT else x.relu()


def _gcn(x: Tensor, one: dict[str, Tensor], source: Tensor, destination: Tensor, part: LocalPart) -> Tensor:
    received, sent = ((torch.from_numpy(degree).double() + 1.0).rsqrt().unsqueeze(1) for degree in (part.in_degree, part.out_degree))
    rows = x @ one["weight"] * sent
    return (torch.zeros_like(rows).index_add(0, destination, rows[source]) + rows) * received + one["bias"]


def _gat(x: Tensor, one: dict[str, Tensor], source: Tensor, destination: Tensor, *, last: bool) -> Tensor:
    own = torch.arange(len(x))
    source, destination = torch.cat([source, own]), torch.cat([destination, own])
    rows = (x @ one["weight"]).view(len(x), *one["left"].shape)
    scores = functional.leaky_relu((rows * one["left"]).sum(-1)[source] + (rows * one["right"]).sum(-1)[destination], 0.2)
    powers = (scores - scores.max()).exp()
    total = torch.zeros(len(x), powers.shape[1], dtype=powers.dtype).index_add(0, destination, powers)
    weighed = rows[source] * (powers / total[destination]).unsqueeze(-1)
    out = torch.zeros_like(rows).index_add(0, destination, weighed)
    return (out.mean(1) if last else out.flatten(1)) + one["bias"]
