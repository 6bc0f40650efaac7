"""When the last gradient is reduced: the exact schedule beside exhaustive search, Horovod, DDP's buckets, MG-WFBP and AGPCS's agent.

Run: python benchmarks/allreduce.py [--quick] [--only SECTION] [--episodes N] [--json FILE]

  exact    up to 14 gradients: the schedule against all 2^(L-1) groupings
  models   ResNet-50, Inception v3 and BERT on six networks whose costs MG-WFBP measured; backward passes of 30, 100 and 300 ms
  random   400 random models on these networks; the best of 42 settings of Horovod as a peer that had to try them all
  gnn      models of graphs on the same networks: few small gradients
  variants two levels and half precision on 4 nodes with 8 GPUs each, where they are predicted to pay
  agent    the DQN of AGPCS, trained in this run, on models it has not seen
  live     two processes with Horovod over a shaped loopback: measured against predicted, and against Horovod's defaults

A ratio is a rule's time until the last message ends over the schedule's, from the begin of the backward pass. Horovod's cycle may begin at
any time: its figures are means over several phases. `as emitted` is the schedule in Horovod's own cycles with the settings that
hyperscale.training.allreduce.horovod gives; `schedule` is the optimum that no engine can beat.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

import numpy as np  # noqa: E402 - after the threads are set

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import common  # noqa: E402 - a script's own folder, not the repository, is on the path
from benchmarks.allreduce_rules import DDP, EMITTED, GREEDY, HOROVOD, RULES, exhaustive, rule_seconds, scheduled, tuned  # noqa: E402
from hyperscale.learn.agents.allreduce_instances import NETWORKS, AllreduceInstance, draw  # noqa: E402
from hyperscale.training.allreduce import parameter_table, variants  # noqa: E402

BENCHMARK: Final = "allreduce"
DATA: Final = ROOT.parent / "shared" / "data" / "allreduce"
MODELS: Final = ("resnet50", "inception_v3", "bert_base")
BACKWARD_SECONDS: Final = (0.03, 0.1, 0.3)
RANDOM_INSTANCES: Final = 400
EXACT_INSTANCES: Final = 200
SETTINGS_INSTANCES: Final = 100
MOST_EXHAUSTIVE: Final = 14
ROUNDING: Final = 1e-9
THRESHOLDS_MIB: Final = (0, 1, 4, 16, 64, 128)
CYCLES_MS: Final = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
SECTIONS: Final = ("exact", "models", "random", "gnn", "variants", "agent", "live")
INSIDE: Final = variants.NetworkLinks(2e-6, 2e11)
"""NVLink of an A100 host, one way."""
BETWEEN: Final = variants.NetworkLinks(1e-5, 3.1e9)
"""25 Gbit/s Ethernet."""
CAST_SECONDS: Final = 1e-11
"""Seconds to cast a byte to half precision on a GPU, and as long back: some 100 GB/s."""
VARIANT_BACKWARD_SECONDS: Final = 0.06
GNNS: Final[dict[str, tuple[tuple[int, ...], float]]] = {
    "GCN on Cora": ((7, 16 * 7, 16, 1433 * 16), 2e-3),
    "GAT on Cora": ((7, 7, 7, 64 * 7, 64, 64, 64, 1433 * 64), 5e-3),
    "GraphSAGE 3 × 256": ((47, 256 * 47, 256 * 47, 256, 256 * 256, 256 * 256, 256, 100 * 256, 100 * 256), 2e-2),
}
"""Numbers by gradient, first ready first, and seconds of a backward pass."""


def main() -> int:
    """Measure, print, and fail where a goal is missed."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--only", choices=SECTIONS, help="one section")
    parser.add_argument("--episodes", type=int, metavar="N", help="of the agent's training, one seed only (default: AGPCS's 1,000)")
    arguments = parser.parse_args()
    sections: dict[str, Callable[[bool], list[common.Row]]] = {
        "exact": exact_rows,
        "models": model_rows,
        "random": random_rows,
        "gnn": gnn_rows,
        "variants": variant_rows,
        "agent": lambda quick: agent_rows(quick, arguments.episodes),
        "live": live_rows,
    }
    rows = [row for name, made in sections.items() if arguments.only in (None, name) for row in made(arguments.quick)]
    return common.report(rows, arguments.json)


