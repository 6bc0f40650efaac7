"""Training on many graphs with a label each, such as molecules: every rank has whole graphs by its share, and batches of them.

All ranks take the same steps: batches are drawn from all training graphs, and each rank has those of a batch that it holds, by its share
in the mean. The loss is divided by the labels of the whole batch, normalisation covers the whole batch, a graph has its own dropout, sums
over graphs have no order (molecules_sums.h): on processors any number of ranks trains what one process trains, to the bit.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import torch
from torch.nn import functional

from hyperscale.model.adjacency import Array, LocalPart
from hyperscale.model.api.job import Compression
from hyperscale.training.engine import models
from hyperscale.training.engine.adam import Adam
from hyperscale.training.engine.batch_trainer import BatchTrainer, Marks
from hyperscale.training.engine.gradients import Gradients
from hyperscale.training.engine.sampling_batches import Shuffle, of_all_ranks
from hyperscale.training.engine.timing import Timer
from hyperscale.training.engine.trainer import EpochStats, Scores
from hyperscale.training.molecules import molecules_linear
from hyperscale.training.molecules.molecules_batch import MoleculeBatch, assemble, in_turn, prepared
from hyperscale.training.molecules.molecules_model import GraphNetwork, build
from hyperscale.training.molecules.molecules_norm import Sums
from hyperscale.training.molecules.molecules_score import accuracy, mean_roc_auc
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.contract import ContractError, Run

Tensor = torch.Tensor
BATCH: Final = 256
"""Graphs per step and rank where spec.model.batchSize is absent."""
KINDS: Final = 4096
"""Combinations of vertex categories up to which their embeddings are added up once a kind."""
EVALUATED: Final = 1024
"""Graphs of a batch that is only scored."""


class GraphTrainer(BatchTrainer):
    """Graph-level GCN, GraphSAGE or GAT."""

    PHASES = ("sample", "forward", "backward", "allreduce", "step")

    def __init__(self, run: Run, comm: Comm, part: LocalPart, device: torch.device) -> None:
        """Collective. Raises ContractError where labels or model do not fit this way of training."""
        self._comm, self._part, self._device, self._seed = comm, part, device, run.seed
        self._timer = Timer(device)
        self.hyper = hyper = run.hyper_for_graphs
        self._check_labels()
        self._single_label = part.labels.ndim == 1
        self.rng = models.DropoutRng(run.seed, 0)
        """The same on all ranks: what is dropped of a graph does not depend on where it lies."""
        self._sums = Sums(comm, device)
        self._waits, self._samples = self._sums.waits, part.train_total
        self._vertices = _vertices(part, device)
        self._kinds, kind_of, edge_sizes = _kinds(comm, part, device, wanted=hyper.edge_features)
        self._graphs = prepared(part, kind_of, len(self._kinds), run.model.architecture, hyper.aggregator)
        self._labels = torch.from_numpy(part.labels).to(device)
        self._shuffle = _shuffle(comm, part)
        vertex_sizes = part.features.shape[1] if part.features.dtype.kind == "f" else column_sizes(comm, part.features, "vertex")
        outputs = part.classes if self._single_label else part.labels.shape[1]
        try:
            self.model: GraphNetwork = build(run.model, hyper, vertex_sizes, edge_sizes, outputs, self.rng, run.seed, self._sums).to(device)
        except ValueError as error:
            raise ContractError(str(error)) from error
        self.optimizer: torch.optim.Optimizer = Adam(
            self.model.parameters(), lr=hyper.learning_rate, weight_decay=hyper.weight_decay, fused=True
        )
        self.gradients = Gradients(comm, self.model, half=run.compression is Compression.FP16)
        self.steps = max(1, math.ceil(part.train_total / ((run.model.batch_size or BATCH) * comm.size)))
        self._held_out = tuple(_held_out(comm, part, name) for name in ("validation", "test"))
        self._seen: tuple[Array, Array] | None = None
        comm.sent_bytes[:] = 0

    def epoch(self, number: int) -> EpochStats:
        """Every training graph once."""
        self._batches: list[tuple[Tensor, Array]] = []
        stats = super().epoch(number)
        logits, labels = zip(*self._batches, strict=True)
        self._seen = np.concatenate([part.cpu().numpy() for part in logits]), np.concatenate(labels)
        return stats

    def _summed(self, x: Tensor, name: str) -> Tensor:
        return self._sums.now(x, name)

    def _phases(self, steps: list[Marks]) -> dict[str, float]:
        """What the forward and backward passes waited for statistics is not theirs."""
        return super()._phases(steps) | {"statistics": self._waits.seconds()}

    @torch.no_grad()
    def evaluate(self) -> Scores:
        """Over the graphs of all ranks; of the training graphs what the last epoch saw before each of its steps."""
        self.model.eval()
        part = self._part
        figures: list[float] = []
        for name, graphs, order in self._held_out:
            logits = [self._logits(batch).cpu().numpy() for batch in in_turn(graphs, EVALUATED)]
            own = np.concatenate([*logits, np.zeros((0, len(self.model.head.weight)), np.float32)])
            scores, labels = self._of_all_ranks(own, part.labels[graphs], name)
            figures += [self._score(scores, labels), _loss_of(scores[order], labels[order])]
        train = math.nan
        if self._comm.allreduce(torch.tensor([float(self._seen is not None)]), "scores.seen").item() == self._comm.size and self._seen:
            train = self._score(*self._of_all_ranks(*self._seen, "train"))
        return Scores(train, figures[0], figures[2], figures[1])

    def _step(self, batch: Array, weight: float, place: tuple[int, int], marks: Marks) -> Tensor:
        self._mark(marks)
        graphs = assemble(self._graphs, batch, self._device)
        self._mark(marks)
        self.optimizer.zero_grad()
        logits = self._forward(graphs)
        loss = molecules_linear.loss(logits, self._labels[graphs.graphs], weight)
        self._mark(marks)
        self._learn(loss, marks)
        self._batches.append((logits.detach(), self._part.labels[batch]))
        return loss.detach().double() * weight

    def _logits(self, graphs: Array) -> Tensor:
        return self._forward(assemble(self._graphs, graphs, self._device))

    def _forward(self, batch: MoleculeBatch) -> Tensor:
        features, kind_of = self._vertices
        if kind_of is None:
            features = features[batch.vertices]
        logits: Tensor = self.model(features, None if kind_of is None else kind_of[batch.vertices], batch, self._kinds)
        return logits

    def _labelled(self, batch: Array) -> float:
        labels = self._part.labels[batch]
        return float((labels >= 0).sum() if self._single_label else (~np.isnan(labels)).sum())

    def _score(self, logits: Array, labels: Array) -> float:
        return accuracy(logits, labels) if self._single_label else mean_roc_auc(logits, labels)

    def _of_all_ranks(self, logits: Array, labels: Array, name: str) -> tuple[Array, Array]:
        """Rows of all ranks in order of ranks, on every rank."""
        logits, labels = of_all_ranks(self._comm, logits, f"{name}.logits"), of_all_ranks(self._comm, labels, f"{name}.labels")
        return logits, labels

    def _check_labels(self) -> None:
        labels = self._part.labels
        labelled = float((labels[self._part.train] >= 0).sum()) if labels.ndim == 1 else float((~np.isnan(labels[self._part.train])).sum())
        if not self._comm.allreduce(torch.tensor([labelled]), "labels.known").item():
            raise ContractError("HYPERSCALE_DATASET_PATH: no graph in train has a label; write labels, and train into the split of some")
        wrong = labels.ndim == 2 and not np.isin(labels[~np.isnan(labels)], (0.0, 1.0)).all()
        if self._comm.allreduce(torch.tensor([float(wrong)]), "labels.wrong").item():
            raise ContractError("HYPERSCALE_DATASET_PATH: labels of graphs must be 0, 1 or empty; regression is not trained here")


def _shuffle(comm: Comm, part: LocalPart) -> Shuffle:
    mine = np.flatnonzero(part.train)
    owned = part.extra["graphs"].astype(np.int64)
    return Shuffle(of_all_ranks(comm, owned[mine], "train.ids"), owned, mine)


def _held_out(comm: Comm, part: LocalPart, name: str) -> tuple[str, Array, Array]:
    """A set's name, the rank's graphs in it, and the order of all ranks' by their numbers in the whole data set; collective."""
    graphs = np.flatnonzero(part.validation if name == "validation" else part.test)
    return name, graphs, np.argsort(of_all_ranks(comm, part.extra["graphs"].astype(np.int64)[graphs], f"{name}.ids"))


