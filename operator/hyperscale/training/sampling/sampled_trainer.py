"""Mini-batch training: batches of training vertices, some of their neighbours, features of others fetched through a cache.

Batches and draws are the same for any number of ranks: each rank has the seeds of a batch that it owns, and the loss is divided by the
seeds of all. Any number of ranks trains as one process does (on GPUs without dropout); with all neighbours and one batch, as the whole
graph does where nothing is dropped.
Evaluation goes over whole neighbourhoods.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from hyperscale.model.adjacency import Array, LocalPart
from hyperscale.training.engine import models
from hyperscale.training.engine.batch_trainer import BatchTrainer, Marks
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.neighbourhood import PLACES
from hyperscale.training.engine.ops import Passes, passes_on
from hyperscale.training.engine.sampling_batches import Shuffle, of_all_ranks
from hyperscale.training.engine.trainer import summed_loss
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.refusals import ContractError
from hyperscale.training.sampling.fetch import Features
from hyperscale.training.sampling.sampling_blocks import SampledBlock, Sampler
from hyperscale.training.sampling.sampling_routes import Routes

if TYPE_CHECKING:  # needs msgspec, which training itself does not
    from hyperscale.training.runtime.contract import Run

Tensor = torch.Tensor


class SampledTrainer(BatchTrainer, FullTrainer):
    """Many steps an epoch; model, optimizer, gradients and evaluation are those of full-graph training."""

    PHASES = ("sample", "fetch", "forward", "backward", "allreduce", "step")

    def __init__(self, run: Run, comm: Comm, part: LocalPart, device: torch.device, passes: Passes | None = None) -> None:
        """Collective: fills the cache. Raises ContractError where the fanouts do not fit the layers."""
        super().__init__(run, comm, part, device, passes)
        self._passes = passes if passes is not None else passes_on(device.type)
        fanouts = fanouts_of(run)
        self._seed, self._part = run.seed, part
        self.routes = Routes(comm)
        self._waits = self.routes.waits
        self.features = Features(self.routes, part, models.dense(self._x).cpu(), run.hyper.cache_size)
        self._sampler = Sampler(self.routes, part, fanouts, run.seed)
        mine = self._kinds.train.cpu().numpy()
        all_items = of_all_ranks(comm, part.owned[mine].astype(np.int64), "seeds.ids")
        self._shuffle = Shuffle(all_items, part.owned, mine)
        self.steps = max(1, math.ceil(len(all_items) / ((run.model.batch_size or len(all_items)) * comm.size)))
        comm.sent_bytes[:] = 0

    def _labelled(self, batch: Array) -> float:
        return float(self._weight(torch.from_numpy(batch).to(self._device)))

    def _step(self, batch: Array, weight: float, place: tuple[int, int], marks: Marks) -> Tensor:
        self._mark(marks)
        # A rank without seeds in this batch computes one vertex that counts nothing: every rank has the same gradients to send.
        # One without any vertices computes on nothing, and sends zeros.
        some = batch if len(batch) else np.zeros(min(1, len(self._part.owned)), dtype=np.int64)
        sample = self._sampler.sample(some, *place)
        self._mark(marks)
        rows, degrees = self.features.of(sample.ids, sample.owners)
        on_processor = self._device.type == "cpu"
        blocks = [SampledBlock(hop, degrees, self._passes, sample.counted(hop) if on_processor else PLACES) for hop in sample.hops]
        self._mark(marks)
        self.optimizer.zero_grad()
        logits = self.model(blocks, rows.to(self._device))
        chosen = torch.from_numpy(batch).to(self._device)
        loss = summed_loss(logits[: len(batch)], self._labels[chosen]) if len(batch) else logits.sum() * 0.0
        self._mark(marks)
        self._learn(loss / weight, marks)
        return loss.detach()


def fanouts_of(run: Run) -> tuple[int | None, ...]:
    """Neighbours by layer, the input's first; raises ContractError where there are not as many as layers."""
    fanouts = run.model.fanouts
    if not fanouts:
        return (None,) * run.model.layers
    if len(fanouts) != run.model.layers:
        raise ContractError(
            f"HYPERSCALE_MODEL: fanouts has {len(fanouts)} numbers for {run.model.layers} layers; "
            "write one a layer, or none for whole neighbourhoods"
        )
    return tuple(fanouts)
