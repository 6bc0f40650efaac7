"""The outlook of a job: when it ends, and what an interval, a spare or a bad node is worth. The entry point of the twin."""

from __future__ import annotations

from hyperscale.evaluate.twin.twin_types import JobRisk, Outlook


def outlook(job: JobRisk, futures: int, seed: int, deadline_seconds: float | None) -> Outlook:
    """Return what `futures` simulated futures say of `job`; the same arguments give the same bytes.

    deadline_seconds: from the start of the job, None without one.
    Raises ValueError with the field and what to write instead.
    """
    raise NotImplementedError
