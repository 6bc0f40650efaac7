"""What an administrator tunes: the types behind `PlannerPolicy.spec`, and the one source of its CRD schema."""

from __future__ import annotations

import enum
from typing import Annotated, Final

from msgspec import Meta, field

from hyperscale.model.api.job import LabelKey, LabelValue, Name253, PlannerChoice, Spec
from hyperscale.model.api.metric_queries import MetricQueries as MetricQueries
from hyperscale.model.api.written_numbers import DECIMAL, QUANTITY

MAX_BYTES_PER_SECOND: Final = 1e15
NANOSECONDS: Final = 10**9
"""In a second."""


class GpuModel(Spec, frozen=True):
    """Speed, price and intra-node link of one GPU product; figures left out stay as built in or measured."""

    product: Annotated[str, Meta(min_length=1, max_length=63, description="Value of nvidia.com/gpu.product, or a prefix.")]
    gigaflops: (
        Annotated[int, Meta(ge=1, le=100_000_000, description="Sustained GFLOP/s on GNN training (not the data sheet's peak).")] | None
    ) = None
    price_per_hour: Annotated[float, Meta(ge=0, le=100000, extra=DECIMAL, description="Price of one GPU hour, any currency.")] | None = None
    intra_node_bytes_per_second: (
        Annotated[
            float,
            Meta(ge=1, le=MAX_BYTES_PER_SECOND, extra=QUANTITY, description="Between two GPUs of a node, sustained, one way."),
        ]
        | None
    ) = None
    intra_node_latency_nanoseconds: (
        Annotated[int, Meta(ge=0, le=NANOSECONDS, description="Between two GPUs of a node, one way.")] | None
    ) = None

    @property
    def intra_node_latency_seconds(self) -> float | None:
        """Seconds between two GPUs of a node, one way."""
        return _seconds(self.intra_node_latency_nanoseconds)


class QualityLimits(Spec, frozen=True):
    """Beyond these a sample counts as unknown."""

    max_age_seconds: Annotated[int, Meta(ge=1, le=86400, description="Older samples are stale.")] = 120
    release_grace_seconds: Annotated[
        int, Meta(ge=0, le=900, description="A GPU's reading so soon after its pod's end may still be the pod's: exporters cache.")
    ] = 30
    window_readings: Annotated[
        int, Meta(ge=1, le=15, description="Readings whose median is a link's figure; the agent's own figures are taken as they are.")
    ] = 3
    freeze_readings: Annotated[
        int, Meta(ge=3, le=10000, description="A busy GPU whose use, power and temperature stay the same so often is not being read.")
    ] = 20
    jump_ratio: Annotated[
        int, Meta(ge=2, le=10**9, description="A figure that leaves its own history by this factor at once has to be confirmed.")
    ] = 100
    jump_readings: Annotated[int, Meta(ge=1, le=1000, description="Readings that confirm such a jump.")] = 3
    unit_readings: Annotated[
        int, Meta(ge=1, le=10000, description="Readings that confirm it where half of all series jump at once, as when a unit changes.")
    ] = 60
    max_temperature_celsius: Annotated[int, Meta(ge=1, le=1000, description="Hotter is not plausible.")] = 150
    max_latency_seconds: Annotated[int, Meta(ge=1, le=3600, description="Slower is not plausible.")] = 60
    max_bandwidth_bytes_per_second: Annotated[
        float, Meta(ge=1, le=MAX_BYTES_PER_SECOND, extra=QUANTITY, description="Faster is not plausible.")
    ] = 1e13


class NodeOverride(Spec, frozen=True):
    """What an administrator knows better of one node; fields left out stay as found."""

    name: Annotated[Name253, Meta(description="Name of the node.")]
    gpu_product: Annotated[str, Meta(min_length=1, max_length=63, description="Instead of nvidia.com/gpu.product.")] | None = None
    gpu_memory: (
        Annotated[
            int, Meta(ge=1, le=16 * 2**40, extra=QUANTITY, description="Memory of one GPU, such as 24Gi, instead of nvidia.com/gpu.memory.")
        ]
        | None
    ) = None
    network_bytes_per_second: (
        Annotated[
            float,
            Meta(
                ge=1,
                le=MAX_BYTES_PER_SECOND,
                extra=QUANTITY,
                description="What its fastest network card carries, instead of node-exporter's figure.",
            ),
        ]
        | None
    ) = None
    topology: Annotated[
        dict[LabelKey, LabelValue],
        Meta(max_length=15, description="Topology labels that count instead of the node's own; they match no node selector."),
    ] = field(default_factory=dict)


