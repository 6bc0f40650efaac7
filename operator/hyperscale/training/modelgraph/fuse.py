"""`fuse`: rewrites a model so that what is safe to fuse is fused. Same parameters, same names, same outputs up to the order of sums.

First every DGL layer that the kernels know is replaced in a copy of the module tree. Then torch.fx traces the copy, and activations and
dropouts that follow a layer move into it. A model that cannot be traced, or that would lose something by it, keeps its own code: only the
layers are replaced, and the reason is said.
"""

from __future__ import annotations

from typing import Any

import dgl.nn as dglnn
from torch import fx, nn

from hyperscale.training.modelgraph import fused_layers
from hyperscale.training.modelgraph.fold import FusedDropout, calls, fold, trace
from hyperscale.training.modelgraph.fused_layers import LayerSettings, fused_layer, shallow
from hyperscale.training.modelgraph.fusion_rules import (
    ATTENTION,
    DROPOUT,
    EPILOGUE,
    EVERY,
    HOIST,
    KERNEL,
    LINEAR,
    ORDER,
    RULES,
    Applied,
    Fusion,
    GraphStatistics,
    applied,
    saved_bytes,
)


def fuse(model: nn.Module, graph: GraphStatistics, rules: frozenset[str] = EVERY) -> Fusion:
    """The fused model; `rules` (names of RULES) allows to leave some out. Raises ValueError for a rule that does not exist."""
    unknown = sorted(rules - EVERY)
    if unknown:
        raise ValueError(f"rules: {', '.join(unknown)} unknown; write some of {', '.join(RULES)}")
    fusion = Fusion(_replaced(model, "", lambda name, module: None))
    first = _first_layer(fusion.model)
    fusion.model = _replaced(fusion.model, "", lambda name, module: _fused(name, module, name == first, graph, rules, fusion))
    if {EPILOGUE, LINEAR} & rules:
        fold(fusion, graph, rules)
    return fusion


def _replaced(module: nn.Module, name: str, change: Any) -> nn.Module:  # noqa: ANN401 - (name, module) -> module or None
    """A copy of the tree in which `change` replaces modules; a module that stands at two places stays one."""
    copies: dict[int, nn.Module] = {}

    def visit(old: nn.Module, at: str) -> nn.Module:
        if id(old) in copies:
            return copies[id(old)]
        copy: nn.Module | None = change(at, old)
        if copy is None:
            copy = shallow(old)
            for key, child in old._modules.items():
                if child is not None:
                    copy._modules[key] = visit(child, f"{at}.{key}" if at else key)
        copies[id(old)] = copy
        return copy

    return visit(module, name)


def _fused(name: str, module: nn.Module, first: bool, graph: GraphStatistics, rules: frozenset[str], fusion: Fusion) -> nn.Module | None:
    """A replacement for a layer that a rule knows."""
    if type(module) is nn.Dropout and DROPOUT in rules and not module.inplace:
        thinning = shallow(module)
        thinning.__class__ = FusedDropout
        fusion.applied.append(Applied(DROPOUT, name, 0.0))
        return thinning
    if type(module) not in fused_layers.SUPPORTED:
        return None
    if type(module) is dglnn.SAGEConv and module._aggre_type != "mean":
        fusion.kept.append(f"{name}: aggregator {module._aggre_type} has no fused form")
        return None
    chosen = _layer_rules(module, first, graph, rules)
    if not chosen:
        return None
    fusion.applied += [applied(rule, name, module, graph, first) for rule in chosen]
    return fused_layer(module, LayerSettings(epilogue=EPILOGUE in chosen, reorder=ORDER in chosen, hoist=HOIST in chosen))


def _layer_rules(module: nn.Module, first: bool, graph: GraphStatistics, rules: frozenset[str]) -> list[str]:
    """Rules for one layer of DGL, its kernel first; none where that is left out."""
    kernel = ATTENTION if type(module) is dglnn.GATConv else KERNEL
    if kernel not in rules:
        return []
    chosen = [kernel, EPILOGUE] if EPILOGUE in rules else [kernel]
    if kernel == KERNEL and first and not _dropping(module):
        if ORDER in rules and saved_bytes(ORDER, module, graph) > 0:
            chosen.append(ORDER)
        if HOIST in rules and graph.constant_input:
            chosen.append(HOIST)
    return chosen


def _dropping(module: Any) -> bool:  # noqa: ANN401
    """Its input is another one in every step."""
    return getattr(getattr(module, "feat_drop", None), "p", 0.0) > 0.0


def _first_layer(model: nn.Module) -> str | None:
    """The layer that gets the model's input itself: only its rules may count on an input that never changes."""
    try:
        graph = trace(model)
    except Exception:
        return None
    for node in graph.nodes:
        if node.op == "call_module" and isinstance(model.get_submodule(node.target), fused_layers.SUPPORTED):
            fed = len(node.args) > 1 and isinstance(node.args[1], fx.Node) and node.args[1].op == "placeholder"
            return str(node.target) if fed and calls(graph, node.target) == 1 else None
    return None
