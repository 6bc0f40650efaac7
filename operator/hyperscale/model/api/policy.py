"""What an administrator tunes: the types behind `PlannerPolicy.spec`, and the one source of its CRD schema."""

from __future__ import annotations

import enum
from typing import Annotated, Final

from msgspec import Meta, field

from hyperscale.model.api.evaluation_policy import EvaluationPolicy as EvaluationPolicy
from hyperscale.model.api.job import LabelKey, LabelValue, Name253, PlannerChoice, Spec
from hyperscale.model.api.metric_queries import MetricQueries as MetricQueries
from hyperscale.model.api.preference_policy import PreferenceMode as PreferenceMode
from hyperscale.model.api.preference_policy import PreferencePolicy
from hyperscale.model.api.written_numbers import DECIMAL, QUANTITY

MAX_BYTES_PER_SECOND: Final = 1e15
MAX_GIGAFLOPS: Final = 100_000_000
"""Of one GPU."""
MAX_NETWORK_CARDS: Final = 64
"""Of one node."""
MAX_OVERSUBSCRIPTION: Final = 1000
NANOSECONDS: Final = 10**9
"""In a second."""


class GpuModel(Spec, frozen=True):
    """Speed, price and intra-node link of one GPU product; figures left out stay as built in or measured."""

    product: Annotated[str, Meta(min_length=1, max_length=63)]
    """Value of nvidia.com/gpu.product, or a prefix."""
    gigaflops: Annotated[int, Meta(ge=1, le=MAX_GIGAFLOPS)] | None = None
    """Sustained GFLOP/s on GNN training (not the data sheet's peak)."""
    price_per_hour: Annotated[float, Meta(ge=0, le=100000, extra=DECIMAL)] | None = None
    """Price of one GPU hour, any currency."""
    board_power_watts: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    """Most that one GPU takes."""
    intra_node_bytes_per_second: Annotated[float, Meta(ge=1, le=MAX_BYTES_PER_SECOND, extra=QUANTITY)] | None = None
    """Between two GPUs of a node, sustained, one way."""
    intra_node_latency_nanoseconds: Annotated[int, Meta(ge=0, le=NANOSECONDS)] | None = None
    """Between two GPUs of a node, one way."""

    @property
    def intra_node_latency_seconds(self) -> float | None:
        """Seconds between two GPUs of a node, one way."""
        return _seconds(self.intra_node_latency_nanoseconds)


class QualityLimits(Spec, frozen=True):
    """Beyond these a sample counts as unknown."""

    max_age_seconds: Annotated[int, Meta(ge=1, le=86400)] = 120
    """Older samples are stale."""
    release_grace_seconds: Annotated[int, Meta(ge=0, le=900)] = 30
    """A GPU's reading so soon after its pod's end may still be the pod's: exporters cache."""
    window_readings: Annotated[int, Meta(ge=1, le=15)] = 3
    """Readings whose median is a link's figure; the agent's own figures are taken as they are."""
    freeze_readings: Annotated[int, Meta(ge=3, le=10000)] = 20
    """A busy GPU whose use, power and temperature stay the same so often is not being read."""
    jump_ratio: Annotated[int, Meta(ge=2, le=10**9)] = 100
    """A figure that leaves its own history by this factor at once has to be confirmed."""
    jump_readings: Annotated[int, Meta(ge=1, le=1000)] = 3
    """Readings that confirm such a jump."""
    unit_readings: Annotated[int, Meta(ge=1, le=10000)] = 60
    """Readings that confirm it where half of all series jump at once, as when a unit changes."""
    max_temperature_celsius: Annotated[int, Meta(ge=1, le=1000)] = 150
    """Hotter is not plausible."""
    max_latency_seconds: Annotated[int, Meta(ge=1, le=3600)] = 60
    """Slower is not plausible."""
    max_bandwidth_bytes_per_second: Annotated[float, Meta(ge=1, le=MAX_BYTES_PER_SECOND, extra=QUANTITY)] = 1e13
    """Faster is not plausible."""


class NodeOverride(Spec, frozen=True):
    """What an administrator knows better of one node; fields left out stay as found."""

    name: Name253
    """Name of the node."""
    gpu_product: Annotated[str, Meta(min_length=1, max_length=63)] | None = None
    """Instead of nvidia.com/gpu.product."""
    gpu_memory: Annotated[int, Meta(ge=2**20, le=16 * 2**40, extra=QUANTITY)] | None = None
    """Memory of one GPU, such as 24Gi, instead of nvidia.com/gpu.memory."""
    network_bytes_per_second: Annotated[float, Meta(ge=1, le=MAX_BYTES_PER_SECOND, extra=QUANTITY)] | None = None
    """What one of its network cards carries; without networkCards all of them together, instead of what exporters and tables say."""
    network_cards: Annotated[int, Meta(ge=1, le=MAX_NETWORK_CARDS)] | None = None
    """Network cards of that speed, which GPUs use at once."""
    topology: Annotated[dict[LabelKey, LabelValue], Meta(max_length=15)] = field(default_factory=dict)
    """Topology labels that count instead of the node's own; they match no node selector."""


