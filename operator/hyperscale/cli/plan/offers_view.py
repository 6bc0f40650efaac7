"""Plans that a person may choose among, as a table; and those of a preview, which only files and the operator's figures allow. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hyperscale.cli.text_tables import predicted_text, table
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.offers.plan_offers import PlanAlternative, PlanAlternatives
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest

RATED_BEST: Final = " (rated best by preferences)"


def preview_offers(
    request: PlanRequest, plan: Plan, snapshot: ClusterSnapshot, policy: PolicySpec, expired: Callable[[], bool]
) -> PlanAlternatives:
    """Return what the operator would offer beside a plan; once `expired` turns true the rest is not looked for."""
    from hyperscale.planner.choice.alternative_plans import alternative_requests, offers  # the planners, which most commands do without
    from hyperscale.planner.choice.portfolio import make_plan
    from hyperscale.planner.graph.cluster_graph import build
    from hyperscale.planner.learned.learned_planner import planners
    from hyperscale.planner.workload.profile import profile

    graph, proposing, workload = build(snapshot, policy), planners(), profile(request.job)
    answers = []
    for asked in alternative_requests(request, plan, snapshot, policy):
        if expired():
            break
        answer = make_plan(asked, graph, workload, policy, expired=expired, planners=proposing)
        if isinstance(answer, Plan):
            answers.append(answer)
    return offers(request, plan, answers, snapshot, "")


def offers_lines(offers: Sequence[PlanAlternative], in_force: str, recommended: str = "") -> list[str]:
    """Return the offers as a table after an empty line; nothing where there is no choice."""
    if len(offers) < 2:
        return []
    rows = [
        (
            f"{offer.plan_id}{' *' if offer.plan_id == in_force else ''}",
            str(offer.workers),
            str(offer.nodes),
            str(offer.gpus),
            predicted_text(offer.epoch_seconds),
            "unknown" if offer.cost_per_epoch is None else f"{offer.cost_per_epoch:.4g}",
            f"{offer.failure_risk:.2%}",
            (offer.trades or "the planners' choice") + (RATED_BEST if offer.plan_id == recommended else ""),
        )
        for offer in offers
    ]
    header = ("ALTERNATIVES", "WORKERS", "NODES", "GPUS", "EPOCH", "COST", "NODE FAILURE", "TRADES")
    return ["", *table(header, rows, right=frozenset({1, 2, 3, 4, 5, 6}))]