class LinkOverride(Spec, frozen=True):
    """What an administrator knows better of a link, or of all links between two topology domains."""

    source: Annotated[str, Meta(min_length=1, max_length=253, description="Node name; with level, a value of that label.")]
    destination: Annotated[str, Meta(min_length=1, max_length=253, description="Likewise; the same as source means inside one domain.")]
    level: Annotated[LabelKey, Meta(description="Topology label whose domains are meant; without it, nodes are.")] | None = None
    latency_nanoseconds: Annotated[int, Meta(ge=0, le=3600 * NANOSECONDS, description="One way.")] | None = None
    bandwidth_bytes_per_second: (
        Annotated[float, Meta(ge=1, le=MAX_BYTES_PER_SECOND, extra=QUANTITY, description="Sustained, one way.")] | None
    ) = None
    one_way: Annotated[bool, Meta(description="True where the way back is another matter.")] = False

    @property
    def latency_seconds(self) -> float | None:
        """Seconds, one way."""
        return _seconds(self.latency_nanoseconds)


class Overrides(Spec, frozen=True):
    """Figures that count before anything measured or labelled."""

    nodes: Annotated[tuple[NodeOverride, ...], Meta(max_length=512, description="Nodes, one entry for each name.")] = field(
        default_factory=tuple
    )
    links: Annotated[
        tuple[LinkOverride, ...], Meta(max_length=1024, description="Links; pairs of nodes before domains, then the first that fits.")
    ] = field(default_factory=tuple)


class QueueOrder(enum.StrEnum):
    """Who decides which pending job starts next, with how many workers."""

    ARRIVAL = "Arrival"
    """Every job as soon as it fits, in order of arrival, with the worker count that makes it fastest alone."""
    RULE = "Rule"
    """The index rule: shortest weighted time first, thrifty counts, no start on poor nodes while better ones will be free."""
    LEARNED = "Learned"
    """The trained agent where the score of its choice is no worse than the rule's, else the rule."""


class PreemptionMode(enum.StrEnum):
    """What happens when all jobs together would end sooner if a running one gave its GPUs away for a while."""

    NEVER = "Never"
    ADVISE = "Advise"
    """Say so in the running job's status."""
    AUTOMATIC = "Automatic"
    """Stop it; it continues from its last checkpoint when its turn in the queue comes."""


class PreemptionPolicy(Spec, frozen=True):
    """When a running job is stopped for others; a restart costs `migration.restartSeconds` and the work done again."""

    mode: Annotated[PreemptionMode, Meta(description="What to do when a stop pays; with order Arrival nothing is stopped.")] = (
        PreemptionMode.ADVISE
    )
    check_period_seconds: Annotated[int, Meta(ge=5, le=86400, description="How often it is asked while jobs are pending.")] = 60
    hold_down_seconds: Annotated[int, Meta(ge=0, le=31_536_000, description="A job is not stopped sooner after its last start.")] = 600
    min_gain_percent: Annotated[
        int,
        Meta(
            ge=0, le=10_000, description="Minimum gain per preemption: total completion time saved, in percent of an average job duration."
        ),
    ] = 10

    @property
    def min_gain_ratio(self) -> float:
        """`min_gain_percent` as a ratio, 0..100."""
        return self.min_gain_percent / 100


class QueuePolicy(Spec, frozen=True):
    """Order and size of pending jobs that no external queue owns."""

    order: Annotated[QueueOrder, Meta(description="Who decides which pending job starts next.")] = QueueOrder.RULE
    min_scaling_exponent: Annotated[
        float,
        Meta(ge=0, le=1, extra=DECIMAL, description="α: a larger worker count must shorten the run by the ratio of counts to this power."),
    ] = 0.02
    min_scaling_exponent_alone: Annotated[
        float, Meta(ge=0, le=1, extra=DECIMAL, description="α where only one job is pending, which leaves more GPUs to later jobs.")
    ] = 0.21
    max_start_slowdown: Annotated[
        float,
        Meta(
            ge=1,
            le=1000,
            extra=DECIMAL,
            description="Start only where the run takes at most this multiple of its time on the empty cluster.",
        ),
    ] = 2.6
    max_queue_weight: Annotated[
        int, Meta(ge=1, le=1000, description="Most that queueWeight counts: authors write it themselves; 1 makes all jobs equal.")
    ] = 1000
    starvation_seconds: Annotated[int, Meta(ge=0, le=31_536_000, description="A job that has waited longer goes first; 0 means never.")] = (
        86400
    )
    preemption: PreemptionPolicy = PreemptionPolicy()


