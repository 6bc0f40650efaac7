"""`hyperscale learn queue --snapshot`: streams on the cluster's own nodes and links."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import numpy as np
import pytest
from safetensors.numpy import load_file

from hyperscale.learn.lesson import Assignment, LessonError, PastRun
from hyperscale.learn.streams import queue_lesson
from hyperscale.learn.streams.episodes import Training
from hyperscale.learn.streams.guard_streams import judged_on
from hyperscale.learn.streams.history_streams import LOADS, history_of, judging_streams, split
from hyperscale.learn.streams.own_cluster import MOST_SLOTS, judged_there, of_usual_workers, own_nodes, usual_gpus
from hyperscale.learn.streams.policy_guard import StreamEvidence
from hyperscale.learn.streams.scenario import Conditions, SimulatedNodes, draw
from hyperscale.learn.streams.simulator import OPERATORS_RULE, Simulator, index
from hyperscale.learn.streams.training import CHECKPOINT, train
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot
from hyperscale.observe.files.snapshot_files import write_snapshot
from hyperscale.planner.cost.objective import UNREACHABLE_SECONDS
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.speeds import TERAFLOPS
from hyperscale.planner.queue.placement_oracle import PlacementOracle
from hyperscale.planner.queue.queue_agent import load_agent
from tests.builders.clusters import gpu_node, link, snapshot
from tests.unit.cli.cli_samples import run
from tests.unit.learn.test_learning_from_history import runs

H100, T4 = "NVIDIA-H100-80GB-HBM3", "Tesla-T4"


def mixed(machines: int = 12, gpus: int = 2) -> ClusterSnapshot:
    """Every second machine is fast; two zones."""
    zones = ("eu/a", "eu/b")
    return snapshot(
        *(
            gpu_node(f"n{number:02d}", free=gpus, product=(H100, T4)[number % 2], domain=zones[number // (machines // 2)])
            for number in range(machines)
        )
    )


def test_a_machine_is_as_many_nodes_as_it_holds_workers() -> None:
    nodes = own_nodes(mixed(machines=12, gpus=4), gpus_per_worker=2)
    assert nodes.machines == 12
    assert np.bincount(nodes.machine).tolist() == [2] * 12
    assert sorted(set(nodes.speed)) == sorted((2e12 * TERAFLOPS["T4"], 2e12 * TERAFLOPS["H100"]))
    together = nodes.machine[:, None] == nodes.machine[None, :]
    assert nodes.seconds_per_byte[together].max() < nodes.seconds_per_byte[~together].min(), "inside a machine is faster than between"
    assert len(np.unique(nodes.domain)) == 2


def test_nodes_that_take_no_pods_hold_no_worker() -> None:
    seen = mixed(machines=12, gpus=2)
    closed = msgspec.structs.replace(seen.nodes[0], schedulable=False)
    lost = msgspec.structs.replace(seen.nodes[1], ready=False)
    nodes = own_nodes(msgspec.structs.replace(seen, nodes=(closed, lost, *seen.nodes[2:])), 2)
    assert len(nodes.speed) == 10


def test_nodes_without_a_link_cannot_talk() -> None:
    names = [f"n{number}" for number in range(6)]
    links = tuple(link(a, b) for a in names for b in names if a != b and {a, b} != {"n0", "n5"})
    nodes = own_nodes(snapshot(*(gpu_node(name) for name in names), links=links, absent=AbsentLink.UNREACHABLE), 1)
    assert np.argwhere(nodes.blocked).tolist() == [[0, 5], [5, 0]]
    drawn = draw(Conditions("own", 0.8, jobs=10), 3, None, nodes)
    assert drawn.latency[0, 5] == UNREACHABLE_SECONDS


@pytest.mark.parametrize(("machines", "gpus"), [(2, 1), (66, 1), (16, 8)])
def test_a_cluster_that_cannot_be_simulated_is_refused_in_words(machines: int, gpus: int) -> None:
    with pytest.raises(LessonError, match=f"--snapshot: the cluster holds {machines * gpus} workers .*4 to {MOST_SLOTS}"):
        own_nodes(mixed(machines=machines, gpus=gpus), 1)


@pytest.mark.parametrize("figures", [(0.0, 0.0), (5e-324, 1e-300), (1e-4, 1e300)])
def test_figures_that_no_link_has_are_bounded(figures: tuple[float, float]) -> None:
    names = [f"n{number}" for number in range(6)]
    links = tuple(link(a, b, *((figures[0], figures[1] or 1e9) if "n0" in (a, b) else ())) for a in names for b in names if a != b)
    nodes = own_nodes(snapshot(*(gpu_node(name) for name in names), links=links), 1)
    drawn = draw(Conditions("own", 0.8, jobs=40), 3, None, nodes)
    assert np.isfinite(drawn.figures).all()
    assert Simulator(3, Conditions("own", 0.8, jobs=40), cluster=nodes).run(index(OPERATORS_RULE)).mean_completion > 0.0


def test_a_cluster_whose_machines_do_not_reach_each_other_is_refused_in_words() -> None:
    names = [f"n{number}" for number in range(8)]
    islands = tuple(link(a, b) for a in names for b in names if a != b and int(a[1]) // 2 == int(b[1]) // 2)
    seen = snapshot(*(gpu_node(name) for name in names), links=islands, absent=AbsentLink.UNREACHABLE)
    with pytest.raises(LessonError, match="only 2 of 8 workers reach each other"):
        own_nodes(seen, 1)


@pytest.mark.parametrize(("machines", "gpus"), [(1, 8), (2, 4), (4, 1), (6, 1), (7, 1), (8, 1), (5, 2), (64, 1)])
def test_clusters_of_all_sizes_have_streams_also_for_jobs_larger_than_they_are(machines: int, gpus: int) -> None:
    seen = snapshot(*(gpu_node(f"n{number:02d}", free=gpus) for number in range(machines)))
    large = tuple(msgspec.structs.replace(one, workers=48) if place % 3 else one for place, one in enumerate(runs()))
    for source in judging_streams(history_of(large).on(own_nodes(seen, 1))):
        for stream in source[::10]:
            assert len(stream.simulator().run(index(OPERATORS_RULE)).finish) == stream.conditions.jobs


def test_workers_of_other_sizes_count_by_their_gpus() -> None:
    past = tuple(msgspec.structs.replace(one, gpus_per_worker=8 if place % 5 == 0 else 2) for place, one in enumerate(runs()))
    scaled = of_usual_workers(past, 2)
    assert scaled[0].workers == 4 * past[0].workers
    assert scaled[1] == past[1]


@pytest.mark.parametrize("gpus", [0, -1, 10**9])
def test_runs_of_no_possible_size_are_refused(gpus: int) -> None:
    with pytest.raises(LessonError, match="GPUs a worker is none"):
        history_of((*runs(), PastRun(0.0, 10.0, 2, None, gpus)))


def test_the_workers_are_those_of_most_runs() -> None:
    past = runs()
    assert usual_gpus(past, mixed(gpus=4)) == 4, "no run says it: a worker has all GPUs of a machine"
    odd = snapshot(*mixed(gpus=4).nodes, gpu_node("old", free=1), gpu_node("away", free=8, schedulable=False))
    assert usual_gpus(past, odd) == 4, "one small machine makes no workers small"
    known = [msgspec.structs.replace(one, gpus_per_worker=2 if place % 3 else 4) for place, one in enumerate(past)]
    assert usual_gpus(known, mixed(gpus=4)) == 2


def test_streams_that_judge_run_on_the_cluster_with_few_machines_drained() -> None:
    own = own_nodes(mixed(machines=20), 2)
    history = history_of(runs(800)).on(own)
    assert history.nodes == 20
    assert LOADS[0] <= history.load <= LOADS[1]
    recorded, drawn = judging_streams(history)
    assert all(stream.cluster is own for stream in recorded)
    counts = {stream.cluster.machines for stream in drawn if stream.cluster is not None}
    assert counts == {18, 19, 20}
    assert {stream.conditions.family for stream in (*recorded, *drawn)} == {"own"}
    assert history.digest != history_of(runs(800)).digest, "a checkpoint of another cluster is not continued"


@pytest.mark.parametrize("figure", [field.name for field in dataclasses.fields(SimulatedNodes)])
def test_every_figure_of_the_cluster_tells_one_history_from_another(figure: str) -> None:
    own = own_nodes(mixed(machines=12), 2)
    kept = getattr(own, figure)
    other = dataclasses.replace(own, **{figure: (kept + 1).astype(kept.dtype)})
    history = history_of(runs())
    assert history.on(own).digest == history.on(own_nodes(mixed(machines=12), 2)).digest
    assert history.on(own).digest != history.on(other).digest


def test_weights_are_judged_for_this_cluster_and_resumed_with_it(tmp_path: Path) -> None:
    seen, file, out = mixed(machines=12), tmp_path / "cluster.json", tmp_path / "out"
    write_snapshot(file, seen)
    queue_lesson.train(Assignment(out, steps=1, history=runs(), snapshot=seen), lambda _: None)
    first = (out / "stream.safetensors").read_bytes()
    queue_lesson.train(Assignment(out, steps=1, resume=True), lambda _: None)
    assert (out / "stream.safetensors").read_bytes() == first
    assert queue_lesson.judge(out, None, 0).figures
    judged = load_agent(out).manifest.judged
    if judged is not None:
        assert (judged.nodes.low, judged.nodes.high) == (11.0, 12.0)
        assert judged.speed_spread.low > 1.0
    kept = (out / queue_lesson.CLUSTER).read_bytes()
    with pytest.raises(LessonError, match="with another history or cluster; use the same: leave --history and --snapshot out"):
        queue_lesson.train(Assignment(out, steps=1, resume=True, history=runs(), snapshot=mixed(machines=16)), lambda _: None)
    assert (out / queue_lesson.CLUSTER).read_bytes() == kept, "a refused training replaces nothing"
    (out / queue_lesson.CLUSTER).write_text("{}")
    with pytest.raises(LessonError, match="name the cluster with --snapshot again"):
        queue_lesson.judge(out, None, 0)


def test_the_judged_ranges_hold_for_the_cluster_as_the_operator_counts_it() -> None:
    whole = mixed(machines=20, gpus=2)
    cordoned = msgspec.structs.replace(whole.nodes[0], schedulable=False)
    small = gpu_node("small", free=1, product="Tesla-V100-SXM2-32GB")
    seen = msgspec.structs.replace(whole, nodes=(cordoned, small, *whole.nodes[1:]))
    history = history_of(runs(800)).on(own_nodes(seen, 2))
    streams = [stream for source in judging_streams(history) for stream in source]
    evidence = [StreamEvidence("s", "own", 1.0, 1.0, 1.0, 1.0) for _ in streams]
    judged = judged_there(judged_on(streams, evidence, "here"), seen, 2)
    for here in (seen, msgspec.structs.replace(seen, nodes=seen.nodes[:-1]), whole):
        desk = PlacementOracle(build(here, PolicySpec()), PolicySpec(), lambda *_: pytest.fail("places nothing"))
        assert judged.nodes.holds(desk.gpu_nodes)
        assert judged.worker_slots.holds(desk.total_slots / 2)
        assert judged.speed_spread.holds(desk.speed_spread)
    fewer = PlacementOracle(build(mixed(machines=16), PolicySpec()), PolicySpec(), lambda *_: pytest.fail("places nothing"))
    assert not judged.nodes.holds(fewer.gpu_nodes)


def test_where_nobody_waits_the_price_of_waiting_stays(tmp_path: Path) -> None:
    even = Training(steps=2, sequences=2, episodes=2, jobs=20, low_load=0.01, high_load=0.01, wait_price=1.0, wait_target=0.5)
    train(even, tmp_path, lambda _: None)
    assert load_file(tmp_path / CHECKPOINT)["seconds"][1] == 0.0


def test_the_later_part_is_judged_at_the_load_that_it_was() -> None:
    past = runs(800)
    busy = [msgspec.structs.replace(one, run_seconds=one.run_seconds / (1.0 if place < 560 else 8.0)) for place, one in enumerate(past)]
    earlier, later = split(history_of(busy).on(own_nodes(mixed(machines=20), 2)))
    assert later.load < earlier.load
    assert max(stream.conditions.load for stream in judging_streams(later)[0]) < earlier.load


def test_judging_alone_takes_no_other_cluster(tmp_path: Path) -> None:
    ran = run("learn", "queue", "--out", str(tmp_path), "--evaluate-only", "--snapshot", "/nonexistent.json")
    assert ran.code == 2
    assert "leave --snapshot out" in ran.err


def test_a_file_that_is_no_snapshot_is_refused_in_one_line(tmp_path: Path) -> None:
    history, file = tmp_path / "runs.csv", tmp_path / "cluster.json"
    rows = "\n".join(f"{one.arrival_seconds},{one.run_seconds},{one.workers}" for one in runs())
    history.write_text(f"arrival_seconds,run_seconds,workers\n{rows}\n")
    file.write_text("[]")
    ran = run("learn", "queue", "--out", str(tmp_path / "out"), "--history", str(history), "--snapshot", str(file))
    assert ran.code == 2
    assert ran.err.startswith("hyperscale: --snapshot: ")
    assert len(ran.err.splitlines()) == 1
