"""Why the jobs that do not start wait, and when each is asked about again. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hyperscale.model.admission_query import Chooser, Deferral
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.planner.queue.options import CatalogueEntry, patience_seconds
from hyperscale.planner.queue.queue_policies import settings_of
from hyperscale.planner.queue.queue_types import Option, PendingJob
from hyperscale.planner.queue.rule import RuleSettings, counted_seconds, is_good, start_slowdown
from hyperscale.planner.queue.wait_bounds import idle_seconds_left
from hyperscale.util.rfc3339 import duration_text

if TYPE_CHECKING:
    from hyperscale.planner.queue.joint import StartSequence

WAITING_FOR_ADMISSION: Final = "WaitingForAdmission"
WAITING_FOR_BETTER_NODES: Final = "WaitingForBetterNodes"
UNSEEN_SECONDS: Final = 1.0
"""How soon a job is asked about again that there was no time for."""


def deferrals(entries: Sequence[CatalogueEntry], chosen: StartSequence, used: Chooser) -> tuple[Deferral, ...]:
    """Why each of the others waits, in the order in which they go next; those that never fit come last.

    used: whose choices these are; only the agent may keep a job waiting beyond the rule's patience
    """
    left = [entry for entry in entries if entry.key not in chosen.ledger.starts]
    waiting = sorted((entry for entry in left if entry.feasible), key=lambda entry: (entry not in chosen.starving[:1], entry.index))
    holds = [_hold(entry, chosen, used, first=position == 0) for position, entry in enumerate(waiting)]
    return (*holds, *(_never_fits(entry, chosen) for entry in left if not entry.feasible))


def unseen(key: str) -> Deferral:
    """Of a job that there was no time to look at."""
    message = f"there was no time to look at it yet, it is asked about again in {duration_text(UNSEEN_SECONDS)}"
    return Deferral(key, WAITING_FOR_ADMISSION, message, retry_seconds=UNSEEN_SECONDS)


def _hold(entry: CatalogueEntry, chosen: StartSequence, used: Chooser, *, first: bool) -> Deferral:
    if chosen.desk.hurried():
        return Deferral(entry.key, WAITING_FOR_ADMISSION, "", entry.best_seconds, retry_seconds=UNSEEN_SECONDS)
    options = tuple(chosen.catalogue.options(entry, chosen.ledger).values())
    fitting = [option for option in options if option.fits]
    if fitting:
        return _unstarted(entry, chosen, used, min(fitting, key=lambda option: (option.seconds, option.workers)))
    if chosen.starving and entry is not chosen.starving[0]:
        message = f"{chosen.starving[0].key} has waited longer than the policy allows and goes first"
        return Deferral(entry.key, WAITING_FOR_ADMISSION, message, entry.best_seconds)
    if first:
        return _refused(entry, chosen)
    return Deferral(entry.key, WAITING_FOR_ADMISSION, "", entry.best_seconds)


def _unstarted(entry: CatalogueEntry, chosen: StartSequence, used: Chooser, best: Option) -> Deferral:
    """A job that would fit; `best` is its fastest start. The rule's patience ends first, then the bound on idle GPUs."""
    job, settings = chosen.catalogue.pending(entry, chosen.ledger, chosen.ends()), settings_of(chosen.policy)
    idle = idle_seconds_left(job, chosen.ledger.free_slots) or 0.0
    waits = chosen.waits().get(entry.key)
    if waits is not None and waits.waits:
        left = max(1.0, idle_seconds_left(job, chosen.ledger.free_slots, 0.0) or 0.0)
        message = f"{_sooner(job, best, settings, waits.sooner)}; it waits for them at most {duration_text(left)} longer"
        return Deferral(entry.key, WAITING_FOR_BETTER_NODES, message, entry.best_seconds, retry_seconds=left)
    slowdown = start_slowdown(entry.best_seconds, chosen.past, settings)
    left = patience_seconds(entry, job.options) - entry.queued.waited_seconds
    if left <= 0.0 or is_good(best, job, settings, slowdown * entry.best_seconds):
        return Deferral(
            entry.key, WAITING_FOR_ADMISSION, "the agent keeps the free nodes for others", entry.best_seconds, None, max(1.0, idle)
        )
    counted = counted_seconds(best, settings.communication_factor) / entry.best_seconds
    longest = max(left, idle) if used is Chooser.LEARNED else left
    message = (
        f"the free nodes would take {duration_text(best.seconds)} with {best.workers} workers, communication takes "
        f"{best.communication_seconds / best.seconds:.0%}: that counts {counted:.1f} times the {duration_text(entry.best_seconds)} on "
        f"nodes that running jobs hold, at most {slowdown:.1f} for its length; it waits for those at most {duration_text(longest)} longer"
    )
    return Deferral(entry.key, WAITING_FOR_BETTER_NODES, message, entry.best_seconds, retry_seconds=max(1.0, left))


def _sooner(job: PendingJob, best: Option, settings: RuleSettings, times: float) -> str:
    """How much sooner it ends on the nodes of running jobs."""
    factor = settings.communication_factor
    later = min(job.later, key=lambda start: start.wait_seconds + start.seconds + factor * start.communication_seconds)
    return (
        f"the free nodes would take {duration_text(best.seconds)} with {best.workers} workers; other jobs end in "
        f"{duration_text(later.wait_seconds)}, and from then on it takes {duration_text(later.seconds)}: with its communication, and with "
        f"those that wait before it, it ends {times:.1f} times sooner"
    )


def _refused(entry: CatalogueEntry, chosen: StartSequence) -> Deferral:
    """In the planner's own words."""
    answer = chosen.desk.refusal(chosen.ledger.open_to(entry.queued.request, None, reserved=entry in chosen.starving[:1]))
    return _in_words(entry, answer, entry.best_seconds)


def _never_fits(entry: CatalogueEntry, chosen: StartSequence) -> Deferral:
    """Of a job that fits not even the empty cluster: what other jobs hold is not why."""
    return _in_words(entry, chosen.desk.empty_refusal(entry.queued.request, chosen.question.claims), None)


def _in_words(entry: CatalogueEntry, answer: Plan | Infeasible, seconds: float | None) -> Deferral:
    if isinstance(answer, Plan):  # it fits, with a worker count that was not looked at
        return Deferral(entry.key, WAITING_FOR_ADMISSION, "its worker count does not fit yet", seconds, retry_seconds=1.0)
    return Deferral(entry.key, answer.reason, answer.message, seconds, answer)