def exact_rows(quick: bool) -> list[common.Row]:
    """The schedule against all groupings of neighbours."""
    rng = np.random.default_rng(14)
    worst = 0.0
    for _ in range(EXACT_INSTANCES // (4 if quick else 1)):
        made = draw(rng, 1, MOST_EXHAUSTIVE)
        worst = max(worst, abs(scheduled(made).finish_seconds / exhaustive(made) - 1))
    return [
        common.goal(BENCHMARK, f"up to {MOST_EXHAUSTIVE} gradients, against exhaustive search", "schedule", worst, ROUNDING, "difference")
    ]


def model_rows(quick: bool) -> list[common.Row]:
    """Real models' gradients; how long each takes is not known, so both ways to divide the backward pass count."""
    if not DATA.is_dir():
        return [common.Row(BENCHMARK, "models", "-", "skipped: no tables of layers", 0.0, "")]
    rows: list[common.Row] = []
    goals: list[AllreduceInstance] = []
    for model in MODELS:
        table = parameter_table.parse((DATA / f"layers_{model}.csv").read_text())
        made = []
        for alpha, beta in NETWORKS[:2] if quick else NETWORKS:
            for backward in BACKWARD_SECONDS:
                for spread in parameter_table.Spread:
                    ready = parameter_table.ready_times(table, backward, spread)
                    order = table.backward_order
                    made.append(
                        AllreduceInstance(tuple(ready[at] for at in order), tuple(table.sizes_bytes[at] for at in order), alpha, beta)
                    )
        rows += compared(f"{model}, {len(made)} cases", made)
        goals += made
    return rows + goal_rows(f"{len(goals)} cases of real models", goals)


def random_rows(quick: bool) -> list[common.Row]:
    """Random models, and how far Horovod's own knobs get."""
    rng = np.random.default_rng(400)
    made = [draw(rng) for _ in range(RANDOM_INSTANCES // (8 if quick else 1))]
    case = f"{len(made)} random models"
    rows = compared(case, made) + goal_rows(case, made)
    tried = made[: SETTINGS_INSTANCES // (10 if quick else 1)]
    best = [min(tuned(one, mib, ms) for mib in THRESHOLDS_MIB for ms in CYCLES_MS) / scheduled(one).finish_seconds for one in tried]
    settings = len(THRESHOLDS_MIB) * len(CYCLES_MS)
    return rows + figures(f"{len(tried)} of them", f"Horovod, best of {settings} settings", best)


def gnn_rows(quick: bool) -> list[common.Row]:
    """Few small gradients: what grouping is worth where messages are all latency."""
    del quick
    rows = []
    for name, (numbers, backward) in GNNS.items():
        ready = tuple(backward * (at + 1) / len(numbers) for at in range(len(numbers)))
        made = [AllreduceInstance(ready, tuple(4.0 * count for count in numbers), alpha, beta) for alpha, beta in NETWORKS]
        rows += compared(f"{name}, {len(made)} networks", made)
        messages = common.median([len(scheduled(one).groups) for one in made])
        exposed = common.median([1 - one.ready_seconds[-1] / scheduled(one).finish_seconds for one in made])
        rows.append(common.Row(BENCHMARK, name, "schedule", "messages", messages, "median"))
        rows.append(common.Row(BENCHMARK, name, "schedule", "part of the time after the backward pass", exposed, "median"))
    return rows


def variant_rows(quick: bool) -> list[common.Row]:
    """What two levels and half precision are predicted to gain, and whether they are taken."""
    del quick
    if not DATA.is_dir():
        return []
    plain = variants.flat(32, BETWEEN)
    rows = []
    for model in MODELS:
        table = parameter_table.parse((DATA / f"layers_{model}.csv").read_text())
        ready = parameter_table.ready_times(table, VARIANT_BACKWARD_SECONDS)
        for name, levels in (
            ("NVLink inside", variants.hierarchical(4, 8, INSIDE, BETWEEN)),
            ("no faster inside", variants.hierarchical(4, 8, BETWEEN, BETWEEN)),
        ):
            case = f"{model}, 4 nodes × 8, {name}"
            for method, cost, cast in (
                ("two levels", levels, None),
                ("half precision", None, CAST_SECONDS),
                ("best of both", levels, CAST_SECONDS),
            ):
                chosen = variants.choose(ready, table.sizes_bytes, plain, two_levels=cost, cast_seconds_per_byte=cast)
                taken = " + ".join(word for word, used in (("two levels", chosen.hierarchical), ("half", chosen.half)) if used) or "neither"
                gained = chosen.schedule.finish_seconds / chosen.plain_seconds
                rows.append(common.Row(BENCHMARK, case, method, f"predicted, to plain; taken: {taken}", gained, "ratio"))
    return rows


def agent_rows(quick: bool, asked: int | None) -> list[common.Row]:
    """AGPCS's DQN after its 1,000 episodes (40 with --quick), three training seeds, on unseen random models."""
    from hyperscale.learn.agents import allreduce_dqn
    from hyperscale.learn.agents.qnetwork import EPISODES
    from hyperscale.learn.lesson import Assignment

    episodes = asked or (40 if quick else EPISODES)
    rng = np.random.default_rng([400, 1])
    made = [draw(rng) for _ in range(50 if quick else 200)]
    rows = []
    for seed in (0,) if quick or asked else (0, 1, 2):
        with tempfile.TemporaryDirectory() as folder:
            found = allreduce_dqn.learn(Assignment(Path(folder), seed=seed, steps=episodes), lambda progress: None)
        rows += figures(
            f"{len(made)} unseen random models", f"DQN, {episodes} episodes", [allreduce_dqn.ratio(found, one) for one in made], seed
        )
    return rows


def live_rows(quick: bool) -> list[common.Row]:
    """Measured with Horovod; skipped with the reason where it cannot run."""
    from benchmarks import allreduce_live

    return allreduce_live.rows(BENCHMARK, quick)


def compared(case: str, made: Sequence[AllreduceInstance]) -> list[common.Row]:
    """Ratios of all rules, and how much of the optimum its lower bound explains."""
    bound = [scheduled(one).lower_bound_seconds / scheduled(one).finish_seconds for one in made]
    rows = [common.Row(BENCHMARK, case, "lower bound", "part of the schedule, mean", float(np.mean(bound)), "ratio")]
    ratios = [rule_seconds(one) for one in made]
    for rule in RULES:
        rows += figures(case, rule, [seconds[rule] / scheduled(one).finish_seconds for one, seconds in zip(made, ratios, strict=True)])
    return rows


def goal_rows(case: str, made: Sequence[AllreduceInstance]) -> list[common.Row]:
    """No method ends earlier, on any case."""
    worst: dict[str, float] = dict.fromkeys((HOROVOD, DDP, GREEDY), 0.0)
    emitted = 0.0
    for one in made:
        seconds = rule_seconds(one)
        for rule in worst:
            worst[rule] = max(worst[rule], scheduled(one).finish_seconds / seconds[rule])
        emitted = max(emitted, seconds[EMITTED] / seconds[HOROVOD])
    limit = 1.0 + ROUNDING
    rows = [common.goal(BENCHMARK, f"{case}, worst against {rule}", "schedule", value, limit, "ratio") for rule, value in worst.items()]
    return [*rows, common.goal(BENCHMARK, f"{case}, worst against {HOROVOD}", EMITTED, emitted, limit, "ratio")]


def figures(case: str, method: str, ratios: Iterable[float], seed: int = 0) -> list[common.Row]:
    """Mean, 95th percentile, worst, and how often it is as fast as the schedule."""
    known = sorted(ratios)
    as_fast = sum(ratio <= 1 + ROUNDING for ratio in known) / len(known)
    return [
        common.Row(BENCHMARK, case, method, metric, value, unit, seed)
        for metric, value, unit in (
            ("mean", float(np.mean(known)), "ratio"),
            ("p95", common.percentile(known, 0.95), "ratio"),
            ("worst", known[-1], "ratio"),
            ("as fast", as_fast, "share"),
        )
    ]


if __name__ == "__main__":
    sys.exit(main())
