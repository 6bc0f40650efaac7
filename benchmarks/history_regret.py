"""Regret of placements that history chooses, on clusters whose true speeds differ from the table by up to 2x.

    python benchmarks/history_regret.py [--quick] [--seeds N] [--first-seed N] [--json FILE]

Protocol. A cluster has 24 nodes of four products in two zones with two racks each, one or two GPUs a node, no measured link.
The truth multiplies the table's seconds: each product, tier, inside and architecture by e^U(-ln 2, ln 2).
The case "slow cards" also doubles the seconds of one node's card in eight. It has no goal: 24 runs see each card once or twice.
Five kinds of jobs arrive at random (two GCN, GraphSAGE full and sampled, GAT), each on a random half of the nodes.
Every method places its own runs, in a closed loop: the planner chooses by its corrections, the run reports the true epoch x e^N(0, 0.05).
One run in twenty is disturbed and takes two to four times as long; half of the runs report compute seconds.
After 0, 4, 8, 16, 24 and 48 runs each method is asked about 12 further questions.
Regret: true seconds of the chosen placement / true seconds of the best placement - 1.
The best is the best of the search with the true figures and of all methods.
Peers: no history (corrections choose nothing); one factor of all seconds (median of measured / predicted); each product's mean
(geometric mean of measured / predicted of its runs, on compute seconds); our factors without exploration.
The constants were chosen on seeds from 1000 on. Seeds 20 to 29 judge, once; 0 to 9 have judged earlier constants too.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec
import numpy as np
from msgspec.structs import replace

from benchmarks import common
from benchmarks.common import Row
from hyperscale.evaluate.calibration.speed_fit import ANY, corrections_of
from hyperscale.evaluate.calibration.taught_run import TaughtRun
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, Gpu, MetricsState, Node, Quality, Sample
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.history.corrections import MAX_FACTOR, Corrections, Factor, PartKind
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.repair.fixed_shares import held_breakdown
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.workload.profile import profile

NAME: Final = "history_regret"
OURS: Final = "history"
GREEDY: Final = "history, no exploration"
NONE: Final = "no history"
GLOBAL: Final = "one factor"
PRODUCT: Final = "product means"
LOOKS: Final = (0, 4, 8, 16, 24, 48)
JUDGED: Final = 24
FEW_LOOKS: Final = (0, JUDGED)
"""Of one factor and of what only compares with us."""
LIMIT: Final = 0.25
QUESTIONS: Final = 12
SEEDS: Final = 10
FIRST_SEED: Final = 20
"""Of those that judge; no constant was chosen on them."""
MIN_RUNS: Final = 5
DEVIATION: Final = 0.05
DISTURBED: Final = 0.05
LARGEST: Final = math.log(2.0)
HEURISTIC: Final = Heuristic()
"""Keeps searches that several methods ask for."""
POLICY: Final = PolicySpec(communication_weight=0.0, tolerance_percent=0)
LEVELS: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "rack")
PRODUCTS: Final = ("NVIDIA-A100-SXM4-80GB", "Tesla-V100-SXM2-32GB", "NVIDIA-A10", "NVIDIA-L40S")
MEMORY_GIB: Final = (80, 32, 24, 48)
GIB: Final = 2**30


def _job(architecture: str, vertices: int, edges: int, features: int, counts: tuple[int, int], **model: object) -> JobSpec:
    return msgspec.convert(
        {
            "model": {"architecture": architecture, "layers": 3, "hiddenSize": 256, "epochs": 100} | model,
            "dataset": {
                "source": {"persistentVolumeClaim": {"claimName": "graph"}},
                "vertices": vertices,
                "edges": edges,
                "featureSize": features,
                "classes": 47,
            },
            "workers": {"minReplicas": counts[0], "maxReplicas": counts[1]},
        },
        JobSpec,
    )


KINDS: Final[tuple[JobSpec, ...]] = (
    _job("GCN", 1_200_000, 30_000_000, 100, (1, 6)),
    _job("GraphSAGE", 2_449_029, 123_718_280, 100, (2, 8)),
    _job("GAT", 2_449_029, 61_859_140, 100, (4, 8), hiddenSize=128),
    _job("GraphSAGE", 2_449_029, 61_859_140, 100, (1, 4), batchSize=4096, fanouts=[10, 10, 5]),
    _job("GCN", 2_449_029, 61_859_140, 100, (4, 4)),
)


class TrueCluster(NamedTuple):
    """A cluster and what its seconds really are."""

    snapshot: ClusterSnapshot
    graph: ClusterGraph
    truth: dict[str, Corrections]
    """By architecture."""


class Question(NamedTuple):
    """A job and the nodes that have room for it."""

    job: JobSpec
    free: dict[str, int]


Runs = list[TaughtRun]
Method = Callable[[Runs, str], Corrections | None]
"""Corrections from runs for an architecture."""


def true_cluster(chance: np.random.Generator, slow_cards: bool = False) -> TrueCluster:
    """A cluster with drawn nodes and factors."""
    nodes = []
    for index in range(24):
        which, rack = int(chance.integers(len(PRODUCTS))), index % 4
        gpus = int(chance.choice([1, 2]))
        domains = ("eu", f"eu/{rack // 2}", f"eu/{rack // 2}/{rack}")
        labels = dict(zip(LEVELS, domains, strict=True)) | {"kubernetes.io/hostname": f"n{index:02d}"}
        idle = Sample(value=0.0, age_seconds=3.0, quality=Quality.MEASURED)
        samples = tuple(Gpu(uuid=f"GPU-{index}-{gpu}", utilization_ratio=idle) for gpu in range(gpus))
        nodes.append(
            Node(
                name=f"n{index:02d}",
                gpu_product=PRODUCTS[which],
                gpu_memory_bytes=MEMORY_GIB[which] * GIB,
                allocatable_gpus=gpus,
                requested_gpus=0,
                labels=labels,
                domains=domains,
                gpus=samples,
            )
        )
    snapshot = ClusterSnapshot(taken_at=1000.0, nodes=tuple(nodes), levels=LEVELS, metrics=MetricsState(available=True))
    return TrueCluster(snapshot, build(snapshot, POLICY), _truth(chance, snapshot, slow_cards))


def _truth(chance: np.random.Generator, snapshot: ClusterSnapshot, slow_cards: bool) -> dict[str, Corrections]:
    def drawn(names: Sequence[str]) -> dict[str, float]:
        return {name: math.exp(chance.uniform(-LARGEST, LARGEST)) for name in names}

    products, tiers, insides = drawn(PRODUCTS), drawn([*LEVELS]), drawn(PRODUCTS)
    models = drawn(sorted({kind.model.architecture.value for kind in KINDS}))
    cards = {node.name: 2.0 for node in snapshot.nodes if slow_cards and chance.random() < 1 / 8}
    return {
        model: Corrections(
            untried=_factor("", level),
            products=tuple(_factor(name, level * factor) for name, factor in sorted(products.items())),
            tiers=tuple(_factor(name, factor) for name, factor in sorted(tiers.items())),
            insides=tuple(_factor(name, factor) for name, factor in sorted(insides.items())),
            cards=tuple(_factor(name, factor) for name, factor in sorted(cards.items())),
        )
        for model, level in models.items()
    }


def _factor(name: str, factor: float) -> Factor:
    return Factor(name, factor, 0.0, 0)


def question(chance: np.random.Generator, cluster: TrueCluster) -> Question:
    """A random kind of job, and half of the nodes."""
    kind = KINDS[int(chance.integers(len(KINDS)))]
    free = {node.name: node.allocatable_gpus if chance.random() < 0.5 else 0 for node in cluster.snapshot.nodes}
    return Question(kind, free)


def chosen(cluster: TrueCluster, asked: Question, corrections: Corrections | None) -> Plan | None:
    """The plan under these corrections; peers' have no errors, so that nothing is explored with them."""
    request = PlanRequest(job_key="team/job", job=asked.job, free_gpus=asked.free, corrections=corrections)
    plan = make_plan(request, cluster.graph, profile(asked.job), POLICY, planners=(HEURISTIC,))
    return plan if isinstance(plan, Plan) else None


