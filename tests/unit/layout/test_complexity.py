"""No function has more ways through it than a reader can follow.

The count is radon's cyclomatic complexity (radon 6, `radon cc`): one, and one more for each `if`, conditional expression, loop, `else` of a
loop or `try`, `except`, `case`, `assert`, further operand of `and` and `or`, and `for` and `if` of a comprehension. Functions inside a
function count by themselves. ruff's C901 leaves out boolean operators, conditional expressions, comprehensions and asserts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("operator/hyperscale", "e2e", "tests", "benchmarks")
MAX_COMPLEXITY = 12
MAX_JUSTIFIED = 10
REASON = "# More branches than elsewhere: "
"""Begins a comment within a function that is above the limit; what follows is why."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def branches(node: ast.AST) -> int:
    """What a node adds by itself."""
    if isinstance(node, ast.If | ast.IfExp | ast.Assert):
        return 1
    if isinstance(node, ast.For | ast.AsyncFor | ast.While):
        return 1 + bool(node.orelse)
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.Try):
        return len(node.handlers) + bool(node.orelse)
    return match_branches(node) if isinstance(node, ast.Match) else 0


def match_branches(node: ast.Match) -> int:
    """The cases, but not the one for everything else."""
    return sum(not (isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None) for case in node.cases)


def within(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, except inner functions and classes, and what an `assert` asserts."""
    yield node
    if isinstance(node, ast.Assert):
        return
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, INNER):
            yield from within(child)


def complexity(function: Function) -> int:
    """Radon's figure of a function."""
    parts = (node for statement in function.body if not isinstance(statement, INNER) for node in within(statement))
    return 1 + sum(map(branches, parts))


def functions_of(source: str) -> dict[str, Function]:
    """Every function and method by name and line."""
    return {f"{node.name}:{node.lineno}": node for node in ast.walk(ast.parse(source)) if isinstance(node, Function)}


def is_justified(function: Function, source: str) -> bool:
    """Whether a comment in the function says why it has more branches."""
    return any(line.strip().startswith(REASON) for line in source.splitlines()[function.lineno - 1 : function.end_lineno])


@pytest.mark.parametrize(
    ("body", "figure"),
    [
        ("pass", 1),
        ("return [x for x in y if x if x > 1]", 4),
        ("return a and b and c or d", 4),
        ("for x in y:\n  pass\n else:\n  pass", 3),
        ("try:\n  pass\n except A:\n  pass\n except B:\n  pass\n else:\n  pass", 4),
        ("assert all(x for x in y)", 2),
        ("match x:\n  case 1:\n   pass\n  case _:\n   pass", 2),
        ("def g():\n  if x:\n   pass\n return g", 1),
        ("return lambda: a if b else c", 2),
    ],
)
def test_the_figure_is_radons(body: str, figure: int) -> None:
    assert complexity(functions_of(f"def f():\n {body}\n")["f:1"]) == figure


def test_no_function_has_more_branches_than_a_reader_follows_unless_it_says_why() -> None:
    above: dict[str, int] = {}
    reasons: set[str] = set()
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        source = path.read_text()
        for name, function in functions_of(source).items():
            if complexity(function) > MAX_COMPLEXITY:
                above[f"{path.relative_to(ROOT)}: {name}"] = complexity(function)
            if is_justified(function, source):
                reasons.add(f"{path.relative_to(ROOT)}: {name}")
    print(f"above {MAX_COMPLEXITY}: {above}")
    assert above.keys() == reasons
    assert len(reasons) <= MAX_JUSTIFIED