def column_sizes(comm: Comm, rows: Array, name: str) -> list[int]:
    """Values of each column of categories: one more than the largest that any rank holds; collective."""
    own = rows.max(axis=0, initial=0) + 1
    sizes: list[int] = comm.gather(torch.from_numpy(own.astype(np.int64)), f"{name}.sizes").max(dim=0).values.tolist()
    return sizes


def _vertices(part: LocalPart, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Categories of each kind of vertex and the kind of each vertex; all rows and None where rows are real or of too many kinds."""
    rows = part.features
    if rows.dtype.kind in "iu":
        kinds, kind_of = _numbered(rows)
        if len(kinds) <= KINDS:
            return torch.from_numpy(kinds).to(device), torch.from_numpy(kind_of).to(device)
        rows = rows.astype(np.int64)
    return torch.from_numpy(np.ascontiguousarray(rows)).to(device), None


def _kinds(comm: Comm, part: LocalPart, device: torch.device, *, wanted: bool) -> tuple[Tensor, Array, list[int]]:
    """Combinations of edge categories that the rank holds, the combination of each edge, and the sizes of the columns; collective.

    Edges without features, with real-valued ones, or with unwanted ones are all of one kind: real values on edges are not used.
    """
    features = part.extra.get("edge_features")
    usable = wanted and features is not None and features.dtype.kind in "iu" and features.ndim == 2 and features.shape[1] > 0
    rows = features if usable and features is not None else np.zeros((len(part.indices), 1), np.int64)
    sizes = column_sizes(comm, rows, "edge")
    kinds, kind_of = _numbered(rows)
    return torch.from_numpy(kinds).to(device), kind_of, sizes


def _numbered(rows: Array) -> tuple[Array, Array]:
    """Different rows (k, c) of categories, ascending, and which of them each row is, both int64."""
    sizes = tuple((rows.max(axis=0, initial=0) + 1).tolist())
    few = math.prod(sizes) < 2**62
    codes = np.ravel_multi_index(tuple(rows.T), sizes) if few else np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    _, first, kind_of = np.unique(codes, return_index=True, return_inverse=True)
    return rows[first].astype(np.int64), kind_of.reshape(-1).astype(np.int64)


def _loss_of(logits: Array, labels: Array) -> float:
    """Mean over known labels; NaN where there are none."""
    rows, truth = torch.from_numpy(logits), torch.from_numpy(labels)
    if labels.ndim == 1:
        labelled = truth >= 0
        return float(functional.cross_entropy(rows[labelled], truth[labelled])) if labelled.any() else math.nan
    labelled = ~truth.isnan()
    return float(functional.binary_cross_entropy_with_logits(rows[labelled], truth[labelled])) if labelled.any() else math.nan
