"""Seeded clusters as plain arrays, and workloads to match: what is learned from and, with other seeds, measured on. Pure.

Five families of n nodes, one job with k workers of `GPUS_PER_WORKER` GPUs each:
  geo      cities of the world: latency by great-circle distance, bandwidth falling with it, fast links inside a city
  fattree  racks, pods, core: latency by common level, oversubscribed above the rack, one product a rack
  zones    three to six zones of mixed machines, some with room for two workers; a zone may have slow links
  random   links without structure, log-normal over two orders of magnitude
  wan      few cities, no bandwidth advantage inside a city, pairs of cities that cannot talk at all (like Hulk's graph)
Workloads: `hyperscale.learn.workloads`.
Training takes seeds from `TRAINING_SEEDS` on, validation from `VALIDATION_SEEDS`, benchmarks below both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from hyperscale.learn.cities import CITIES
from hyperscale.learn.workloads import scale_of, workload_at
from hyperscale.model.api.job import Balance
from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.cost.objective import Costs
from hyperscale.planner.graph.inside import observed
from hyperscale.planner.problem.placement_problem import USABLE_MEMORY_RATIO
from hyperscale.planner.problem.speeds import TERAFLOPS

GPUS_PER_WORKER: Final = 4
TRAINING_SEEDS: Final = 1_000_000
VALIDATION_SEEDS: Final = 500_000
GIB: Final = 1024**3


class Product(NamedTuple):
    """A GPU that the generated clusters have."""

    name: str
    """nvidia.com/gpu.product."""
    model: str
    """Key of `hyperscale.planner.problem.speeds.TERAFLOPS`."""
    memory_gib: int


PRODUCTS: Final = (
    Product("NVIDIA-H100-80GB-HBM3", "H100", 80),
    Product("NVIDIA-A100-SXM4-80GB", "A100", 80),
    Product("NVIDIA-A40", "A40", 48),
    Product("Tesla-V100-SXM2-32GB", "V100", 32),
    Product("Tesla-T4", "T4", 15),
)


EARTH_KILOMETRES: Final = 6371.0
FIBRE_KILOMETRES_PER_SECOND: Final = 130_000.0
"""Light in fibre along real routes: about two thirds of its speed, and half as long again as the great circle."""
BLOCKED_RATIO: Final = 0.25
"""wan: part of the pairs of cities outside the core that cannot talk."""
CORE_RATIO: Final = 0.6
"""wan: part of the nodes in cities that can all talk to each other, so that an answer exists."""


@dataclass(frozen=True)
class Topology:
    """A cluster of n nodes. Links are the same in both directions."""

    family: str
    products: IntArray
    """(n,) positions in PRODUCTS."""
    utilization: FloatArray
    """(n,) 0..1 in whole percents, of the free GPUs."""
    slots: IntArray
    """(n,) workers that fit."""
    latency_seconds: FloatArray
    """(n, n) one way; the diagonal is inside the machine, 0 where blocked."""
    seconds_per_byte: FloatArray
    """(n, n) inverse bandwidth; 1 where blocked."""
    blocked: BoolArray
    """(n, n) True where two nodes cannot talk."""
    levels: tuple[str, ...]
    """Label keys of the topology levels, widest first."""
    domains: IntArray
    """(n, levels) number of the domain, unique within its level."""

    @property
    def flops_per_second(self) -> FloatArray:
        """(n,) of one worker."""
        speed = np.array([TERAFLOPS[product.model] * 1e12 for product in PRODUCTS])[self.products]
        free: FloatArray = speed * (1.0 - self.utilization) * GPUS_PER_WORKER
        return free

    @property
    def memory_bytes(self) -> FloatArray:
        """(n,) usable memory of one GPU."""
        sizes = np.array([float(product.memory_gib * GIB) for product in PRODUCTS])[self.products]
        usable: FloatArray = sizes * USABLE_MEMORY_RATIO
        return usable


class ClusterInstance(NamedTuple):
    """One placement problem in arrays."""

    topology: Topology
    workload: WorkloadProfile
    balance: Balance
    costs: Costs
    workers: int


def instance(family: str, nodes: int, workers: int, seed: int, communication_weight: float = 0.1) -> ClusterInstance:
    """Cluster, workload and costs of one seed. Odd seeds balance Equal, even ones Capacity."""
    topology = generate(family, nodes, seed)
    workload = workload_for(topology, workers, seed)
    balance = Balance.EQUAL if seed % 2 else Balance.CAPACITY
    return ClusterInstance(topology, workload, balance, costs_of(topology, workload, balance, communication_weight), workers)


def generate(family: str, nodes: int, seed: int) -> Topology:
    """A cluster of one of `FAMILIES`; raises KeyError for another name."""
    return FAMILIES[family](nodes, _generator(family, nodes, seed))


def costs_of(topology: Topology, workload: WorkloadProfile, balance: Balance, communication_weight: float = 0.1) -> Costs:
    """The costs that the product derives from the same cluster as a snapshot."""
    return Costs(
        flops_per_second=topology.flops_per_second,
        memory_bytes=topology.memory_bytes,
        latency_seconds=topology.latency_seconds,
        seconds_per_byte=topology.seconds_per_byte,
        blocked=topology.blocked,
        workload=workload,
        gpus_per_worker=GPUS_PER_WORKER,
        balance=balance,
        communication_weight=communication_weight,
    )


def workload_for(topology: Topology, workers: int, seed: int) -> WorkloadProfile:
    """A job sized for `topology`; see `workload_at`."""
    idle = WorkloadProfile(1, 1, 1.0, 0.0, 0.0, 0.0, None, 0, 0.0, 0.0, 0.0, 0.0)
    return workload_at(scale_of(costs_of(topology, idle, Balance.EQUAL)), workers, seed)


def _generator(family: str, nodes: int, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, nodes, *family.encode()])


def _geo(nodes: int, rng: np.random.Generator) -> Topology:
    """About a node in three starts a new city, up to 12; noise of a third on every pair of cities."""
    count = int(np.clip(nodes // 3, 2, 12))
    chosen = rng.choice(len(CITIES), size=count, replace=False)
    home = _homes(nodes, count, rng)
    latency, per_byte = _between_cities(chosen, rng)
    inside = 1e-4 * rng.lognormal(0.0, 0.5, count), 1.0 / (1.25e9 * rng.lognormal(0.0, 0.5, count))
    np.fill_diagonal(latency, inside[0])
    np.fill_diagonal(per_byte, inside[1])
    return _topology("geo", rng, latency[home][:, home], per_byte[home][:, home], ("topology.kubernetes.io/region",), home[:, None])


def _fattree(nodes: int, rng: np.random.Generator) -> Topology:
    """Racks of 4 to 8, pods of 2 to 4 racks; every level up is slower by latency and by oversubscription."""
    rack_of = np.arange(nodes) // int(rng.integers(4, 9))
    pod_of = rack_of // int(rng.integers(2, 5))
    level = np.where(rack_of[:, None] == rack_of[None, :], 0, np.where(pod_of[:, None] == pod_of[None, :], 1, 2))
    latency = np.array([1e-5, 3e-5, 8e-5])[level] * _symmetric(rng.lognormal(0.0, 0.15, level.shape))
    oversubscription = np.array([1.0, rng.uniform(1.0, 4.0), rng.uniform(4.0, 12.0)])
    per_byte = oversubscription[level] / 12.5e9 * _symmetric(rng.lognormal(0.0, 0.15, level.shape))
    slow = _symmetric(rng.random(level.shape)) < 0.03
    product = rng.integers(len(PRODUCTS), size=int(rack_of[-1]) + 1)[rack_of]
    levels = ("fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0")
    domains = np.stack((pod_of, rack_of), axis=1)
    return _topology("fattree", rng, latency, np.where(slow, 8.0 * per_byte, per_byte), levels, domains, product)


def _zones(nodes: int, rng: np.random.Generator) -> Topology:
    """Zones of one region with links of their own quality; a quarter of the machines has room for two workers."""
    count = int(rng.integers(3, 7))
    home = _homes(nodes, count, rng)
    same = home[:, None] == home[None, :]
    own = rng.lognormal(0.0, 0.7, count)
    latency = np.where(same, 1.5e-4, 1e-3) * _symmetric(rng.lognormal(0.0, 0.2, same.shape)) * np.where(same, own[home][:, None], 1.0)
    rate = np.where(same, 3.125e9 / own[home][:, None], 1.25e9) * _symmetric(rng.lognormal(0.0, 0.2, same.shape))
    slots = np.where(rng.random(nodes) < 0.25, 2, 1)
    return _topology("zones", rng, latency, 1.0 / rate, ("topology.kubernetes.io/zone",), home[:, None], slots=slots)


def _random(nodes: int, rng: np.random.Generator) -> Topology:
    """Every pair drawn on its own."""
    latency = 1e-4 * _symmetric(rng.lognormal(0.0, 1.0, (nodes, nodes)))
    per_byte = 1.0 / (3e9 * _symmetric(rng.lognormal(0.0, 1.0, (nodes, nodes))))
    return _topology("random", rng, latency, per_byte, (), np.zeros((nodes, 0), dtype=np.int64))


def _wan(nodes: int, rng: np.random.Generator) -> Topology:
    """Cities of which some cannot talk to each other; bandwidth is a machine's own uplink, the same near and far."""
    count = int(np.clip(nodes // 4, 3, 10))
    core = max(2, count // 2)
    chosen = rng.choice(len(CITIES), size=count, replace=False)
    anchored = int(np.ceil(CORE_RATIO * nodes))
    home = np.concatenate((rng.integers(core, size=anchored), rng.integers(count, size=nodes - anchored)))
    home = np.sort(home)
    latency, _ = _between_cities(chosen, rng)
    np.fill_diagonal(latency, 5e-4 * rng.lognormal(0.0, 0.5, count))
    outside = (np.arange(count) >= core)[:, None] | (np.arange(count) >= core)[None, :]
    apart = outside & (_symmetric(rng.random((count, count))) < BLOCKED_RATIO) & ~np.eye(count, dtype=np.bool_)
    uplink = 1.0 / (2.5e8 * rng.lognormal(0.0, 0.7, nodes))
    per_byte = np.maximum(uplink[:, None], uplink[None, :])
    noise = _symmetric(rng.lognormal(0.0, 0.1, (nodes, nodes)))
    return _topology("wan", rng, latency[home][:, home] * noise, per_byte, ("city",), home[:, None], blocked=apart[home][:, home])


def _topology(
    family: str,
    rng: np.random.Generator,
    latency: FloatArray,
    per_byte: FloatArray,
    levels: tuple[str, ...],
    domains: IntArray,
    products: IntArray | None = None,
    slots: IntArray | None = None,
    blocked: BoolArray | None = None,
) -> Topology:
    """Nodes with products, load and links; what is not given is drawn. Figures keep 6 digits, as a measurement would."""
    nodes = len(latency)
    inside = np.eye(nodes, dtype=np.bool_)
    apart: BoolArray = np.zeros_like(inside) if blocked is None else blocked
    load = np.clip(rng.normal(0.15, 0.2, nodes), 0.0, 0.9)
    drawn = rng.integers(len(PRODUCTS), size=nodes) if products is None else products
    within = np.array([observed(PRODUCTS[product].name) for product in drawn]).reshape(nodes, 2)
    latency = np.where(inside, within[:, 0], np.where(apart, 0.0, latency))
    per_byte = np.where(inside, 1.0 / within[:, 1], np.where(apart, 1.0, per_byte))
    return Topology(
        family=family,
        products=drawn,
        utilization=np.round(load, 2),
        slots=np.ones(nodes, dtype=np.int64) if slots is None else slots.astype(np.int64),
        latency_seconds=latency,
        seconds_per_byte=per_byte,
        blocked=apart,
        levels=levels,
        domains=domains.astype(np.int64),
    )


def _homes(nodes: int, count: int, rng: np.random.Generator) -> IntArray:
    """(nodes,) place of each node, rising; every place has one node, the rest fall unevenly."""
    weights = rng.dirichlet(np.full(count, 2.0))
    homes = np.concatenate((np.arange(count), rng.choice(count, size=max(0, nodes - count), p=weights)))
    rising: IntArray = np.sort(homes[:nodes])
    return rising


def _between_cities(chosen: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """(c, c) latency and seconds per byte between cities; bandwidth falls with distance as one TCP stream's does."""
    angles = np.radians([(CITIES[city].latitude, CITIES[city].longitude) for city in chosen])
    latitude, longitude = angles[:, 0], angles[:, 1]
    cosine = np.sin(latitude)[:, None] * np.sin(latitude) + np.cos(latitude)[:, None] * np.cos(latitude) * np.cos(
        longitude[:, None] - longitude
    )
    kilometres = EARTH_KILOMETRES * np.arccos(np.clip(cosine, -1.0, 1.0))
    latency = (5e-4 + kilometres / FIBRE_KILOMETRES_PER_SECOND) * _symmetric(rng.lognormal(0.0, 0.3, kilometres.shape))
    bytes_per_second = np.minimum(1.25e8, 1.25e8 * 0.02 / latency)
    return latency, 1.0 / bytes_per_second


def _symmetric(drawn: FloatArray) -> FloatArray:
    """The upper half of `drawn` on both sides; the diagonal is kept."""
    upper = np.triu(drawn)
    both: FloatArray = upper + np.triu(drawn, 1).T
    return both


FAMILIES: Final[dict[str, Callable[[int, np.random.Generator], Topology]]] = {
    "geo": _geo,
    "fattree": _fattree,
    "zones": _zones,
    "random": _random,
    "wan": _wan,
}
