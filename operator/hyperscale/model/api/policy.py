"""What an administrator tunes: the types behind `PlannerPolicy.spec`, and the one source of its CRD schema."""

from __future__ import annotations

import enum
from typing import Annotated, Final

from msgspec import Meta, field

from hyperscale.model.api.job import LabelKey, LabelValue, Name253, PlannerChoice, Spec


class GpuModel(Spec, frozen=True):
    """Speed, price and inside of nodes of one GPU product; figures left out stay as built in or measured."""

    product: Annotated[str, Meta(min_length=1, max_length=63, description="nvidia.com/gpu.product value or a prefix of it.")]
    teraflops: (
        Annotated[float, Meta(gt=0, le=100000, description="Sustained TFLOP/s on GNN training (not the data sheet's peak).")] | None
    ) = None
    price_per_hour: Annotated[float, Meta(ge=0, le=100000, description="Price of one GPU hour, any currency.")] | None = None
    inside_bytes_per_second: Annotated[float, Meta(gt=0, le=1e15, description="Between two GPUs of a node, sustained, one way.")] | None = (
        None
    )
    inside_latency_seconds: Annotated[float, Meta(ge=0, le=1, description="Between two GPUs of a node, one way.")] | None = None


CARDS: Final = 'device!~"lo|bonding_masters|(veth|cali|cilium|lxc|docker|br-|cni|flannel|tunl|vxlan|kube-|nodelocal|virbr|dummy|ifb|wg).*"'
"""Leaves out of node-exporter's devices those that are no network cards of the machine."""


class MetricQueries(Spec, frozen=True):
    """PromQL by figure; an empty string switches the figure off."""

    gpu_utilization: Annotated[str, Meta(max_length=1024, description="Percent, 0..100.")] = "DCGM_FI_DEV_GPU_UTIL"
    memory_used: Annotated[str, Meta(max_length=1024, description="MiB.")] = "DCGM_FI_DEV_FB_USED"
    memory_free: Annotated[str, Meta(max_length=1024, description="MiB.")] = "DCGM_FI_DEV_FB_FREE"
    memory_reserved: Annotated[str, Meta(max_length=1024, description="MiB.")] = "DCGM_FI_DEV_FB_RESERVED"
    temperature: Annotated[str, Meta(max_length=1024, description="Degrees Celsius.")] = "DCGM_FI_DEV_GPU_TEMP"
    power: Annotated[str, Meta(max_length=1024, description="Watts.")] = "DCGM_FI_DEV_POWER_USAGE"
    xid: Annotated[str, Meta(max_length=1024, description="Number of the last XID error.")] = "DCGM_FI_DEV_XID_ERRORS"
    link_latency: Annotated[str, Meta(max_length=1024, description="Seconds one way, labels source and destination.")] = (
        "hyperscale_link_latency_seconds"
    )
    link_bandwidth: Annotated[str, Meta(max_length=1024, description="Bytes a second, labels source and destination.")] = (
        "hyperscale_link_bandwidth_bytes_per_second"
    )

    link_loss: Annotated[
        str,
        Meta(max_length=1024, description="Part of the probes that got no answer, 0..1; 1 is a dead link; labels source and destination."),
    ] = "hyperscale_link_probe_loss_ratio"
    agent_state: Annotated[str, Meta(max_length=1024, description="Any series of the node agents: tells theirs from other exporters'.")] = (
        "hyperscale_agent_state"
    )
    gpu_paths: Annotated[
        str, Meta(max_length=1024, description="Fewest NVLinks between two GPUs of a node, 1 for other ways; labels node and kind.")
    ] = "min by (node, kind) (hyperscale_gpu_path)"
    network_speed: Annotated[str, Meta(max_length=1024, description="Bytes a second that a network card can carry.")] = (
        f"node_network_speed_bytes{{{CARDS}}}"
    )
    network_received: Annotated[str, Meta(max_length=1024, description="Bytes a second that a network card receives.")] = (
        f"rate(node_network_receive_bytes_total{{{CARDS}}}[2m])"
    )
    network_sent: Annotated[str, Meta(max_length=1024, description="Bytes a second that a network card sends.")] = (
        f"rate(node_network_transmit_bytes_total{{{CARDS}}}[2m])"
    )
    infiniband_speed: Annotated[str, Meta(max_length=1024, description="Bytes a second that an InfiniBand port can carry.")] = (
        "node_infiniband_rate_bytes_per_second"
    )
    infiniband_received: Annotated[str, Meta(max_length=1024, description="Bytes a second that an InfiniBand port receives.")] = (
        "rate(node_infiniband_port_data_received_bytes_total[2m])"
    )
    infiniband_sent: Annotated[str, Meta(max_length=1024, description="Bytes a second that an InfiniBand port sends.")] = (
        "rate(node_infiniband_port_data_transmitted_bytes_total[2m])"
    )


