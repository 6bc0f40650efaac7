"""Jobs that wait for room: which of them are asked again when GPUs come free, and refusals that stand.

A job that never fits the nodes of now is refused by its spec, its policy, its volumes and what the nodes are. As long as none of these
changes, neither the end of other jobs nor a pass of its own puts the question to the planner again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.admission import PlanAnswer
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.queue_entry import SpecRevision, revision_of
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.observed.reconcile_input import AdmissionAnswer
from hyperscale.model.plan import Infeasible

STANDS_SECONDS: Final = 600.0
"""How long such a refusal stands at most."""


class RefusalBasis(NamedTuple):
    """What decides that a job never fits."""

    edition: SpecRevision
    policy: PolicySpec
    rules: object
    """Nodes from which its volumes can be reached."""
    ground: int
    """Of the cache."""


class StandingRefusal(NamedTuple):
    """What a question about a job came to, without the cluster that it was put about: a job may wait for days."""

    outcome: Infeasible
    turn: AdmissionAnswer | None


class _Refusal(NamedTuple):
    basis: RefusalBasis
    at: float
    """By the clock that is never set."""
    standing: StandingRefusal


class Waiting:
    """Knows the jobs that wait, and the refusals that stand."""

    def __init__(self, context: ControlContext) -> None:
        self._cache = context.cache
        self._reader = context.reader
        self._monotonic = context.monotonic
        self._refusals: dict[Key, _Refusal] = {}

    def learn(self, key: Key, basis: RefusalBasis | None, answer: PlanAnswer) -> None:
        """What a question about a job came to; `basis` is of the time at which it was put."""
        if isinstance(answer.outcome, Infeasible) and answer.outcome.never and basis is not None:
            self._refusals[key] = _Refusal(basis, self._monotonic(), StandingRefusal(answer.outcome, answer.turn))
        else:
            self.forget(key)

    def refusal(self, key: Key, policy: PolicySpec) -> StandingRefusal | None:
        """What the planner would say again of a job that never fits; None where it must be asked."""
        refusal = self._refusals.get(key)
        if refusal is None or refusal.basis != self.basis(key, policy) or self._monotonic() - refusal.at >= STANDS_SECONDS:
            return None
        return refusal.standing

    def forget(self, key: Key) -> None:
        """The job is gone, or something else than before."""
        self._refusals.pop(key, None)

    def to_ask(self) -> list[Key]:
        """Jobs that room may help now, the oldest first."""
        return sorted((key for key in self._cache.waiting if not self._stands(key)), key=self.age)

    def age(self, key: Key) -> tuple[str, Key]:
        """Sorts jobs, the oldest first."""
        record = self._cache.jobs.get(key)
        return record.created if record is not None else "", key

    def _stands(self, key: Key) -> bool:
        refusal = self._refusals.get(key)
        return refusal is not None and refusal.basis.ground == self._cache.snapshots.ground

    def basis(self, key: Key, policy: PolicySpec) -> RefusalBasis | None:
        """What a refusal of the job would rest on now; None where the job is gone."""
        record = self._cache.jobs.get(key)
        if record is None:
            return None
        return RefusalBasis(revision_of(record), policy, self._reader.volumes(key).rules, self._cache.snapshots.ground)
