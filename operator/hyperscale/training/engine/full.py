"""Full-graph training of one part: boundaries are exchanged in every layer, so the result is that of one process with the whole graph."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from hyperscale.model.adjacency import Array, LocalPart
from hyperscale.model.api.choices import Architecture, Compression
from hyperscale.training.engine import models, neighbourhood, numbering
from hyperscale.training.engine.gradients import Gradients
from hyperscale.training.engine.halo_exchange import Exchange
from hyperscale.training.engine.models import Rows
from hyperscale.training.engine.neighbourhood import PLACES, Counted, Neighbourhood
from hyperscale.training.engine.ops import Passes, passes_on
from hyperscale.training.engine.sparse_features import SparseRows, rows_of, worth_keeping_sparse
from hyperscale.training.engine.timing import Moment, Timer
from hyperscale.training.engine.trainer import EpochStats, Scores, summed_loss
from hyperscale.training.modelgraph.edges import Edges, Matrix, edges_of
from hyperscale.training.modelgraph.kernels import NOTHING, Tail
from hyperscale.training.runtime.comm import Comm

if TYPE_CHECKING:  # needs msgspec, which training itself does not
    from hyperscale.training.runtime.contract import Run

Tensor = torch.Tensor


class PartGraph(Neighbourhood):
    """Own vertices, whose in-neighbours are own vertices and copies of others'."""

    def __init__(
        self, part: LocalPart, exchange: Exchange, device: torch.device, counted: Counted = PLACES, passes: Passes | None = None
    ) -> None:
        """passes: None takes those of the device."""
        self.exchange, self.counted = exchange, counted
        self.passes = passes if passes is not None else passes_on(device.type)
        self._owned = len(part.owned)
        self._part = part
        self._matrices: dict[str, tuple[Matrix, Matrix | None]] = {}

    def destinations(self, x: Tensor) -> Tensor:
        """All of x: own vertices are the destinations."""
        return x

    def gather(
        self,
        weights: str,
        x: Tensor,
        name: str,
        *,
        add: Callable[[], Tensor] | None = None,
        bias: Tensor | None = None,
        tail: Tail = NOTHING,
    ) -> Tensor:
        """Own rows are added up while the copies are on their way.

        What is computed between `start` and `wait` is also what autograd computes while gradients travel: a rank that comes later by less
        than that delays no other rank.
        """
        if weights not in self._matrices:
            self._matrices[weights] = self._split_matrix(weights)
        inner, outer = self._matrices[weights]
        if outer is None:
            return self.passes.aggregate(inner, x, add=None if add is None else add(), bias=bias, tail=tail)
        wait = self.exchange.start(x, name)
        own = self.passes.aggregate(inner, x, add=None if add is None else add())
        return self.passes.aggregate(outer, wait(), add=own, bias=bias, tail=tail)

    def _split_matrix(self, weights: str) -> tuple[Matrix, Matrix | None]:
        """Of own vertices, and of copies where there are other ranks; loops are among the first."""
        part, own, ids = self._part, self._owned, self.counted.destinations
        received, sent = part.in_degree[:own], part.out_degree
        if self.exchange.comm.size == 1:
            return neighbourhood.matrix(weights, part.indptr, part.indices, (received, sent), loops=True, ids=ids), None
        inside = part.indices < own
        first, inner = _filtered(part, inside, 0)
        second, outer = _filtered(part, ~inside, own)
        return (
            neighbourhood.matrix(weights, first, inner, (received, sent[:own]), loops=True, ids=ids),
            neighbourhood.matrix(weights, second, outer, (received, sent[own:]), loops=False, ids=ids),
        )

    def sources(self, x: Tensor, name: str) -> Tensor:
        """Own rows, then copies."""
        if self.exchange.comm.size == 1:
            return x
        return torch.cat([x, self.exchange.start(x, name)()])

    @cached_property
    def looped(self) -> Edges:
        """Made when first asked for."""
        looped = neighbourhood.with_loops(self._part.indptr, self._part.indices)
        counted = self.counted
        return edges_of(*looped, self._owned + len(self._part.halo), ids=counted.destinations, offsets=counted.offsets)


