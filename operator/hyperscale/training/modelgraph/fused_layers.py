"""DGL's GraphConv, SAGEConv and GATConv with the same parameters and results, computed by the fused operations.

A fused layer is the layer it came from with another `forward`: state dict, attributes and printed form stay, parameters are shared. Where
the fused operations do not apply (another device or type, edge weights, pairs of inputs, several edge types) it does what DGL does.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Final

import dgl.nn as dglnn
import torch
from torch import Tensor, nn

from hyperscale.training.modelgraph import fused_operations, kernels
from hyperscale.training.modelgraph.edges import Edges, Matrix, of_dgl
from hyperscale.training.modelgraph.kernels import ELU, NONE, RELU, AttentionRows, Drop, Tail

SUPPORTED: Final = (dglnn.GraphConv, dglnn.SAGEConv, dglnn.GATConv)


@dataclass
class LayerSettings:
    """What the rules decided for one layer."""

    epilogue: bool = True
    """Bias, the layer's own row and activation in that pass."""
    reorder: bool = False
    """Aggregate before the transformation, or the other way round, against DGL's choice by widths alone."""
    hoist: bool = False
    """Keep the aggregate of a constant input."""
    activation: str = ""
    """Of the model's code after the layer: relu or elu."""
    drop: float = 0.0
    """Dropout of the model's code after that."""


class Fused:
    """What fused layers share; mixed into a DGL layer by changing the class of a copy."""

    settings: LayerSettings
    training: bool

    @property
    def own_activation(self) -> Any:  # noqa: ANN401 - a function or a module
        """DGL's layers disagree about its name."""
        return getattr(self, "_activation", None) or getattr(self, "activation", None)

    def tail(self) -> tuple[Tail, Any]:
        """What the pass over the edges ends with, and an activation that it does not know."""
        activation = self.own_activation
        own = NONE if activation is None else activation_code(activation)
        if own is None or not self.settings.epilogue:
            return Tail(), activation
        code = own or {"relu": RELU, "elu": ELU}.get(self.settings.activation, NONE)
        drop = self.settings.drop if self.training else 0.0
        return Tail(code, _drop(drop)), None

    def aggregate_first(self, feat: Tensor, inputs: int, outputs: int) -> bool:
        """The narrower side meets the edges; an input without gradient meets them once an epoch, the other side twice."""
        if self.settings.hoist and not feat.requires_grad:
            return True
        passes = 2 if feat.requires_grad or not self.settings.reorder else 1
        return (passes * inputs, inputs) <= (2 * outputs, outputs)

    def finish(self, out: Tensor) -> Tensor:
        """The same with torch, where the pass cannot end with it."""
        if self.settings.activation:
            out = torch.relu(out) if self.settings.activation == "relu" else nn.functional.elu(out)
        return (
            fused_operations.dropout(out, self.settings.drop)
            if self.training and fused_operations.fits(out)
            else nn.functional.dropout(out, self.settings.drop, self.training)
        )


class FusedGraphConv(Fused, dglnn.GraphConv):  # type: ignore[misc] # DGL ships no types
    """Â (X W) + b in one pass over the edges, or (Â X) W + b with Â X kept where X never changes."""

    def forward(self, graph: Any, feat: Any, weight: Tensor | None = None, edge_weight: Tensor | None = None) -> Tensor:  # noqa: ANN401
        """As GraphConv.forward: (n, F_in) -> (n, F_out)."""
        edges = _edges(graph, feat)
        weight = self.weight if weight is None else weight
        if edges is None or edge_weight is not None or weight is None or (edges.lonely and not self._allow_zero_in_degree):
            return self.finish(super().forward(graph, feat, None if weight is self.weight else weight, edge_weight))
        tail, rest = self.tail()
        matrix = edges.matrix(self._norm)
        if self.aggregate_first(feat, self._in_feats, self._out_feats):
            out = linear(constant_product(self, matrix, feat), weight, self.bias, tail)
        elif self.settings.epilogue:
            out = fused_operations.aggregate(matrix, feat @ weight, bias=self.bias, tail=tail)
        else:
            out = fused_operations.aggregate(matrix, feat @ weight)
            out = out if self.bias is None else out + self.bias
        return ended(out, rest)


