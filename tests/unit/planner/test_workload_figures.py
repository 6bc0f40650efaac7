"""Figures of the cost model against published measurements."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_epochs
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.problem.speeds import gpu_speed
from hyperscale.planner.workload.layer_costs import Layer, layer_work
from hyperscale.planner.workload.profile import profile
from hyperscale.planner.workload.sampled_steps import effective_fanouts, frontier
from tests.builders.clusters import POLICY, gpu_node, training

DATA = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "gnn_epochs"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the published epoch times lie beside the repository and are absent here")

LEAST_OF_PUBLISHED = {"reddit": 0.5}
"""Predicted over published: DGL's sums over Reddit's 500 neighbours a vertex took longer than ours would (docs/explanation/planner.md)."""

LOADED_EDGES = {"ogbn-arxiv": 2_332_486, "reddit": 114_615_892, "ogbn-products": 123_718_280, "orkut": 234_370_166}
"""Directed edges as the training scripts load them; the tables print other counts."""


def graph(vertices: int, edges: int, features: int = 100, classes: int = 47) -> dict[str, Any]:
    return {
        "source": {"persistentVolumeClaim": {"claimName": "g"}},
        "vertices": vertices,
        "edges": edges,
        "featureSize": features,
        "classes": classes,
    }


@needs_data
def test_full_graph_graphsage_on_one_a100_is_predicted_within_35_percent_but_on_reddit() -> None:
    with (DATA / "dataset_stats.csv").open() as lines:
        shapes = {row["dataset"]: row for row in csv.DictReader(lines) if row["table"] == "T21"}
    with (DATA / "epoch_times.csv").open() as lines:
        times = {
            row["dataset"]: float(row["epoch_s"])
            for row in csv.DictReader(lines)
            if (row["table"], row["system"], row["gpus"]) == ("T21", "Full-Graph", "1") and row["hosts"] == "1"
        }
    speed = gpu_speed(gpu_node("n", product="NVIDIA-A100-SXM4-80GB"), POLICY).flops_per_second
    for name, edges in LOADED_EDGES.items():
        shape = shapes[name]
        job = training(
            model={"architecture": "GraphSAGE", "layers": int(shape["layers"]), "hiddenSize": int(shape["hidden"])},
            dataset=graph(int(shape["nodes"]), edges, int(shape["feature_dim"]), int(shape["classes"])),
        )
        assert LEAST_OF_PUBLISHED.get(name, 0.65) < profile(job).epoch_flops / speed / times[name] < 1.35, name


@needs_data
@pytest.mark.parametrize(
    ("name", "vertices", "edges"),
    [
        ("pubmed", 19_717, 88_648),
        ("ogbn-arxiv", 169_343, 2_332_486),
        ("reddit", 232_965, 114_615_892),
        ("ogbn-products", 2_449_029, 123_718_280),
    ],
)
def test_boundary_copies_of_metis_parts_are_predicted_within_a_factor_of_two(name: str, vertices: int, edges: int) -> None:
    counted: dict[int, int] = {}
    with (DATA / "halo_counts.csv").open() as lines:
        for row in csv.DictReader(lines):
            if row["dataset"] == name:
                counted[int(row["k"])] = counted.get(int(row["k"]), 0) + int(row["boundary_vertices"])
    workload = profile(training(dataset=graph(vertices, edges)))
    for parts, copies in counted.items():
        assert 0.5 < workload.replication(parts) / (copies / vertices) < 2.0, (name, parts)


@pytest.mark.parametrize("method", ["Random", "Degree", "None"])
def test_blind_partitions_are_never_better_than_cut_ones(method: str) -> None:
    cut = profile(training())
    blind = profile(training(partitioning={"method": method}))
    assert blind.random_partition
    assert all(cut.replication(parts) <= blind.replication(parts) <= parts - 1 for parts in range(1, 65))


def test_fp16_halves_the_gradient_bytes() -> None:
    full, half = profile(training()), profile(training(allreduce={"compression": "FP16"}))
    assert half.gradient_bytes * 2 == full.gradient_bytes


def test_steps_fall_with_workers_and_their_gpus_and_never_below_one() -> None:
    workload = profile(
        training(model={"architecture": "GCN", "batchSize": 1024}, dataset=graph(10_000, 50_000) | {"trainVertices": 10_000})
    )
    assert [workload.steps(1, 1), workload.steps(2, 1), workload.steps(2, 2), workload.steps(50, 1)] == [10, 5, 3, 1]


def test_one_worker_exchanges_nothing() -> None:
    assert profile(training()).halo_bytes(1, 1, 8) == 0.0


def test_a_custom_model_without_parameters_is_refused_by_field() -> None:
    with pytest.raises(ValueError, match=r"^spec\.model\.parameters: "):
        profile(training(model={"architecture": "Custom"}))


def test_a_dataset_without_its_size_is_refused_by_field() -> None:
    with pytest.raises(ValueError, match=r"^spec\.dataset\.vertices"):
        profile(training(dataset={"source": {"persistentVolumeClaim": {"claimName": "g"}}}))


def test_fanouts_are_bounded_by_the_mean_degree_and_missing_ones_mean_all_neighbours() -> None:
    assert effective_fanouts((25, 10), 3, 20.0) == (10.0, 20.0, 20.0)


def test_a_frontier_grows_and_never_exceeds_the_graph() -> None:
    sizes = frontier(1000, (10.0, 10.0, 10.0), 50_000)
    assert sizes[0] == 1000
    assert all(before <= after <= 50_000 for before, after in pairwise(sizes))


SAMPLED = {"architecture": "GraphSAGE", "layers": 3, "batchSize": 1024, "fanouts": [15, 10, 5]}


@pytest.mark.parametrize(
    ("vertices", "edges", "trained"),
    [
        (2_449_029, 123_718_280, 196_615),
        (111_059_956, 3_231_371_744, 1_207_179),
        (169_343, 2_332_486, 90_941),
        (1_000_000, 9_000_000, 600_000),
    ],
    ids=["ogbn-products", "ogbn-papers100M", "ogbn-arxiv", "another: the split that readers draw"],
)
def test_a_sampled_epoch_has_a_step_for_each_batch_of_training_vertices(vertices: int, edges: int, trained: int) -> None:
    workload = profile(training(model=SAMPLED, dataset=graph(vertices, edges)))
    assert workload.steps(1, 1) == -(-trained // 1024)
    assert workload.steps(4, 2) == -(-trained // 8192)


def test_a_job_may_state_its_training_vertices_and_its_epoch_is_as_long() -> None:
    whole = profile(training(model=SAMPLED, dataset=graph(1_000_000, 9_000_000)))
    stated = profile(training(model=SAMPLED, dataset=graph(1_000_000, 9_000_000) | {"trainVertices": 60_000}))
    assert stated.steps(1, 1) == 59
    assert stated.epoch_flops == pytest.approx(whole.epoch_flops / 10)
    builtin = training(model={"architecture": "GCN", "batchSize": 20}, dataset={"source": {"builtin": {"name": "Cora"}}})
    assert profile(builtin).steps(1, 1) == 7


@pytest.mark.parametrize("architecture", ["GCN", "GraphSAGE", "GAT"])
def test_memory_counts_edges_and_falls_with_the_share(architecture: str) -> None:
    model = {"architecture": architecture, "layers": 3, "hiddenSize": 64, "heads": 1}
    sparse, dense = (profile(training(model=model, dataset=graph(1_000_000, edges))) for edges in (5_000_000, 50_000_000))
    more = dense.gpu_bytes(1.0, 1, 1) - sparse.gpu_bytes(1.0, 1, 1)
    assert 16 * 45_000_000 <= more <= 60 * 45_000_000, "two matrices of ids and entries; attention has some numbers an edge besides"
    half = dense.gpu_bytes(0.5, 2, 1)
    assert dense.gpu_bytes(1.0, 1, 1) / 2 < half < dense.gpu_bytes(1.0, 1, 1), "copies of others' vertices are held too"


def test_three_wide_layers_on_products_are_predicted_with_what_they_keep() -> None:
    """2.4 M vertices × (100 features, a copy, 3 × 256 numbers) and 124 M edges × 16 bytes: 11 GB; gradients and the library's are more."""
    workload = profile(training(model={"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256}, dataset=graph(2_449_029, 123_718_280)))
    assert 11e9 < workload.gpu_bytes(1.0, 1, 1) < 23e9


def test_a_sampled_job_holds_features_and_scores_whole_neighbourhoods() -> None:
    workload = profile(training(model=SAMPLED, dataset=graph(2_449_029, 123_718_280)))
    assert workload.gpu_bytes(1.0, 1, 1) > 2_449_029 * 100 * 4 + 123_718_280 * 8
    assert workload.step_bytes < workload.gpu_bytes(1.0, 1, 1)


@pytest.mark.parametrize(("output_heads", "parameters"), [(None, 11_499), (1, 11_499), (0, 35_457), (6, 51_429), (64, 514_617)])
def test_heads_of_attentions_last_layer_count_in_parameters_and_memory(output_heads: int | None, parameters: int) -> None:
    """Parameters are those of the worker's network: 50 features, 4 heads of 16, 121 classes."""
    further = {} if output_heads is None else {"hyperparameters": {"outputHeads": output_heads}}
    model = {"architecture": "GAT", "layers": 2, "hiddenSize": 16, "heads": 4, **further}
    data = graph(1_000_000, 10_000_000) | {"featureSize": 50, "classes": 121}
    workload = profile(training(model=model, dataset=data))
    assert workload.gradient_bytes == 4 * parameters
    heads = 1 if output_heads is None else output_heads or 4
    assert workload.gpu_bytes(1.0, 1, 1) > 1_000_000 * 4 * 121 * heads * 2, "what was projected, and the result"


def aggregated(aggregator: str | None, architecture: str = "GraphSAGE", **model: Any) -> WorkloadProfile:
    stated = {} if aggregator is None else {"hyperparameters": {"aggregator": aggregator}}
    return profile(
        training(model={"architecture": architecture, "layers": 2, "hiddenSize": 64} | stated | model, dataset=graph(10**6, 10**7))
    )


@pytest.mark.parametrize("sampled", [{}, {"batchSize": 1024, "fanouts": [5, 5]}])
def test_one_weight_for_a_vertex_and_its_neighbours_counts_once(sampled: dict[str, Any]) -> None:
    merged, mean, gcn = aggregated("GCN", **sampled), aggregated("Mean", **sampled), aggregated(None, "GCN", **sampled)
    assert merged == gcn
    assert aggregated(None, **sampled) == mean
    assert merged.gradient_bytes == 4.0 * (100 * 64 + 64 + 64 * 47 + 47)
    assert mean.gradient_bytes == 4.0 * (2 * 100 * 64 + 64 + 2 * 64 * 47 + 47)
    assert merged.epoch_flops < mean.epoch_flops


@pytest.mark.parametrize("kind", ["GCN and GraphSAGE", "GAT", "drawn neighbours"])
def test_epochs_and_steps_of_measured_gpus_are_predicted_within_a_factor_of_one_and_a_half(kind: str) -> None:
    chosen = [figure for figure in gpu_epochs.read(gpu_epochs.FIGURES) if figure.kind == kind]
    assert len(chosen) >= 15
    assert gpu_epochs.share_off(chosen, gpu_epochs.predicted) <= 0.05
    assert all(0.6 < gpu_epochs.predicted(figure) / figure.seconds < 1.7 for figure in chosen)


@pytest.mark.parametrize("architecture", ["GCN", "GraphSAGE", "GAT"])
def test_work_of_a_layer_grows_with_its_vertices_edges_and_widths(architecture: str) -> None:
    model = training(model={"architecture": architecture, "layers": 2, "hiddenSize": 32}).model
    base = layer_work(model, Layer(64, 32), 1e6, 1e6, 1e7, first=False)
    assert base > layer_work(model, Layer(64, 32), 1e6, 1e6, 1e7, first=True), "features need no gradient"
    wider, deeper = Layer(64, 33), Layer(65, 32)
    assert all(layer_work(model, layer, 1e6, 1e6, 1e7, first=False) > base for layer in (wider, deeper))
    assert all(layer_work(model, Layer(64, 32), *shape, first=False) > base for shape in ((2e6, 1e6, 1e7), (1e6, 1e6, 2e7)))


def test_a_sampled_epoch_has_its_draws_and_features_on_the_hosts() -> None:
    """1024 × 5 draws and 10 of each of what they reach; rows of 100 features."""
    model = {"architecture": "GraphSAGE", "layers": 2, "hiddenSize": 64, "batchSize": 1024, "fanouts": [10, 5]}
    workload = profile(training(model=model, dataset=graph(10**9, 10**10 * 2) | {"trainVertices": 10_240}))
    draws, rows = 1024 * 5 + 1024 * 6 * 10, 1024 * 6 * 11
    assert workload.host_seconds == pytest.approx(10 * (draws * 0.28e-6 + rows * 400 / 2.3e9), rel=1e-3)
    whole = profile(training(model={"architecture": "GraphSAGE", "layers": 2, "hiddenSize": 64}, dataset=graph(10**9, 10**10 * 2)))
    assert whole.host_seconds == 0.0


def test_a_batch_has_no_more_seeds_than_there_are_training_vertices() -> None:
    def drawn(batch: int) -> WorkloadProfile:
        model = {"architecture": "GraphSAGE", "layers": 2, "hiddenSize": 64, "batchSize": batch, "fanouts": [10, 5]}
        return profile(training(model=model, dataset=graph(1_000_000, 10_000_000) | {"trainVertices": 1000}))

    exact, more = drawn(1000), drawn(100_000)
    assert (more.epoch_flops, more.host_seconds, more.step_bytes) == (exact.epoch_flops, exact.host_seconds, exact.step_bytes)


def test_ranks_that_share_one_step_have_their_part_of_its_seeds() -> None:
    def drawn(batch: int, workers: int) -> WorkloadProfile:
        model = {"architecture": "GraphSAGE", "layers": 2, "hiddenSize": 64, "batchSize": batch, "fanouts": [10, 10]}
        data = graph(100_000, 2_000_000) | {"trainVertices": 80_000}
        return profile(training(model=model, dataset=data, workers={"minReplicas": workers, "maxReplicas": 8}))

    assert drawn(80_000, 8).epoch_flops == drawn(10_000, 8).epoch_flops > 2.0 * drawn(80_000, 1).epoch_flops


def test_a_script_brings_its_own_sampler() -> None:
    model = {"architecture": "GraphSAGE", "layers": 2, "hiddenSize": 64, "batchSize": 1024, "fanouts": [10, 5]}
    ours, own = (profile(training(model=model | script, dataset=graph(10**6, 10**7))) for script in ({}, {"script": "train.py"}))
    assert own.host_seconds == 0.0 < ours.host_seconds
    assert own.epoch_flops == ours.epoch_flops
