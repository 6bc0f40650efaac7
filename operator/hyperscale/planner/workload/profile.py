"""Job to WorkloadProfile: arithmetic, bytes and memory of one epoch. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.model.api.datasets import DatasetSize, dataset_size, train_vertices
from hyperscale.model.api.job import Architecture, Compression, JobSpec, ModelSpec, PartitioningMethod
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.workload import training_memory
from hyperscale.planner.workload.layer_costs import DENSE_WEIGHT, WEIGHT_PASSES, Layer, layer_work, layers, parameters, weighs_own_rows
from hyperscale.planner.workload.sampled_steps import effective_fanouts, frontier
from hyperscale.util.float_sums import sum_in_order

FLOAT_BYTES: Final = 4
OPTIMIZER_COPIES: Final = 4
"""Parameter, gradient and Adam's two moments."""
BLIND: Final = (PartitioningMethod.RANDOM, PartitioningMethod.DEGREE, PartitioningMethod.NONE)
"""Methods that put vertices into parts without looking at who their neighbours are."""
LAYER_OVERHEAD_SECONDS: Final = 1.2e-3
"""Framework and launch time of one layer, forward and backward: two of 0.1 M edges take 2.4 to 3.0 ms (docs/benchmarks/gpu.md)."""
ATTENTION_OVERHEAD_SECONDS: Final = 3.7e-3
"""The same of a layer with attention, which launches for each block of heads."""
DRAW_SECONDS: Final = 0.28e-6
"""Of one drawn neighbour on the host of a GPU: draws, numbering, the block's matrix (docs/benchmarks/gpu.md)."""
HOST_BYTES_PER_SECOND: Final = 2.3e9
"""At which a step's features are gathered in the host's memory and copied to the GPU (the same page)."""


def profile(job: JobSpec) -> WorkloadProfile:
    """What one epoch of `job` costs. Raises ValueError naming the missing field."""
    model, size = job.model, dataset_size(job)
    if model.architecture is Architecture.CUSTOM and model.parameters is None:
        raise ValueError("spec.model.parameters: required for architecture Custom; write the number of trainable parameters")
    stack = layers(model, size.feature_size, size.classes)
    count = parameters(model, stack)
    trained = train_vertices(job)
    volumes = _full_graph(model, size, stack) if model.batch_size is None else _sampled(model, size, stack, _seeds(job, trained), trained)
    epoch_flops, halo_bytes_per_copy, fetch_bytes, graph_memory, step_bytes, host_seconds = volumes
    launches = ATTENTION_OVERHEAD_SECONDS if model.architecture is Architecture.GAT else LAYER_OVERHEAD_SECONDS
    return WorkloadProfile(
        vertices=size.vertices,
        edges=size.edges,
        epoch_flops=epoch_flops,
        step_overhead_seconds=model.layers * launches,
        gradient_bytes=count * FLOAT_BYTES * (0.5 if job.allreduce.compression is Compression.FP16 else 1.0),
        parameter_bytes=float(count * FLOAT_BYTES * OPTIMIZER_COPIES),
        batch_size=model.batch_size,
        exchanges_per_step=2 * (model.layers - 1) if model.batch_size is None else 1,
        halo_bytes_per_copy=halo_bytes_per_copy,
        fetch_bytes_per_step=fetch_bytes,
        full_graph_bytes=graph_memory.bytes(size.vertices, size.edges),
        copy_bytes=graph_memory.copy,
        step_bytes=step_bytes,
        train_vertices=trained,
        random_partition=job.partitioning.method in BLIND,
        host_seconds=host_seconds,
    )


Volumes = tuple[float, float, float, training_memory.Need, float, float]
"""epoch_flops, halo_bytes_per_copy, fetch_bytes_per_step, memory of vertices and edges, step_bytes, host_seconds."""


