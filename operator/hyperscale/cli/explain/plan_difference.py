"""What differs between two plans of one job: nodes, workers that change their node, seconds and cost. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from hyperscale.cli.text_tables import bullets, counted, predicted_text
from hyperscale.model.decision import Reason
from hyperscale.model.offers.plan_offers import MAX_OFFERED_WORKERS, PlanAlternatives, PriorPlan
from hyperscale.model.plan import Plan
from hyperscale.model.status import JobStatus

CHOOSABLE: Final = (Reason.AWAITING_APPROVAL, Reason.REJECTED_BY_PERSON, Reason.START_POLICY_NEVER)
"""Last steps at which a person may choose a plan."""
SHOWN: Final = 16
"""Nodes and moved workers in a sentence or table."""


class MovedWorker(msgspec.Struct, frozen=True, rename="camel"):
    """A worker of both plans that is on another node."""

    index: int
    source_node: str
    target_node: str


class PlanDifference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What another plan changes; the schema in `hyperscale explain -o json`."""

    before: str
    """Id of the plan that is compared with."""
    after: str
    workers: tuple[int, int]
    """Before and after, as all pairs here."""
    gpus: tuple[int, int]
    epoch_seconds: tuple[float, float]
    cost_per_epoch: tuple[float, float] | None = None
    """Absent where a price is missing."""
    nodes_added: tuple[str, ...] = ()
    nodes_left: tuple[str, ...] = ()
    moved: tuple[MovedWorker, ...] = ()
    whole: bool = True
    """False: of very large plans only the first workers were compared."""


def difference(before: PriorPlan, plan: Plan) -> PlanDifference:
    """Return what `plan` changes against `before`; workers are the same where their index is."""
    nodes = tuple(worker.node for worker in plan.workers[:MAX_OFFERED_WORKERS])
    costs = before.cost_per_epoch, plan.predicted.cost_per_epoch
    shared = zip(before.nodes, nodes, strict=False)
    return PlanDifference(
        before=before.plan_id,
        after=plan.plan_id,
        workers=(len(before.nodes), len(plan.workers)),
        gpus=(len(before.nodes) * before.gpus_per_worker, plan.ranks),
        epoch_seconds=(before.epoch_seconds, plan.predicted.epoch_seconds),
        cost_per_epoch=(costs[0], costs[1]) if costs[0] is not None and costs[1] is not None else None,
        nodes_added=tuple(sorted({*nodes} - {*before.nodes})),
        nodes_left=tuple(sorted({*before.nodes} - {*nodes})),
        moved=tuple(MovedWorker(index, old, new) for index, (old, new) in enumerate(shared) if old != new),
        whole=max(len(before.nodes), len(plan.workers)) < MAX_OFFERED_WORKERS,
    )


def choosable_offers(status: JobStatus) -> PlanAlternatives | None:
    """Return what may be preferred while nothing was created from the plan."""
    if status.alternatives is None or status.reason not in CHOOSABLE:
        return None
    return replace(status.alternatives, offers=tuple(replace(offer, plan=None) for offer in status.alternatives.offers))


def prior_difference(status: JobStatus) -> PlanDifference | None:
    """Return what the plan that waits changes against the one before; None without one."""
    if status.prior_plan is None or status.plan is None or status.reason not in CHOOSABLE:
        return None
    return difference(status.prior_plan, status.plan)


def difference_sentences(change: PlanDifference) -> list[str]:
    """Return the difference for people, the figures first; at least one sentence."""
    sentences = [f"An epoch {_change(*change.epoch_seconds, predicted_text)}."]
    if change.cost_per_epoch is not None:
        sentences.append(f"The cost of an epoch {_change(*change.cost_per_epoch, _amount)}.")
    if change.workers[0] != change.workers[1] or change.gpus[0] != change.gpus[1]:
        sentences.append(
            f"Workers: {change.workers[0]} before, {change.workers[1]} now; GPUs: {change.gpus[0]} before, {change.gpus[1]} now."
        )
    sentences += [
        f"Nodes {what}: {_names(names)}." for what, names in (("added", change.nodes_added), ("left", change.nodes_left)) if names
    ]
    if change.moved:
        moves = _names([f"{one.index}: {one.source_node} to {one.target_node}" for one in change.moved])
        sentences.append(f"{counted(len(change.moved), 'worker')} moved: {moves}.")
    elif change.workers[0] == change.workers[1]:
        sentences.append("All workers stay on their nodes.")
    if not change.whole:
        sentences.append(f"Only the first {MAX_OFFERED_WORKERS} workers were compared.")
    return sentences


def difference_lines(change: PlanDifference) -> list[str]:
    """Return the difference as a titled list."""
    return bullets(f"Against plan {change.before}", difference_sentences(change))


def _change(before: float, after: float, shown: Callable[[float], str]) -> str:
    if before == after:
        return f"stays at {shown(after)}"
    by = f" ({(after / before - 1.0) * 100.0:+.3g} %)" if before > 0.0 else ""
    return f"goes from {shown(before)} to {shown(after)}{by}"


def _amount(value: float) -> str:
    return f"{value:.4g}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"
