"""`fuse`: rewrites a model so that what is safe to fuse is fused. Same parameters, same names, same outputs up to the order of sums.

First every DGL layer that the kernels know is replaced in a copy of the module tree. Then torch.fx traces the copy, and activations and
dropouts that follow a layer move into it. A model that cannot be traced, or that would lose something by it, keeps its own code: only the
layers are replaced, and the reason is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import dgl.nn as dglnn
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from hyperscale.training.modelgraph import fused_layers, fused_operations
from hyperscale.training.modelgraph.fused_layers import Fused, LayerSettings, activation_code, fused_layer, shallow
from hyperscale.training.modelgraph.fusion_rules import (
    ATTENTION,
    BYTES,
    DROPOUT,
    EPILOGUE,
    EVERY,
    HOIST,
    KERNEL,
    LINEAR,
    ORDER,
    RULES,
    Applied,
    GraphStatistics,
    applied,
    saved_bytes,
)
from hyperscale.training.modelgraph.kernels import RELU

RESHAPES: Final = ("flatten", "view", "reshape")
"""Methods that an activation may change places with."""


@dataclass
class Fusion:
    """A rewritten model and what was done to it."""

    model: nn.Module
    """Shares its parameters with the original, which stays as it was."""
    applied: list[Applied] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Sentences: what was left as it is, and why."""


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


def fuse(model: nn.Module, graph: GraphStatistics, rules: frozenset[str] = EVERY) -> Fusion:
    """The fused model; `rules` (names of RULES) allows to leave some out. Raises ValueError for a rule that does not exist."""
    unknown = sorted(rules - EVERY)
    if unknown:
        raise ValueError(f"rules: {', '.join(unknown)} unknown; write some of {', '.join(RULES)}")
    fusion = Fusion(_replaced(model, "", lambda name, module: None))
    first = _first_layer(fusion.model)
    fusion.model = _replaced(fusion.model, "", lambda name, module: _fused(name, module, name == first, graph, rules, fusion))
    if {EPILOGUE, LINEAR} & rules:
        _fold(fusion, graph, rules)
    return fusion


def trace(model: nn.Module) -> fx.Graph:
    """The model's operations. Raises what torch.fx raises where the code cannot be followed."""
    return LayerTracer().trace(model)


def _replaced(module: nn.Module, name: str, change: Any) -> nn.Module:  # noqa: ANN401 - (name, module) -> module or None
    """A copy of the tree in which `change` replaces modules; a module that stands at two places stays one."""
    known: dict[int, nn.Module] = {}

    def visit(old: nn.Module, at: str) -> nn.Module:
        if id(old) in known:
            return known[id(old)]
        made: nn.Module | None = change(at, old)
        if made is None:
            made = shallow(old)
            for key, child in old._modules.items():
                if child is not None:
                    made._modules[key] = visit(child, f"{at}.{key}" if at else key)
        known[id(old)] = made
        return made

    return visit(module, name)


def _fused(name: str, module: nn.Module, first: bool, graph: GraphStatistics, rules: frozenset[str], fusion: Fusion) -> nn.Module | None:
    """A replacement for a layer that a rule knows."""
    if type(module) is nn.Dropout and DROPOUT in rules and not module.inplace:
        made = shallow(module)
        made.__class__ = FusedDropout
        fusion.applied.append(Applied(DROPOUT, name, 0.0))
        return made
    if type(module) not in fused_layers.SUPPORTED:
        return None
    attention = type(module) is dglnn.GATConv
    if type(module) is dglnn.SAGEConv and module._aggre_type != "mean":
        fusion.kept.append(f"{name}: aggregator {module._aggre_type} has no fused form")
        return None
    wanted = [ATTENTION] if attention else [KERNEL]
    if wanted[0] not in rules:
        return None
    if EPILOGUE in rules:
        wanted.append(EPILOGUE)
    if not attention:
        wanted += [ORDER] if ORDER in rules and first and not _dropping(module) and saved_bytes(ORDER, module, graph) > 0 else []
        wanted += [HOIST] if HOIST in rules and first and graph.constant_input and not _dropping(module) else []
    fusion.applied += [applied(rule, name, module, graph, first) for rule in wanted]
    return fused_layer(module, LayerSettings(epilogue=EPILOGUE in wanted, reorder=ORDER in wanted, hoist=HOIST in wanted))


def _dropping(module: Any) -> bool:  # noqa: ANN401
    """Its input is another one in every step."""
    return getattr(getattr(module, "feat_drop", None), "p", 0.0) > 0.0


def _of_dgl(module: nn.Module) -> bool:
    return type(module).__module__.startswith("dgl.")


def _first_layer(model: nn.Module) -> str | None:
    """The layer that gets the model's input itself: only its rules may count on an input that never changes."""
    try:
        graph = trace(model)
    except Exception:
        return None
    for node in graph.nodes:
        if node.op == "call_module" and isinstance(model.get_submodule(node.target), fused_layers.SUPPORTED):
            fed = len(node.args) > 1 and isinstance(node.args[1], fx.Node) and node.args[1].op == "placeholder"
            return str(node.target) if fed and _calls(graph, node.target) == 1 else None
    return None


def _fold(fusion: Fusion, graph: GraphStatistics, rules: frozenset[str]) -> None:
    """Move activations and dropouts into the layers before them, by torch.fx."""
    model = fusion.model
    try:
        traced = _traced_alike(model)
    except Exception as error:
        fusion.kept.append(f"the model's own code stays: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
        return
    changed = False
    for node in list(traced.nodes):
        if node.op == "call_module" and _calls(traced, node.target) == 1:
            changed |= _fold_after(traced, node, model, fusion, graph, rules)
    if not changed:
        return
    made = fx.GraphModule(model, traced, type(model).__name__)
    if list(made.state_dict()) != list(model.state_dict()):
        lost = sorted(set(model.state_dict()) - set(made.state_dict()))
        for layer in model.modules():  # what was folded must not be done twice
            if isinstance(layer, Fused):
                layer.settings.activation, layer.settings.drop = "", 0.0
        fusion.applied = [one for one in fusion.applied if one.rule != LINEAR]
        fusion.kept.append(f"the model's own code stays: {', '.join(lost) or 'the order of its parameters'} would be lost")
        return
    made.train(model.training)
    fusion.model = made


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


def _calls(graph: fx.Graph, target: Any) -> int:  # noqa: ANN401
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
    after = _only_user(node)
    if DROPOUT in rules and after is not None and after.op == "call_module" and _calls(traced, after.target) == 1:
        dropout = model.get_submodule(str(after.target))
        if isinstance(dropout, nn.Dropout) and dropout.p < 1.0 and dropout.training == module.training:
            module.settings.drop = dropout.p
            _bypass(after)
            changed = True
    return changed


def _fold_linear(node: fx.Node, name: str, module: nn.Linear, model: nn.Module, fusion: Fusion, graph: GraphStatistics) -> bool:
    follower, code = _activation_after(node, model)
    if follower is None or code is None:
        return False
    made = shallow(module)
    made.__class__ = FusedLinear
    made.code = code  # type: ignore[assignment] # a plain attribute
    parent, _, last = name.rpartition(".")
    model.get_submodule(parent)._modules[last] = made
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