def true_seconds(cluster: TrueCluster, asked: Question, plan: Plan) -> tuple[float, float]:
    """What an epoch of a plan and its arithmetic really take."""
    truth = cluster.truth[asked.job.model.architecture.value]
    request = PlanRequest(job_key="team/job", job=asked.job, free_gpus=asked.free, corrections=truth)
    workload = profile(asked.job)
    problem = pose(request, cluster.graph, workload, POLICY)
    places = {name: place for place, name in enumerate(problem.names)}
    order = np.array([places[worker.node] for worker in plan.workers], dtype=np.int64)
    members, positions = np.unique(order, return_inverse=True)
    costs = problem.costs(members)
    figures = held_breakdown(costs, positions, np.array([worker.share for worker in plan.workers]))
    overhead = sum(part.seconds for part in plan.predicted.parts if part.kind is PartKind.OVERHEAD)
    return figures.epoch_seconds, figures.compute_seconds + overhead


def run_of(chance: np.random.Generator, cluster: TrueCluster, asked: Question, plan: Plan) -> TaughtRun:
    """What history keeps of a run."""
    epoch, compute = true_seconds(cluster, asked, plan)
    noise = math.exp(chance.normal(0.0, DEVIATION)) * (float(chance.uniform(2.0, 4.0)) if chance.random() < DISTURBED else 1.0)
    reports = chance.random() < 0.5
    correction = plan.predicted.calibration
    return TaughtRun(
        namespace="team",
        architecture=asked.job.model.architecture.value,
        parts=plan.predicted.parts,
        predicted_seconds=plan.predicted.epoch_seconds / (correction.factor if correction is not None else 1.0),
        measured_seconds=epoch * noise,
        compute_seconds=compute * noise if reports else None,
    )


