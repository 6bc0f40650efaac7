"""The plan: which rank runs on which node, in how many partitions, what it should cost, and what was turned down."""

from __future__ import annotations

import msgspec

from hyperscale.model.steptime import StepTime


class WorkerPlacement(msgspec.Struct, frozen=True, rename="camel"):
    """One rank of the ring."""

    rank: int
    """Worker replica index of the MPIJob and place in the ring."""
    node: str
    gpus: int
    product: str | None
    share: float
    """Part of the training vertices that this rank holds, 0..1; the shares sum to 1."""


class Calibration(msgspec.Struct, frozen=True, rename="camel"):
    """What finished runs of one architecture on one mix of GPU products teach later predictions."""

    products: str
    """GPU products of the run, each once, sorted, joined by +; empty where the nodes name none."""
    factor: float
    """Median of measured / uncorrected prediction."""
    spread: float
    """Of ln(measured / uncorrected prediction) about its median: 1.4826 × median absolute deviation (Rousseeuw & Croux 1993)."""
    runs: int
    curve: StepTime | None = None
    """Of the very workload that is asked about, where its own runs taught one that foretells better than the factor."""


class Correction(msgspec.Struct, frozen=True, rename="camel"):
    """What a prediction was multiplied with."""

    products: str
    """As in `Calibration`."""
    factor: float
    """The median of `Calibration`, or what the curve of the workload says of this very placement / uncorrected prediction."""
    spread: float
    """Of ln(measured / corrected prediction)."""
    runs: int
    by_curve: bool = False
    """True: the step time curve of the workload's own runs; False: one factor for the architecture."""


class Prediction(msgspec.Struct, frozen=True, rename="camel"):
    """What the cost model expects of one epoch."""

    epoch_seconds: float
    communication_seconds: float
    """Halo traffic and exposed allreduce of one epoch."""
    low_seconds: float | None = None
    high_seconds: float | None = None
    """Bounds that follow from the quality of the figures used; None when nobody can say."""
    cost_per_epoch: float | None = None
    """In the currency of the policy's price table; None where a price is missing."""
    calibration: Correction | None = None
    """What the figures were multiplied with; None where too few runs have ended, or history is off."""


class AllreduceCost(msgspec.Struct, frozen=True, rename="camel"):
    """Seconds of one allreduce over the plan's ring: latencySeconds + secondsPerByte × bytes (MG-WFBP, INFOCOM 2019)."""

    latency_seconds: float
    seconds_per_byte: float
    measured: bool = False
    """False: some hop of the ring was estimated from labels, because nobody measured it."""


class Rejection(msgspec.Struct, frozen=True, rename="camel"):
    """A node that the plan does not use, and the first reason that ruled it out."""

    node: str
    reason: str
    """CamelCase: NotReady, Cordoned, Tainted, NodeSelector, GpuProduct, GpuMemory, NoFreeGpus, Cpu, Memory, GpuFault,
    Unreachable, Constraint, SlowerPlan."""
    message: str = ""


class Infeasible(msgspec.Struct, frozen=True, rename="camel"):
    """No plan exists on this snapshot; the one dominant reason and what to change."""

    reason: str
    """CamelCase: InsufficientGpus, GpuMemoryTooSmall, NoMatchingNodes, NodesCannotReachEachOther, MemoryTooSmall, PlannerFailed."""
    message: str
    """One line: what was needed, what was found, what to try instead."""
    rejected: tuple[Rejection, ...] = ()


class PlannerScore(msgspec.Struct, frozen=True, rename="camel"):
    """How one planner did on this request; the best one's placement is the plan."""

    planner: str
    objective: float
    """Of its best placement, seconds."""
    regret: float
    """objective / objective of the plan − 1; 0 for the winner."""
    candidates: int
    """Placements that it proposed."""


class Plan(msgspec.Struct, frozen=True, rename="camel"):
    """A feasible, checked plan. Same job, snapshot and seed give the same bytes."""

    planner: str
    """Which planner's candidate won: Heuristic, Learned or None."""
    seed: int
    plan_id: str
    """First 16 hex digits of the sha256 of job demand, snapshot digest, planner, seed and placement."""
    partitions: int
    workers: tuple[WorkerPlacement, ...]
    """Sorted by rank; ranks are 0..k-1."""
    predicted: Prediction
    objective: float
    """epoch seconds + λ × communication seconds; lower is better."""
    rejected: tuple[Rejection, ...] = ()
    """At most MAX_REJECTED, the most telling first."""
    snapshot: str = ""
    """Digest of the snapshot that the plan was made from."""
    reasons: tuple[str, ...] = ()
    """Sentences that say why this plan won (plan/explain.py)."""
    fallbacks: tuple[str, ...] = ()
    """Steps down that were taken because a figure was unknown or a planner failed, in order; empty on a full plan."""

    optimality_gap: float | None = None
    """objective / proven lower bound − 1, for the worker counts asked for; 0 = proven optimal, None = no bound is known."""
    scores: tuple[PlannerScore, ...] = ()
    """Every planner that took part, best first; at most MAX_SCORES."""
    allreduce: AllreduceCost | None = None
    """What its links cost one allreduce; None in plans of earlier versions."""

    def node_of(self, rank: int) -> str:
        """The planned node of a rank; raises IndexError for a rank the plan does not have."""
        return self.workers[rank].node

    def summary(self) -> str:
        """One line, for events and logs."""
        nodes = ", ".join(f"{worker.rank}→{worker.node}" for worker in self.workers[:8])
        more = f" and {len(self.workers) - 8} more" if len(self.workers) > 8 else ""
        return f"plan {self.plan_id} by {self.planner}: {len(self.workers)} workers, {self.partitions} partitions ({nodes}{more})"

    def gpus_by_node(self) -> dict[str, int]:
        """GPUs that the plan takes on each node."""
        taken: dict[str, int] = {}
        for worker in self.workers:
            taken[worker.node] = taken.get(worker.node, 0) + worker.gpus
        return taken


MAX_REJECTED = 32
"""Rejections kept in a plan: enough to explain, small enough for status."""

MAX_SCORES = 8
"""Planners named in a plan."""
