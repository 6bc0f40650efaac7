"""The demo's page shows what the demo prints today: the plan of its three real nodes, the columns of its job and the rows of its result."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import training
from e2e.cluster.topology import DEFAULT_FILE, Machine, load, with_real
from e2e.demo_output import print_plan, print_pods
from hyperscale.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = (ROOT / "docs/development/demo.md").read_text().partition("## What it prints")[2].split("```")[1].strip("\n").splitlines()
LATENCY_SECONDS, BANDWIDTH_BYTES_PER_SECOND = 1e-4, 1.25e8
IDLE_RATIO = 0.01
PLAN_ID = SAMPLE[0].split()[1]
"""Of one run: it depends on every figure of the snapshot."""
CUT = re.compile(r"  … and (\d+) more")


def sample(value: float | None) -> dict[str, Any]:
    """One figure of a snapshot file, measured four seconds ago or unknown."""
    if value is None:
        return {"value": None, "ageSeconds": None, "quality": "unknown", "fault": "no sample", "confidence": 0.0}
    return {"value": value, "ageSeconds": 4.0, "quality": "measured"}


def node(machine: Machine, product: Any) -> dict[str, Any]:
    """One node of a snapshot file, as idle as the demo's nodes are."""
    figures = ("memoryUsedBytes", "memoryTotalBytes", "temperatureCelsius", "powerWatts", "lastXid")
    gpu = {"utilizationRatio": sample(IDLE_RATIO), **{figure: sample(None) for figure in figures}}
    return {
        "name": machine.name,
        "gpuProduct": product.product,
        "gpuMemoryBytes": product.memory_mib * 2**20,
        "allocatableGpus": product.gpus,
        "requestedGpus": 0,
        "ready": True,
        "schedulable": True,
        "taints": [],
        "labels": {"hyperscale.dev/real": "true"} if machine.real else {},
        "domains": [machine.region, machine.zone],
        "gpus": [{"uuid": f"GPU-{machine.name}-{index}", **gpu} for index in range(product.gpus)],
    }


@pytest.fixture
def status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The status of the demo's job on the demo's topology: what `print_plan` reads."""
    topology = with_real(load(DEFAULT_FILE))
    real = [machine.name for machine in topology.nodes if machine.real]
    figures = {"latencySeconds": sample(LATENCY_SECONDS), "bandwidthBytesPerSecond": sample(BANDWIDTH_BYTES_PER_SECOND)}
    links = [{"source": source, "destination": target, **figures} for source in real for target in real if source != target]
    snapshot = json.loads((ROOT / "examples/cluster.json").read_text())
    nodes = [node(machine, topology.products[machine.product]) for machine in topology.nodes]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({**snapshot, "nodes": nodes, "links": links}))
    assert main(["plan", "-f", str(ROOT / "examples/cora-train.yaml"), "--snapshot", str(file), "-o", "json"]) == 0
    return {"plan": json.loads(capsys.readouterr().out)}


def is_shown(printed: list[str], page: list[str]) -> bool:
    """Whether the page has the printed lines one after another; one line `… and N more` stands for N of them."""
    return any(follows(printed, page[start:]) for start, line in enumerate(page) if line == printed[0])


def follows(printed: list[str], page: list[str]) -> bool:
    """Whether the page begins with the printed lines."""
    at = 0
    for line in page:
        if at >= len(printed):
            return True
        if (cut := CUT.fullmatch(line)) is not None:
            at += int(cut.group(1))
        elif line == printed[at]:
            at += 1
        else:
            return False
    return at >= len(printed)


def test_the_page_shows_the_plan_that_the_demo_prints(status: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(status)
    printed = capsys.readouterr().out.replace(status["plan"]["id"], PLAN_ID).strip("\n").splitlines()
    assert is_shown(printed, SAMPLE), "\n".join(printed)


def test_the_page_shows_the_pods_as_the_demo_prints_them(status: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    pods = {
        worker["index"]: {
            "metadata": {"name": f"cora-train-worker-{worker['index']}"},
            "spec": {"nodeName": worker["node"]},
            "status": {"phase": "Running"},
        }
        for worker in status["plan"]["workers"]
    }
    print_pods(pods)
    assert is_shown(capsys.readouterr().out.strip("\n").splitlines(), SAMPLE)


def test_the_page_shows_the_columns_that_the_crd_has() -> None:
    crd = yaml.safe_load((ROOT / "crds/gnntrainingjobs.hyperscale.dev.yaml").read_text())
    columns = [column["name"].upper() for column in crd["spec"]["versions"][0]["additionalPrinterColumns"] if not column.get("priority")]
    assert ["NAME", *columns] in [line.split() for line in SAMPLE]


def test_the_page_shows_every_row_of_the_result(status: dict[str, Any]) -> None:
    measured = {
        "epoch": 200,
        "accuracy": 0.818,
        "validationAccuracy": 0.808,
        "loss": 0.1616,
        "epochSeconds": 0.02726,
        "computeSeconds": 0.008656,
        "communicationSeconds": 0.01649,
        "samplesPerSecond": 5135.0,
        "peerBytes": 148200.0,
    }
    printed = training.summary({**status, "measured": measured})
    assert len(printed) == len(measured) + 1
    assert is_shown(printed, SAMPLE), "\n".join(printed)
