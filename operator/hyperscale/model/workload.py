"""What one epoch of a job costs in arithmetic, bytes and memory, whatever it runs on."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class WorkloadProfile:
    """One GNN training job in numbers. Built by `hyperscale.planner.workload.profile.profile`; docs/explanation/planner.md derives them."""

    vertices: int
    edges: int
    """Directed."""

    epoch_flops: float
    """Forward and backward pass of one epoch over the whole graph, sparse operations weighted to dense ones."""

    step_overhead_seconds: float
    """Kernel launches and framework work of one step, the same on every GPU."""

    gradient_bytes: float
    """Payload of one allreduce."""

    parameter_bytes: float
    """Parameters, their gradients and the optimizer's two moments, on every GPU."""

    batch_size: int | None
    """Seed vertices per step and GPU; None trains the full graph in one step an epoch."""

    exchanges_per_step: int
    """Rounds in which a worker waits for data of the others in one step, the allreduce left out."""

    halo_bytes_per_copy: float
    """Full graph: bytes that one boundary copy of a vertex costs an epoch. Sampled: 0."""

    fetch_bytes_per_step: float
    """Sampled: feature bytes of all input vertices of one GPU's step, before locality. Full graph: 0."""

    full_graph_bytes: float
    """Memory of all vertices and edges, spread over the ranks: features, activations, gradients and matrices. Sampled: without
    what is kept for a backward pass, since whole neighbourhoods are only scored."""

    step_bytes: float
    """Memory of a step whatever the share: workspace of the libraries; sampled: features and activations of a batch besides."""

    random_partition: bool = False
    """True where vertices are assigned blindly, which cuts far more edges."""

    copy_bytes: float = 0.0
    """Memory of one boundary copy of a vertex."""

    train_vertices: int | None = None
    """Labelled vertices that an epoch trains on; None: all."""

    host_seconds: float = 0.0
    """Sampled: what an epoch takes on the processors beside the GPUs if one rank did it all: drawn neighbours, their features."""

    def steps(self, workers: int, gpus_per_worker: int) -> int:
        """Optimizer steps of one epoch, each with one allreduce."""
        if self.batch_size is None:
            return 1
        seeds = self.vertices if self.train_vertices is None else self.train_vertices
        return max(1, math.ceil(seeds / (self.batch_size * workers * gpus_per_worker)))

    def replication(self, partitions: int) -> float:
        """Boundary copies per vertex when the graph is cut into `partitions` parts; 0 for one part.

        0.08 (k − 1) (d / k)^0.4 with d the mean degree, never more than a blind cut makes, (k − 1)(1 − (1 − 1/k)^d).
        Fitted to published METIS cuts of PubMed, arxiv, products and Reddit at k = 2..16.
        """
        if partitions <= 1:
            return 0.0
        degree = self.edges / self.vertices
        blind = (partitions - 1) * (1.0 - math.pow(1.0 - 1.0 / partitions, degree))
        if self.random_partition:
            return blind
        return min(blind, 0.08 * (partitions - 1) * math.pow(degree / partitions, 0.4))

    def halo_bytes(self, partitions: int, workers: int, gpus_per_worker: int) -> float:
        """Bytes that all ranks together fetch from each other in one epoch; a rank is one GPU of a worker."""
        if workers * gpus_per_worker <= 1:
            return 0.0
        replication = self.replication(partitions)
        if self.batch_size is None:
            return replication * self.vertices * self.halo_bytes_per_copy
        remote_ratio = replication / (1.0 + replication)
        return self.steps(workers, gpus_per_worker) * workers * gpus_per_worker * self.fetch_bytes_per_step * remote_ratio

    def gpu_bytes(self, share: float, partitions: int, gpus_per_worker: int) -> float:
        """Memory that each GPU of a worker needs which holds `share` (0..1) of the vertices: its peak, the driver's context not counted."""
        copies = self.replication(partitions) * self.vertices * self.copy_bytes
        return self.parameter_bytes + self.step_bytes + share * (self.full_graph_bytes + copies) / gpus_per_worker
