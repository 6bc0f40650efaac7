"""The worker's Adam: torch's own steps, and nothing of torch's compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hyperscale.training.engine.adam import Adam


def trained(kind: type[torch.optim.Adam], fused: bool) -> torch.Tensor:
    """Parameters after steps with a state that was saved and read on the way."""
    chance = torch.Generator().manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 2)).double()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, generator=chance)
    rows = torch.randn(20, 5, generator=chance, dtype=torch.float64)
    optimizer = kind(network.parameters(), lr=0.01, weight_decay=1e-3, fused=fused)
    for step in range(20):
        optimizer.zero_grad()
        (network(rows) ** 2).sum().backward()
        optimizer.step()
        if step == 10:
            state = optimizer.state_dict()
            optimizer = kind(network.parameters(), lr=0.5, fused=fused)
            optimizer.load_state_dict(state)
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


@pytest.mark.parametrize("fused", [False, True])
def test_its_steps_are_torchs_to_the_bit(fused: bool) -> None:
    assert torch.equal(trained(Adam, fused), trained(torch.optim.Adam, fused))


def test_a_run_imports_neither_torchs_compiler_nor_scipys_statistics(tmp_path: Path) -> None:
    molecules = ["CCO", "CCN", "c1ccccc1", "CC(=O)O", "CCCl", "COC", "CC#N", "C1CC1"]
    rows = [
        f"{'C' * length}{molecule},{length % 2},{split}" for molecule in molecules for length, split in enumerate(("train", "val", "test"))
    ]
    rows += [f"O{row.split(',')[0]},{index % 2},{row.split(',')[2]}" for index, row in enumerate(rows)]
    (tmp_path / "molecules.csv").write_text("\n".join(["smiles,active,split", *rows]))
    told = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "HYPERSCALE_MODEL": '{"architecture": "GCN", "hiddenSize": 4, "epochs": 2}',
        "HYPERSCALE_DATASET_SOURCE": "persistentVolumeClaim",
        "HYPERSCALE_DATASET_PATH": str(tmp_path / "molecules.csv"),
        "HYPERSCALE_DATASET_FORMAT": "SMILES",
        "HYPERSCALE_METRICS_PORT": "0",
        "HYPERSCALE_PLAN_FILE": str(tmp_path / "none.json"),
    }
    command = [sys.executable, "-X", "importtime", "-m", "hyperscale.training.worker.train"]
    ran = subprocess.run(command, env=told, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "hyperscale.training.engine.adam" in ran.stderr, "imports are listed"
    assert "torch._dynamo" not in ran.stderr
    assert "scipy.stats" not in ran.stderr
