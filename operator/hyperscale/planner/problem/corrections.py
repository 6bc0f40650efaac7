"""History's factors on the arrays that the search works with: seconds of arithmetic by product, of links by tier, inside and card. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import Node
from hyperscale.model.graph import BoolArray, ClusterGraph, FloatArray, IntArray
from hyperscale.model.history.corrections import (
    FABRIC,
    MAX_FACTOR,
    MEASURED,
    NOTHING_COMMON,
    UNLABELLED,
    Corrections,
    Factor,
    PartKind,
    PredictedPart,
)
from hyperscale.model.products import stated
from hyperscale.planner.problem.speeds import Speed
from hyperscale.util.float_sums import sum_in_order

SHOWN: Final = 4
"""Names of one kind in a sentence."""
NOTABLE: Final = 1.1
"""Factor of a card from which a sentence names it."""


def compute_factors(
    corrections: Corrections | None, nodes: Sequence[Node], speeds: Sequence[Speed], policy: PolicySpec
) -> FloatArray | float:
    """(m,) what compute seconds on each of `nodes` (m,) are multiplied with; 1 without corrections.

    A factor refers to the rate that its runs were predicted with: where the table says another one today, the product stays the same.
    A rate further than MAX_FACTOR from the table's is of a policy that means something else: the product counts as untried.
    A product whose speed the policy states keeps it; only the architecture's own factor counts there.
    """
    if corrections is None:
        return 1.0
    limit = exploration(corrections, policy)
    by_product = {factor.name: factor for factor in corrections.products}
    gigaflops = {model.product: model.gigaflops for model in policy.gpus}
    factors: dict[tuple[str | None, float], float] = {}
    for node, speed in zip(nodes, speeds, strict=True):
        key = node.gpu_product, speed.flops_per_second
        if key not in factors:
            factor = by_product.get(product_name(node))
            drift = 1.0 if factor is None else _drift(speed, factor)
            if factor is None or drift is None or stated(node.gpu_product, gigaflops) is not None:
                factors[key] = corrections.untried.hopeful(limit)
            else:
                hope = factor.hopeful(limit) / factor.bounded
                factors[key] = hope * min(max(factor.bounded * drift, 1.0 / MAX_FACTOR), MAX_FACTOR)
    return np.array([factors[node.gpu_product, speed.flops_per_second] for node, speed in zip(nodes, speeds, strict=True)])


def _drift(speed: Speed, factor: Factor) -> float | None:
    """Speed over the rate that a factor refers to, 1 where it states none; None where they are further apart than MAX_FACTOR."""
    if not factor.rate > 0.0:
        return 1.0
    drift = speed.flops_per_second / factor.rate
    return drift if 1.0 / MAX_FACTOR <= drift <= MAX_FACTOR else None


def link_factors(
    corrections: Corrections | None, graph: ClusterGraph, positions: IntArray, measured: BoolArray, policy: PolicySpec
) -> FloatArray | float:
    """(p, p) what seconds between the nodes at `positions` (p,) are multiplied with, symmetric; 1 without corrections.

    measured: (p, p) pairs with samples of their own
    The diagonal is the inside of a node. A pair is as slow as the slower of its cards.
    """
    if corrections is None:
        return 1.0
    limit = exploration(corrections, policy)
    untried = Factor("", 1.0, corrections.untried_link_error, 0).hopeful(limit)
    names, codes = link_groups(graph, positions, measured)
    by_tier = _by_name(corrections.tiers, limit)
    factors = np.array([by_tier.get(name, untried) for name in names])[codes]
    by_card, by_inside = _by_name(corrections.cards), _by_name(corrections.insides, limit)
    nodes = [graph.nodes[position] for position in positions]
    card = np.array([by_card.get(node.name, 1.0) for node in nodes])
    factors *= np.maximum(card[:, None], card[None, :])
    np.fill_diagonal(factors, [by_inside.get(product_name(node), untried) for node in nodes])
    return factors


def link_groups(graph: ClusterGraph, positions: IntArray, measured: BoolArray) -> tuple[tuple[str, ...], IntArray]:
    """Names of the tiers, and (p, p) place among them of every pair of the nodes at `positions` (p,); the diagonal has no meaning."""
    names, tier = (NOTHING_COMMON, *graph.tiers.names[1:], FABRIC, MEASURED), graph.common_tier(positions, positions)
    codes = np.where(graph.fabric_between(positions, positions, tier), len(names) - 2, tier)
    return names, np.where(measured | measured.T, len(names) - 1, codes)


def product_name(node: Node) -> str:
    """The product of a node's GPUs as corrections name it."""
    return node.gpu_product or UNLABELLED


def exploration(corrections: Corrections, policy: PolicySpec) -> float:
    """ln(factor) by which what few runs have tried may count as faster than expected."""
    return math.log1p(policy.history.max_exploration_percent / 100.0) if corrections.explores else 0.0


def _by_name(factors: Iterable[Factor], limit: float = 0.0) -> dict[str, float]:
    return {factor.name: factor.hopeful(limit) for factor in factors}


def log_error(corrections: Corrections, parts: Sequence[PredictedPart]) -> float:
    """Standard error of ln(seconds) of an epoch with these parts: each factor's error, weighed with its part of the seconds.

    Errors count as independent. Of several products the one that takes longest counts: the others wait for it.
    """
    seconds_by_error: list[tuple[float, float]] = []
    compute = [_weighed(corrections.products, corrections.untried.error, part) for part in parts if part.kind is PartKind.COMPUTE]
    seconds_by_error += [max(compute)] if compute else []
    for part in parts:
        if part.kind in (PartKind.LINK, PartKind.INSIDE):
            factors = corrections.tiers if part.kind is PartKind.LINK else corrections.insides
            seconds_by_error.append(_weighed(factors, corrections.untried_link_error, part))
    total = sum_in_order(seconds for seconds, _ in seconds_by_error)
    total += sum_in_order(part.seconds for part in parts if part.kind in (PartKind.UNCORRECTED, PartKind.OVERHEAD))
    return math.sqrt(sum_in_order((seconds / total * error) ** 2 for seconds, error in seconds_by_error)) if total > 0.0 else 0.0


def applied(corrections: Corrections, nodes: Sequence[Node]) -> str:
    """A sentence that names the factors behind a plan on these nodes."""
    products, slow = {product_name(node) for node in nodes}, _slow_cards(corrections, nodes)
    untried = sorted(products - {factor.name for factor in corrections.products})
    kinds = (
        ("compute", [factor for factor in corrections.products if factor.name in products]),
        ("untried", [replace(corrections.untried, name=name) for name in untried]),
        ("links", corrections.tiers),
        ("cards", slow),
    )
    said = "; ".join(f"{kind} {_listed(factors)}" for kind, factors in kinds if factors)
    return f"Chosen with factors of seconds from {corrections.all_runs} finished runs: {said or 'none apply'}."


def _slow_cards(corrections: Corrections, nodes: Sequence[Node]) -> list[Factor]:
    names = {node.name for node in nodes}
    return [factor for factor in corrections.cards if factor.name in names and factor.bounded > NOTABLE]


def _listed(factors: Sequence[Factor]) -> str:
    return ", ".join(f"{factor.name} {factor.bounded:.2f}" for factor in factors[:SHOWN])


def _weighed(factors: Sequence[Factor], untried_error: float, part: PredictedPart) -> tuple[float, float]:
    """Corrected seconds of a part, and the standard error of their logarithm."""
    factor = next((factor for factor in factors if factor.name == part.name), None)
    return (part.seconds, untried_error) if factor is None else (part.seconds * factor.bounded, factor.error)
