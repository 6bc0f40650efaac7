"""Ranks follow the plan: workers in ring order, those of a node side by side, and local rank i on GPU i of every node (its rail)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from hyperscale.control.render.mpijob import render
from hyperscale.model.plan import Plan
from hyperscale.model.runplan import RunPlan
from hyperscale.training.worker.gpu_check import own_device
from tests.builders.clusters import both_ways, gpu_node, planned, snapshot, training
from tests.builders.placement import DEFAULTS, job, metadata, plan
from tests.builders.training import a_run

EIGHT: dict[str, Any] = {"maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 8}}}
OWN_ORDER = {"env": [{"name": "CUDA_DEVICE_ORDER", "value": "FASTEST_FIRST"}, {"name": "NCCL_SOCKET_IFNAME", "value": "ib0"}]}


def rendered(of: Plan, **fields: Any) -> dict[str, Any]:
    spec: dict[str, Any] = render(metadata(), job(**fields), of, DEFAULTS)["spec"]
    return spec


def container(spec: dict[str, Any], replica: str) -> dict[str, Any]:
    first: dict[str, Any] = spec["mpiReplicaSpecs"][replica]["template"]["spec"]["containers"][0]
    return first


def variables(of: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in of["env"]}


def local_ranks(spec: dict[str, Any]) -> list[tuple[int, int]]:
    """Worker and local rank of each MPI rank: mpi-operator lists workers by index with their slots, and mpirun fills them in turn."""
    command = container(spec, "Launcher")["command"]
    assert command[command.index("--map-by") + 1] == "slot"
    slots = spec["slotsPerWorker"]
    hosts = [(worker, slot) for worker in range(spec["mpiReplicaSpecs"]["Worker"]["replicas"]) for slot in range(slots)]
    return hosts[: int(command[command.index("-np") + 1])]


def run_plan(of: Plan) -> RunPlan:
    return RunPlan(1, "a/b", of.plan_id, 0, of.partitions, of.workers)


@pytest.fixture
def eight_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)


@pytest.mark.usefixtures("eight_gpus")
def test_on_two_full_nodes_local_rank_i_takes_gpu_i_so_that_ranks_of_one_rail_meet() -> None:
    of = plan("b", "a", gpus=8)
    spec = rendered(of, workers=EIGHT)
    places = local_ranks(spec)
    nodes = run_plan(of).rank_nodes
    assert nodes == ["b"] * 8 + ["a"] * 8
    assert [of.node_of(worker) for worker, _ in places] == nodes
    rails: dict[int, list[int]] = {}
    for rank, (_, local) in enumerate(places):
        told = {"OMPI_COMM_WORLD_LOCAL_RANK": str(local), "HYPERSCALE_GPUS_PER_WORKER": "8", "HYPERSCALE_WORKERS": "2"}
        rails.setdefault(own_device(a_run(None, None, rank, 16, **told)).index, []).append(rank)
    assert rails == {rail: [rail, 8 + rail] for rail in range(8)}


def test_gpus_count_in_the_order_of_their_slots_in_every_pod_and_the_ranks_hear_of_it() -> None:
    spec = rendered(plan("a", "b", gpus=8), workers=EIGHT)
    for replica in ("Launcher", "Worker"):
        assert variables(container(spec, replica))["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    command = container(spec, "Launcher")["command"]
    assert command[command.index("CUDA_DEVICE_ORDER") - 1] == "-x"


def test_a_worker_of_one_gpu_needs_no_order() -> None:
    spec = rendered(plan("a", "a", "b", "b"))
    assert all("CUDA_DEVICE_ORDER" not in variables(container(spec, replica)) for replica in ("Launcher", "Worker"))
    assert [worker for worker, _ in local_ranks(spec)] == [0, 1, 2, 3]
    assert spec["slotsPerWorker"] == 1


@pytest.mark.parametrize("replica", ["launcher", "workers"])
def test_what_the_user_says_stays(replica: str) -> None:
    template = {"spec": {"containers": [{"name": "launcher" if replica == "launcher" else "worker", **OWN_ORDER}]}}
    fields: dict[str, Any] = {"launcher": {"template": template}} if replica == "launcher" else {}
    workers = EIGHT | ({"template": template} if replica == "workers" else {})
    spec = rendered(plan("a", "b", gpus=8), workers=workers, **fields)
    told = variables(container(spec, "Launcher"))
    assert told.get("CUDA_DEVICE_ORDER") == ("FASTEST_FIRST" if replica == "launcher" else None)
    own = variables(container(spec, "Launcher" if replica == "launcher" else "Worker"))
    assert (own["CUDA_DEVICE_ORDER"], own["NCCL_SOCKET_IFNAME"]) == ("FASTEST_FIRST", "ib0")


@pytest.mark.parametrize(("gpus", "workers"), [(1, 8), (2, 6), (8, 2)])
def test_a_plan_puts_the_ranks_of_a_node_side_by_side_in_the_order_of_its_workers(gpus: int, workers: int) -> None:
    names = ["n0", "n1", "n2"]
    seen = snapshot(*(gpu_node(name, free=8 if gpus == 8 else 4) for name in names), links=both_ways(names))
    asked = training(workers={"minReplicas": workers, "maxReplicas": workers, "resources": {"limits": {"nvidia.com/gpu": gpus}}})
    of = planned(seen, asked)
    spec: dict[str, Any] = render(metadata(), asked, of, DEFAULTS)["spec"]
    nodes = [of.node_of(worker) for worker, _ in local_ranks(spec)]
    assert nodes == run_plan(of).rank_nodes
    assert len([node for node, _ in itertools.groupby(nodes)]) == len(set(nodes)) > 1


def test_nothing_of_nccl_or_horovod_is_forced() -> None:
    spec = rendered(plan("a", "b", gpus=8), workers=EIGHT)
    names = {name for replica in ("Launcher", "Worker") for name in variables(container(spec, replica))}
    assert not [name for name in names if name.startswith(("NCCL_", "HOROVOD_"))]
