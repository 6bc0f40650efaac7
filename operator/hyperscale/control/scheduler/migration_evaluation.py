"""What advice about a running job comes to: nothing, a proposal that people see, or a migration to carry out. Pure."""

from __future__ import annotations

from typing import NamedTuple

from hyperscale.control.lifecycle.movable import material, shown_move
from hyperscale.model.api.policy import MigrationPolicy
from hyperscale.model.migration_query import JobMigration
from hyperscale.model.plan import Plan
from hyperscale.model.status import LastMigration, ProposedMigration
from hyperscale.util.rfc3339 import timestamp, unix_seconds


class MigrationEvaluation(NamedTuple):
    """The last result for one job."""

    since: float | None = None
    """Unix seconds since when a migration has paid without interruption; None where none pays."""
    shown: ProposedMigration | None = None
    plan: Plan | None = None
    """To be carried out."""
    epochs_kept: float = 0.0
    """Predicted, what the checkpoints hold."""

    @property
    def due(self) -> bool:
        """Whether a plan is to be carried out."""
        return self.plan is not None


class MigrationTerms(NamedTuple):
    """What advice is measured against."""

    policy: MigrationPolicy
    blocker: str
    """Why the operator must not migrate the job; "" where it may."""
    last: LastMigration | None
    now: float
    """Unix seconds."""


def evaluate(before: MigrationEvaluation, advice: JobMigration, running: Plan, terms: MigrationTerms) -> MigrationEvaluation:
    """Return the next evaluation of a job that runs on the plan `running`."""
    pays = advice.plan is not None and advice.gain_ratio >= terms.policy.min_gain_ratio
    # A proposal that people see stays as long as any migration pays its cost: figures swing around the threshold.
    lasts = pays or (before.shown is not None and advice.plan is not None)
    since = (before.since or terms.now) if lasts else None
    if since is None or not _held_down(since, terms):
        return MigrationEvaluation(since)
    if pays and not terms.blocker:
        return MigrationEvaluation(since, plan=advice.plan)
    fresh = shown_move(advice, running, timestamp(since), terms.blocker)
    return MigrationEvaluation(since, fresh if before.shown is None or material(before.shown, fresh) else before.shown)


def _held_down(since: float, terms: MigrationTerms) -> bool:
    """Whether the gain, and the last migration, are both at least the hold-down time old."""
    newest = since if terms.last is None else max(since, unix_seconds(terms.last.start_time))
    return terms.now - newest >= terms.policy.hold_down_seconds
