"""The rank's graph under the contract, for the scripts beside this file."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from hyperscale.training.runtime import contract
from hyperscale.training.runtime.comm import connect
from hyperscale.training.worker import load_part


def rank_graph() -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Features, edges (2, e), labels, training vertices, classes."""
    run = contract.read(os.environ)
    part = load_part.part(run, connect(run.size), os.environ)
    offsets = torch.from_numpy(part.indptr)
    destinations = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
    edges = torch.stack([torch.from_numpy(part.indices).long(), destinations])
    return torch.from_numpy(part.features), edges, torch.from_numpy(part.labels), torch.from_numpy(part.train), part.classes