class LinkOverride(Spec, frozen=True):
    """What an administrator knows better of a link, or of all links between two topology domains."""

    source: Annotated[str, Meta(min_length=1, max_length=253)]
    """Node name; with level, a value of that label."""
    destination: Annotated[str, Meta(min_length=1, max_length=253)]
    """Likewise; the same as source means inside one domain."""
    level: LabelKey | None = None
    """Topology label whose domains are meant; without it, nodes are."""
    latency_nanoseconds: Annotated[int, Meta(ge=0, le=3600 * NANOSECONDS)] | None = None
    """One way."""
    bandwidth_bytes_per_second: Annotated[float, Meta(ge=1, le=MAX_BYTES_PER_SECOND, extra=QUANTITY)] | None = None
    """Sustained, one way."""
    one_way: bool = False
    """True where the way back is another matter."""

    @property
    def latency_seconds(self) -> float | None:
        """Seconds, one way."""
        return _seconds(self.latency_nanoseconds)


class UplinkOverride(Spec, frozen=True):
    """What the uplinks of a topology domain carry: all traffic between its nodes and others shares them. Write one of both figures."""

    level: LabelKey
    """Topology label, such as that of a leaf switch or a zone."""
    domain: Annotated[str, Meta(max_length=253)] = ""
    """Value of that label; empty means every domain of the level that no other entry names."""
    bytes_per_second: Annotated[float, Meta(ge=1, le=MAX_BYTES_PER_SECOND, extra=QUANTITY)] | None = None
    """One way, all uplinks of the domain together."""
    oversubscription: Annotated[float, Meta(ge=1, le=MAX_OVERSUBSCRIPTION, extra=DECIMAL)] | None = None
    """What the network cards of the domain's GPU nodes carry together, over what its uplinks carry."""


class Overrides(Spec, frozen=True):
    """Figures that count before anything measured or labelled."""

    nodes: Annotated[tuple[NodeOverride, ...], Meta(max_length=512)] = ()
    """Nodes, one entry for each name."""
    links: Annotated[tuple[LinkOverride, ...], Meta(max_length=1024)] = ()
    """Links; pairs of nodes before domains, then the first that fits."""
    uplinks: Annotated[tuple[UplinkOverride, ...], Meta(max_length=256)] = ()
    """Uplinks of topology domains, each level and domain once."""


class QueueOrder(enum.StrEnum):
    """Who decides which pending job starts next, with how many workers."""

    AUTO = "Auto"
    """The trained agent where its weights were judged on streams like this cluster's, else the index rule."""
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

    mode: PreemptionMode = PreemptionMode.ADVISE
    """What to do when a stop pays; with order Arrival nothing is stopped."""
    check_period_seconds: Annotated[int, Meta(ge=5, le=86400)] = 60
    """How often it is asked while jobs are pending."""
    hold_down_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] = 600
    """A job is not stopped sooner after its last start."""
    min_gain_percent: Annotated[int, Meta(ge=0, le=10_000)] = 10
    """Minimum gain per preemption: total completion time saved, in percent of an average job duration."""
    max_jobs: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """Most running jobs that one check may stop or resize; unset means any number."""

    @property
    def min_gain_ratio(self) -> float:
        """`min_gain_percent` as a ratio, 0..100."""
        return self.min_gain_percent / 100


