"""Moves activations and dropouts of a model's code into the layers before them, by torch.fx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from hyperscale.training.modelgraph import fused_operations
from hyperscale.training.modelgraph.fused_layers import Fused, activation_code, shallow
from hyperscale.training.modelgraph.fusion_rules import BYTES, DROPOUT, EPILOGUE, LINEAR, Applied, Fusion, GraphStatistics
from hyperscale.training.modelgraph.kernels import RELU

RESHAPES: Final = ("flatten", "view", "reshape")
"""Methods that an activation may change places with."""


class FusedLinear(nn.Linear):
    """Linear with the activation that follows it done in place."""

    code: int

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        out = super().forward(x)
        return torch.relu_(out) if self.code == RELU else functional.elu_(out)


class FusedDropout(nn.Dropout):
    """Dropout without a mask in memory; draws other numbers than torch's for the same seed."""

    def forward(self, x: Tensor) -> Tensor:
        """As nn.Dropout."""
        if not self.training or self.p >= 1.0 or not fused_operations.fits(x) or x.dim() == 0:
            return super().forward(x)
        return fused_operations.dropout(x, self.p)


class LayerTracer(fx.Tracer):
    """Layers of DGL stay one operation each."""

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        """DGL's and ours, besides torch's own."""
        return isinstance(module, Fused | FusedLinear | FusedDropout) or super().is_leaf_module(module, name) or _of_dgl(module)


def trace(model: nn.Module) -> fx.Graph:
    """The model's operations. Raises what torch.fx raises where the code cannot be followed."""
    return LayerTracer().trace(model)


def _of_dgl(module: nn.Module) -> bool:
    return type(module).__module__.startswith("dgl.")


def fold(fusion: Fusion, graph: GraphStatistics, rules: frozenset[str]) -> None:
    """Move activations and dropouts into the layers before them, by torch.fx."""
    model = fusion.model
    try:
        traced = _traced_alike(model)
    except Exception as error:
        fusion.kept.append(f"the model's own code stays: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
        return
    changed = False
    for node in list(traced.nodes):
        if node.op == "call_module" and calls(traced, node.target) == 1:
            changed |= _fold_after(traced, node, model, fusion, graph, rules)
    if not changed:
        return
    folded = fx.GraphModule(model, traced, type(model).__name__)
    if list(folded.state_dict()) != list(model.state_dict()):
        lost = sorted(set(model.state_dict()) - set(folded.state_dict()))
        _undo(fusion)
        fusion.kept.append(f"the model's own code stays: {', '.join(lost) or 'the order of its parameters'} would be lost")
        return
    folded.train(model.training)
    fusion.model = folded


def _undo(fusion: Fusion) -> None:
    """Let every layer end as before: the model's own code does what was folded, and must not do it twice."""
    for layer in fusion.model.modules():
        if isinstance(layer, Fused):
            layer.settings.activation, layer.settings.drop = "", 0.0
        elif isinstance(layer, FusedLinear):
            layer.__class__ = nn.Linear  # type: ignore[assignment] # FusedLinear adds a plain attribute alone
    fusion.applied = [one for one in fusion.applied if one.rule != LINEAR]


def _traced_alike(model: nn.Module) -> fx.Graph:
    """The graph, where training and evaluation have the same one: tracing fixes `self.training` wherever the code asks for it."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        graphs = []
        for mode in (True, False):
            model.train(mode)
            graphs.append(trace(model))
    finally:
        for module, mode in modes:
            module.training = mode
    if graphs[0].python_code("self").src != graphs[1].python_code("self").src:
        raise ValueError("it does something else in training than in evaluation outside of modules (write nn.Dropout, not F.dropout)")
    return graphs[0]


def calls(graph: fx.Graph, target: Any) -> int:  # noqa: ANN401
    """How often a graph calls a module."""
    return sum(node.op == "call_module" and node.target == target for node in graph.nodes)


def _fold_after(traced: fx.Graph, node: fx.Node, model: nn.Module, fusion: Fusion, graph: GraphStatistics, rules: frozenset[str]) -> bool:
    """Fold what follows one call; True where something was."""
    name = str(node.target)
    module = model.get_submodule(name)
    if type(module) is nn.Linear and LINEAR in rules:
        return _fold_linear(node, name, module, model, fusion, graph)
    if not isinstance(module, Fused) or EPILOGUE not in rules or not module.settings.epilogue:
        return False
    changed = False
    follower, code = _activation_after(node, model)
    if follower is not None and getattr(module, "activation", None) is None and getattr(module, "norm", None) is None:
        module.settings.activation = "relu" if code == RELU else "elu"
        _bypass(follower)
        changed = True
    if DROPOUT in rules:
        changed |= _fold_dropout(traced, node, module, model)
    return changed


def _fold_dropout(traced: fx.Graph, node: fx.Node, layer: Any, model: nn.Module) -> bool:  # noqa: ANN401 - a Fused layer is an nn.Module too
    """Fold a dropout that is the only reader of a layer; True where one is."""
    after = _only_user(node)
    if after is None or after.op != "call_module" or calls(traced, after.target) != 1:
        return False
    dropout = model.get_submodule(str(after.target))
    if not isinstance(dropout, nn.Dropout) or dropout.p >= 1.0 or dropout.training != layer.training:
        return False
    layer.settings.drop = dropout.p
    _bypass(after)
    return True


def _fold_linear(node: fx.Node, name: str, module: nn.Linear, model: nn.Module, fusion: Fusion, graph: GraphStatistics) -> bool:
    follower, code = _activation_after(node, model)
    if follower is None or code is None:
        return False
    fused = shallow(module)
    fused.__class__ = FusedLinear
    fused.code = code  # type: ignore[assignment] # a plain attribute
    parent, _, last = name.rpartition(".")
    model.get_submodule(parent)._modules[last] = fused
    _bypass(follower)
    whole = BYTES * graph.vertices * (3 * module.in_features + 7 * module.out_features)
    saved = BYTES * graph.vertices * 2 * module.out_features
    fusion.applied.append(Applied(LINEAR, name, saved, whole / (whole - saved)))
    return True


def _activation_after(node: fx.Node, model: nn.Module) -> tuple[fx.Node | None, int | None]:
    """The activation that is the only reader of a layer, and its code; a reshape may stand between."""
    for follower in _followers(node):
        code = _code_of(follower, model)
        if code:
            return follower, code
        if not (follower.op == "call_method" and follower.target in RESHAPES):
            break
    return None, None


def _followers(node: fx.Node) -> Iterator[fx.Node]:
    """The only reader, its only reader, and so on."""
    after = _only_user(node)
    while after is not None:
        yield after
        after = _only_user(after)


def _only_user(node: fx.Node) -> fx.Node | None:
    users = list(node.users)
    return users[0] if len(users) == 1 and users[0].args and users[0].args[0] is node else None


def _code_of(node: fx.Node, model: nn.Module) -> int | None:
    """RELU or ELU where the node is that, with its default figures."""
    if node.op == "call_module":
        return activation_code(model.get_submodule(str(node.target)))
    plain = len(node.args) == 1 and not (set(node.kwargs) - {"inplace", "alpha"}) and node.kwargs.get("alpha", 1.0) == 1.0
    if node.op == "call_method":
        return RELU if plain and node.target in ("relu", "relu_") else None
    return activation_code(node.target) if plain and node.op == "call_function" else None


def _bypass(node: fx.Node) -> None:
    """Its readers read what it read."""
    node.replace_all_uses_with(node.args[0])  # type: ignore[arg-type] # _only_user saw that it is a node
    node.graph.erase_node(node)
