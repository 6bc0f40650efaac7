"""The plans of one job by where each is written: the only place that says which of them is in force. Pure."""

from __future__ import annotations

from typing import NamedTuple

from hyperscale.model.plan import Plan


class PlanRecord(NamedTuple):
    """Up to three plans of one job; None where there is none."""

    unwritten: Plan | None = None
    """Made by a reconcile and written nowhere yet: it is lost with the process."""
    in_status: Plan | None = None
    on_mpijob: Plan | None = None
    """In the annotation of the job's own MPIJob."""

    @property
    def recorded(self) -> Plan | None:
        """The plan that can be read back after a crash: the status is written last, so it comes first."""
        return self.in_status or self.on_mpijob

    def with_unwritten(self, plan: Plan | None) -> PlanRecord:
        """Return the record as a reconcile sees it that has made `plan` itself.

        A plan that another job's reconcile got for this job counts only once this job's own reconcile has taken it.
        """
        return self._replace(unwritten=plan)

    @property
    def in_force(self) -> Plan | None:
        """The newest plan."""
        return self.unwritten or self.recorded
