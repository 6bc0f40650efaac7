"""Graphs, runs and trainers of benchmarks/gpu.py, with torch and numpy alone: nothing here needs what a job's own contract is read with."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import torch

from benchmarks.threads import solo
from hyperscale.model.adjacency import Array, LocalPart
from hyperscale.model.api.choices import Architecture, Compression
from hyperscale.planner.workload import layer_costs, training_memory
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.ops import Passes
from hyperscale.training.modelgraph import csr
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.sampling.sampled_trainer import SampledTrainer

if TYPE_CHECKING:
    from hyperscale.model.api.job import ModelSpec
    from hyperscale.training.runtime.contract import Run

CLASSES: Final = 16
LAYERS: Final = 2
ARCHITECTURES: Final = (Architecture.GCN, Architecture.GRAPH_SAGE, Architecture.GAT)


@dataclasses.dataclass(frozen=True)
class Case:
    """One model on one generated graph."""

    architecture: str
    edges: int
    """Directed, before self loops."""
    vertices: int
    features: int = 64
    hidden: int = 64
    """Of all heads together."""
    heads: int = 4
    """Of GAT."""
    dropout: float = 0.5

    @property
    def name(self) -> str:
        """As printed."""
        return f"{self.architecture}, {self.edges / 1e6:g} M edges, {self.vertices / 1e6:g} M vertices, {self.features} to {self.hidden}"

    @property
    def attends(self) -> bool:
        """Whether it is GAT."""
        return self.architecture == Architecture.GAT

    def network(self, *, cuda: bool) -> training_memory.NetworkShape:
        """As the memory model has it."""
        widths = (self.features, *([self.hidden] * (LAYERS - 1)), CLASSES)
        dropped = self.dropout > 0.0
        return training_memory.NetworkShape(
            Architecture(self.architecture), widths, self.heads if self.attends else 1, dropped, self.attends and dropped, cuda
        )


@dataclasses.dataclass(frozen=True)
class _Hyper:
    dropout: float
    attention_dropout: float
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    decay_first_layer_only: bool = False
    projected_dropout: float = 0.0
    output_heads: int = 1
    aggregator: str = "Mean"
    normalize_features: bool = False
    cache_size: int = 1 << 20


@dataclasses.dataclass(frozen=True)
class _Model:
    architecture: Architecture
    hidden_size: int
    heads: int
    layers: int = LAYERS
    batch_size: int | None = None
    fanouts: tuple[int, ...] = ()
    hyperparameters: _Hyper | None = None


@dataclasses.dataclass(frozen=True)
class _Run:
    model: _Model
    hyper: _Hyper
    rank: int = 0
    size: int = 1
    seed: int = 1
    compression: Compression = Compression.NONE


def run_of(case: Case, rank: int = 0, size: int = 1, batch: int | None = None, fanouts: tuple[int, ...] = ()) -> Run:
    """What a trainer reads of a job's contract."""
    architecture = Architecture(case.architecture)
    heads = case.heads if case.attends else 1
    model = _Model(architecture, case.hidden // heads, heads, batch_size=batch, fanouts=fanouts)
    return cast("Run", _Run(model, _Hyper(case.dropout, case.dropout if case.attends else 0.0), rank, size))


def graph_of(case: Case, seed: int = 0) -> LocalPart:
    """A whole graph as one part: hubs among sources and destinations, features that follow the labels, half of the vertices in train."""
    rng = np.random.default_rng(seed)
    count = case.vertices
    received = np.bincount(_skewed(rng, count, case.edges), minlength=count)
    indices = _skewed(rng, count, case.edges)
    labels = rng.integers(0, CLASSES, count)
    features = rng.standard_normal((count, case.features), dtype=np.float32)
    features[np.arange(count), labels % case.features] += 2.0
    place = rng.permutation(count) % 4
    return LocalPart(
        part=0,
        parts=1,
        owned=np.arange(count, dtype=np.int64),
        halo=np.zeros(0, np.int64),
        halo_owner=np.zeros(0, np.int32),
        indptr=np.concatenate([[0], np.cumsum(received)]).astype(np.int64),
        indices=indices,
        in_degree=received.astype(np.int32),
        out_degree=np.bincount(indices, minlength=count).astype(np.int32),
        features=features,
        labels=labels.astype(np.int64),
        train=place < 2,
        validation=place == 2,
        test=place == 3,
        classes=CLASSES,
        train_total=int((place < 2).sum()),
        extra={},
        name=case.name,
    )


def _skewed(rng: np.random.Generator, count: int, draws: int) -> Array:
    """(draws,) int32 vertices, low numbers more often: vertex 0 has draws / sqrt(count)."""
    drawn: Array = (count * rng.random(draws, dtype=np.float32) ** 2).astype(np.int32)
    return np.minimum(drawn, count - 1)


def trainer_of(case: Case, part: LocalPart, device: torch.device, passes: Passes = csr, comm: Comm | None = None) -> FullTrainer:
    """Full-graph training of a case."""
    one = comm if comm is not None else solo()
    return FullTrainer(run_of(case, one.rank, one.size), one, part, device, passes)


def sampled_of(
    case: Case, part: LocalPart, device: torch.device, batch: int, fanouts: tuple[int, ...], passes: Passes = csr
) -> SampledTrainer:
    """Training of a case in batches."""
    return SampledTrainer(run_of(case, batch=batch, fanouts=fanouts), solo(), part, device, passes)


def operations(case: Case) -> float:
    """What the planner counts for one epoch, in the operations of its table of GPUs (planner/problem/speeds.py)."""
    heads = case.heads if case.attends else 1
    model = cast("ModelSpec", _Model(Architecture(case.architecture), case.hidden // heads, heads))
    stack = layer_costs.layers(model, case.features, CLASSES)
    shape = case.vertices, case.vertices, case.edges
    return sum(layer_costs.layer_work(model, layer, *shape, first=layer is stack[0]) for layer in stack)


def predicted_bytes(case: Case, *, cuda: bool) -> float:
    """The planner's peak of the case on one GPU; without what CUDA's libraries keep where there is none."""
    network = case.network(cuda=cuda)
    need = training_memory.full_graph(network, case.vertices, case.edges)
    return need.bytes(case.vertices, case.edges) + training_memory.blocks(network) + (training_memory.LIBRARIES if cuda else 0)