def ours(runs: Runs, architecture: str) -> Corrections | None:
    """What the operator would send."""
    by_architecture = corrections_of(runs, MIN_RUNS)
    return by_architecture.get(architecture, by_architecture.get(ANY))


def greedy(runs: Runs, architecture: str) -> Corrections | None:
    """The same without hope for what was not tried."""
    corrections = ours(runs, architecture)
    return None if corrections is None else replace(corrections, explores=False)


def nothing(runs: Runs, architecture: str) -> Corrections | None:
    """No correction."""
    return None


def one_factor(runs: Runs, architecture: str) -> Corrections | None:
    """All seconds times the median of measured / predicted."""
    if len(runs) < MIN_RUNS:
        return None
    factor = _bounded(statistics.median(run.measured_seconds / run.predicted_seconds for run in runs))
    tiers = tuple(Factor(name, factor, 0.0, 0) for name in LEVELS)
    insides = tuple(Factor(name, factor, 0.0, 0) for name in PRODUCTS)
    return Corrections(untried=Factor("", factor, 0.0, 0), tiers=tiers, insides=insides)


def product_means(runs: Runs, architecture: str) -> Corrections | None:
    """Compute seconds of each product times the geometric mean of measured / predicted of its runs."""
    if len(runs) < MIN_RUNS:
        return None
    ratios: dict[str, list[float]] = {}
    for run in runs:
        for name in run.products:
            ratios.setdefault(name, []).append(math.log(run.measured_seconds / run.predicted_seconds))
    factors = tuple(Factor(name, _bounded(math.exp(statistics.fmean(logs))), 0.0, len(logs)) for name, logs in sorted(ratios.items()))
    return Corrections(untried=Factor("", 1.0, 0.0, 0), products=factors)


def _bounded(factor: float) -> float:
    return min(max(factor, 1.0 / MAX_FACTOR), MAX_FACTOR)


METHODS: Final[dict[str, tuple[Method, tuple[int, ...]]]] = {
    NONE: (nothing, LOOKS),
    OURS: (ours, LOOKS),
    PRODUCT: (product_means, LOOKS),
    GREEDY: (greedy, FEW_LOOKS),
    GLOBAL: (one_factor, FEW_LOOKS),
}
"""With the numbers of runs after which each is asked."""
SLOW_CARDS: Final[dict[str, tuple[Method, tuple[int, ...]]]] = {NONE: (nothing, FEW_LOOKS), OURS: (ours, FEW_LOOKS)}


class Judged(NamedTuple):
    """What one seed brought."""

    regrets: dict[tuple[str, int], float]
    """Mean regret by method and runs."""
    held: dict[int, list[bool]]
    """Whether the range of each plan held the true seconds, by runs."""


