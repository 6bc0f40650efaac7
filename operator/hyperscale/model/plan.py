"""The plan: which worker and ranks run on which node, in how many partitions, what it should cost, and what was turned down.

A worker is a pod of the MPIJob; each of its GPUs is one MPI rank.
`hyperscale plan -o json` prints a `Plan`, `status.plan` holds it and the MPIJob carries it (docs/reference/plan-schema.md).
Unknown figures are absent from its JSON. The bounds are those of the CRD.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta, Struct, convert, field
from msgspec.structs import replace

from hyperscale.model.api.node_links import NodeLinks
from hyperscale.model.history.corrections import MAX_PARTS, MAX_RUNS_ALONE, PredictedPart, RunAlone
from hyperscale.model.history.step_curves import StepTime

MAX_REJECTED = 32
"""Rejections kept in a plan: enough to explain, small enough for status."""
MAX_SCORES = 8
"""Planners named in a plan."""
MAX_SENTENCES = 16
"""Reasons, and likewise fallbacks, kept in a plan."""

MAX_REASON_LENGTH = 512
MAX_FALLBACK_LENGTH = 128
MAX_MESSAGE_LENGTH = 256
"""Characters of a rejection's message."""
MAX_RESOURCE_LENGTH = 540
"""The names of two nodes, and a few words."""
MAX_PRODUCTS_LENGTH = 512
"""Characters of all GPU products of a correction together."""
MIN_SPREAD = 0.05
"""Of ln(measured / corrected prediction): a few runs of the same job differ by less than the next job will."""

NodeName = Annotated[str, Meta(max_length=253)]
PlannerName = Annotated[str, Meta(max_length=32)]


