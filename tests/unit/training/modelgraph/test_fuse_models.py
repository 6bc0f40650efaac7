"""What `fuse` promises besides equal figures: names of parameters, what it leaves alone, what it keeps from step to step."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hyperscale.training.modelgraph import edges, fused_operations, kernels

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # escape sequences in the source of DGL 1.1
    import dgl
    import dgl.nn as dglnn

from hyperscale.training.modelgraph.fold import FusedDropout, FusedLinear
from hyperscale.training.modelgraph.fuse import fuse
from hyperscale.training.modelgraph.fused_layers import FusedGATConv, FusedGraphConv, FusedSAGEConv
from hyperscale.training.modelgraph.fusion_rules import EVERY, HOIST, RULES, GraphStatistics

STATISTICS = GraphStatistics(30, 150)


def graph_of(seed: int = 0, vertices: int = 30) -> Any:
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, vertices, (2, 4 * vertices), generator=generator)
    return dgl.add_self_loop(dgl.graph((ends[0], ends[1]), num_nodes=vertices))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([dglnn.GraphConv(8, 6), dglnn.GraphConv(6, 3)])
        self.dropout = nn.Dropout(0.5)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, graph: Any, x: Tensor) -> Tensor:
        hidden = self.dropout(nn.functional.relu(self.convs[0](graph, x)))
        result: Tensor = self.convs[1](graph, hidden) * self.scale
        return result


class Asking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = dglnn.SAGEConv(8, 3, "mean")

    def forward(self, graph: Any, x: Tensor) -> Tensor:
        out = torch.relu(self.conv(graph, x))
        return nn.functional.dropout(out, 0.5, training=self.training)


def test_the_fused_model_has_the_same_parameters_under_the_same_names() -> None:
    model = Net()
    fused = fuse(model, STATISTICS).model
    assert list(fused.state_dict()) == list(model.state_dict())
    assert all(one is other for one, other in zip(model.parameters(), fused.parameters(), strict=True))


def test_the_original_stays_as_it_was() -> None:
    model = Net()
    before = [type(module) for module in model.modules()]
    fuse(model, STATISTICS)
    assert [type(module) for module in model.modules()] == before


def test_activation_and_dropout_of_the_models_code_move_into_the_layer_before_them() -> None:
    fused = fuse(Net(), STATISTICS).model
    first = fused.get_submodule("convs.0")
    assert isinstance(first, FusedGraphConv)
    assert (first.settings.activation, first.settings.drop) == ("relu", 0.5)
    assert "relu" not in str(fused.graph)


def test_dropout_thins_out_in_training_only_and_follows_the_seed() -> None:
    graph, x = graph_of(), torch.randn(30, 8)
    model = Net()
    fused = fuse(model, STATISTICS).model
    torch.manual_seed(1)
    first = fused(graph, x)
    torch.manual_seed(1)
    assert torch.equal(first, fused(graph, x))
    assert not torch.equal(first, fused(graph, x))
    assert torch.allclose(fused.eval()(graph, x), model.eval()(graph, x), atol=1e-5)


def test_dropout_keeps_what_it_should_on_average() -> None:
    torch.manual_seed(0)
    x = torch.ones(400, 250, requires_grad=True)
    out = fused_operations.dropout(x, 0.4)
    torch.autograd.backward(out.sum())
    assert float(out.detach().mean()) == pytest.approx(1.0, abs=0.01)
    assert x.grad is not None
    assert torch.equal(x.grad, out.detach())


def test_a_model_whose_code_asks_whether_it_trains_keeps_its_code() -> None:
    model = Asking()
    fusion = fuse(model, STATISTICS)
    assert type(fusion.model) is Asking
    assert isinstance(fusion.model.conv, FusedSAGEConv)
    assert "nn.Dropout" in fusion.kept[0]
    graph, x = graph_of(), torch.randn(30, 8)
    assert torch.allclose(fusion.model.eval()(graph, x), model.eval()(graph, x), atol=1e-5)


def test_a_model_that_cannot_be_traced_gets_its_layers_replaced() -> None:
    class Branching(Asking):
        def forward(self, graph: Any, x: Tensor) -> Tensor:
            out: Tensor = self.conv(graph, x)
            return out if out.sum() > 0 else -out

    fusion = fuse(Branching(), STATISTICS)
    assert isinstance(fusion.model.conv, FusedSAGEConv)
    assert fusion.kept


def test_a_layer_that_is_used_twice_takes_no_activation_in() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = dglnn.GraphConv(8, 8)

        def forward(self, graph: Any, x: Tensor) -> Tensor:
            out: Tensor = self.conv(graph, torch.relu(self.conv(graph, x)))
            return out

    model, graph, x = Twice(), graph_of(), torch.randn(30, 8)
    fused = fuse(model, STATISTICS).model
    assert torch.allclose(fused(graph, x), model(graph, x), atol=1e-5)


def test_a_result_that_is_read_twice_keeps_its_activation_outside() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.linear = dglnn.GraphConv(8, 8), nn.Linear(8, 8)

        def forward(self, graph: Any, x: Tensor) -> Tensor:
            out = self.conv(graph, x)
            more = self.linear(out)
            result: Tensor = torch.relu(out) + out + torch.relu(more) * more
            return result

    model, graph, x = Both(), graph_of(), torch.randn(30, 8)
    fused = fuse(model, STATISTICS).model
    assert torch.allclose(fused(graph, x), model(graph, x), atol=1e-5)


def test_a_linear_layer_takes_its_activation_in() -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    fusion = fuse(model, STATISTICS)
    assert isinstance(fusion.model.get_submodule("0"), FusedLinear)
    x = torch.randn(3, 4)
    assert torch.equal(fusion.model(x), model(x))
    assert list(fusion.model.state_dict()) == list(model.state_dict())


class WithSpareLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(2, 2)
        self.conv = dglnn.GraphConv(8, 5)
        self.out = nn.Linear(5, 4)

    def forward(self, graph: Any, x: Tensor) -> Tensor:
        return nn.functional.elu(self.out(self.conv(graph, x)))


def test_an_activation_is_done_once_where_the_models_code_stays() -> None:
    model, graph, x = WithSpareLayer(), graph_of(), torch.randn(30, 8)
    fusion = fuse(model, STATISTICS)
    assert "spare" in fusion.kept[0]
    assert torch.allclose(fusion.model(graph, x), model(graph, x), atol=1e-5)


def test_a_kept_aggregate_is_made_again_when_the_input_changes() -> None:
    graph, x = graph_of(), torch.randn(30, 8)
    model = dglnn.GraphConv(8, 3)
    fused = fuse(Wrapped(model), GraphStatistics(30, 150, constant_input=True)).model
    assert torch.allclose(fused(graph, x), model(graph, x), atol=1e-5)
    x += 1.0
    assert torch.allclose(fused(graph, x), model(graph, x), atol=1e-5)
    other = graph_of(7)
    assert torch.allclose(fused(other, x), model(other, x), atol=1e-5)
    assert torch.allclose(fused(other, torch.zeros(30, 8)), model(other, torch.zeros(30, 8)), atol=1e-5)


class Wrapped(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, graph: Any, x: Tensor) -> Tensor:
        out: Tensor = self.layer(graph, x)
        return out


def test_only_the_layer_that_reads_the_input_keeps_an_aggregate() -> None:
    fusion = fuse(Net(), GraphStatistics(30, 150, constant_input=True))
    assert [one.where for one in fusion.applied if one.rule == HOIST] == ["convs.0"]


def test_what_the_kernels_do_not_know_is_done_as_dgl_does_it() -> None:
    graph, x = graph_of(), torch.randn(30, 8)
    weights = torch.rand(graph.num_edges())
    for layer in (dglnn.GraphConv(8, 3, norm="none"), dglnn.SAGEConv(8, 3, "mean"), dglnn.GATConv(8, 3, 2)):
        fused = fuse(layer, STATISTICS).model
        assert torch.allclose(fused(graph, x, edge_weight=weights), layer(graph, x, edge_weight=weights), atol=1e-5)
        assert torch.allclose(fused.double()(graph, x.double()), layer.double()(graph, x.double()))


def test_blocks_are_taken_too() -> None:
    graph, x = graph_of(), torch.randn(30, 8)
    block = dgl.to_block(dgl.in_subgraph(graph, torch.arange(9)), torch.arange(9))
    rows = x[block.srcdata[dgl.NID]]
    for layer in (dglnn.SAGEConv(8, 3, "mean"), dglnn.SAGEConv(2, 3, "mean"), dglnn.GATConv(8, 3, 2, residual=True)):
        given = rows[:, : 2 if getattr(layer, "_in_src_feats", 8) == 2 else 8]
        fused = fuse(layer, STATISTICS).model
        assert torch.allclose(fused(block, given), layer(block, given), atol=1e-5)


def test_a_vertex_without_edges_is_refused_as_dgl_refuses_it() -> None:
    graph = dgl.graph(([0], [1]), num_nodes=3)
    for layer in (dglnn.GraphConv(4, 2), dglnn.GATConv(4, 2, 1)):
        with pytest.raises(dgl.DGLError, match="0-in-degree"):
            fuse(layer, STATISTICS).model(graph, torch.randn(3, 4))


def test_other_aggregators_stay_with_dgl() -> None:
    fusion = fuse(dglnn.SAGEConv(4, 2, "pool"), STATISTICS)
    assert type(fusion.model) is dglnn.SAGEConv
    assert "pool" in fusion.kept[0]


def test_a_graph_that_is_changed_in_place_is_read_again() -> None:
    graph, x = graph_of(), torch.randn(30, 8)
    layer = dglnn.GraphConv(8, 3)
    fused = fuse(layer, STATISTICS).model
    fused(graph, x)
    graph.add_edges([0, 1, 2], [3, 4, 5])
    assert torch.allclose(fused(graph, x), layer(graph, x), atol=1e-5)


def test_rules_can_be_left_out_and_unknown_ones_are_refused() -> None:
    assert type(fuse(dglnn.GATConv(4, 2, 1), STATISTICS, frozenset()).model) is dglnn.GATConv
    assert isinstance(fuse(dglnn.GATConv(4, 2, 1), STATISTICS).model, FusedGATConv)
    assert type(fuse(nn.Sequential(nn.Dropout(0.1)), STATISTICS, EVERY - {"dropout"}).model.get_submodule("0")) is nn.Dropout
    assert type(fuse(nn.Sequential(nn.Dropout(0.1)), STATISTICS).model.get_submodule("0")) is FusedDropout
    with pytest.raises(ValueError, match="write some of"):
        fuse(nn.Sequential(), STATISTICS, frozenset({"magic"}))


def test_every_rule_says_what_it_does_and_expects_a_gain() -> None:
    fusion = fuse(Net(), GraphStatistics(10_000, 200_000, constant_input=True))
    assert {one.rule for one in fusion.applied} <= set(RULES)
    assert all(one.expected_gain >= 1.0 for one in fusion.applied)


@pytest.mark.parametrize(
    ("indptr", "indices", "fault"),
    [([0, 2, 1], [0], "rise"), ([0, 1], [5], "lie in"), ([0, 3], [0], "rise"), ([1, 1], [0], "rise")],
)
def test_edges_that_would_be_read_out_of_bounds_are_refused(indptr: list[int], indices: list[int], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        edges.edges_of(np.array(indptr), np.array(indices), 2)


def test_shapes_that_do_not_fit_are_refused_before_memory_is_read() -> None:
    one = edges.edges_of(np.array([0, 1, 2]), np.array([0, 2]), 3)
    x = np.zeros((3, 4), dtype=np.float32)
    with pytest.raises(ValueError, match="3 rows"):
        kernels.aggregate(one.matrix("none"), x[:2])
    with pytest.raises(ValueError, match="bias"):
        kernels.aggregate(one.matrix("none"), x, bias=np.zeros(3, dtype=np.float32))
    with pytest.raises(TypeError, match="float32"):
        kernels.aggregate(one.matrix("none"), x.astype(np.float64))
    with pytest.raises(ValueError, match="left must be"):
        kernels.attend(one, x, x[:, :2], x[:, :2], kernels.AttentionRows(3, 0.2))


def test_the_order_changes_only_where_the_first_layer_gains_by_it() -> None:
    graph = GraphStatistics(1000, 20_000)
    changed = {
        wide: any(one.rule == "cheaper order" for one in fuse(Wrapped(dglnn.GraphConv(wide, 64)), graph).applied)
        for wide in (32, 64, 96, 127, 128, 256)
    }
    assert changed == {32: False, 64: False, 96: True, 127: True, 128: False, 256: False}