class FusedSAGEConv(Fused, dglnn.SAGEConv):  # type: ignore[misc] # DGL ships no types
    """The mean of the neighbours, the own row, bias and activation in one pass; other aggregators as DGL does them."""

    def forward(self, graph: Any, feat: Any, edge_weight: Tensor | None = None) -> Tensor:  # noqa: ANN401
        """As SAGEConv.forward: (n, F_in) -> (n, F_out)."""
        edges = _edges(graph, feat) if self._aggre_type == "mean" and edge_weight is None else None
        if edges is None:
            return self.finish(super().forward(graph, feat, edge_weight))
        tail, rest = self.tail()
        normed = self.norm is not None  # a norm stands after the activation and before a dropout of the model
        rows = dropped(self.feat_drop, feat)
        matrix = edges.matrix("mean")
        if self.aggregate_first(rows, self._in_src_feats, self._out_feats):
            own = rows[: edges.destinations] if edges.destinations < edges.sources else rows
            mean = constant_product(self, matrix, rows)
            out = linear_pair(own, self.fc_self, mean, self.fc_neigh, Tail() if normed else tail)
        else:
            out = self.transform_first(matrix, rows, Tail() if normed else tail)
        if normed:
            return self.finish(self.norm(out if self.activation is None else self.activation(out)))
        return ended(out, rest)

    def transform_first(self, matrix: Matrix, rows: Tensor, tail: Tail) -> Tensor:
        """activation(own W_self + b + A (rows W_neigh))."""
        if not self.settings.epilogue:
            separate: Tensor = self.fc_self(rows[: matrix.edges.destinations]) + fused_operations.aggregate(
                matrix, rows @ self.fc_neigh.weight.t()
            )
            return separate
        weights = self.fc_self.weight, self.fc_neigh.weight
        return fused_operations.transform_and_aggregate(matrix, rows, *weights, bias=self.fc_self.bias, tail=tail)


class FusedGATConv(Fused, dglnn.GATConv):  # type: ignore[misc] # DGL ships no types
    """Scores, leaky ReLU, softmax, dropout and weighted sum in one pass; nothing by edge is kept."""

    def forward(self, graph: Any, feat: Any, edge_weight: Tensor | None = None, get_attention: bool = False) -> Any:  # noqa: ANN401
        """As GATConv.forward: (n, F_in) -> (n, H, D)."""
        edges = _edges(graph, feat)
        if edges is None or edge_weight is not None or get_attention or (edges.lonely and not self._allow_zero_in_degree):
            unfused = super().forward(graph, feat, edge_weight, get_attention)
            return unfused if get_attention else self.finish(unfused)
        tail, rest = self.tail()
        rows = dropped(self.feat_drop, feat)
        if self.res_fc is not None:
            return self.with_residual(rows, edges)
        if self.settings.epilogue:
            return ended(self.weighed(rows, edges, self.bias if self.has_explicit_bias else None, tail), rest)
        return ended(self.biased(self.weighed(rows, edges, None, tail)), rest)

    def weighed(self, rows: Tensor, edges: Edges, bias: Tensor | None, tail: Tail) -> Tensor:
        """(n, H, D) sums weighed by attention."""
        drop = self.attn_drop.p if self.attn_drop.training else 0.0
        how = AttentionRows(self._num_heads, self.leaky_relu.negative_slope, _drop(drop))
        out = fused_operations.attend(edges, rows @ self.fc.weight.t(), (self.attn_l[0], self.attn_r[0]), how, bias=bias, tail=tail)
        return out.view(edges.destinations, self._num_heads, self._out_feats)

    def with_residual(self, rows: Tensor, edges: Edges) -> Tensor:
        """The same with the layer's own rows added, and so bias and activation after that."""
        own = self.res_fc(rows[: edges.destinations]).view(edges.destinations, -1, self._out_feats)
        out = self.biased(self.weighed(rows, edges, None, Tail()) + own)
        return self.finish(out if self.activation is None else self.activation(out))

    def biased(self, out: Tensor) -> Tensor:
        """With the layer's bias, where it has one."""
        return out + self.bias.view(1, self._num_heads, self._out_feats) if self.has_explicit_bias else out