class MigrationMode(enum.StrEnum):
    """What happens when a running job would be faster elsewhere."""

    NEVER = "Never"
    ADVISE = "Advise"
    """Say so in the job's status."""
    AUTOMATIC = "Automatic"
    """Restart it there from its last checkpoint."""


class MigrationPolicy(Spec, frozen=True):
    """When a running job moves to other nodes."""

    mode: Annotated[MigrationMode, Meta(description="What to do when a migration pays.")] = MigrationMode.ADVISE
    check_period_seconds: Annotated[int, Meta(ge=5, le=86400, description="How often a running plan is scored on fresh measurements.")] = 60
    min_gain_percent: Annotated[
        int, Meta(ge=0, le=99, description="A migration must shorten the remaining time by at least this percentage.")
    ] = 10
    hold_down_seconds: Annotated[
        int, Meta(ge=0, le=86400, description="The gain must last this long, and so must the time since the last migration.")
    ] = 600
    restart_seconds: Annotated[
        int, Meta(ge=0, le=86400, description="Cost of a migration: stop, start and load; work since the last checkpoint is added.")
    ] = 60
    worker_reload_seconds: Annotated[
        int, Meta(ge=0, le=86400, description="Further cost of every worker that changes its node: it loads its data again.")
    ] = 5
    max_migrated_workers: Annotated[int, Meta(ge=1, le=1000, description="Most workers that one migration may move.")] | None = None

    @property
    def min_gain_ratio(self) -> float:
        """`min_gain_percent` as a ratio, 0..0.99."""
        return self.min_gain_percent / 100


class PolicySpec(Spec, frozen=True):
    """`PlannerPolicy.spec`: how plans are made and judged in this cluster."""

    communication_weight: Annotated[
        float, Meta(ge=0, le=1000, extra=DECIMAL, description="λ: weight of communication seconds in the objective.")
    ] = 0.1
    tolerance_percent: Annotated[
        int,
        Meta(
            ge=0, le=50, description="Plans that differ by no more are equal: the cheaper wins, then the one that leaves fewer GPUs idle."
        ),
    ] = 1
    planners: Annotated[
        tuple[PlannerChoice, ...], Meta(min_length=1, max_length=len(PlannerChoice), description="Planners that jobs may ask for.")
    ] = tuple(PlannerChoice)
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Seed of every planner; the same seed and snapshot give the same plan.")] = 0
    plan_deadline_seconds: Annotated[
        int, Meta(ge=1, le=600, description="Longest time for one plan, all candidates together; then the next fallback answers.")
    ] = 5
    metrics_timeout_seconds: Annotated[int, Meta(ge=1, le=60, description="Longest time for one metrics query.")] = 5
    scheduling_timeout_seconds: Annotated[
        int, Meta(ge=1, le=86400, description="From a rank's open gate to its node; then all ranks of the job are released.")
    ] = 300
    """kube-scheduler tries every unschedulable pod again within 5 minutes: a rank was refused at least twice by then."""
    queue: QueuePolicy = QueuePolicy()
    migration: MigrationPolicy = MigrationPolicy()
    queries: MetricQueries = MetricQueries()
    limits: QualityLimits = QualityLimits()
    overrides: Overrides = Overrides()
    topology_levels: Annotated[
        tuple[LabelKey, ...], Meta(max_length=15, description="Node label keys, widest first, without hostname; empty detects them.")
    ] = field(default_factory=tuple)
    gpus: Annotated[tuple[GpuModel, ...], Meta(max_length=64, description="Speeds and prices that override the built-in table.")] = field(
        default_factory=tuple
    )


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / NANOSECONDS