class QualityLimits(Spec, frozen=True):
    """Beyond these a sample counts as unknown."""

    max_age_seconds: Annotated[float, Meta(gt=0, le=86400, description="Older samples are stale.")] = 120.0
    settle_seconds: Annotated[
        float, Meta(ge=0, le=900, description="A GPU's reading so soon after its pod's end may still be the pod's: exporters cache.")
    ] = 30.0
    window_readings: Annotated[
        int, Meta(ge=1, le=15, description="Readings whose median is a link's figure; the agent's own figures are taken as they are.")
    ] = 3
    freeze_readings: Annotated[
        int, Meta(ge=3, le=10000, description="A busy GPU whose use, power and temperature stay the same so often is not being read.")
    ] = 20
    jump_ratio: Annotated[
        float, Meta(ge=2, le=1e9, description="A figure that leaves its own history by this factor at once has to be confirmed.")
    ] = 100.0
    jump_readings: Annotated[int, Meta(ge=1, le=1000, description="Readings that confirm such a jump.")] = 3
    unit_readings: Annotated[
        int, Meta(ge=1, le=10000, description="Readings that confirm it where half of all series jump at once, as when a unit changes.")
    ] = 60
    max_temperature_celsius: Annotated[float, Meta(gt=0, le=1000, description="Hotter is not plausible.")] = 150.0
    max_latency_seconds: Annotated[float, Meta(gt=0, le=3600, description="Slower is not plausible.")] = 60.0
    max_bandwidth_bytes_per_second: Annotated[float, Meta(gt=0, le=1e15, description="Faster is not plausible.")] = 1e13


