"""The analyzer: weights, edges, torch's own count, scaling to the graph that was asked for, and what it refuses."""

from __future__ import annotations

import warnings
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor, nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # escape sequences in the source of DGL 1.1
    import dgl
    import dgl.nn as dglnn

from hyperscale.training.modelgraph.analyze import EDGES, VERTICES, AnalysisError, ModelGraph, analyze
from hyperscale.training.modelgraph.draw_graph import svg
from hyperscale.training.modelgraph.fusion_rules import GraphStatistics
from hyperscale.training.modelgraph.stock import NAMES, stack

CORA = GraphStatistics(2708, 13264)
SAMPLE = GraphStatistics(VERTICES, EDGES)


def of(name: str, statistics: GraphStatistics = CORA) -> ModelGraph:
    return analyze(stack(name, 20, 16, 7, 2, 4), 20, statistics, name)


@pytest.mark.parametrize("name", NAMES)
def test_dense_operations_are_those_that_torch_counts(name: str) -> None:
    graph = of(name)
    assert graph.dense_flops == graph.counted_flops > 0


def test_a_weight_is_the_sum_of_sizes_times_complexities() -> None:
    graph = analyze(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)), 8, CORA)
    weights = {one.kind: one.weight for one in graph.operations}
    assert weights["ReLU"] == 2708 * 4
    assert graph.weight == 2708 * (2 * 8 * 4 + 4 + 2 * 4 * 2)


def test_a_graph_convolution_weighs_its_product_and_one_addition_an_edge() -> None:
    layer = next(one for one in of("GCN").operations if one.module == "layers.0")
    parts = {part.operation: part.flops for part in layer.parts}
    assert parts["mm"] == 2 * 2708 * 20 * 16
    assert parts["gspmm copy_lhs sum"] == pytest.approx(13264 * 16)


def test_attention_weighs_its_scores_and_its_softmax_by_edge_and_head() -> None:
    layer = next(one for one in of("GAT").operations if one.module == "layers.0")
    parts = {part.operation: part.flops for part in layer.parts}
    assert parts["gsddmm add"] == 13264 * 4
    assert parts["edge softmax"] == 5 * 13264 * 4
    assert parts["gspmm mul sum"] == pytest.approx(2 * 13264 * 16)


def test_weights_grow_with_the_graph_that_was_asked_for() -> None:
    small, large = of("GraphSAGE", SAMPLE), of("GraphSAGE", GraphStatistics(10 * VERTICES, 10 * EDGES))
    assert large.weight == pytest.approx(10 * small.weight)
    assert {one.name: one.shape[1:] for one in small.operations} == {one.name: one.shape[1:] for one in large.operations}


def test_edges_carry_the_bytes_of_the_tensor_between_them() -> None:
    graph = of("GCN")
    passed = {(source, target): size for source, target, size in graph.edges}
    assert passed["x", "layers_0"] == 2708 * 20 * 4
    assert passed["layers_0", "relu"] == 2708 * 16 * 4
    assert passed["graph", "layers_1"] == 0


def test_parameters_of_a_layer_are_what_an_allreduce_carries() -> None:
    graph = of("GCN")
    assert [one.parameter_bytes for one in graph.operations if one.module.startswith("layers")] == [4 * (20 * 16 + 16), 4 * (16 * 7 + 7)]


def test_it_is_a_directed_graph_without_cycles_that_graphml_can_hold() -> None:
    directed = of("GAT").networkx()
    assert nx.is_directed_acyclic_graph(directed)
    read = nx.parse_graphml("\n".join(nx.generate_graphml(directed)))
    assert read.nodes["layers_0"]["weight"] == directed.nodes["layers_0"]["weight"]


def test_own_message_passing_is_seen() -> None:
    class Own(nn.Module):
        def forward(self, graph: Any, x: Tensor) -> Tensor:
            total: Tensor = Summing()(graph, x)
            return total

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = dglnn.SumPooling()
            self.conv = dglnn.GINConv(nn.Linear(6, 3), "sum")

        def forward(self, graph: Any, x: Tensor) -> Tensor:
            out: Tensor = self.conv(graph, x)
            return out

    class Summing(nn.Module):
        def forward(self, graph: Any, x: Tensor) -> Tensor:
            summed: Tensor = dgl.ops.copy_u_sum(graph, x)
            return summed

    graph = analyze(Wrapped(), 6, CORA)
    parts = {part.operation: part.flops for one in graph.operations for part in one.parts}
    assert parts["gspmm copy_lhs sum"] == pytest.approx(13264 * 6)
    with pytest.raises(AnalysisError, match="cannot follow"):
        analyze(Own(), 6, CORA)


def test_dgl_is_as_it_was_after_an_analysis() -> None:
    import sys

    before = sys.modules["dgl.ops.spmm"].gspmm_internal
    of("GCN")
    with pytest.raises(AnalysisError):
        analyze(nn.Linear(3, 2), 5, CORA)
    assert sys.modules["dgl.ops.spmm"].gspmm_internal is before


def test_a_model_that_branches_on_values_is_refused_with_the_reason() -> None:
    class Branching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(AnalysisError, match=r"torch\.fx cannot follow"):
        analyze(Branching(), 3, CORA)


def test_the_mode_of_the_model_stays() -> None:
    model = stack("GCN", 4, 4, 2, 2, 1)
    analyze(model, 4, CORA)
    assert model.training
    analyze(model.eval(), 4, CORA)
    assert not model.training


def test_the_picture_is_the_same_every_time() -> None:
    graph = of("GraphSAGE")
    assert svg(graph) == svg(graph)
    assert "SAGEConv layers.0" in svg(graph)


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="write for example 8"):
        stack("GAT", 4, 10, 2, 2, 4)
    with pytest.raises(ValueError, match="none of"):
        stack("GIN", 4, 10, 2, 2, 4)


def test_weights_do_not_depend_on_the_random_numbers_of_the_caller() -> None:
    torch.manual_seed(1)
    first = of("GAT").weight
    torch.manual_seed(2)
    assert of("GAT").weight == first