def _full_graph(model: ModelSpec, size: DatasetSize, stack: tuple[Layer, ...]) -> Volumes:
    """Every vertex in one step; the boundary's activations travel forward and their gradients back, its features once per run."""
    degree = size.edges / size.vertices
    fanouts = reversed(effective_fanouts(model.fanouts, len(stack), degree))
    flops = sum_in_order(
        layer_work(model, layer, size.vertices, size.vertices, size.vertices * fanout, first=layer is stack[0])
        for layer, fanout in zip(stack, fanouts, strict=True)
    )
    halo_bytes = sum_in_order(2.0 * layer.inputs * FLOAT_BYTES for layer in stack[1:])
    network = network_of(model, stack)
    graph_memory = training_memory.full_graph(network, size.vertices, size.edges)
    room = float(training_memory.blocks(network) + training_memory.LIBRARIES)
    return flops + _custom_flops(model, size.vertices), halo_bytes, 0.0, graph_memory, room, 0.0


def _seeds(job: JobSpec, trained: int) -> int:
    """Seeds of a rank's step with as few ranks as the job may have: a batch, or its part of all training vertices."""
    workers, batch_size = job.workers, job.model.batch_size or trained
    return max(1, min(batch_size, -(-trained // (workers.min_replicas * max(1, workers.gpus_per_worker)))))


def _sampled(model: ModelSpec, size: DatasetSize, stack: tuple[Layer, ...], batch_size: int, trained: int) -> Volumes:
    """Every training vertex is a seed once; each step fetches the features of its whole input frontier.

    The host's work is that of the worker's own sampler: a script brings another, of which nothing is known.
    """
    fanouts = effective_fanouts(model.fanouts, len(stack), size.edges / size.vertices)
    sizes = frontier(batch_size, fanouts, size.vertices)
    drawn = tuple(vertices * fanout for vertices, fanout in zip(sizes, fanouts, strict=False))
    step_flops = 0.0
    for depth, layer in enumerate(reversed(stack)):
        step_flops += layer_work(model, layer, sizes[depth + 1], sizes[depth], drawn[depth], first=layer is stack[0])
    batches = trained / batch_size
    network = network_of(model, stack)
    graph_memory = training_memory.evaluation(network, size.vertices, size.edges)
    step_bytes = training_memory.batch(network, sizes, drawn, size.edges) + training_memory.blocks(network) + training_memory.LIBRARIES
    fetched = sizes[-1] * size.feature_size * FLOAT_BYTES
    host_seconds = 0.0 if model.script else batches * (DRAW_SECONDS * sum_in_order(drawn) + fetched / HOST_BYTES_PER_SECOND)
    return step_flops * batches + _custom_flops(model, trained), 0.0, fetched, graph_memory, step_bytes, host_seconds


def network_of(model: ModelSpec, stack: tuple[Layer, ...]) -> training_memory.NetworkShape:
    """Return the network as the worker builds it; what the job does not state of dropout is as published, which is some."""
    stated = model.hyperparameters
    dropped = stated is None or stated.dropout is None or stated.dropout > 0.0
    attention = stated is None or stated.attention_dropout is None or stated.attention_dropout > 0.0
    widths = (stack[0].inputs, *(layer.outputs for layer in stack))
    attends = model.architecture is Architecture.GAT
    # GraphSAGE's gcn aggregator is the worker's GCN layer with other weights of edges.
    merged = model.architecture is Architecture.GRAPH_SAGE and not weighs_own_rows(model)
    architecture = Architecture.GCN if merged else model.architecture
    return training_memory.NetworkShape(architecture, widths, model.heads if attends else 1, dropped, attends and attention)


def _custom_flops(model: ModelSpec, vertices: int) -> float:
    """A model that we cannot see: its parameters once per vertex, beside the neighbour sums of its stated layers."""
    if model.architecture is not Architecture.CUSTOM or model.parameters is None:
        return 0.0
    return DENSE_WEIGHT * WEIGHT_PASSES * 2.0 * model.parameters * vertices