class NodeOverride(Spec, frozen=True):
    """What an administrator knows better of one node; fields left out stay as found."""

    name: Annotated[Name253, Meta(description="Name of the node.")]
    gpu_product: Annotated[str, Meta(min_length=1, max_length=63, description="Instead of nvidia.com/gpu.product.")] | None = None
    gpu_memory_mib: (
        Annotated[int, Meta(ge=1, le=16_777_216, description="Memory of one GPU in MiB, instead of nvidia.com/gpu.memory.")] | None
    ) = None
    network_bytes_per_second: (
        Annotated[float, Meta(gt=0, le=1e15, description="What its fastest network card carries, instead of node-exporter's word.")] | None
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
    latency_seconds: Annotated[float, Meta(ge=0, le=3600, description="One way.")] | None = None
    bandwidth_bytes_per_second: Annotated[float, Meta(gt=0, le=1e15, description="Sustained, one way.")] | None = None
    one_way: Annotated[bool, Meta(description="True where the way back is another matter.")] = False


class Overrides(Spec, frozen=True):
    """Figures that count before anything measured or labelled."""

    nodes: Annotated[tuple[NodeOverride, ...], Meta(max_length=512, description="Nodes; the last entry of a name counts.")] = field(
        default_factory=tuple
    )
    links: Annotated[
        tuple[LinkOverride, ...], Meta(max_length=1024, description="Links; pairs of nodes before domains, then the first that fits.")
    ] = field(default_factory=tuple)


class Deadlines(Spec, frozen=True):
    """Longest times; a stage that misses its own is answered by the next fallback."""

    plan_seconds: Annotated[float, Meta(gt=0, le=600, description="One plan, all candidates together.")] = 5.0
    metrics_seconds: Annotated[float, Meta(gt=0, le=60, description="One metrics query.")] = 5.0
    scheduling_seconds: Annotated[
        int, Meta(ge=1, le=86400, description="From a rank's open gate to its node; then all ranks of the job are released.")
    ] = 300
    """kube-scheduler tries every unschedulable pod again within 5 minutes: a rank was refused at least twice by then."""


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

    OFF = "Off"
    ADVISE = "Advise"
    """Say so in the running job's status."""
    ACT = "Act"
    """Stop it; it continues from its last checkpoint when its turn in the queue comes."""


class PreemptionPolicy(Spec, frozen=True):
    """When a running job is stopped for others; the price of a restart is `replan.restartSeconds` and the work done again."""

    mode: Annotated[PreemptionMode, Meta(description="What to do when a stop pays; with order Arrival nothing is stopped.")] = (
        PreemptionMode.ADVISE
    )
    check_seconds: Annotated[float, Meta(ge=5, le=86400, description="How often it is asked while jobs are pending.")] = 60.0
    hold_down_seconds: Annotated[float, Meta(ge=0, le=31_536_000, description="A job is not stopped sooner after its last start.")] = 600.0
    min_gain_ratio: Annotated[
        float,
        Meta(ge=0, le=100, description="Minimum gain per preemption: total completion time saved, in average job durations."),
    ] = 0.1


class QueuePolicy(Spec, frozen=True):
    """Order and size of pending jobs that no external queue owns."""

    order: Annotated[QueueOrder, Meta(description="Who decides which pending job starts next.")] = QueueOrder.RULE
    thrift: Annotated[
        float, Meta(ge=0, le=1, description="α: a larger worker count must shorten the run by the ratio of counts to this power.")
    ] = 0.02
    thrift_alone: Annotated[float, Meta(ge=0, le=1, description="α where only one job is pending: those to come are left more.")] = 0.21
    patience: Annotated[
        float, Meta(ge=1, le=1000, description="Start only where the run takes at most this multiple of its time on the empty cluster.")
    ] = 2.6
    max_priority: Annotated[
        int, Meta(ge=1, le=1000, description="Most that queueWeight counts: authors write it themselves; 1 makes all jobs equal.")
    ] = 1000
    starvation_seconds: Annotated[
        float, Meta(ge=0, le=31_536_000, description="A job that has waited longer goes first; 0 means never.")
    ] = 86400.0
    preemption: PreemptionPolicy = PreemptionPolicy()


class ReplanMode(enum.StrEnum):
    """What happens when a running job would be faster elsewhere."""

    OFF = "Off"
    ADVISE = "Advise"
    """Say so in the job's status."""
    ACT = "Act"
    """Restart it there from its last checkpoint."""


class ReplanPolicy(Spec, frozen=True):
    """When a running job is worth moving."""

    mode: Annotated[ReplanMode, Meta(description="What to do when a move pays.")] = ReplanMode.ADVISE
    check_seconds: Annotated[float, Meta(ge=5, le=86400, description="How often a running plan is scored on fresh measurements.")] = 60.0
    min_gain_ratio: Annotated[
        float, Meta(ge=0, le=0.99, description="A move must shorten the remaining time by at least this part of it.")
    ] = 0.1
    hold_down_seconds: Annotated[
        float, Meta(ge=0, le=86400, description="The gain must have been there for so long, and so long after the last move.")
    ] = 600.0
    restart_seconds: Annotated[
        float, Meta(ge=0, le=86400, description="Price of a move: stop, start and load; work since the last checkpoint is added.")
    ] = 60.0
    move_seconds: Annotated[
        float, Meta(ge=0, le=86400, description="Further price of every worker that changes its node: data to load again.")
    ] = 5.0
    max_moves: Annotated[int, Meta(ge=1, le=1000, description="Most workers that one new plan may move.")] | None = None


class PolicySpec(Spec, frozen=True):
    """`PlannerPolicy.spec`: how plans are made and judged in this cluster."""

    communication_weight: Annotated[float, Meta(ge=0, le=1000, description="λ: weight of communication seconds in the objective.")] = 0.1
    tolerance_percent: Annotated[
        int,
        Meta(
            ge=0, le=50, description="Plans that differ by no more are equal: the cheaper wins, then the one that leaves fewer GPUs idle."
        ),
    ] = 1
    planners: Annotated[tuple[PlannerChoice, ...], Meta(min_length=1, max_length=4, description="Planners that jobs may ask for.")] = (
        PlannerChoice.AUTO,
        PlannerChoice.LEARNED,
        PlannerChoice.HEURISTIC,
        PlannerChoice.NONE,
    )
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Seed of every planner; the same seed and snapshot give the same plan.")] = 0
    deadlines: Deadlines = Deadlines()
    queue: QueuePolicy = QueuePolicy()
    replan: ReplanPolicy = ReplanPolicy()
    queries: MetricQueries = MetricQueries()
    limits: QualityLimits = QualityLimits()
    overrides: Overrides = Overrides()
    topology_levels: Annotated[
        tuple[LabelKey, ...], Meta(max_length=15, description="Node label keys, widest first, without hostname; empty detects them.")
    ] = field(default_factory=tuple)
    gpus: Annotated[tuple[GpuModel, ...], Meta(max_length=64, description="Speeds and prices that override the built-in table.")] = field(
        default_factory=tuple
    )