class WorkerPlacement(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One worker of the ring."""

    index: int
    """Replica index in the MPIJob and place in the ring."""
    first_rank: int = field(name="rank")
    """First of its MPI ranks; it has one for each GPU."""
    node: NodeName
    gpus: int
    share: float
    """Part of the training vertices that its ranks hold together, 0..1; the shares sum to 1, and ranks divide them evenly."""
    product: Annotated[str, Meta(max_length=63)] | None = None
    """Product of the node's GPUs; absent when unlabelled."""

    @property
    def ranks(self) -> range:
        """Its MPI ranks."""
        return range(self.first_rank, self.first_rank + self.gpus)


class Calibration(Struct, frozen=True, gc=False, rename="camel"):
    """What finished runs of one architecture on one mix of GPU products teach later predictions."""

    products: str
    """GPU products of the run, each once, sorted, joined by +; empty where the nodes name none."""
    factor: float
    """Median of measured / uncorrected prediction."""
    spread: float
    """Of ln(measured / uncorrected prediction) about its median: 1.4826 × median absolute deviation (Rousseeuw & Croux 1993).
    It is widened until it covers 68 of 100 runs that were predicted from those before them."""
    runs: int
    curve: StepTime | None = None
    """Of the very workload that is asked about, where its own runs taught one that foretells better than the factor."""


class Correction(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What a prediction was multiplied with, from finished runs."""

    products: Annotated[str, Meta(max_length=MAX_PRODUCTS_LENGTH)]
    """As in `Calibration`."""
    factor: float
    """The median of `Calibration`, or what the curve of the workload says of this very placement / uncorrected prediction."""
    spread: float
    """Of ln(measured / corrected prediction)."""
    runs: int
    by_curve: bool = False
    """True: the step time curve of the workload's own runs; False: one factor for the architecture, or `searchFactor`."""
    search_factor: float = 1.0
    """What the planners' own seconds of this placement were multiplied with: factors by product, tier, inside and card."""


class Prediction(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What the cost model expects of one epoch."""

    epoch_seconds: float
    communication_seconds: float
    """Halo traffic and exposed allreduce of one epoch."""
    low_seconds: float | None = None
    high_seconds: float | None = None
    """Bounds that follow from the quality of the figures used; absent where the model cannot say."""
    cost_per_epoch: float | None = None
    """In the currency of the policy's price table; absent where a price is missing."""
    calibration: Correction | None = None
    """What the figures were multiplied with; absent where too few runs have ended, or history is off."""
    bound_by: Annotated[str, Meta(max_length=MAX_RESOURCE_LENGTH)] = ""
    """What an epoch waits for longest by the cost model. It is compute, host, network card or inside of a node, a link, an
    uplink, latency, or overhead of steps."""
    parts: Annotated[tuple[PredictedPart, ...], Meta(max_length=MAX_PARTS)] = ()
    """What the epoch is spent on, by tables and measurements alone; history learns from it."""
    cost_model: int | None = None
    """Version of the cost model that predicted it; absent in plans of its first. Finished runs of other versions teach nothing."""


class PlanFigures(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The figures that a plan was made from."""

    source: Annotated[str, Meta(max_length=32)]
    """Operator, Cluster (nodes, pods and Prometheus as the command line read them), ClusterTopology, or File."""
    age_seconds: float | None = None
    """Age, when planned, of the oldest measured figure of the planned nodes and the links between following ranks; absent
    without one."""
    missing: Annotated[tuple[Annotated[str, Meta(max_length=MAX_MESSAGE_LENGTH)], ...], Meta(max_length=MAX_SENTENCES)] = ()
    """What the operator knows and this plan was made without: it is approximate."""


class AllreduceCost(Struct, frozen=True, gc=False, rename="camel"):
    """Seconds of one allreduce over the plan's ring: latencySeconds + secondsPerByte × bytes (MG-WFBP, INFOCOM 2019)."""

    latency_seconds: float
    seconds_per_byte: float
    measured: bool = False
    """False: some hop of the ring was estimated from labels or, inside a node, from the product, because it was not measured."""


class Rejection(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A node that the plan does not use, and the first reason that ruled it out."""

    node: NodeName
    reason: Annotated[str, Meta(max_length=64)]
    """CamelCase: NotReady, Cordoned, Tainted, NodeSelector, NodeAffinity, Volume, GPUProduct, GPUMemory, NoFreeGPUs, CPU, Memory, Resource,
    GPUFault, MIGDevice, SharedGPU, SchedulerRefused, Unreachable, Constraint, SlowerPlan, EqualPlan,
    NotChosen."""
    message: Annotated[str, Meta(max_length=MAX_MESSAGE_LENGTH)] = ""


NEVER_FITS = "NeverFits"
"""Reason of a refusal that the nodes of now would give also if they were empty and ready."""
VOLUME_MISSING = "VolumeMissing"


class Infeasible(Struct, frozen=True, gc=False, rename="camel"):
    """No plan exists on this snapshot; the one dominant reason and what to change."""

    reason: str
    """CamelCase: NeverFits, InsufficientGPUs, GPUMemoryTooSmall, NoMatchingNodes, NodesCannotReachEachOther, MemoryTooSmall,
    PartitionCountMismatch, PlannerFailed."""
    message: str
    """One line: what was needed, what was found, what to try instead."""
    rejected: tuple[Rejection, ...] = ()

    @property
    def never(self) -> bool:
        """Whether waiting does not help: only other nodes or another spec do."""
        return self.reason == NEVER_FITS


class PlannerScore(Struct, frozen=True, gc=False, rename="camel"):
    """How one planner did on this request; the best one's placement is the plan."""

    planner: PlannerName
    objective: float
    """Of its best placement, seconds."""
    regret: float
    """objective / objective of the plan − 1; 0 for the winner."""
    candidates: int
    """Placements that it proposed."""


class Plan(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A feasible, checked plan. Same job, snapshot and seed give the same bytes."""

    planner: PlannerName
    """Which planner's candidate won: Heuristic, Learned or None."""
    seed: int
    plan_id: Annotated[str, Meta(max_length=64)] = field(name="id")
    """First 16 hex digits of the sha256 of job demand, snapshot digest, planner, seed and placement."""
    partitions: int
    workers: Annotated[tuple[WorkerPlacement, ...], Meta(max_length=1000)]
    """Sorted by index, which is 0..k-1; their ranks follow each other."""
    ranks_by_node: Annotated[dict[str, int], Meta(max_length=1000)]
    """MPI ranks on each node that has any."""
    predicted: Prediction
    objective: float
    """epoch seconds + λ × communication seconds; lower is better."""
    rejected: Annotated[tuple[Rejection, ...], Meta(max_length=MAX_REJECTED)] = ()
    """Nodes not used, the most telling first."""
    snapshot: Annotated[str, Meta(max_length=64)] = ""
    """Digest of the snapshot that the plan was made from."""
    reasons: Annotated[tuple[Annotated[str, Meta(max_length=MAX_REASON_LENGTH)], ...], Meta(max_length=MAX_SENTENCES)] = ()
    """Sentences that say why this plan won (planner/choice/reasons.py)."""
    fallbacks: Annotated[tuple[Annotated[str, Meta(max_length=MAX_FALLBACK_LENGTH)], ...], Meta(max_length=MAX_SENTENCES)] = ()
    """Steps down that were taken because a figure was unknown or a planner failed, in order; empty on a full plan."""
    optimality_gap: float | None = None
    """objective / proven lower bound − 1, for the worker counts asked for, shares by speed; 0 = proven optimal, absent = no bound known."""
    scores: Annotated[tuple[PlannerScore, ...], Meta(max_length=MAX_SCORES)] = ()
    """Every planner that took part, best first."""
    allreduce: AllreduceCost | None = None
    """What its links cost one allreduce; absent in plans of earlier versions."""
    links: NodeLinks | None = None
    """Absent on one node, on more than MAX_LINKED_NODES and in plans of earlier versions."""
    figures: PlanFigures | None = None
    """What the plan was made from; absent in plans of running jobs that move."""
    runs_alone: Annotated[tuple[RunAlone, ...], Meta(max_length=MAX_RUNS_ALONE)] = ()
    """The whole run on the cluster without our other jobs; empty where the queue did not compare worker counts."""

    @property
    def ranks(self) -> int:
        """MPI ranks of all workers."""
        return sum(worker.gpus for worker in self.workers)

    def node_of(self, index: int) -> str:
        """The planned node of a worker; raises IndexError for a worker the plan does not have."""
        return self.workers[index].node

    def summary(self) -> str:
        """One line, for events and logs."""
        nodes = ", ".join(f"{worker.index}→{worker.node}" for worker in self.workers[:8])
        more = f" and {len(self.workers) - 8} more" if len(self.workers) > 8 else ""
        ranks = f" with {self.ranks} ranks" if self.ranks > len(self.workers) else ""
        return f"plan {self.plan_id} by {self.planner}: {len(self.workers)} workers{ranks}, {self.partitions} partitions ({nodes}{more})"

    def gpus_by_node(self) -> dict[str, int]:
        """GPUs that the plan takes on each node."""
        return gpus_by_node(self.workers)


def gpus_by_node(workers: Iterable[WorkerPlacement]) -> dict[str, int]:
    """GPUs, and so ranks, of `workers` on each node, by the node's first worker."""
    taken: dict[str, int] = {}
    for worker in workers:
        taken[worker.node] = taken.get(worker.node, 0) + worker.gpus
    return taken


def plan_of(wire: Any) -> Plan:  # noqa: ANN401 - any JSON value
    """The plan behind its JSON value, also of an earlier version. Raises msgspec.ValidationError."""
    if isinstance(wire, dict):
        wire = {"ranksByNode": {}, **wire, "workers": indexed(wire.get("workers"))}
    plan = convert(wire, Plan)
    return plan if plan.ranks_by_node else replace(plan, ranks_by_node=plan.gpus_by_node())


def indexed(workers: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON value of a plan's workers with their indices, which plans of earlier versions name instead of their first ranks."""
    if not isinstance(workers, list) or any(not isinstance(worker, dict) or "index" in worker for worker in workers):
        return workers
    if any(type(worker.get("gpus")) is not int for worker in workers):
        return workers
    return [{**worker, "index": index, "rank": index * worker["gpus"]} for index, worker in enumerate(workers)]


def bounded(plan: Plan) -> Plan:
    """The plan with texts and lists cut to the bounds of its schema; itself where nothing is too long."""
    if _holds(plan):
        return plan
    predicted, calibration = plan.predicted, plan.predicted.calibration
    if calibration is not None:
        predicted = replace(predicted, calibration=replace(calibration, products=calibration.products[:MAX_PRODUCTS_LENGTH]))
    return replace(
        plan,
        predicted=predicted,
        rejected=tuple(map(_cut, plan.rejected[:MAX_REJECTED])),
        reasons=tuple(sentence[:MAX_REASON_LENGTH] for sentence in plan.reasons[:MAX_SENTENCES]),
        fallbacks=tuple(step[:MAX_FALLBACK_LENGTH] for step in plan.fallbacks[:MAX_SENTENCES]),
        scores=plan.scores[:MAX_SCORES],
    )


def bounded_refusal(refusal: Infeasible) -> Infeasible:
    """The refusal with the messages of its rejections cut to the bound of their schema."""
    return replace(refusal, rejected=tuple(map(_cut, refusal.rejected)))


def _cut(rejection: Rejection) -> Rejection:
    return rejection if len(rejection.message) <= MAX_MESSAGE_LENGTH else replace(rejection, message=rejection.message[:MAX_MESSAGE_LENGTH])


def _holds(plan: Plan) -> bool:
    """Whether nothing is beyond the bounds that `bounded` cuts to."""
    calibration = plan.predicted.calibration
    return (
        (calibration is None or len(calibration.products) <= MAX_PRODUCTS_LENGTH)
        and max(len(plan.reasons), len(plan.fallbacks)) <= MAX_SENTENCES
        and len(plan.rejected) <= MAX_REJECTED
        and len(plan.scores) <= MAX_SCORES
        and all(len(one.message) <= MAX_MESSAGE_LENGTH for one in plan.rejected)
        and all(len(sentence) <= MAX_REASON_LENGTH for sentence in plan.reasons)
        and all(len(step) <= MAX_FALLBACK_LENGTH for step in plan.fallbacks)
    )