def _filtered(part: LocalPart, chosen: Array, first: int) -> tuple[Array, Array]:
    """CSR of some of the part's edges; their sources begin at local id `first`."""
    running = np.concatenate([[0], np.cumsum(chosen)])
    return running[part.indptr], part.indices[chosen] - first


@dataclass(frozen=True)
class Kinds:
    """Rows (k,) int64 of own labelled vertices of each kind. A mask would need a count, for which the host waits."""

    train: Tensor
    validation: Tensor
    test: Tensor


class FullTrainer:
    """One step an epoch over the whole graph."""

    def __init__(self, run: Run, comm: Comm, part: LocalPart, device: torch.device, passes: Passes | None = None) -> None:
        """Collective: agrees on the boundary and on the first weights. passes: None takes those of the device."""
        self._comm, self._device, self._timer = comm, device, Timer(device)
        on_processor = device.type == "cpu"
        self.rng = models.DropoutRng(run.seed, 0 if on_processor else run.rank)
        self.exchange = Exchange(comm, part, device)
        attention = run.model.architecture is Architecture.GAT and run.hyper.attention_dropout > 0.0
        numbers = numbering.counted(comm, part, attention=attention) if on_processor else PLACES
        graph = PartGraph(part, self.exchange, device, numbers, passes)
        self._graphs = [graph] * run.model.layers
        features, sparse_rows = _features(comm, part.features, normalize=run.hyper.normalize_features)
        self._x: Rows = rows_of(features, device, sparse=sparse_rows)
        if isinstance(self._x, SparseRows) and on_processor:
            self._x = numbering.numbered(comm, part, self._x)
        self._labels = torch.from_numpy(part.labels).to(device)
        labelled = _labelled(part.labels)
        kinds = (np.flatnonzero(mask & labelled) for mask in (part.train, part.validation, part.test))
        self._kinds = Kinds(*(torch.from_numpy(rows).to(device) for rows in kinds))
        width = part.features.shape[1]
        self.model = models.build(run.model, run.hyper, width, outputs(part), self.rng, run.seed).to(device)
        self.optimizer = models.optimizer(self.model, run.hyper)
        self.steps = 1
        self.gradients = Gradients(comm, self.model, half=run.compression is Compression.FP16)
        counted = comm.allreduce(torch.tensor([float(self._weight(self._kinds.train))], dtype=torch.float64), "train.total")
        self._total = max(1.0, float(counted.item()))
        self._samples = part.train_total

    def epoch(self, number: int) -> EpochStats:
        """One step: the loss of own training vertices over all training vertices; gradients are summed."""
        comm, timer, sent = self._comm, self._timer, self._comm.sent_bytes.copy()
        moments = [timer.now()]
        self.rng.begin(number)
        self.model.train()
        self.optimizer.zero_grad()
        self.exchange.waits.clear()
        self.gradients.waits.clear()
        loss = self._loss(self.model(self._graphs, self._x), self._kinds.train) / self._total
        moments.append(timer.now())
        waited = self.exchange.waits.count
        summed = loss.detach().to(torch.float64).reshape(1)
        # Handing a number to the host waits for the GPU: there the backward pass is launched first.
        arrived = None if timer.asynchronous else comm.start_allreduce_([summed], "loss")
        self.gradients.start()
        loss.backward()  # type: ignore[no-untyped-call]
        moments.append(timer.now())
        arrived = arrived or comm.start_allreduce_([summed], "loss")
        self.gradients.finish()
        moments.append(timer.now())
        self.optimizer.step()
        arrived()
        moments.append(timer.now())
        timer.settle()
        return self._stats(moments, waited, float(summed.item()), comm.sent_bytes - sent)

    def _stats(self, moments: list[Moment], waited: int, loss: float, sent: Array) -> EpochStats:
        """Of an epoch whose phases end at `moments`; `waited`: exchanges of the forward pass."""
        forward, backward, _, step = (self._timer.seconds(*pair) for pair in pairwise(moments))
        forward_wait, backward_wait = self.exchange.waits.seconds(0, waited), self.exchange.waits.seconds(waited)
        halo, exposed = forward_wait + backward_wait, self.gradients.waits.seconds()
        return EpochStats(
            loss=loss,
            samples=self._samples,
            seconds=self._timer.seconds(moments[0], moments[-1]),
            communication_seconds=halo + exposed,
            phases={
                "forward": forward - forward_wait,
                "backward": backward - backward_wait,
                "halo": halo,
                "allreduce": exposed,
                "step": step,
            },
            sent_bytes=tuple(int(count) for count in sent),
        )

    @torch.no_grad()
    def evaluate(self) -> Scores:
        """Accuracy on each kind of vertices, over all ranks."""
        self.model.eval()
        logits = self.model(self._graphs, self._x)
        figures: list[float] = []
        for rows in (self._kinds.train, self._kinds.validation, self._kinds.test):
            figures += [self._correct(logits, rows), float(self._weight(rows))]
        figures.append(float(self._loss(logits, self._kinds.validation)))
        total = self._comm.allreduce(torch.tensor(figures, dtype=torch.float64), "scores").tolist()
        train, validation, test = (total[i] / total[i + 1] if total[i + 1] else math.nan for i in (0, 2, 4))
        return Scores(train, validation, test, total[6] / total[3] if total[3] else math.nan)

    def _loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Sum over the vertices `rows` (k,)."""
        return summed_loss(logits.index_select(0, rows), self._labels.index_select(0, rows))

    def _weight(self, rows: Tensor) -> int:
        labels = self._labels.index_select(0, rows)
        return len(labels) if labels.dim() == 1 else int((~labels.isnan()).sum())

    def _correct(self, logits: Tensor, rows: Tensor) -> float:
        chosen, labels = logits.index_select(0, rows), self._labels.index_select(0, rows)
        if labels.dim() == 1:
            return float((chosen.argmax(dim=1) == labels).sum())
        return float((((chosen > 0.0) == (labels > 0.5)) & ~labels.isnan()).sum())


def outputs(part: LocalPart) -> int:
    """Width of the last layer: one number a task, or one a class."""
    return part.labels.shape[1] if part.labels.ndim == 2 else part.classes


def _labelled(labels: Array) -> Array:
    return np.ones(len(labels), dtype=bool) if labels.ndim == 2 else labels >= 0


def _features(comm: Comm, features: Array, *, normalize: bool) -> tuple[Array, bool]:
    """Rows that sum to 1 where asked for, and where rows are counts or the like: no rank holds anything negative.

    And whether all ranks together hold few that are not 0.
    """
    rows: Array = features.astype(np.float32)
    figures = [float((rows < 0).any()), float(np.count_nonzero(rows)), float(rows.size)]
    negative, filled, size = comm.allreduce(torch.tensor(figures, dtype=torch.float64), "features.kind").tolist()
    few = worth_keeping_sparse(filled, size)
    if not normalize or features.dtype.kind != "f" or negative > 0:
        return rows, few
    with np.errstate(over="ignore"):
        sums = rows.sum(axis=1, keepdims=True)
    changed = comm.allreduce(torch.tensor([float((np.abs(sums[sums > 0] - 1.0) > 1e-3).any())]), "features.changed").item() > 0
    if changed and comm.rank == 0:
        note = "features: no entry is negative, so rows are scaled to sum 1; spec.model.hyperparameters.normalizeFeatures: false keeps them"
        sys.stderr.write(f"{note}\n")
    if not np.isfinite(sums).all():
        sums = rows.sum(axis=1, keepdims=True, dtype=np.float64)
    return (rows / np.where(sums > 0, sums, 1.0)).astype(np.float32, copy=False), few
