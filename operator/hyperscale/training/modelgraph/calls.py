"""The call graph of a training script, by reading it: which function calls which, and which of them are model, step or collective.

Nothing is executed. Names are followed through imports and through variables that were given an instance of a class of the file; a call
whose target only a run would tell is written as the code writes it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import networkx as nx

MODULE: Final = "<script>"
"""What stands outside of all functions."""
MODEL: Final = "model"
STEP: Final = "step"
COLLECTIVE: Final = "collective"

COLLECTIVE_ROOTS: Final = ("horovod", "torch.distributed", "mpi4py")
COLLECTIVE_METHODS: Final = frozenset(
    {
        "DistributedDataParallel",
        "DistributedOptimizer",
        "all_gather",
        "all_reduce",
        "all_to_all",
        "allgather",
        "allreduce",
        "alltoall",
        "barrier",
        "broadcast",
        "broadcast_object",
        "broadcast_optimizer_state",
        "broadcast_parameters",
        "grouped_allreduce",
        "reduce_scatter",
        "reducescatter",
        "synchronize",
    }
)
MODULE_BASES: Final = ("torch.nn.Module", "nn.Module", "Module")


@dataclass(frozen=True)
class Function:
    """A function of the script."""

    name: str
    """With its class, e.g. Net.forward."""
    line: int
    callees: tuple[str, ...]
    """Functions of the script, else dotted names; in order of first call."""
    roles: tuple[str, ...]
    """Of model, step (calls backward or an optimizer's step), collective."""


@dataclass(frozen=True)
class CallGraph:
    """Functions in order of lines, the script itself first."""

    functions: tuple[Function, ...]

    def networkx(self) -> nx.DiGraph[str]:
        """Nodes with roles and line; callees outside of the script are nodes without a line."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        for one in self.functions:
            graph.add_node(one.name, roles=",".join(one.roles), line=one.line)
        for one in self.functions:
            for callee in one.callees:
                if callee not in graph:
                    graph.add_node(callee, roles=COLLECTIVE if collective(callee) else "", line=0)
                graph.add_edge(one.name, callee)
        return graph


def call_graph(source: str) -> CallGraph:
    """Of a script's text. Raises SyntaxError."""
    tree = ast.parse(source)
    script = _Script(tree)
    functions = [_function(MODULE, 0, _without_definitions(tree), script, "")]
    functions += [_function(name, node.lineno, node.body, script, owner) for name, owner, node in script.functions]
    return CallGraph(tuple(sorted(functions, key=lambda one: (one.line, one.name))))


def collective(name: str) -> bool:
    """A dotted name whose call makes ranks wait for each other."""
    last = name.rpartition(".")[2]
    return last in COLLECTIVE_METHODS and (name.startswith(COLLECTIVE_ROOTS) or last != "synchronize")


@dataclass
class _Script:
    """What the whole file says about names."""

    tree: ast.Module
    aliases: dict[str, str] = field(default_factory=dict)
    """Local name -> what it was imported as."""
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    functions: list[tuple[str, str, ast.FunctionDef | ast.AsyncFunctionDef]] = field(default_factory=list)
    """(name, class or empty, definition)."""
    instances: dict[str, str] = field(default_factory=dict)
    """Variable, or attribute as Class.self.attribute -> class of the file, or dotted name of another, that it was made of."""

    def __post_init__(self) -> None:
        """Read it once."""
        for node in ast.walk(self.tree):
            self.aliases |= _imported(node)
        self._collect(self.tree.body, "", "")
        self.names = {name for name, _, _ in self.functions}
        for owner, node in self._assignments(self.tree, ""):
            called = _dotted(node.value.func) if isinstance(node.value, ast.Call) else ""
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if called in self.classes or called.rpartition(".")[2][:1].isupper():  # classes, by custom
                kind = called if called in self.classes else self.expanded(called)
                self.instances |= {_scoped(name, owner): kind for name in map(_dotted, targets) if name}

    def _assignments(self, node: ast.AST, owner: str) -> Iterator[tuple[str, ast.Assign | ast.AnnAssign]]:
        """With the class around each."""
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.Assign | ast.AnnAssign):
                yield owner, inner
            yield from self._assignments(inner, inner.name if isinstance(inner, ast.ClassDef) else owner)

    def _collect(self, body: Iterable[ast.stmt], prefix: str, owner: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions.append((f"{prefix}{node.name}", owner, node))
                self._collect(node.body, f"{prefix}{node.name}.", owner)
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
                self._collect(node.body, f"{prefix}{node.name}.", node.name)
            elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
                self._collect([inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)], prefix, owner)

    def expanded(self, name: str) -> str:
        """With the import's full name in front."""
        head, dot, rest = name.partition(".")
        return self.aliases.get(head, head) + dot + rest

    def is_model(self, name: str, visited: frozenset[str] = frozenset()) -> bool:
        """A class of the file that inherits from torch.nn.Module, directly or not."""
        bases = [_dotted(base) for base in self.classes[name].bases]
        return any(
            self.expanded(base) in MODULE_BASES or (base in self.classes and base not in visited and self.is_model(base, visited | {name}))
            for base in bases
            if base
        )

    def target(self, name: str, owner: str) -> str:
        """What a call of `name` inside class `owner` runs, as far as the text tells."""
        if name in self.names:
            return name
        if name in self.classes:
            return self._of_class(name, "__init__")
        if name.startswith("self."):
            rest = name[5:]
            if owner and f"{owner}.{rest}" in self.names:
                return f"{owner}.{rest}"
        for variable in (name, name.rpartition(".")[0]):
            kind = self.instances.get(_scoped(variable, owner))
            if kind is not None:
                method = "forward" if variable == name else name.rpartition(".")[2]
                return self._of_class(kind, method) if kind in self.classes else kind + ("" if variable == name else f".{method}")
        return self.expanded(name)

    def _of_class(self, name: str, method: str) -> str:
        for wanted in (method, "__call__") if method == "forward" else (method,):
            if f"{name}.{wanted}" in self.names:
                return f"{name}.{wanted}"
        return name if method == "__init__" else f"{name}.{method}"


