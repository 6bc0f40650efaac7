"""A cluster of 12 nodes in 3 regions with 4 GPU products, and a job for it."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperscale.cli.main import main
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Gpu, Link, MetricsState, Node, Quality, Sample, Taint
from hyperscale.observe.files.snapshot_files import write_snapshot

REGIONS = ("ap-south", "eu-west", "us-east")
PRODUCTS = (
    ("NVIDIA-A100-SXM4-80GB", 80, 8),
    ("NVIDIA-H100-80GB-HBM3", 80, 8),
    ("NVIDIA-L40S", 48, 4),
    ("Tesla-T4", 16, 4),
)
LEVELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
GIB = 1024**3


def measured(value: float) -> Sample:
    return Sample(value=value, age_seconds=4.0, quality=Quality.MEASURED)


def node(index: int, **changed: Any) -> Node:
    region = REGIONS[index // 4]
    product, gib, gpus = PRODUCTS[index % 4]
    name = f"gpu-node-{index:02d}"
    fields: dict[str, Any] = {
        "name": name,
        "gpu_product": product,
        "gpu_memory_bytes": gib * GIB,
        "allocatable_gpus": gpus,
        "requested_gpus": index % 3,
        "labels": {"kubernetes.io/hostname": name, LEVELS[0]: region, LEVELS[1]: f"{region}-{'ab'[index % 2]}"},
        "domains": (region, f"{region}-{'ab'[index % 2]}"),
        "gpus": tuple(Gpu(uuid=f"GPU-{index:02d}-{gpu}", utilization_ratio=measured(0.1 * (index % 4))) for gpu in range(gpus)),
        "allocatable_cpu_cores": 64.0,
        "allocatable_memory_bytes": 512 * GIB,
    }
    return Node(**{**fields, **changed})


def snapshot() -> ClusterSnapshot:
    """Node 03 has no free GPU, 07 is cordoned, 11 tainted; the link 04 to 08 is ten times slower than its like."""
    changes: dict[int, dict[str, Any]] = {
        3: {"requested_gpus": 4},
        7: {"schedulable": False},
        11: {"taints": (Taint(key="maintenance", value="yes"),)},
    }
    nodes = tuple(node(index, **changes.get(index, {})) for index in range(12))
    return ClusterSnapshot(
        taken_at=1_790_000_000.0,
        nodes=nodes,
        links=tuple(_link(a, b) for a in range(12) for b in range(12) if a != b),
        levels=LEVELS,
        absent_links=AbsentLink.ESTIMATE,
        metrics=MetricsState(available=True),
    )


def _link(source: int, destination: int) -> Link:
    apart = abs(source // 4 - destination // 4)
    latency = (0.0002, 0.035, 0.09)[apart] * (1.0 + 0.02 * ((source * 5 + destination * 3) % 7))
    if {source, destination} == {4, 8}:
        latency *= 10
    return Link(
        source=f"gpu-node-{source:02d}",
        destination=f"gpu-node-{destination:02d}",
        latency_seconds=measured(latency),
        bandwidth_bytes_per_second=measured((12.5e9, 1.25e9, 0.6e9)[apart]),
    )


def job(**spec: Any) -> dict[str, Any]:
    """A GNNTrainingJob; `spec` replaces whole sections."""
    sections: dict[str, Any] = {
        "model": {"architecture": "GraphSAGE", "layers": 2, "hiddenSize": 256, "fanouts": [15, 10], "batchSize": 1024},
        "dataset": {
            "source": {"persistentVolumeClaim": {"claimName": "products"}},
            "path": "products",
            "vertices": 2449029,
            "edges": 123718280,
            "featureSize": 100,
            "classes": 47,
        },
        "workers": {"minReplicas": 2, "maxReplicas": 4, "resources": {"limits": {"nvidia.com/gpu": 2}}, "gpuMemory": "24Gi"},
    }
    return {
        "apiVersion": "hyperscale.dev/v1alpha1",
        "kind": "GNNTrainingJob",
        "metadata": {"name": "products", "namespace": "team-a"},
        "spec": {**sections, **spec},
    }


@dataclass(frozen=True)
class Ran:
    """What one command did."""

    code: int
    out: str
    err: str


def run(*argv: str) -> Ran:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(argv))
    return Ran(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Files:
    """A folder with a job and a snapshot."""

    folder: Path
    job: str
    snapshot: str

    def write(self, name: str, content: str | bytes | dict[str, Any] | list[dict[str, Any]]) -> str:
        """A file in the folder; a mapping becomes YAML, a list of them YAML documents."""
        path = self.folder / name
        if isinstance(content, dict | list):
            content = yaml.safe_dump_all([content] if isinstance(content, dict) else content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    def plan(self, *more: str, job: str | None = None) -> Ran:
        """`hyperscale plan` of the job on the snapshot."""
        return run("plan", "-f", job or self.job, "--snapshot", self.snapshot, *more)


@pytest.fixture(name="files")
def files_fixture(tmp_path: Path) -> Files:
    files = Files(tmp_path, str(tmp_path / "job.yaml"), str(tmp_path / "cluster.json"))
    files.write("job.yaml", job())
    write_snapshot(files.snapshot, snapshot())
    return files
