"""Workers with two slots under mpirun: what the training program does with them is what the plan says of its ranks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from hyperscale.control.render.environment import contract
from hyperscale.control.render.plan_file import config_map
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.measured import Measured
from hyperscale.model.meta import JobMetadata
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.cost.costs import volumes
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.workload.profile import profile
from tests.builders import ranks
from tests.builders.clusters import POLICY, PRODUCTS, both_ways, gpu_node, snapshot
from tests.builders.wire import spec_of

TWO_SLOTS = {"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 2}}}
SEEN = snapshot(gpu_node("n0", free=2), gpu_node("n1", free=2, product=PRODUCTS[1]), links=both_ways(["n0", "n1"]))
"""One node is faster, so that shares differ."""
TOLD = """
import json, os, pathlib
from hyperscale.training.runtime import contract
run = contract.read(os.environ)
told = [run.rank, run.size, run.partitions, run.shares[run.rank], run.plan.shares[run.rank]]
run.plan_file.with_name(f"rank-{run.rank}").write_text(json.dumps(told))
"""


def asked(**fields: object) -> JobSpec:
    spec = {
        "model": {"architecture": "GCN", "hiddenSize": 16, "epochs": 3},
        "dataset": {"source": {"builtin": {"name": "Cora"}}},
        "workers": TWO_SLOTS,
        "partitioning": {"method": "METIS"},
    }
    return spec_of({**spec, **fields})


def planned(job: JobSpec) -> Plan:
    plan = make_plan(PlanRequest(job_key="team/cora", job=job), build(SEEN, POLICY), profile(job), POLICY)
    assert isinstance(plan, Plan)
    return plan


def variables(job: JobSpec, plan: Plan, directory: Path) -> dict[str, str]:
    """What the operator gives the pods, with the plan file in `directory`."""
    metadata = JobMetadata(namespace="team", name="cora", uid="1")
    (directory / "plan.json").write_text(config_map(metadata, plan, {})["data"]["plan.json"])
    return {
        **ranks.without_a_job(os.environ),
        **contract(metadata, job, plan),
        "OMP_NUM_THREADS": "1",
        "HYPERSCALE_METRICS_PORT": "0",
        "HYPERSCALE_PLAN_FILE": str(directory / "plan.json"),
        "HYPERSCALE_TERMINATION_LOG": str(directory / "message"),
    }


@ranks.needs_mpirun
def test_every_rank_holds_the_share_that_the_plan_file_says(tmp_path: Path) -> None:
    plan = planned(asked())
    finished = ranks.start(4, [sys.executable, "-c", TOLD], variables(asked(), plan, tmp_path))
    assert finished.returncode == 0, finished.stderr
    told = [json.loads((tmp_path / f"rank-{rank}").read_text()) for rank in range(4)]
    assert [(rank, size, partitions) for rank, size, partitions, _, _ in told] == [(rank, 4, plan.partitions) for rank in range(4)]
    for rank, _, _, held, stated in told:
        worker = next(worker for worker in plan.workers if rank in worker.ranks)
        assert held == pytest.approx(worker.share / 2, rel=1e-12)
        assert stated == pytest.approx(held, rel=1e-12)
    assert plan.workers[0].share != plan.workers[1].share


@ranks.needs_horovod
def test_four_ranks_of_two_workers_send_each_other_about_what_was_predicted_for_four_parts(tmp_path: Path) -> None:
    job = asked()
    plan, workload = planned(job), profile(job)
    finished = ranks.start(4, [sys.executable, "-W", "ignore", "-m", "hyperscale.training.worker.train"], variables(job, plan, tmp_path))
    assert finished.returncode == 0, finished.stderr
    assert "4 parts by METIS" in finished.stderr
    sent = msgspec.json.decode((tmp_path / "message").read_bytes(), type=Measured).peer_bytes
    costs = pose(PlanRequest(job_key="team/cora", job=job), build(SEEN, POLICY), workload, POLICY).costs(np.arange(2))
    assert sent is not None
    assert sent / 2 < volumes(costs, 2).halo_bytes < sent * 2
    assert workload.halo_bytes(2, 2, 1) < sent / 2, "as many parts as workers are too few to predict it"
