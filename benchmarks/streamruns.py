"""Streams of jobs under every method, paired stream by stream."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np
from safetensors.numpy import load_file

from benchmarks.common import Row, goal, percentile
from benchmarks.suites import Options
from hyperscale.learn.streams import tuning
from hyperscale.learn.streams.compare import LOADS, compare
from hyperscale.learn.streams.scenario import FAMILIES, Conditions
from hyperscale.learn.streams.simulator import (
    OPERATORS_RULE,
    SHORTEST_FIRST,
    SMALLEST_FIRST,
    TUNED_RULE,
    Policy,
    RuleKnobs,
    Simulator,
    StreamOutcome,
    agent,
    auto,
    easy,
    fifo,
    index,
    marginal,
    maxmin,
)
from hyperscale.learn.streams.stream_lesson import network_of
from hyperscale.planner.queue.queue_agent import QueueAgent, load_agent
from hyperscale.planner.queue.queue_types import ArrivalHistory, ClusterState, LaterStart, Option, PendingJob, QueueRunningJob

BENCHMARK: Final = "streams"
FIRST_SEED: Final = 20_000
"""Training and validation take others (hyperscale.learn.topologies); those from 10,000 on were seen while training was designed."""
JOBS: Final = 150
RULE: Final = "tuned rule"
"""Order, thrift and patience, the best setting found."""
OWN: Final = "operator's rule"
"""By default; it knows sizes and communication too."""
SHORTEST: Final = "shortest job first"
ENDLESS: Final = "tuned rule, patience without end"
"""It waits for better nodes for as long as others run; the tuned rule only as long as poor ones would cost the job."""
STRICT: Final = "tuned rule, strict at the bound"
"""From the bound on no other job starts before the one that waits longest, on whatever nodes are free."""
WEIGHTS: Final = Path(__file__).resolve().parent / "weights"
CONDITIONS: Final = {
    "exact durations": Conditions("geo", 0.9, JOBS),
    "durations ± 30 %": Conditions("geo", 0.9, JOBS, noise=0.3),
    "contention": Conditions("geo", 0.9, JOBS, contention=True),
    "starvation bound": Conditions("geo", 0.9, JOBS, starvation_runs=16.0),
    "all three": Conditions("geo", 0.9, JOBS, noise=0.3, contention=True, starvation_runs=16.0),
    "tight starvation bound": Conditions("geo", 0.9, JOBS, starvation_runs=8.0),
}
NO_GOALS: Final = ("tight starvation bound",)
"""A bound that overrules every policy for one job in ten."""
PLAIN: Final = "exact durations"
TO_RULE: Final = 0.90
TO_SHORTEST: Final = 0.87
LARGEST_P: Final = 0.01
WORST: Final = 1.25
DECISION_MS: Final = 1.0
NUMPY_STREAMS: Final = 2


def run(options: Options, tune: bool = False) -> list[Row]:
    """Rows of every condition with their goals."""
    knobs = tuning.tune()[0].knobs if tune else OPERATORS_RULE
    others = baselines(knobs)
    rows = [Row(BENCHMARK, "rule", name, "knob", float(value), "") for name, value in knobs._asdict().items()]
    for case, conditions in CONDITIONS.items():
        few = {name: others[name] for name in (RULE, OWN, SHORTEST, ENDLESS)}
        if conditions.starvation_runs > 0.0:
            few[STRICT] = others[RULE]._replace(strict_bounds=1.0)
        rows += _under(case, conditions, others if case == PLAIN else few, options)
    return rows


def _under(case: str, conditions: Conditions, others: dict[str, Policy], options: Options) -> Iterator[Row]:
    """Rows of one condition: all methods, then the goals of defaults and agents."""
    agents, by_default = trained(), defaults()
    methods = {**others, **agents, **by_default}
    found = simulated(case, conditions, methods, options)
    for method in methods:
        yield from compared(case, method, found)
    if case not in NO_GOALS:
        for method in (*by_default, *agents):
            yield from promises(case, method, found)
        for method in agents:
            yield from further_goals(case, method, found)
    if case == PLAIN:
        for method in agents:
            yield from parts(method, found, options)


def references() -> dict[str, Policy]:
    """What every method is compared with."""
    return {RULE: index(TUNED_RULE), OWN: index(OPERATORS_RULE), SHORTEST: index(SHORTEST_FIRST)}


def baselines(knobs: RuleKnobs) -> dict[str, Policy]:
    """The other methods, by name."""
    return {
        RULE: index(TUNED_RULE),
        OWN: index(knobs),
        ENDLESS: index(TUNED_RULE)._replace(bounded_patience=False),
        SHORTEST: index(SHORTEST_FIRST),
        "smallest area first": index(SMALLEST_FIRST),
        "first in, first out": fifo(),
        "first in, first out, most workers": fifo(-1.0),
        "EASY backfill": easy(),
        "EASY backfill, thrift 0.8": easy(0.8),
        "marginal speed-up (Optimus, AFS)": marginal(),
        "max-min (Gavel)": maxmin(),
    }


def trained() -> dict[str, Policy]:
    """The agent that ships, and those of the other training seeds."""
    folders = sorted(WEIGHTS.glob("stream_seed_*"))
    shipped = load_agent(resources.files("hyperscale.planner.learned") / "weights")
    found = {f"agent, seed {shipped.manifest.seed} (ships)": agent(*network_of(shipped))}
    for folder in folders:
        loaded = load_agent(folder)
        if loaded.manifest.seed != shipped.manifest.seed:
            found[f"agent, seed {loaded.manifest.seed}"] = agent(*network_of(loaded))
    return found


def defaults() -> dict[str, Policy]:
    """What `order: Auto` does with each of them: the rule for the first jobs, and on streams unlike those that the guard judged.

    The guard refuses the agents of the other seeds; they are taken to have been judged on the shipped agent's streams.
    """
    judged = load_agent(resources.files("hyperscale.planner.learned") / "weights").manifest.judged
    if judged is None:
        raise ValueError("the guard has not accepted the weights that ship")
    agents = {name: policy.network for name, policy in trained().items()}
    return {name.replace("agent", "default"): auto(network, judged) for name, network in agents.items() if network is not None}


def streams(conditions: Conditions, options: Options) -> Iterator[tuple[Conditions, int]]:
    """Every family and load, with the seeds asked for."""
    for family in FAMILIES:
        for load in LOADS:
            for seed in options.seeds:
                yield dataclasses.replace(conditions, family=family, load=load), FIRST_SEED + seed


def simulated(case: str, conditions: Conditions, methods: dict[str, Policy], options: Options) -> dict[str, list[StreamOutcome]]:
    """Every method on every stream."""
    found: dict[str, list[StreamOutcome]] = {name: [] for name in methods}
    for conditioned, seed in streams(conditions, options):
        simulator = Simulator(seed, conditioned)
        for name, policy in methods.items():
            found[name].append(simulator.run(policy))
            if options.dump is not None:
                where = f"{case} {conditioned.family} {conditioned.load} {seed}"
                nodes = {f"job-{job}": [f"node-{node}" for node in places] for job, places in enumerate(simulator.stream.nodes())}
                options.dump_assignment(where, name, nodes)
    return found


def compared(case: str, method: str, found: dict[str, list[StreamOutcome]]) -> Iterator[Row]:
    """One method against the rule and against shortest job first."""
    own = found[method]
    for name, other in (("rule", found[RULE]), ("shortest", found[SHORTEST]), ("own rule", found[OWN])):
        result = compare([run.mean_completion for run in own], [run.mean_completion for run in other])
        for metric, value in result._asdict().items():
            yield Row(BENCHMARK, case, method, f"completion / {name}: {metric}", value, "ratio")
    for metric, of in (("slowdown", "mean_slowdown"), ("p95", "p95_completion"), ("communication", "mean_communication")):
        result = compare([getattr(run, of) for run in own], [getattr(run, of) for run in found[RULE]])
        yield Row(BENCHMARK, case, method, f"{metric} / rule", result.ratio, "ratio")
    yield Row(BENCHMARK, case, method, "weighted completion", float(np.mean([run.mean_completion for run in own])), "s")
    yield Row(BENCHMARK, case, method, "streams", float(len(own)), "")


def promises(case: str, method: str, found: dict[str, list[StreamOutcome]]) -> Iterator[Row]:
    """What must hold for every training seed."""
    to_rule = compare([run.mean_completion for run in found[method]], [run.mean_completion for run in found[RULE]])
    yield goal(BENCHMARK, f"{case}: weighted completion / tuned rule", method, to_rule.ratio, TO_RULE, "ratio")
    yield goal(BENCHMARK, f"{case}: p of it", method, to_rule.p, LARGEST_P, "ratio")
    yield goal(BENCHMARK, f"{case}: worst stream / tuned rule", method, to_rule.worst, WORST, "ratio")


def further_goals(case: str, method: str, found: dict[str, list[StreamOutcome]]) -> Iterator[Row]:
    """Over other methods, and of other figures."""
    own = [run.mean_completion for run in found[method]]
    to_own = compare(own, [run.mean_completion for run in found[OWN]])
    to_shortest = compare(own, [run.mean_completion for run in found[SHORTEST]])
    slowdown = compare([run.mean_slowdown for run in found[method]], [run.mean_slowdown for run in found[RULE]])
    late = compare([run.p95_completion for run in found[method]], [run.p95_completion for run in found[RULE]])
    for what, value, limit in (
        ("weighted completion / operator's rule", to_own.ratio, TO_RULE),
        ("worst stream / operator's rule", to_own.worst, WORST),
        ("weighted completion / shortest job first", to_shortest.ratio, TO_SHORTEST),
        ("mean slowdown / tuned rule", slowdown.ratio, 1.0),
        ("p95 completion / tuned rule", late.ratio, 1.0),
    ):
        yield goal(BENCHMARK, f"{case}: {what}", method, value, limit, "ratio")


def parts(method: str, found: dict[str, list[StreamOutcome]], options: Options) -> Iterator[Row]:
    """The ratio to the rule by family and by load."""
    where = [conditions for conditions, _ in streams(CONDITIONS[PLAIN], options)]
    groups = [(family, [at for at, one in enumerate(where) if one.family == family]) for family in FAMILIES]
    groups += [(f"load {load}", [at for at, one in enumerate(where) if one.load == load]) for load in LOADS]
    for name, chosen in groups:
        result = compare([found[method][at].mean_completion for at in chosen], [found[RULE][at].mean_completion for at in chosen])
        yield Row(BENCHMARK, name, method, "completion / rule: ratio", result.ratio, "ratio")
        yield Row(BENCHMARK, name, method, "completion / rule: p", result.p, "")


def ablation(options: Options) -> Iterator[Row]:
    """Trainings with one thing changed, at a smaller budget each."""
    file = WEIGHTS / "ablation.safetensors"
    if not file.is_file():
        return
    networks = load_file(file)
    methods = {name: agent(networks[name], TUNED_RULE, idle_runs=math.inf) for name in sorted(networks)}
    found = simulated("ablation", CONDITIONS[PLAIN], {**references(), **methods}, options)
    for method in methods:
        yield from compared("ablation", method, found)


def decision_times(options: Options) -> Iterator[Row]:
    """Milliseconds of a decision: placement search and network together in the simulator; the agent in Python on ready plans."""
    shipped = load_agent(resources.files("hyperscale.planner.learned") / "weights")
    network, knobs = network_of(shipped)
    for name, policy in ((OWN, index(knobs)), ("agent", agent(network, knobs))):
        spent = []
        for conditioned, seed in list(streams(CONDITIONS[PLAIN], options))[:: len(options.seeds)]:
            simulator = Simulator(seed, conditioned)
            began = time.perf_counter()
            outcome = simulator.run(policy)
            spent.append(1e3 * (time.perf_counter() - began) / outcome.decisions)
        yield Row(BENCHMARK, "decision", f"{name}, simulator", "mean", float(np.mean(spent)), "ms")
        if name == "agent":
            yield goal(BENCHMARK, "decision, placements of all candidates and network", name, float(np.mean(spent)), DECISION_MS, "ms")
    own = numpy_times(shipped)
    yield Row(BENCHMARK, "decision", "agent, Python on ready plans", "p50", percentile(own, 0.5), "ms")
    yield Row(BENCHMARK, "decision", "agent, Python on ready plans", "p95", percentile(own, 0.95), "ms")


def numpy_times(shipped: QueueAgent) -> Sequence[float]:
    """Milliseconds of every decision of some streams, as the operator takes them."""
    spent = []
    for seed in range(NUMPY_STREAMS):
        simulator = Simulator(FIRST_SEED + seed, dataclasses.replace(CONDITIONS[PLAIN], family="zones", load=1.1))
        going_on = simulator.reset()
        while going_on:
            pending, running, cluster, bound = simulator.stream.view()
            free, total, speed, arrivals, gap, run_seconds, area = cluster
            jobs = [
                PendingJob(str(job), tuple(Option(*one) for one in options), weight, waited, later=tuple(LaterStart(*one) for one in later))
                for job, weight, waited, options, later in pending
            ]
            others = [QueueRunningJob(str(job), workers, remaining) for job, workers, remaining in running]
            state = ClusterState(free, total, speed, ArrivalHistory(arrivals, gap, run_seconds, area))
            began = time.perf_counter()
            shipped.choose(jobs, others, state, bound)
            spent.append(1e3 * (time.perf_counter() - began))
            jobs_of, counts = simulator.candidates()
            job, workers = simulator.stream.rule_choice()
            by_rule = np.flatnonzero((jobs_of == job) & (counts == workers))  # none where the rule waits beyond the agent's bound
            _, ended = simulator.step(int(by_rule[0]) if len(by_rule) else 0)
            going_on = not ended
    return spent
