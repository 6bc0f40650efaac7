"""Further streams: recorded arrivals that nothing was trained on, choosers that the guard must refuse, and a cluster's own history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import clusterhistory, recordedstreams, streamruns
from benchmarks.common import Row, goal
from benchmarks.streampage import ALONE, FURTHER, OTHER, SHORTEST_BOUND, WAIT
from benchmarks.suites import Options
from hyperscale.learn.streams.compare import compare
from hyperscale.learn.streams.guard_streams import BOUND_RUNS, HARD, HARD_CONDITIONS, HELD_OUT_STREAMS, PLAIN, evidence, guarded, held_out
from hyperscale.learn.streams.history_streams import history_of, judging_streams, split
from hyperscale.learn.streams.own_cluster import own_nodes, usual_gpus
from hyperscale.learn.streams.policy_guard import StreamEvidence, judged
from hyperscale.learn.streams.scenario import FAMILIES, of_topology
from hyperscale.learn.streams.simulator import FEATURES, PARAMETERS, Network, Policy, Simulator, StreamOutcome, agent
from hyperscale.learn.streams.stream_lesson import network_of
from hyperscale.learn.topologies import generate
from hyperscale.planner.queue.queue_agent import load_agent

WEIGHTS: Final = Path(__file__).resolve().parent / "weights"
RETRAINED: Final = "retrained from the history"
TO_RULE_RECORDED: Final = 0.95
TO_SHIPPED: Final = 0.97
QUICK_REPLICATES: Final = 4
WAIT_FLAG, AREA, RULE_FLAG = 9, 11, 25
"""Features of a candidate; see planner/queue/features.py."""
WAITS: Final = "always waits"
STARVES: Final = "starves large jobs"
EQUALS: Final = "equals the rule"
HISTORY: Final = "later history"
OTHER_CLUSTERS: Final = {
    "12 nodes": ((12,), 1),
    "48 nodes": ((48,), 1),
    "64 nodes": ((64,), 1),
    "4 to 8 nodes of 4 workers": ((4, 6, 8), 4),
    "10 to 16 nodes of 4 workers": ((10, 12, 16), 4),
    "2 to 4 nodes of 8 workers": ((2, 3, 4), 8),
    "6 and 8 nodes of 8 workers": ((6, 8), 8),
}
"""Machines, in turn, and workers of each."""
OTHER_BOUNDS: Final = (8.0, 12.0, *BOUND_RUNS)
"""Of all streams; the guard deals its bounds to them in turn."""


def recorded(options: Options) -> Iterator[Row]:
    """Every sealed trace: all methods, the upper confidence limit as goal. Raises ValueError where the streams are not the sealed ones."""
    if not recordedstreams.there():
        print("streams: no traces beside the repository (../shared/data)")
        return
    for trace in recordedstreams.TRACES:
        if recordedstreams.seal(trace) != recordedstreams.SEALS[trace]:
            raise ValueError(f"{trace}: these are not the streams that were sealed")
        yield from _on_replicates(trace, list(recordedstreams.replicates(trace)), options)


def further_recorded(options: Options) -> Iterator[Row]:
    """The same of further replicates, with a cluster for each, and a draw of work where the trace does not say it."""
    if not recordedstreams.there():
        print("streams: no traces beside the repository (../shared/data)")
        return
    for trace in recordedstreams.TRACES:
        yield from _on_replicates(f"{trace}, {FURTHER}", list(recordedstreams.further(trace)), options)


def _on_replicates(case: str, streams: list[recordedstreams.Replicate], options: Options) -> Iterator[Row]:
    """All methods on a trace's replicates, the upper confidence limits of the agents as goals."""
    by_default = streamruns.defaults()
    methods = {**streamruns.references(), **streamruns.trained(), **by_default}
    streams = streams[:: len(streams) // QUICK_REPLICATES if options.quick else 1]
    simulators = [Simulator(one.seed, one.conditions, recorded=one.jobs) for one in streams]
    found = _runs(methods, simulators)
    found[ALONE] = [replace(run, start=run.arrival, finish=run.arrival + run.best_seconds) for run in found[streamruns.RULE]]
    for method in found:
        yield from streamruns.compared(case, method, found)
    yield from _waits(case, methods, found, simulators)
    for method in (*by_default, *streamruns.trained()):
        for rule in (streamruns.RULE,) if method in by_default else (streamruns.RULE, streamruns.OWN):
            own, other = ([run.mean_completion for run in found[name]] for name in (method, rule))
            what = f"{case}: weighted completion / {rule}, upper confidence limit"
            yield goal(streamruns.BENCHMARK, what, method, compare(own, other).high, TO_RULE_RECORDED, "ratio")


def guard(options: Options) -> Iterator[Row]:
    """What the guard says of the agents, and of three choosers that it must refuse."""
    count = 25 if options.quick else HELD_OUT_STREAMS
    choosers = {
        **streamruns.trained(),
        WAITS: _chooser(WAIT_FLAG, 100.0),
        STARVES: _chooser(AREA, -100.0),
        EQUALS: _chooser(RULE_FLAG, 100.0),
    }
    for name, policy in choosers.items():
        sources = {PLAIN: held_out(count=count), HARD: held_out(HARD_CONDITIONS, count)}
        verdict, like = guarded(policy, sources, "held-out streams")
        if verdict.accepted:
            yield Row(streamruns.BENCHMARK, "guard", name, SHORTEST_BOUND, like.least_bound_runs, "mean runs")
        for metric, value in verdict.figures.items():
            yield Row(streamruns.BENCHMARK, "guard", name, metric, value, "")
        yield Row(streamruns.BENCHMARK, "guard", name, "refused by", float(len(verdict.refusals)), "; ".join(verdict.refusals))
        if name in {WAITS, STARVES, EQUALS}:
            yield goal(streamruns.BENCHMARK, "guard: accepted, of a chooser to be refused", name, float(verdict.accepted), 0.0, "")


def other_clusters(options: Options) -> Iterator[Row]:
    """What the guard would say of the shipped agent on clusters unlike those that it was judged on; there the rule decides."""
    name, policy = next(iter(streamruns.trained().items()))
    count = 25 if options.quick else HELD_OUT_STREAMS
    for case, (machines, workers) in OTHER_CLUSTERS.items():
        found = []
        for source, conditions in ((PLAIN, None), (HARD, HARD_CONDITIONS)):
            streams = held_out(conditions, count)
            sizes = (machines[number // len(FAMILIES) % len(machines)] for number in range(count))
            drawn = [generate(one.conditions.family, size, one.seed) for one, size in zip(streams, sizes, strict=True)]
            clusters = [of_topology(topology).with_workers(workers) for topology in drawn]
            found += evidence(source, policy, [one._replace(cluster=own) for one, own in zip(streams, clusters, strict=True)])
        yield from _verdict(f"{name}, {case}", found)
    for bound in OTHER_BOUNDS:
        found = []
        for source, conditions in ((PLAIN, None), (HARD, HARD_CONDITIONS)):
            streams = held_out(conditions, count)
            found += evidence(source, policy, [one._replace(conditions=replace(one.conditions, starvation_runs=bound)) for one in streams])
        yield from _verdict(f"{name}, starvation bound of {bound:.0f} mean runs", found)


def _verdict(case: str, found: list[StreamEvidence]) -> Iterator[Row]:
    """What the guard says by these streams."""
    verdict = judged(found)
    for metric, value in verdict.figures.items():
        yield Row(streamruns.BENCHMARK, OTHER, case, metric, value, "")
    yield Row(streamruns.BENCHMARK, OTHER, case, "refused by", float(len(verdict.refusals)), "; ".join(verdict.refusals))


def history(options: Options) -> Iterator[Row]:
    """The agent retrained from a simulated cluster's earlier history, on its later one, against the agent that ships."""
    for family in clusterhistory.CLUSTERS:
        folder = WEIGHTS / "retrained" / family
        if (folder / "stream.json").is_file():
            yield from _later_history(family, agent(*network_of(load_agent(folder))), options)


def _later_history(family: str, retrained: Policy, options: Options) -> Iterator[Row]:
    """On one cluster."""
    runs, seen, case = clusterhistory.runs(), clusterhistory.cluster(family), f"{HISTORY}, {family}"
    history = history_of(runs).on(own_nodes(seen, usual_gpus(runs, seen)))
    streams = judging_streams(split(history)[1])[0][:: 10 if options.quick else 1]
    shipped, agents = next(iter(streamruns.trained())), streamruns.trained()
    methods: dict[str, Policy] = {**streamruns.references(), shipped: agents[shipped], RETRAINED: retrained}
    simulators = [one.simulator() for one in streams]
    found = _runs(methods, simulators)
    for method in methods:
        yield from streamruns.compared(case, method, found)
    yield from _waits(case, methods, found, simulators)
    own, other = ([run.mean_completion for run in found[name]] for name in (RETRAINED, shipped))
    result = compare(own, other)
    for metric, value in result._asdict().items():
        yield Row(streamruns.BENCHMARK, case, RETRAINED, f"completion / shipped agent: {metric}", value, "ratio")
    yield goal(streamruns.BENCHMARK, f"{case}: weighted completion / shipped agent", RETRAINED, result.ratio, TO_SHIPPED, "ratio")


def _waits(case: str, methods: dict[str, Policy], found: dict[str, list[StreamOutcome]], simulators: list[Simulator]) -> Iterator[Row]:
    """Every method's longest waits over those of the operator's rule, each at least a mean run."""
    for method in methods:
        waits = [
            max(own.longest_wait, one.mean_seconds) / max(rule.longest_wait, one.mean_seconds)
            for own, rule, one in zip(found[method], found[streamruns.OWN], simulators, strict=True)
        ]
        yield Row(streamruns.BENCHMARK, case, method, WAIT, float(np.exp(np.log(waits).mean())), "ratio")


def _runs(methods: dict[str, Policy], simulators: list[Simulator]) -> dict[str, list[StreamOutcome]]:
    found: dict[str, list[StreamOutcome]] = {name: [] for name in methods}
    for simulator in simulators:
        for name, policy in methods.items():
            found[name].append(simulator.run(policy))
    return found


def _chooser(feature: int, weight: float) -> Policy:
    """A network that goes by one feature."""
    flat: Network = np.zeros(PARAMETERS, dtype=np.float32)
    flat[PARAMETERS - FEATURES + feature] = weight
    return agent(flat)
