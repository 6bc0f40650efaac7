"""Gradients in float64 that the passes of benchmarks/fusion.py are judged by.

ReLU and leaky ReLU have two slopes, and a sum that is 0 up to rounding lies now on one side, now on the other: either gives a gradient as
right as the other's, and they differ by more than all rounding. So the float64 pass takes the sides of the pass that it judges, whether
that is DGL's or ours, and counts the sums that it would have found on the other one.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hyperscale.training.modelgraph import kernels


class Sided(nn.Module):
    """A leaky ReLU whose sides are given; `apart` counts inputs that lie on the other one."""

    def __init__(self, sides: Tensor, slope: float) -> None:
        """sides: (e, H, 1), true where the slope is 1."""
        super().__init__()
        self.sides, self.slope, self.apart = sides, slope, 0

    def forward(self, scores: Tensor) -> Tensor:
        """(e, H, 1) to the same."""
        self.apart += int(((scores > 0) != self.sides).sum())
        return torch.where(self.sides, scores, scores * self.slope)


def gradients(model: Any, judged: nn.Module, graph: Any, x: Tensor, labels: Tensor) -> tuple[list[Tensor], int]:  # noqa: ANN401
    """Of `model` (first, then ReLU or attention, then second) with the sides of `judged`, a form of `model`; and how many lay elsewhere."""
    double = copy.deepcopy(model).double()
    if model.attention:
        sided = []
        for name, sides in attention_sides(judged, graph, x).items():
            layer = double.get_submodule(name)
            layer.leaky_relu = Sided(sides, layer.leaky_relu.negative_slope)
            sided.append(layer.leaky_relu)
        found = torch.autograd.grad(functional.cross_entropy(double(graph, x.double()), labels), list(double.parameters()))
        return list(found), sum(layer.apart for layer in sided)
    seen: list[Tensor] = []
    watch = judged.get_submodule("first").register_forward_hook(lambda _, __, out: seen.append(out.detach()))
    judged(graph, x)
    watch.remove()
    sums = double.first(graph, x.double())
    loss = functional.cross_entropy(double.second(graph, sums * (seen[0] > 0)), labels)
    return list(torch.autograd.grad(loss, list(double.parameters()))), int(((sums > 0) != (seen[0] > 0)).sum())


@torch.no_grad()
def attention_sides(judged: nn.Module, graph: Any, x: Tensor) -> dict[str, Tensor]:  # noqa: ANN401
    """By layer: (e, H, 1), true where the layer finds an edge's score above 0. DGL's layer calls its leaky ReLU, a fused one does not."""
    found: dict[str, Tensor] = {}
    watches = []
    for name in ("first", "second"):
        layer: Any = judged.get_submodule(name)

        def fused(layer: Any, given: tuple[Any, Tensor], name: str = name) -> None:  # noqa: ANN401
            found[name] = fused_scores(layer, graph, given[1]) > 0

        def called(_: nn.Module, given: tuple[Tensor], name: str = name) -> None:
            found[name] = given[0] > 0

        watches += [layer.register_forward_pre_hook(fused), layer.leaky_relu.register_forward_pre_hook(called)]
    judged(graph, x)
    for watch in watches:
        watch.remove()
    return found


def fused_scores(layer: Any, graph: Any, given: Tensor) -> Tensor:  # noqa: ANN401
    """(e, H, 1) as the kernels add them up."""
    rows = (given @ layer.fc.weight.t()).numpy()
    left, right = (torch.from_numpy(part) for part in kernels.scores(rows, layer.attn_l[0].numpy(), layer.attn_r[0].numpy()))
    sources, destinations = graph.edges()
    return (left[sources] + right[destinations]).unsqueeze(2)
