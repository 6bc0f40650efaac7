"""A plan, or the answer that there is none, as text: a table for people, JSON or YAML of the plan schema for tools. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from hyperscale.cli.tables import bullets, counted, gap_text, pairs, predicted_text, score_text, seconds_text, table
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Infeasible, Plan, Prediction, Rejection
from hyperscale.model.planning import PlanRequest
from hyperscale.model.policy import PolicySpec
from hyperscale.plan.artifact import to_json

SHOWN_REJECTIONS: Final = 5


@dataclass(frozen=True)
class PlanView:
    """A plan with what it was made from."""

    plan: Plan
    request: PlanRequest
    snapshot: ClusterSnapshot
    policy: PolicySpec


def show(view: PlanView, form: str) -> str:
    """The plan as `table`, `json` or `yaml`, with a newline at the end."""
    return _plan_table(view) if form == "table" else _data(view.plan, form)


def refused(answer: Infeasible, form: str) -> str:
    """The refusal in the same forms; as a table only the nodes that were turned down, because the reason is on standard error."""
    if form != "table":
        return _data(answer, form)
    lines = _rejections(answer.rejected, len(answer.rejected))
    return "\n".join(lines[1:]) + "\n" if lines else ""


def _data(value: Plan | Infeasible, form: str) -> str:
    """Canonical JSON as plan/artifact.py writes it, or the same data as YAML."""
    if form == "yaml":
        text: str = yaml.dump(msgspec.to_builtins(value), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
        return text
    if isinstance(value, Plan):
        return to_json(value).decode()
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2).decode() + "\n"


def _plan_table(view: PlanView) -> str:
    plan = view.plan
    lines = [*_header(view), "", *_workers(plan), *bullets("Why", plan.reasons), *bullets("Fallbacks", plan.fallbacks)]
    lines += bullets("Planners", (score_text(score.planner, score.objective, score.regret, score.candidates) for score in plan.scores))
    return "\n".join([*lines, *_rejections(plan.rejected, len(view.snapshot.nodes) - len(plan.gpus_by_node()))]) + "\n"


def _header(view: PlanView) -> list[str]:
    plan, workers, snapshot = view.plan, view.request.job.workers, view.snapshot
    own_weight = view.request.job.placement.communication_weight
    weight = view.policy.communication_weight if own_weight is None else own_weight
    held = plan.gpus_by_node()
    allowed = "" if workers.min == workers.max else f" (of {workers.min} to {workers.max})"
    return pairs(
        [
            ("Job", view.request.job_key),
            ("Planner", f"{plan.planner}, seed {plan.seed}"),
            ("Plan id", plan.plan_id),
            ("Workers", f"{len(plan.workers)}{allowed}, {counted(sum(held.values()), 'GPU')} on {counted(len(held), 'node')}"),
            ("Partitions", str(plan.partitions)),
            ("Predicted", _predicted(plan.predicted)),
            ("Communication", f"{predicted_text(plan.predicted.communication_seconds)} an epoch"),
            ("Objective", f"{seconds_text(plan.objective)} = epoch + {weight:g} × communication"),
            ("Gap", gap_text(plan.optimality_gap)),
            ("Snapshot", f"{plan.snapshot[:16]} of {snapshot.source}, {len(snapshot.nodes)} nodes"),
            ("Metrics", "" if snapshot.metrics.available else f"none ({snapshot.metrics.message or snapshot.metrics.reason})"),
        ]
    )


def _predicted(predicted: Prediction) -> str:
    bounds = ""
    if predicted.low_seconds is not None and predicted.high_seconds is not None:
        bounds = f" ({predicted_text(predicted.low_seconds)} to {predicted_text(predicted.high_seconds)})"
    cost = "" if predicted.cost_per_epoch is None else f", costs {predicted.cost_per_epoch:.4g}"
    return f"{predicted_text(predicted.epoch_seconds)} an epoch{bounds}{cost}"


def _workers(plan: Plan) -> list[str]:
    rows = [(str(rank.rank), rank.node, rank.product or "unknown", str(rank.gpus), f"{rank.share:.2%}") for rank in plan.workers]
    return table(("RANK", "NODE", "PRODUCT", "GPUS", "SHARE"), rows, right=frozenset({0, 3, 4}))


def _rejections(rejected: tuple[Rejection, ...], unused: int) -> list[str]:
    """The first few of `unused` nodes that were turned down, and how many for which reason; a plan lists only some."""
    if not rejected:
        return []
    by_reason = sorted(Counter(rejection.reason for rejection in rejected).items(), key=lambda item: (-item[1], item[0]))
    listed = f"of {len(rejected)} listed: " if unused > len(rejected) else ""
    title = f"Not used: {counted(unused, 'node')} ({listed}{', '.join(f'{count} {reason}' for reason, count in by_reason)})"
    rows: list[Any] = [(rejection.node, rejection.reason, rejection.message) for rejection in rejected[:SHOWN_REJECTIONS]]
    return ["", title, *table(("NODE", "REASON", "WHY"), rows, indent="  ")]