def judge(seed: int, methods: dict[str, tuple[Method, tuple[int, ...]]], slow_cards: bool = False) -> Judged:
    """Methods on one cluster."""
    chance = np.random.default_rng([seed, 20])
    cluster = true_cluster(chance, slow_cards)
    stream = [question(chance, cluster) for _ in range(max(LOOKS))]
    asked = [question(chance, cluster) for _ in range(QUESTIONS)]
    plans = {
        (name, runs): chosen
        for name, (method, looks) in methods.items()
        for runs, chosen in _played(cluster, method, stream[: max(looks)], asked, seed)
        if runs in looks
    }
    seconds = {key: [true_seconds(cluster, *pair)[0] for pair in zip(asked, chosen, strict=True)] for key, chosen in plans.items()}
    best = [true_seconds(cluster, each, _asked(cluster, each, lambda runs, name: cluster.truth[name], []))[0] for each in asked]
    least = [min(best[at], *(figures[at] for figures in seconds.values())) for at in range(len(asked))]
    return Judged(
        regrets={key: statistics.fmean(map(_regret, figures, least)) for key, figures in seconds.items()},
        held=_held(plans, seconds),
    )


def _held(plans: dict[tuple[str, int], list[Plan]], seconds: dict[tuple[str, int], list[float]]) -> dict[int, list[bool]]:
    """Whether the ranges of our plans held, by runs."""
    return {runs: list(map(_holds, chosen, seconds[name, runs])) for (name, runs), chosen in plans.items() if name == OURS}


def _played(
    cluster: TrueCluster, method: Method, stream: Sequence[Question], asked: Sequence[Question], seed: int
) -> Iterator[tuple[int, list[Plan]]]:
    """After each number of runs that the method placed, its plans for what is asked."""
    noise, runs = np.random.default_rng([seed, 21]), list[TaughtRun]()
    for number in range(len(stream) + 1):
        if number in (LOOKS if len(stream) > JUDGED else FEW_LOOKS):
            yield number, [_asked(cluster, each, method, runs) for each in asked]
        if number < len(stream) and method is not nothing:
            runs.append(run_of(noise, cluster, stream[number], _asked(cluster, stream[number], method, runs)))


def _regret(seconds: float, least: float) -> float:
    return seconds / least - 1.0


def _asked(cluster: TrueCluster, asked: Question, method: Method, runs: Runs) -> Plan:
    plan = chosen(cluster, asked, method(runs, asked.job.model.architecture.value))
    if plan is None:
        raise RuntimeError("a question of this benchmark has no plan; draw clusters with more free GPUs")
    return plan


def _holds(plan: Plan, seconds: float) -> bool:
    low, high = plan.predicted.low_seconds, plan.predicted.high_seconds
    return low is not None and high is not None and low <= seconds <= high


def rows(seeds: Sequence[int]) -> list[Row]:
    """All figures."""
    judged = [judge(seed, METHODS) for seed in seeds]
    means = _means(judged)
    made = [Row(NAME, f"{runs} runs", method, "regret", mean, "ratio") for (method, runs), mean in means.items()]
    cards = _means([judge(seed, SLOW_CARDS, slow_cards=True) for seed in seeds])
    made += [Row(NAME, f"slow cards, {runs} runs", method, "regret", mean, "ratio") for (method, runs), mean in cards.items()]
    for runs in LOOKS:
        held = [each for one in judged for each in one.held[runs]]
        made.append(Row(NAME, f"{runs} runs", OURS, "true seconds in the range", statistics.fmean(held), "ratio"))
    worst = max(each.regrets[OURS, JUDGED] - each.regrets[NONE, JUDGED] for each in judged)
    made.append(Row(NAME, f"{JUDGED} runs", OURS, "worst seed: regret above no history's", worst, "ratio"))
    left = means[OURS, JUDGED] / means[NONE, JUDGED]
    made.append(common.goal(NAME, f"regret after {JUDGED} runs / without history", OURS, left, LIMIT, "ratio"))
    return made


def _means(judged: Sequence[Judged]) -> dict[tuple[str, int], float]:
    return {key: statistics.fmean(each.regrets[key] for each in judged) for key in judged[0].regrets}


def main() -> int:
    """Run and print."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--seeds", type=int, help=f"clusters (default {SEEDS}; 2 with --quick)")
    parser.add_argument(
        "--first-seed",
        type=int,
        default=FIRST_SEED,
        help=f"number of the first cluster (default {FIRST_SEED})",
    )
    arguments = parser.parse_args()
    count = arguments.seeds or (2 if arguments.quick else SEEDS)
    return common.report(rows(range(arguments.first_seed, arguments.first_seed + count)), arguments.json)


if __name__ == "__main__":
    sys.exit(main())
