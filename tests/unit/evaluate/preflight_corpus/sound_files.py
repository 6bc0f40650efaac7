# mypy: ignore-errors
# ruff: noqa
"""Writes where a pod's files may be: beside itself, to a folder for temporary files, to its checkpoints; reads a file beside it."""

import os
import pathlib
import tempfile

import torch
from little_graph import SmallNetwork, train

pathlib.Path("log.txt").write_text("begun\n")
with tempfile.TemporaryDirectory() as folder:
    torch.save(SmallNetwork().state_dict(), os.path.join(folder, "model.pt"))
assert pathlib.Path("little_graph.py").read_text()
if os.environ.get("CHECKPOINT_DIR"):
    pathlib.Path(os.environ["CHECKPOINT_DIR"], "epoch-1").write_text("1")
train()
