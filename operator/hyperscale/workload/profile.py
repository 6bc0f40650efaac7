"""Job to WorkloadProfile: arithmetic, bytes and memory of one epoch. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.model.datasets import DatasetSize, dataset_size
from hyperscale.model.job import Architecture, Compression, JobSpec, ModelSpec, PartitioningMethod
from hyperscale.model.workload import WorkloadProfile
from hyperscale.workload.models import TRAINING_PASSES, Layer, layer_flops, layers, parameters
from hyperscale.workload.sampling import effective_fanouts, frontier

FLOAT_BYTES: Final = 4
OPTIMIZER_COPIES: Final = 4
"""Parameter, gradient and Adam's two moments."""
ACTIVATION_COPIES: Final = 2
"""Each activation is held until the backward pass, with its gradient."""
BLIND: Final = (PartitioningMethod.RANDOM, PartitioningMethod.DEGREE, PartitioningMethod.NONE)
"""Methods that put vertices into parts without looking at who their neighbours are."""
LAYER_OVERHEAD_SECONDS: Final = 1.5e-3
"""Framework and launch time of one layer, forward and backward: Cora's 2 layers take 3.9 ms on a V100 (Wang et al. 2019)."""


def profile(job: JobSpec) -> WorkloadProfile:
    """What one epoch of `job` costs. Raises ValueError naming the missing field."""
    model, size = job.model, dataset_size(job)
    if model.architecture is Architecture.CUSTOM and model.parameters is None:
        raise ValueError("spec.model.parameters: required for architecture Custom; write the number of trainable parameters")
    stack = layers(model, size.feature_size, size.classes)
    count = parameters(model, stack)
    volumes = _full_graph(model, size, stack) if model.batch_size is None else _sampled(model, size, stack, model.batch_size)
    epoch_flops, halo_bytes_per_copy, fetch_bytes, graph_bytes, step_bytes = volumes
    return WorkloadProfile(
        vertices=size.vertices,
        edges=size.edges,
        epoch_flops=epoch_flops,
        step_overhead_seconds=model.layers * LAYER_OVERHEAD_SECONDS,
        gradient_bytes=count * FLOAT_BYTES * (0.5 if job.allreduce.compression is Compression.FP16 else 1.0),
        parameter_bytes=float(count * FLOAT_BYTES * OPTIMIZER_COPIES),
        batch_size=model.batch_size,
        exchanges_per_step=2 * (model.layers - 1) if model.batch_size is None else 1,
        halo_bytes_per_copy=halo_bytes_per_copy,
        fetch_bytes_per_step=fetch_bytes,
        full_graph_bytes=graph_bytes,
        step_bytes=step_bytes,
        random_partition=job.partitioning.method in BLIND,
    )


Volumes = tuple[float, float, float, float, float]
"""epoch_flops, halo_bytes_per_copy, fetch_bytes_per_step, full_graph_bytes, step_bytes."""


def _full_graph(model: ModelSpec, size: DatasetSize, stack: tuple[Layer, ...]) -> Volumes:
    """Every vertex in one step; the boundary's activations travel forward and their gradients back, its features once per run."""
    degree = size.edges / size.vertices
    fanouts = reversed(effective_fanouts(model.fanouts, len(stack), degree))
    flops = sum(layer_flops(model, layer, size.vertices, size.vertices * fanout) for layer, fanout in zip(stack, fanouts, strict=True))
    halo_bytes = sum(2.0 * layer.inputs * FLOAT_BYTES for layer in stack[1:])
    held = size.feature_size + ACTIVATION_COPIES * sum(layer.outputs for layer in stack)
    return TRAINING_PASSES * flops + _custom_flops(model, size), halo_bytes, 0.0, float(size.vertices * held * FLOAT_BYTES), 0.0


def _sampled(model: ModelSpec, size: DatasetSize, stack: tuple[Layer, ...], batch_size: int) -> Volumes:
    """Every vertex is a seed once; each step fetches the features of its whole input frontier."""
    fanouts = effective_fanouts(model.fanouts, len(stack), size.edges / size.vertices)
    sizes = frontier(batch_size, fanouts, size.vertices)
    step_flops = 0.0
    for depth, layer in enumerate(reversed(stack)):
        step_flops += layer_flops(model, layer, sizes[depth], sizes[depth] * fanouts[depth])
    batches = size.vertices / min(batch_size, size.vertices)
    activations = sum(sizes[depth] * layer.outputs for depth, layer in enumerate(reversed(stack)))
    fetch_bytes = sizes[-1] * size.feature_size * FLOAT_BYTES
    step_bytes = fetch_bytes + ACTIVATION_COPIES * activations * FLOAT_BYTES
    return TRAINING_PASSES * step_flops * batches + _custom_flops(model, size), 0.0, fetch_bytes, 0.0, step_bytes


def _custom_flops(model: ModelSpec, size: DatasetSize) -> float:
    """A model that we cannot see: its parameters once per vertex, beside the neighbour sums of its stated layers."""
    if model.architecture is not Architecture.CUSTOM or model.parameters is None:
        return 0.0
    return TRAINING_PASSES * 2.0 * model.parameters * size.vertices
