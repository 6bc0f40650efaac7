"""An explanation as text for people. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.cli.explain.explanation import Explanation, plan_sentence
from hyperscale.cli.explain.plan_difference import difference_lines
from hyperscale.cli.plan.offers_view import offers_lines
from hyperscale.cli.plan.workers_view import WORKER_COLUMNS, WORKER_NUMBERS, rejected_lines, worker_row
from hyperscale.cli.text_tables import bullets, pairs, score_text, table
from hyperscale.model.plan import Plan

SHOWN_WORKERS: Final = 32


def explanation_table(explanation: Explanation) -> list[str]:
    """Lines: what, what it waits for, what to do, the plan and why, events. Texts of the cluster lose their control characters."""
    lines = [
        *pairs(
            [("Job", explanation.job), ("State", explanation.state), ("Reason", explanation.reason), ("Waits for", explanation.waits_for)]
        ),
        *bullets("What happens", explanation.summary),
        *bullets("What to do", explanation.advice),
        *(_plan(explanation.plan) if explanation.plan is not None else []),
        *(difference_lines(explanation.difference) if explanation.difference is not None else []),
        *_offers(explanation),
        *_conditions(explanation),
        *_events(explanation),
    ]
    return [line.rstrip() for line in lines]


def _offers(explanation: Explanation) -> list[str]:
    offered, plan = explanation.alternatives, explanation.plan
    return offers_lines(offered.offers, plan.plan_id, offered.recommended) if offered is not None and plan is not None else []


def _plan(plan: Plan) -> list[str]:
    rows = [worker_row(worker) for worker in plan.workers[:SHOWN_WORKERS]]
    more = len(plan.workers) - SHOWN_WORKERS
    lines = ["", plan_sentence(plan), *table(WORKER_COLUMNS, rows, right=WORKER_NUMBERS, indent="  ")]
    if more > 0:
        lines.append(f"  ... and {more} more (all with -o json)")
    lines += bullets("Why this plan", plan.reasons)
    lines += bullets("Planners", (score_text(score.planner, score.objective, score.regret, score.candidates) for score in plan.scores))
    lines += bullets("Fallbacks taken", plan.fallbacks)
    return [*lines, *rejected_lines(f"Nodes not used: {len(plan.rejected)}", plan.rejected)]


def _conditions(explanation: Explanation) -> list[str]:
    rows = [
        (condition.type, condition.status, condition.reason, condition.last_transition_time or "-", condition.message)
        for condition in explanation.conditions
    ]
    return ["", *table(("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"), rows)] if rows else []


def _events(explanation: Explanation) -> list[str]:
    rows = [(event.last_seen or "-", event.type, event.reason, str(event.count), event.message) for event in explanation.events]
    return ["", *table(("LAST EVENTS", "TYPE", "REASON", "COUNT", "MESSAGE"), rows, right=frozenset({3}))] if rows else []
