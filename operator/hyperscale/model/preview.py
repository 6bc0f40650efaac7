"""What the operator's next plan depends on, as it serves it to `hyperscale plan` (docs/cli.md): enough to plan as it would.

No job of anybody is named: running ones are figures, pending ones a number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.job import JobSpec
from hyperscale.model.plan import Calibration
from hyperscale.model.policy import PolicySpec
from hyperscale.model.steptime import Workload, workload_of
from hyperscale.model.turns import Arrivals, Claim, RunningShare

VERSION = 1
"""Of this document; another one is refused."""
PATH = "/v1/planning"
POLICY_QUERY = "policy"
"""Name of the query parameter with the PlannerPolicy's name; without it the default one's."""
KEY_HEADER = "X-HyperScale-Key"
AGE_HEADER = "Age"
"""Seconds since the document was made, as in RFC 9111."""


class PreviewQueue(msgspec.Struct, frozen=True, rename="camel"):
    """What decisions about pending jobs depend on beside the jobs themselves."""

    running: tuple[RunningShare, ...] = ()
    """Under numbers instead of names, in the order of the names: ties go by it."""
    claims: dict[str, Claim] = {}
    """By node, of all running jobs."""
    arrivals: Arrivals = Arrivals()
    since_last_arrival_seconds: float | None = None
    """None where no job has arrived since the operator started."""
    pending: int = 0
    """Jobs that wait under this policy; a decision about a new one looks at them too."""


class PreviewState(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that the plan of a new job depends on, for one policy."""

    version: int
    operator_version: str
    elapsed_seconds: float
    """Between the snapshot and the making of this document."""
    policy: PolicySpec
    snapshot: ClusterSnapshot
    free_gpus: dict[str, int] = {}
    """By node where plans hold GPUs that no bound pod shows yet."""
    held: dict[str, dict[str, float]] = {}
    """See `PlanRequest.held`."""
    calibrations: dict[str, tuple[Calibration, ...]] = {}
    """By architecture."""
    taught: dict[str, Calibration] = {}
    """By the digest of a workload (`workload_digest`)."""
    queue: PreviewQueue = PreviewQueue()
    own_weights: bool = False
    """The operator uses other weights of the learned planners than those of the package."""

    def calibration(self, job: JobSpec) -> tuple[Calibration, ...]:
        """What finished runs taught about a job, as the operator picks it."""
        known = self.calibrations.get(job.model.architecture, ())
        return tuple(self.taught.get(workload_digest(workload_of(job, one.products)), one) for one in known) if self.taught else known


def workload_digest(workload: Workload) -> str:
    """A name for a workload that does not tell what it is: 64 hex digits."""
    return hashlib.sha256(msgspec.json.encode(workload, order="deterministic")).hexdigest()


def digested(taught: Mapping[Workload, Calibration]) -> dict[str, Calibration]:
    """What workloads taught, by their digests."""
    return {workload_digest(workload): calibration for workload, calibration in taught.items()}
