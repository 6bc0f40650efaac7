"""What the operator's next plan depends on, as it serves it to `hyperscale plan` (docs/reference/cli.md): enough to plan as it would.

It names no job: running ones are figures, pending ones a number. A reader who guesses the name of a namespace can find what its own
runs taught (docs/rbac.md). It travels as lines of JSON, nodes and links in small parts:
that of 5,000 nodes is 76 MiB, which neither side should hold as one text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from hyperscale.model.admission_query import Arrivals, Claim, RunningShare
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, Link, Node
from hyperscale.model.history.corrections import Corrections
from hyperscale.model.history.step_curves import CurveKey, workload_of
from hyperscale.model.plan import Calibration
from hyperscale.model.planning import AskedSize, chosen_corrections

PART_NODES = 100
PART_LINKS = 1000
"""Of one line: a few milliseconds of encoding."""
VERSION = 3
"""Of this document; another one is refused."""
PATH = "/v1/planning"
POLICY_QUERY = "policy"
"""Name of the query parameter with the PlannerPolicy's name; without it the default one's."""
KEY_HEADER = "X-HyperScale-Key"
AGE_HEADER = "Age"
"""Seconds since the document was made, as in RFC 9111."""


class PreviewQueue(msgspec.Struct, frozen=True, rename="camel"):
    """What decisions about pending jobs depend on besides the jobs themselves."""

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
    reserved_amounts: dict[str, dict[str, float]] = msgspec.field(default_factory=dict, name="held")
    """See `PlanRequest.reserved_amounts`."""
    asked_sizes: tuple[AskedSize, ...] = ()
    """See `PlanRequest.asked_sizes`."""
    calibrations: dict[str, tuple[Calibration, ...]] = {}
    """By architecture."""
    taught: dict[str, Calibration] = {}
    """By `curve_digest`."""
    corrections: dict[str, Corrections] = {}
    """What they taught the cost model, by architecture, "" for every other one; for some namespaces also by `own_key`."""
    queue: PreviewQueue = PreviewQueue()
    own_weights: bool = False
    """The operator uses other weights of the learned planners than those of the package."""

    def calibration(self, job: JobSpec, namespace: str = "") -> tuple[Calibration, ...]:
        """What finished runs taught about a job of a namespace, as the operator picks it."""
        calibrations = self.calibrations.get(job.model.architecture, ())
        if not self.taught:
            return calibrations
        workloads = [workload_of(job, one.products) for one in calibrations]
        return tuple(
            self.taught.get(curve_digest((namespace, workload)), self.taught.get(curve_digest(("", workload)), one))
            for one, workload in zip(calibrations, workloads, strict=True)
        )

    def placement_corrections(self, job: JobSpec, namespace: str = "") -> Corrections | None:
        """What finished runs taught the cost model about a job of a namespace, as the operator picks it."""
        return chosen_corrections(self.corrections, job, self.policy, namespace)


class _PreviewHead(msgspec.Struct, frozen=True, rename="camel"):
    """The first line."""

    version: int
    nodes: int
    links: int
    """In the lines that follow."""


class _PreviewPart(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A further line."""

    nodes: tuple[Node, ...] = ()
    links: tuple[Link, ...] = ()


class PreviewError(ValueError):
    """What was read is no document of this version."""


def to_lines(state: PreviewState) -> Iterator[bytes]:
    """The document, a line at a time, each with its newline."""
    snapshot = state.snapshot
    yield msgspec.json.encode(_PreviewHead(state.version, len(snapshot.nodes), len(snapshot.links))) + b"\n"
    yield msgspec.json.encode(replace(state, snapshot=replace(snapshot, nodes=(), links=()))) + b"\n"
    for at in range(0, len(snapshot.nodes), PART_NODES):
        yield msgspec.json.encode(_PreviewPart(nodes=snapshot.nodes[at : at + PART_NODES])) + b"\n"
    for at in range(0, len(snapshot.links), PART_LINKS):
        yield msgspec.json.encode(_PreviewPart(links=snapshot.links[at : at + PART_LINKS])) + b"\n"


def from_lines(lines: Iterable[bytes]) -> PreviewState:
    """The document behind `to_lines`; raises PreviewError for another version, a cut one, or anything else."""
    nodes: list[Node] = []
    links: list[Link] = []
    rest = iter(lines)
    try:
        head = msgspec.json.decode(next(rest, b""), type=_PreviewHead)
        if head.version != VERSION:
            raise PreviewError(f"it is of version {head.version}, this program reads {VERSION}")
        state = msgspec.json.decode(next(rest, b""), type=PreviewState)
        for line in rest:
            part = msgspec.json.decode(line, type=_PreviewPart)
            nodes += part.nodes
            links += part.links
    except (msgspec.DecodeError, RecursionError) as error:
        raise PreviewError(str(error)[:200]) from error
    if (len(nodes), len(links)) != (head.nodes, head.links):
        raise PreviewError(f"it ends after {len(nodes)} of {head.nodes} nodes and {len(links)} of {head.links} links")
    return replace(state, snapshot=replace(state.snapshot, nodes=tuple(nodes), links=tuple(links)))


def curve_digest(key: CurveKey) -> str:
    """A name for a workload, of a namespace's own runs or of all: 64 hex digits. A reader who guesses both can compute it."""
    named: object = key if key[0] else key[1]
    return hashlib.sha256(msgspec.json.encode(named, order="deterministic")).hexdigest()


def digested(taught: Mapping[CurveKey, Calibration]) -> dict[str, Calibration]:
    """What workloads taught, by their digests."""
    return {curve_digest(key): calibration for key, calibration in taught.items()}
