"""Regret of placements that history chooses, on clusters whose true speeds differ from the table by up to 2x.

    python benchmarks/history_regret.py [--quick] [--seeds N] [--first-seed N] [--json FILE]

Protocol. A cluster has 24 nodes of four products in two zones with two racks each, one or two GPUs a node, no measured link.
The truth multiplies the table's seconds: each product, tier, inside and architecture by e^U(-ln 2, ln 2).
The case "slow cards" also doubles the seconds of one node's card in eight. It has no goal: 24 runs see each card once or twice.
Five kinds of jobs arrive at random (two GCN, GraphSAGE full and sampled, GAT), each on a random half of the nodes.
Every method places its own runs, in a closed loop: the planner chooses by its corrections, the run reports the true epoch x e^N(0, 0.05).
One run in twenty is disturbed and takes two to four times as long; half report compute seconds by rank.
After 0, 4, 8, 16, 24 and 48 runs each method is asked about 12 further questions.
Regret: true seconds of the chosen placement / true seconds of the best placement - 1.
The best is the best of the search with the true figures and of all methods.
Peers: no history (corrections choose nothing); one factor of all seconds (median of measured / predicted); medians by product and
architecture of measured / predicted compute seconds (of whole runs where no rank was timed); our factors without exploration.
The constants were chosen on seeds from 1000 on, the fit of cards on 100 to 139. Seeds 20 to 29 judge, and so do 0 to 9 and 200 to
209; they judged earlier fits too. 500 to 529 judged this one alone (twice: its strongest peer came later).
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from msgspec.structs import replace

from benchmarks import common
from benchmarks.common import Row
from benchmarks.drawnclusters import LEVELS, PRODUCTS, Question, TrueCluster, chosen, question, run_of, true_cluster, true_seconds
from hyperscale.evaluate.calibration.speed_fit import ANY, corrections_of
from hyperscale.evaluate.calibration.taught_run import TaughtRun
from hyperscale.model.history.corrections import MAX_FACTOR, Corrections, Factor, PartKind
from hyperscale.model.plan import Plan

NAME: Final = "history_regret"
OURS: Final = "history"
GREEDY: Final = "history, no exploration"
NONE: Final = "no history"
GLOBAL: Final = "one factor"
PRODUCT: Final = "product medians"
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
ROUNDS: Final = 10
"""Of medians by product and by architecture in turn (Tukey's median polish)."""
TINY: Final = 1e-9
"""Seconds: no logarithm is taken of less."""

Runs = list[TaughtRun]
Method = Callable[[Runs, str], Corrections | None]
"""Corrections from runs for an architecture."""


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


def product_medians(runs: Runs, architecture: str) -> Corrections | None:
    """Compute seconds by product and architecture, each times the median of what the other leaves of measured / predicted.

    Of a product that no run timed alone, the median of its whole runs.
    """
    if len(runs) < MIN_RUNS:
        return None
    timed, whole = _ratios(runs)
    level: dict[str, float] = {}
    product: dict[str, float] = {}
    for _ in range(ROUNDS):
        product = _medians((name, ratio - level.get(kind, 0.0)) for name, kind, ratio in timed)
        level = _medians((kind, ratio - product[name]) for name, kind, ratio in timed)
    own = level.get(architecture, statistics.median(level.values()) if level else 0.0)
    logarithms = _medians(whole) | {name: each + own for name, each in product.items()}
    factors = tuple(Factor(name, _bounded(math.exp(each)), 0.0, 1) for name, each in sorted(logarithms.items()))
    return Corrections(untried=Factor("", _bounded(math.exp(own)), 0.0, 0), products=factors)


def _ratios(runs: Runs) -> tuple[list[tuple[str, str, float]], list[tuple[str, float]]]:
    """ln(measured / predicted) of compute seconds by product and architecture, and of whole runs by product."""
    timed, whole = [], []
    for run in runs:
        own, overhead = dict(run.product_seconds), run.seconds(PartKind.OVERHEAD)
        whole += [(name, math.log(run.measured_seconds / run.predicted_seconds)) for name in run.products if name not in own]
        timed += [
            (part.name, run.architecture, math.log(max(own[part.name] - overhead, TINY) / part.seconds))
            for part in run.parts
            if part.kind is PartKind.COMPUTE and part.name in own
        ]
    return timed, whole


def _medians(logarithms: Iterable[tuple[str, float]]) -> dict[str, float]:
    by_name: dict[str, list[float]] = {}
    for name, logarithm in logarithms:
        by_name.setdefault(name, []).append(logarithm)
    return {name: statistics.median(each) for name, each in by_name.items()}


def _bounded(factor: float) -> float:
    return min(max(factor, 1.0 / MAX_FACTOR), MAX_FACTOR)


METHODS: Final[dict[str, tuple[Method, tuple[int, ...]]]] = {
    NONE: (nothing, LOOKS),
    OURS: (ours, LOOKS),
    PRODUCT: (product_medians, LOOKS),
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
    seconds = {key: [true_seconds(cluster, *pair).epoch for pair in zip(asked, chosen, strict=True)] for key, chosen in plans.items()}
    best = [true_seconds(cluster, each, _asked(cluster, each, lambda runs, name: cluster.truth[name], [])).epoch for each in asked]
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
