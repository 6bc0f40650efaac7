"""A plan, or the answer that there is none, as text: a table for people, JSON or YAML of the plan schema for tools. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from hyperscale.cli.plan.workers_view import WORKER_COLUMNS, WORKER_NUMBERS, ranks_text, worker_row
from hyperscale.cli.text_tables import bullets, counted, data_text, gap_text, pairs, predicted_text, score_text, seconds_text, table
from hyperscale.model.api.job import JobSpec
from hyperscale.model.plan import Infeasible, Plan, Prediction, Rejection
from hyperscale.planner.check.artifact import to_json

SHOWN_REJECTIONS: Final = 5


@dataclass(frozen=True)
class PlanView:
    """A plan with what is to be said about it."""

    plan: Plan
    key: str
    """namespace/name of the job."""
    job: JobSpec
    then: str
    """What happens with the plan."""
    figures: str
    """Where they came from, and how old they are."""
    snapshot: str = ""
    metrics: str = ""
    """What is wrong with them."""
    weight: float | None = None
    """λ of the objective; None where only the operator knows it."""
    nodes: int | None = None
    """Of the cluster; None where only the operator knows."""


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
    """Canonical JSON as planner/check/artifact.py writes it, or the same data as YAML."""
    if isinstance(value, Plan) and form == "json":
        return to_json(value).decode()
    return data_text(value, form, "deterministic").rstrip("\n") + "\n"


def _plan_table(view: PlanView) -> str:
    plan = view.plan
    missing = plan.figures.missing if plan.figures is not None else ()
    lines = [*_header(view), *bullets("Approximate: made without", missing)]
    lines += ["", *_workers(plan), *bullets("Why", plan.reasons), *bullets("Fallbacks", plan.fallbacks)]
    lines += bullets("Planners", (score_text(score.planner, score.objective, score.regret, score.candidates) for score in plan.scores))
    unused = len(plan.rejected) if view.nodes is None else view.nodes - len(plan.gpus_by_node())
    return "\n".join([*lines, *_rejections(plan.rejected, unused)]) + "\n"


def _header(view: PlanView) -> list[str]:
    plan, workers = view.plan, view.job.workers
    gpus_by_node = plan.gpus_by_node()
    allowed = "" if workers.min_replicas == workers.max_replicas else f" (of {workers.min_replicas} to {workers.max_replicas})"
    formula = "" if view.weight is None else f" = epoch + {view.weight:g} × communication"
    return pairs(
        [
            ("Job", view.key),
            ("Then", view.then),
            ("Planner", f"{plan.planner}, seed {plan.seed}"),
            ("Plan id", plan.plan_id),
            (
                "Workers",
                f"{len(plan.workers)}{allowed}, {counted(sum(gpus_by_node.values()), 'GPU')} on {counted(len(gpus_by_node), 'node')}",
            ),
            ("Ranks", f"{plan.ranks}, {ranks_text(plan)}"),
            ("Partitions", str(plan.partitions)),
            ("Predicted", _predicted(plan.predicted)),
            ("Communication", f"{predicted_text(plan.predicted.communication_seconds)} an epoch"),
            ("Objective", f"{seconds_text(plan.objective)}{formula}"),
            ("Gap", gap_text(plan.optimality_gap)),
            ("Figures", view.figures),
            ("Oldest", _oldest(plan)),
            ("Snapshot", view.snapshot),
            ("Metrics", view.metrics),
        ]
    )


def _oldest(plan: Plan) -> str:
    """Age of the oldest measurement that the plan rests on."""
    if plan.figures is None:
        return ""
    age = plan.figures.age_seconds
    return "nothing about the planned nodes was measured" if age is None else f"{seconds_text(age)}, of the planned nodes and their links"


def _predicted(predicted: Prediction) -> str:
    bounds = ""
    if predicted.low_seconds is not None and predicted.high_seconds is not None:
        bounds = f" ({predicted_text(predicted.low_seconds)} to {predicted_text(predicted.high_seconds)})"
    cost = "" if predicted.cost_per_epoch is None else f", costs {predicted.cost_per_epoch:.4g}"
    return f"{predicted_text(predicted.epoch_seconds)} an epoch{bounds}{cost}"


def _workers(plan: Plan) -> list[str]:
    return table(WORKER_COLUMNS, [worker_row(worker) for worker in plan.workers], right=WORKER_NUMBERS)


def _rejections(rejected: tuple[Rejection, ...], unused: int) -> list[str]:
    """The first few of `unused` nodes that were turned down, and how many for which reason; a plan lists only some."""
    if not rejected:
        return []
    by_reason = sorted(Counter(rejection.reason for rejection in rejected).items(), key=lambda item: (-item[1], item[0]))
    listed = f"of {len(rejected)} listed: " if unused > len(rejected) else ""
    title = f"Not used: {counted(unused, 'node')} ({listed}{', '.join(f'{count} {reason}' for reason, count in by_reason)})"
    rows: list[Any] = [(rejection.node, rejection.reason, rejection.message) for rejection in rejected[:SHOWN_REJECTIONS]]
    return ["", title, *table(("NODE", "REASON", "WHY"), rows, indent="  ")]