class QueuePolicy(Spec, frozen=True):
    """Order and size of pending jobs that no external queue owns."""

    order: QueueOrder = QueueOrder.AUTO
    """Who decides which pending job starts next."""
    min_scaling_exponent: Annotated[float, Meta(ge=0, le=1, extra=DECIMAL)] = 0.15
    """α: a larger worker count must shorten the run by the ratio of counts to this power."""
    min_scaling_exponent_alone: Annotated[float, Meta(ge=0, le=1, extra=DECIMAL)] = 0.23
    """α where only one job is pending, which leaves more GPUs to later jobs."""
    max_start_slowdown: Annotated[float, Meta(ge=1, le=1000, extra=DECIMAL)] = 4.0
    """Start only where a run of mean length takes at most this multiple of its time on the empty cluster."""
    start_slowdown_size_exponent: Annotated[float, Meta(ge=0, le=1, extra=DECIMAL)] = 0.2
    """ε: longer jobs wait for better nodes, by the power -ε of their length over the mean; 0 treats all alike."""
    min_wait_speedup: Annotated[float, Meta(ge=0, le=1000, extra=DECIMAL)] = 1.5
    """θ: wait for running jobs that end soon where a job of mean length ends this many times sooner that way; 0 means never."""
    communication_factor: Annotated[float, Meta(ge=0, le=10, extra=DECIMAL)] = 1.5
    """κ: how much more than its seconds communication counts at a start; 0 counts seconds alone."""
    max_queue_weight: Annotated[int, Meta(ge=1, le=1000)] = 1000
    """Most that queueWeight counts: authors write it themselves; 1 makes all jobs equal."""
    starvation_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] = 86400
    """A job that has waited longer goes first on good nodes, after twice that before all others; 0 means never."""
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

    mode: MigrationMode = MigrationMode.ADVISE
    """What to do when a migration pays."""
    check_period_seconds: Annotated[int, Meta(ge=5, le=86400)] = 60
    """How often a running plan is scored on fresh measurements."""
    min_gain_percent: Annotated[int, Meta(ge=0, le=99)] = 10
    """A migration must shorten the remaining time by at least this percentage."""
    hold_down_seconds: Annotated[int, Meta(ge=0, le=86400)] = 600
    """The gain must last this long, and so must the time since the last migration."""
    restart_seconds: Annotated[int, Meta(ge=0, le=86400)] = 60
    """Cost of a migration: stop, start and load; work since the last checkpoint is added."""
    worker_reload_seconds: Annotated[int, Meta(ge=0, le=86400)] = 5
    """Further cost of every worker that changes its node: it loads its data again."""
    max_migrated_workers: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """Most workers that one migration may move."""

    @property
    def min_gain_ratio(self) -> float:
        """`min_gain_percent` as a ratio, 0..0.99."""
        return self.min_gain_percent / 100


EXPLORATION: Final = 35
"""Percent."""


class HistoryPlacement(enum.StrEnum):
    """What the speeds that finished runs teach are used for."""

    APPLY = "Apply"
    """Choose placements and worker counts by them."""
    REPORT = "Report"
    """Correct printed predictions only; tables and measurements choose."""


class HistoryPolicy(Spec, frozen=True):
    """What finished runs may change."""

    placement: HistoryPlacement = HistoryPlacement.APPLY
    """Whether history chooses placements; it needs a database of finished runs."""
    max_exploration_percent: Annotated[int, Meta(ge=0, le=100)] = EXPLORATION
    """A placement on hardware that few runs have tried counts as up to so much faster than expected; 0 explores nothing."""


class PolicySpec(Spec, frozen=True):
    """`PlannerPolicy.spec`: how plans are made and judged in this cluster."""

    communication_weight: Annotated[float, Meta(ge=0, le=1000, extra=DECIMAL)] = 0.1
    """λ: weight of communication seconds in the objective."""
    tolerance_percent: Annotated[int, Meta(ge=0, le=50)] = 1
    """Plans that differ by no more are equal: the cheaper wins, then the one that strands fewer GPUs, then that which leaves fewer idle."""
    planners: Annotated[tuple[PlannerChoice, ...], Meta(min_length=1, max_length=len(PlannerChoice))] = tuple(PlannerChoice)
    """Planners that jobs may ask for."""
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    """Seed of every planner; the same seed and snapshot give the same plan."""
    plan_deadline_seconds: Annotated[int, Meta(ge=1, le=600)] = 5
    """Longest time for one plan, all candidates together; then the next fallback answers."""
    metrics_timeout_seconds: Annotated[int, Meta(ge=1, le=60)] = 5
    """Longest time for one metrics query."""
    scheduling_timeout_seconds: Annotated[int, Meta(ge=1, le=86400)] = 300
    """From a rank's open gate to its node; then all ranks of the job are released.

    kube-scheduler tries every unschedulable pod again within 5 minutes: a rank was refused at least twice by then.
    """
    queue: QueuePolicy = QueuePolicy()
    migration: MigrationPolicy = MigrationPolicy()
    evaluation: EvaluationPolicy = EvaluationPolicy()
    preferences: PreferencePolicy = PreferencePolicy()
    history: HistoryPolicy = HistoryPolicy()
    queries: MetricQueries = MetricQueries()
    limits: QualityLimits = QualityLimits()
    overrides: Overrides = Overrides()
    topology_levels: Annotated[tuple[LabelKey, ...], Meta(max_length=15)] = ()
    """Node label keys, widest first, without hostname; empty detects them."""
    gpus: Annotated[tuple[GpuModel, ...], Meta(max_length=64)] = ()
    """Speeds and prices that override the built-in table."""


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / NANOSECONDS