def fused_layer(layer: nn.Module, settings: LayerSettings) -> nn.Module:
    """A fused copy that shares the layer's parameters."""
    kinds = {dglnn.GraphConv: FusedGraphConv, dglnn.SAGEConv: FusedSAGEConv, dglnn.GATConv: FusedGATConv}
    fused = shallow(layer)
    fused.__class__ = kinds[type(layer)]  # type: ignore[assignment] # DGL ships no types
    fused.settings = settings  # type: ignore[assignment] # a plain attribute
    return fused


def shallow(module: nn.Module) -> nn.Module:
    """A copy with the same parameters, buffers and children; replacing one there leaves the original alone."""
    twin = copy.copy(module)
    for name in ("_parameters", "_buffers", "_modules"):
        twin.__dict__[name] = dict(module.__dict__[name])
    return twin


def activation_code(activation: Any) -> int | None:  # noqa: ANN401 - a function or a module
    """RELU or ELU where the kernels know it; None where they do not."""
    if isinstance(activation, nn.ReLU) or activation in (torch.relu, torch.relu_, nn.functional.relu, nn.functional.relu_):
        return RELU
    if isinstance(activation, nn.ELU):
        return ELU if activation.alpha == 1.0 else None
    return ELU if activation in (nn.functional.elu, nn.functional.elu_) else None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, tail: Tail) -> Tensor:
    """activation(x W + b) with the activation in place: `weight` is (F_in, F_out)."""
    return _ended(x @ weight if bias is None else torch.addmm(bias, x, weight), tail)


def linear_pair(own: Tensor, first: nn.Linear, other: Tensor, second: nn.Linear, tail: Tail) -> Tensor:
    """activation(first(own) + second(other)), added up by the matrix product itself."""
    return _ended(first(own).addmm_(other, second.weight.t()), tail)


def _ended(out: Tensor, tail: Tail) -> Tensor:
    if tail.activation == RELU:
        out = torch.relu_(out)
    elif tail.activation == ELU:
        out = nn.functional.elu_(out)
    return fused_operations.dropout(out, tail.drop.probability)


def _drop(probability: float) -> Drop:
    return Drop(probability, fused_operations.fresh_seed()) if probability else Drop()


def ended(out: Tensor, activation: Any) -> Tensor:  # noqa: ANN401
    """With an activation that no kernel knows."""
    result: Tensor = out if activation is None else activation(out)
    return result


def dropped(layer: nn.Dropout, x: Tensor) -> Tensor:
    """The layer's dropout without a mask in memory."""
    return fused_operations.dropout(x, layer.p) if layer.training else x


def constant_product(layer: Fused, matrix: Matrix, x: Tensor) -> Tensor:
    """A x, kept from one step to the next while x is the same tensor, unchanged, and needs no gradient."""
    if x.requires_grad or not layer.settings.hoist:
        return fused_operations.aggregate(matrix, x)
    entry = layer.__dict__.get("_kept")
    if entry is None or entry[0] is not x or entry[1] != x._version or entry[2] is not matrix:
        entry = layer.__dict__["_kept"] = (x, x._version, matrix, fused_operations.aggregate(matrix, x))
    kept: Tensor = entry[3]
    return kept


def _edges(graph: Any, feat: Any) -> Edges | None:  # noqa: ANN401
    """The graph's edges where the kernels can take it and the input."""
    if not (kernels.COMPILED and isinstance(feat, Tensor) and feat.dim() == 2 and fused_operations.fits(feat)):
        return None
    plain = graph.device.type == "cpu" and len(graph.canonical_etypes) == 1 and graph.num_edges() and graph.num_src_nodes() == len(feat)
    return of_dgl(graph) if plain and not torch.is_autocast_enabled("cpu") else None
