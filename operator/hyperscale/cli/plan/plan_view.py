"""A plan, or the answer that there is none, as text: a table for people, JSON or YAML of the plan schema for tools. Pure."""

from __future__ import annotations

from hyperscale.cli.plan.inputs import JobInput
from hyperscale.cli.plan.known_inputs import KnownInputs
from hyperscale.cli.plan.workers_view import WORKER_COLUMNS, WORKER_NUMBERS, bounds_text, ranks_text, rejected_lines, worker_row
from hyperscale.cli.text_tables import bullets, counted, data_text, gap_text, pairs, predicted_text, score_text, seconds_text, table
from hyperscale.model.plan import Infeasible, Plan, Prediction, Rejection
from hyperscale.planner.check.artifact import to_json


def show(plan: Plan, job: JobInput, then: str, figures: str, form: str, sources: KnownInputs | None = None) -> str:
    """The plan as `table`, `json` or `yaml`, with a newline at the end.

    then:    what happens with the plan
    figures: where they came from, and how old they are
    sources: what the plan was made from; None where only the operator knows
    """
    if form != "table":
        return _data(plan, form)
    missing = plan.figures.missing if plan.figures is not None else ()
    lines = [*_header(plan, job, then, figures, sources), *bullets("Approximate: made without", missing), ""]
    lines += table(WORKER_COLUMNS, map(worker_row, plan.workers), right=WORKER_NUMBERS)
    lines += [*bullets("Why", plan.reasons), *bullets("Fallbacks", plan.fallbacks)]
    lines += bullets("Planners", (score_text(score.planner, score.objective, score.regret, score.candidates) for score in plan.scores))
    unused = len(plan.rejected) if sources is None else len(sources.snapshot.nodes) - len(plan.gpus_by_node())
    return "\n".join([*lines, *_rejections(plan.rejected, unused)]) + "\n"


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


def _header(plan: Plan, job: JobInput, then: str, figures: str, sources: KnownInputs | None) -> list[str]:
    workers, gpus_by_node = job.spec.workers, plan.gpus_by_node()
    allowed = "" if workers.min_replicas == workers.max_replicas else f" (of {workers.min_replicas} to {workers.max_replicas})"
    where = f"{counted(sum(gpus_by_node.values()), 'GPU')} on {counted(len(gpus_by_node), 'node')}"
    formula, origin = ("", []) if sources is None else _sources(plan, job, sources)
    return pairs(
        [
            ("Job", job.key),
            ("Then", then),
            ("Planner", f"{plan.planner}, seed {plan.seed}"),
            ("Plan id", plan.plan_id),
            ("Workers", f"{len(plan.workers)}{allowed}, {where}"),
            ("Ranks", f"{plan.ranks}, {ranks_text(plan)}"),
            ("Partitions", str(plan.partitions)),
            ("Predicted", _predicted(plan.predicted)),
            ("Communication", f"{predicted_text(plan.predicted.communication_seconds)} an epoch"),
            ("Waits for", plan.predicted.bound_by),
            ("Objective", f"{seconds_text(plan.objective)}{formula}"),
            ("Gap", gap_text(plan.optimality_gap)),
            ("Figures", figures),
            ("Oldest", _oldest(plan)),
            *origin,
        ]
    )


def _sources(plan: Plan, job: JobInput, sources: KnownInputs) -> tuple[str, list[tuple[str, str]]]:
    """The objective in letters, and what the plan was made from."""
    snapshot, weight = sources.snapshot, job.spec.placement.communication_weight
    metrics = "" if snapshot.metrics.available else f"none ({snapshot.metrics.message or snapshot.metrics.reason})"
    formula = f" = epoch + {sources.policy.communication_weight if weight is None else weight:g} × communication"
    return formula, [("Snapshot", f"{plan.snapshot[:16]} of {snapshot.source}, {len(snapshot.nodes)} nodes"), ("Metrics", metrics)]


def _oldest(plan: Plan) -> str:
    """Age of the oldest measurement that the plan rests on."""
    if plan.figures is None:
        return ""
    age = plan.figures.age_seconds
    return "nothing about the planned nodes was measured" if age is None else f"{seconds_text(age)}, of the planned nodes and their links"


def _predicted(predicted: Prediction) -> str:
    cost = "" if predicted.cost_per_epoch is None else f", costs {predicted.cost_per_epoch:.4g}"
    return f"{predicted_text(predicted.epoch_seconds)} an epoch{bounds_text(predicted)}{cost}"


def _rejections(rejected: tuple[Rejection, ...], unused: int) -> list[str]:
    """Of `unused` nodes; a plan lists only some."""
    return rejected_lines(
        f"Not used: {counted(unused, 'node')}", rejected, f"of {len(rejected)} listed: " if unused > len(rejected) else ""
    )
