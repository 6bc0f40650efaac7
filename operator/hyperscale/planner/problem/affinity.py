"""Whether a node meets the required node affinity of a pod or of a volume, as kube-scheduler decides it. Pure.

Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity: terms are alternatives, requirements of a term hold together, and a term
without requirements fits no node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from hyperscale.model.cluster import Node
from hyperscale.model.planning import NodeExpression, NodeRule, NodeTerm

NAME_FIELD: Final = "metadata.name"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def meets(node: Node, rule: NodeRule) -> bool:
    """Whether at least one term of `rule` fits `node`."""
    return any(_fits(node, term) for term in rule.terms)


def shown(rule: NodeRule) -> str:
    """The first requirement of `rule` in words, for messages."""
    first = next(((*term.labels, *term.fields) for term in rule.terms if term.labels or term.fields), ())
    if not first:
        return "no term that a node could meet"
    values = f" ({', '.join(first[0].values[:3])}{', …' if len(first[0].values) > 3 else ''})" if first[0].values else ""
    more = sum(len(term.labels) + len(term.fields) for term in rule.terms) - 1
    return f"{first[0].key} {first[0].operator}{values}{f' and {more} more' if more else ''}"


def _fits(node: Node, term: NodeTerm) -> bool:
    if not (term.labels or term.fields):
        return False
    fields = {NAME_FIELD: node.name}
    return all(holds(node.labels, each) for each in term.labels) and all(each.key in fields and holds(fields, each) for each in term.fields)


def holds(labels: Mapping[str, str], expression: NodeExpression) -> bool:
    """Whether labels meet one requirement."""
    test = _OPERATORS.get(expression.operator)
    return test is not None and test(labels.get(expression.key), expression.values)


def _compared(text: str | None, values: tuple[str, ...]) -> tuple[int, int] | None:
    """The label and the one value as integers; None where either is none, which matches nothing."""
    if text is None or len(values) != 1 or not _INTEGER.fullmatch(text) or not _INTEGER.fullmatch(values[0]):
        return None
    return int(text), int(values[0])


def _greater(text: str | None, values: tuple[str, ...]) -> bool:
    pair = _compared(text, values)
    return pair is not None and pair[0] > pair[1]


def _less(text: str | None, values: tuple[str, ...]) -> bool:
    pair = _compared(text, values)
    return pair is not None and pair[0] < pair[1]


_OPERATORS: Final[Mapping[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    "In": lambda text, values: text in values,
    "NotIn": lambda text, values: text not in values,
    "Exists": lambda text, values: text is not None,
    "DoesNotExist": lambda text, values: text is None,
    "Gt": _greater,
    "Lt": _less,
}
