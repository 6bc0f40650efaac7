"""Who may choose, by policy: the index rule always, the trained agent beside it where the policy says Learned. Pure."""

from __future__ import annotations

from hyperscale.model.policy import QueuePolicy
from hyperscale.plan.queue.outlook import Choose
from hyperscale.plan.queue.types import Choice, ClusterState, Option, PendingJob, RunningJob


def choosers(policy: QueuePolicy) -> tuple[Choose, Choose | None]:
    """The rule and, where the policy asks for it, the agent."""

    def rule(pending: tuple[PendingJob, ...], running: tuple[RunningJob, ...], cluster: ClusterState) -> Choice:
        return _index_rule(pending, running, policy)

    return rule, None


def _index_rule(pending: tuple[PendingJob, ...], running: tuple[RunningJob, ...], policy: QueuePolicy) -> Choice:
    best: tuple[float, str, int] | None = None
    poor = False
    for job in pending:
        option = _thrifty(job, policy.thrift)
        if option is None:
            continue
        if running and option.seconds > policy.patience * option.empty_seconds:
            poor = True
            continue
        entry = (option.seconds / job.weight, job.key, option.workers)
        best = entry if best is None else min(best, entry)
    return Choice(None, waits_for_better_nodes=poor) if best is None else Choice(best[1], best[2])


def _thrifty(job: PendingJob, thrift: float) -> Option | None:
    chosen: Option | None = None
    for option in job.options:
        if option.fits and (chosen is None or option.seconds * (option.workers / chosen.workers) ** thrift < chosen.seconds):
            chosen = option
    return chosen
