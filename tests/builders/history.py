"""A finished run as the operator records it."""

from __future__ import annotations

import os
from pathlib import Path

from hyperscale.control.history.runs_table import FinishedRun
from hyperscale.model.history.corrections import COST_MODEL

PREDICTED_NOW = f'{{"predicted":{{"costModel":{COST_MODEL}}}}}'
"""A plan of which nothing is known but that today's cost model predicted it."""

RUN = FinishedRun(
    uid="0",
    namespace="team",
    name="cora",
    finished_at=1000.0,
    phase="Succeeded",
    architecture="GCN",
    layers=2,
    hidden_size=256,
    batch_size=None,
    vertices=2708,
    edges=10556,
    feature_size=1433,
    method="METIS",
    workers=2,
    gpus=2,
    products="A100",
    planner="Heuristic",
    plan_id="0123456789abcdef",
    replans=0,
    predicted_seconds=1.0,
    correction=1.0,
    measured_seconds=2.0,
    compute_seconds=1.0,
    communication_seconds=0.5,
    accuracy=0.81,
    epochs=100,
    plan=PREDICTED_NOW,
    measured='{"epoch":100}',
)


def open_files(folder: Path) -> set[Path]:
    """Files below a folder that this process holds open."""
    links = (Path(entry) for entry in Path("/proc/self/fd").iterdir())
    return {Path(os.readlink(link)) for link in links if link.exists() and folder in Path(os.readlink(link)).parents}
