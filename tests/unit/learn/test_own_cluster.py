"""`hyperscale learn queue --snapshot`: streams on the cluster's own nodes and links."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from hyperscale.learn.lesson import Assignment, LessonError
from hyperscale.learn.streams import queue_lesson
from hyperscale.learn.streams.history_streams import LOADS, history_of, judging_streams
from hyperscale.learn.streams.own_cluster import MOST_SLOTS, own_nodes, usual_gpus
from hyperscale.learn.streams.scenario import Conditions, draw
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot
from hyperscale.observe.files.snapshot_files import write_snapshot
from hyperscale.planner.cost.objective import UNREACHABLE_SECONDS
from hyperscale.planner.problem.speeds import TERAFLOPS
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


def test_the_workers_are_those_of_most_runs() -> None:
    past = runs()
    assert usual_gpus(past, mixed(gpus=4)) == 4, "no run says it: a worker has all GPUs of the smallest machine"
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
    (out / queue_lesson.CLUSTER).write_text("{}")
    with pytest.raises(LessonError, match="name the cluster with --snapshot again"):
        queue_lesson.judge(out, None, 0)


def test_a_file_that_is_no_snapshot_is_refused_in_one_line(tmp_path: Path) -> None:
    history, file = tmp_path / "runs.csv", tmp_path / "cluster.json"
    rows = "\n".join(f"{one.arrival_seconds},{one.run_seconds},{one.workers}" for one in runs())
    history.write_text(f"arrival_seconds,run_seconds,workers\n{rows}\n")
    file.write_text("[]")
    ran = run("learn", "queue", "--out", str(tmp_path / "out"), "--history", str(history), "--snapshot", str(file))
    assert ran.code == 2
    assert ran.err.startswith("hyperscale: --snapshot: ")
    assert len(ran.err.splitlines()) == 1