def _imported(node: ast.AST) -> dict[str, str]:
    """Local names that an import binds, with their full names; none of another statement."""
    if isinstance(node, ast.Import):
        whole = {one.asname: one.name for one in node.names if one.asname}
        return whole | {root: root for root in (one.name.partition(".")[0] for one in node.names if not one.asname)}
    if isinstance(node, ast.ImportFrom):
        return {one.asname or one.name: f"{node.module or ''}.{one.name}".lstrip(".") for one in node.names}
    return {}


def _function(name: str, line: int, body: list[ast.stmt], script: _Script, owner: str) -> Function:
    callees: dict[str, None] = {}
    roles: set[str] = set()
    if owner and script.is_model(owner):
        roles.add(MODEL)
    optimizers = _optimizers(script)
    for call in _calls(body):
        written = _dotted(call.func)
        if not written:
            continue
        target = script.target(written, owner)
        callees[target] = None
        last = written.rpartition(".")[2]
        if last == "backward" or (last == "step" and written.rpartition(".")[0] in optimizers):
            roles.add(STEP)
        if collective(target):
            roles.add(COLLECTIVE)
    return Function(name, line, tuple(callees), tuple(role for role in (MODEL, STEP, COLLECTIVE) if role in roles))


def _optimizers(script: _Script) -> set[str]:
    """Names that look like an optimizer, or were given one; schedulers and environments have a step as well."""
    names = {"optimizer", "optim", "opt", "self.optimizer", "self.optim", "self.opt"}
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = script.expanded(_dotted(node.value.func))
            if (called.startswith("torch.optim.") and "lr_scheduler" not in called) or called.endswith("DistributedOptimizer"):
                names |= {name for name in map(_dotted, node.targets) if name}
    return names


def _calls(body: list[ast.stmt]) -> list[ast.Call]:
    """Calls in the order of the text, those of inner functions and classes left out."""
    calls: list[ast.Call] = []
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Call):
            calls.append(node)
        waiting += reversed(list(ast.iter_child_nodes(node)))
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def _scoped(name: str, owner: str) -> str:
    """Attributes belong to their class."""
    return f"{owner}.{name}" if name.startswith("self.") else name


def _without_definitions(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]


def _dotted(node: ast.AST) -> str:
    """`a.b.c` as text; `f().c` as `?.c`; empty where there is no name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super":
            return f"super.{node.attr}"
        return f"{_dotted(node.value) or '?'}.{node.attr}"
    return ""
