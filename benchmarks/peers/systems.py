"""Predicted time of one training step under Hulk's Systems A, B and C (arXiv 2302.13741, section 6.4), and of GPipe on a group.

A machine is 8 GPUs (the paper: 46 servers, 368 GPUs), its memory column all of them together; inside a machine talking is free. Everyone
gets the best of what its kind allows: the pipeline's machines in the order whose dearest hop is cheapest, layers in proportion to speed
as far as memory allows, the best number of micro-batches, the cheaper of ring and parameter server. Nothing overlaps: a stage computes,
then sends.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from benchmarks.peers.hulk import Floats, Ints, Machines
from hyperscale.planner.assign.order import bottleneck

TERAFLOPS: Final = {8.0: 312.0, 8.6: 110.0, 7.5: 65.0, 7.0: 125.0, 6.1: 11.0}
"""Dense half precision of one GPU by compute capability: A100; between A5000's and A40's; T4; V100; 1080 Ti
and TITAN Xp (single precision)."""
GPUS: Final = 8
EFFICIENCY: Final = 0.35
"""Part of the peak that training reaches, everywhere alike."""
STATE_BYTES: Final = 16.0
"""Memory of a parameter: half-precision weight and gradient, single-precision weight and two moments of
Adam. Activations are not counted."""
VALUE_BYTES: Final = 2.0
"""A gradient or an activation on the wire."""
EVEN: Final = (1.2, 1.5, 2.0, 3.0)
"""Largest parts of a model over an even part that are tried where pipelines exchange gradients."""
ROUNDS: Final = 3
"""Times that the batch is divided again by the pace that the last division gave."""
GB: Final = 1e9


@dataclasses.dataclass(frozen=True)
class Model:
    """One task; batch and length as in the model's own paper."""

    name: str
    parameters: float
    layers: int
    width: int
    sequences: int
    length: int

    @property
    def work(self) -> float:
        """Operations of one step: 6 a parameter and token."""
        return 6.0 * self.parameters * self.sequences * self.length

    @property
    def activation_bytes(self) -> float:
        """What one cut between two layers carries forward in one step."""
        return self.sequences * self.length * self.width * VALUE_BYTES

    @property
    def memory_gb(self) -> float:
        """Its state."""
        return self.parameters * STATE_BYTES / GB


SIX: Final = (
    Model("OPT-175B", 175e9, 96, 12288, 1024, 2048),
    Model("T5-11B", 11e9, 48, 1024, 128, 512),
    Model("GPT-2 1.5B", 1.5e9, 48, 1600, 512, 1024),
    Model("BERT-large", 340e6, 24, 1024, 256, 512),
    Model("RoBERTa", 355e6, 24, 1024, 8192, 512),
    Model("XLNet", 340e6, 24, 1024, 8192, 512),
)


@dataclasses.dataclass(frozen=True)
class Network:
    """What the data do not say."""

    bits_per_second: float
    blocking: bool = True
    """Whether every message waits for the latency of the one before; else latency counts once a hop."""


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of one model; both infinite where it cannot run."""

    seconds: float
    communication: float


CANNOT: Final = Step(math.inf, math.inf)


def speeds(machines: Machines) -> Floats:
    """(machines,): operations a second."""
    return np.array([TERAFLOPS[float(capability)] for capability in machines.capability]) * 1e12 * GPUS * EFFICIENCY


def data_parallel(model: Model, machines: Machines, network: Network) -> Step:
    """System A: machines that hold the whole model share the batch in proportion to speed; then gradients are exchanged."""
    able = np.flatnonzero(machines.memory >= model.memory_gb)
    if not len(able):
        return CANNOT
    compute = model.work / float(speeds(machines)[able].sum())
    exchange = allreduce(machines.cost[np.ix_(able, able)] / 1e3, model.parameters * VALUE_BYTES, network, 1)
    return Step(compute + exchange, exchange)


def tensor_parallel(model: Model, machines: Machines, network: Network) -> Step:
    """System C: every layer over all machines in proportion to their speed; four exchanges of all activations a layer, two each way."""
    everyone = np.arange(len(machines.memory))
    if machines.memory.sum() < model.memory_gb:
        return CANNOT
    compute = model.work / float(speeds(machines)[everyone].sum())
    exchange = 4.0 * model.layers * allreduce(machines.cost / 1e3, model.activation_bytes, network, 1)
    return Step(compute + exchange, exchange)


def allreduce(latency: Floats, size_bytes: float, network: Network, messages: int) -> float:
    """Seconds of the cheaper of a ring in the best order and a parameter server in the best place."""
    members = len(latency)
    if members == 1:
        return 0.0
    wire = size_bytes * 8.0 / network.bits_per_second
    rounds = 2 * (members - 1) if network.blocking else 2
    ring = rounds * messages * worst_hop(latency, closed=True) + 2.0 * (members - 1) / members * wire
    server = 2.0 * messages * float(latency.max(axis=1).min()) + 2.0 * (members - 1) * wire
    return min(ring, server)


_KNOWN: dict[tuple[bytes, bool], float] = {}


def worst_hop(latency: Floats, closed: bool) -> float:
    """Seconds of the dearest hop of the best order."""
    key = (latency.tobytes(), closed)
    if key not in _KNOWN:
        _KNOWN[key] = bottleneck(latency, closed).worst
    return _KNOWN[key]


def pipeline(model: Model, machines: Machines, members: Ints, network: Network, hop: float | None = None, largest: float = 1.0) -> Step:
    """GPipe over a group: System B where the group is everyone.

    `hop`: the dearest hop in seconds where it is known already; `largest`: the largest part of the model that a machine may get. A
    machine whose share would be less than a layer still counts as a stage: more machines than layers cannot all be used, so the slowest
    are then left out.
    """
    speed = speeds(machines)
    members = members[np.argsort(-speed[members], kind="stable")][: model.layers]
    share = shares(speed[members], np.minimum(machines.memory[members] / model.memory_gb, largest))
    if share is None:
        return CANNOT
    compute = float((share * model.work / speed[members]).max())
    if len(members) == 1:
        return Step(compute, 0.0)
    if hop is None:
        hop = worst_hop(machines.cost[np.ix_(members, members)] / 1e3, closed=False)
    wire = model.activation_bytes * 8.0 / network.bits_per_second
    return min((_piped(compute, wire, hop, len(members), parts, network) for parts in _powers(model.sequences)), key=lambda s: s.seconds)


def pipelines(model: Model, machines: Machines, parts: Sequence[Ints], network: Network) -> Step:
    """Several GPipe pipelines that share the batch in proportion to their pace; then every machine exchanges its gradients with its likes.

    The exchange takes as long as that of the machine with the largest part of the model, over the largest latency there is between two, so
    no machine gets more than some multiple of an even part; the best of `EVEN`.
    """
    return min((_pipelines(model, machines, parts, network, even) for even in EVEN), key=lambda step: step.seconds)


def _pipelines(model: Model, machines: Machines, parts: Sequence[Ints], network: Network, even: float) -> Step:
    replicas = len(parts)
    batches = [model.sequences / replicas] * replicas
    limits = [even / min(len(part), model.layers) for part in parts]
    steps: list[Step] = []
    for _ in range(ROUNDS):
        if min(batches) < 1:
            return CANNOT
        steps = [
            pipeline(dataclasses.replace(model, sequences=math.ceil(batch)), machines, part, network, largest=limit)
            for batch, part, limit in zip(batches, parts, limits, strict=True)
        ]
        if any(math.isinf(step.seconds) for step in steps):
            return CANNOT
        pace = [batch / step.seconds for batch, step in zip(batches, steps, strict=True)]
        batches = [model.sequences * part / sum(pace) for part in pace]
    worst = max(steps, key=lambda step: step.seconds)
    everyone = np.concatenate(list(parts))
    latency = float(machines.cost[np.ix_(everyone, everyone)].max()) / 1e3
    wire = min(1.0, max(limits)) * model.parameters * VALUE_BYTES * 8.0 / network.bits_per_second
    exchange = 2.0 * (replicas - 1) * latency + 2.0 * (replicas - 1) / replicas * wire
    return Step(worst.seconds + exchange, worst.communication + exchange)


def _piped(compute: float, wire: float, hop: float, stages: int, parts: int, network: Network) -> Step:
    """`parts` micro-batches through `stages` stages, forth and back."""
    waits = hop if network.blocking else 0.0
    talk = (parts + stages - 1) * 2.0 * (waits + wire / parts) + (0.0 if network.blocking else 2.0 * (stages - 1) * hop)
    return Step((parts + stages - 1) * compute / parts + talk, talk)


def _powers(most: int) -> list[int]:
    return [1 << power for power in range(int(math.log2(most)) + 1)]


def shares(speed: Floats, most: Floats) -> Floats | None:
    """Parts of a model in proportion to speed, none above `most`; None where the group cannot hold it."""
    if most.sum() < 1.0:
        return None
    share = np.zeros(len(speed))
    free = np.ones(len(speed), dtype=np.bool_)
    while True:
        share[free] = speed[free] / speed[free].sum() * (1.0 - share[~free].sum())
        over = free & (share > most)
        if not over.any():
            return share
        share[over] = most[over]
        free &= ~over
        if not free.any():
            return share
