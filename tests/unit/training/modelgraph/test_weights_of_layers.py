"""What layers weigh whose result does not tell: recurrent ones, transformer layers, reductions; against formulas and by hand."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # escape sequences in the source of DGL 1.1
    import dgl.nn as dglnn

from hyperscale.training.modelgraph.analyze import EDGES, VERTICES, ModelGraph, Operation, analyze
from hyperscale.training.modelgraph.fusion_rules import GraphStatistics
from hyperscale.training.modelgraph.record import recording

CORA = GraphStatistics(2708, 13264)
SAMPLE = GraphStatistics(VERTICES, EDGES)
STEPS, WIDE, HIDDEN = 5, 4, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class Sequences(nn.Module):
    """A recurrent layer over STEPS steps of each vertex."""

    def __init__(self, kind: str, *, time_first: bool = False, **settings: Any) -> None:
        super().__init__()
        self.time_first = time_first
        self.layer = getattr(nn, kind)(WIDE, HIDDEN, batch_first=not time_first, **settings)

    def forward(self, x: Tensor) -> Tensor:
        steps = x.view(-1, STEPS, WIDE)
        out: Tensor = self.layer(steps.transpose(0, 1) if self.time_first else steps)[0]
        return out


class ByHand(nn.Module):
    """nn.LSTM out of Linear, with the same weights."""

    def __init__(self, like: nn.LSTM) -> None:
        super().__init__()
        self.enters, self.recurs = nn.Linear(WIDE, 4 * HIDDEN), nn.Linear(HIDDEN, 4 * HIDDEN)
        own = (self.enters.weight, self.recurs.weight, self.enters.bias, self.recurs.bias)
        with torch.no_grad():
            for mine, theirs in zip(own, like.parameters(), strict=True):
                mine.copy_(theirs)

    def forward(self, x: Tensor) -> Tensor:
        state, cell, states = x.new_zeros(VERTICES, HIDDEN), x.new_zeros(VERTICES, HIDDEN), []
        for step in range(STEPS):
            gates = self.enters(x.view(-1, STEPS, WIDE)[:, step]) + self.recurs(state)
            enter, forget, new, leave = gates.chunk(4, dim=1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
            state = torch.sigmoid(leave) * torch.tanh(cell)
            states.append(state)
        return torch.stack(states, dim=1)


def node(graph: ModelGraph, module: str) -> Operation:
    return next(one for one in graph.operations if one.module == module)


def products(one: Operation) -> float:
    return sum(part.flops for part in one.parts if part.dense)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("time_first", [False, True])
@pytest.mark.parametrize(("layers", "both_ways"), [(1, False), (2, False), (2, True)])
def test_a_recurrent_layer_weighs_the_products_of_its_gates(kind: str, time_first: bool, layers: int, both_ways: bool) -> None:
    graph = analyze(Sequences(kind, time_first=time_first, num_layers=layers, bidirectional=both_ways), STEPS * WIDE, CORA)
    ways = 2 if both_ways else 1
    entering = [WIDE, *[ways * HIDDEN] * (layers - 1)]
    assert products(node(graph, "layer")) == sum(
        2 * ways * GATES[kind] * (wide + HIDDEN) * HIDDEN * STEPS * CORA.vertices for wide in entering
    )
    assert graph.dense_flops == graph.counted_flops > 0


def test_projections_are_products_too() -> None:
    out = 3
    one = node(analyze(Sequences("LSTM", proj_size=out), STEPS * WIDE, CORA), "layer")
    assert products(one) == 2 * (4 * (WIDE + out) * HIDDEN + HIDDEN * out) * STEPS * CORA.vertices


def test_an_lstm_weighs_what_torch_counts_for_the_same_written_by_hand() -> None:
    model = Sequences("LSTM")
    hand, x = ByHand(model.layer), torch.randn(VERTICES, STEPS * WIDE)
    torch.testing.assert_close(hand(x), model(x), atol=1e-5, rtol=1e-5)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        hand(x)
    kernel, mine = analyze(model, STEPS * WIDE, SAMPLE), analyze(hand, STEPS * WIDE, SAMPLE)
    assert counter.get_total_flops() == kernel.dense_flops == mine.dense_flops
    bias = STEPS * VERTICES * 4 * HIDDEN  # torch adds that of a sequence after its product, that of a step within
    assert kernel.weight == mine.weight + bias


def test_vertices_may_be_the_steps_of_one_sequence() -> None:
    small, large = (analyze(Walk(), WIDE, of) for of in (SAMPLE, GraphStatistics(10 * VERTICES, EDGES)))
    assert products(node(large, "layer")) == 2 * 4 * (WIDE + HIDDEN) * HIDDEN * 10 * VERTICES
    assert large.weight == 10 * small.weight


class Walk(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(WIDE, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)[0]
        return out


def test_only_the_output_of_an_lstm_passes_where_its_state_is_not_used() -> None:
    graph = analyze(Sequences("LSTM"), STEPS * WIDE, CORA)
    layer = node(graph, "layer")
    assert layer.shape == (CORA.vertices, STEPS, HIDDEN)
    assert layer.output_bytes == 4 * CORA.vertices * (STEPS + 2) * HIDDEN
    assert [passed for source, _, passed in graph.edges if source == layer.name] == [4 * CORA.vertices * STEPS * HIDDEN]


@pytest.mark.parametrize("asked", [SAMPLE, CORA])
def test_an_lstm_over_neighbours_runs_once_for_each_edge(asked: GraphStatistics) -> None:
    layer = node(analyze(Lone(dglnn.SAGEConv(WIDE, HIDDEN, "lstm")), WIDE, asked), "layer")
    lstm = sum(part.flops for part in layer.parts if part.dense and part.by_edge)
    assert lstm == pytest.approx(2 * 4 * (WIDE + WIDE) * WIDE * asked.edges)
    assert products(layer) - lstm == pytest.approx(2 * 2 * WIDE * HIDDEN * asked.vertices)


class Lone(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, graph: Any, x: Tensor) -> Tensor:
        out: Tensor = self.layer(graph, x)
        return out


class Steps(nn.Module):
    """A module over (n, STEPS, WIDE)."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x.view(-1, STEPS, WIDE))
        return out


def test_a_transformer_layer_weighs_its_products_and_its_attention() -> None:
    graph = analyze(Steps(nn.TransformerEncoderLayer(WIDE, 2, HIDDEN, batch_first=True)), STEPS * WIDE, CORA)
    token = 2 * (4 * WIDE * WIDE + 2 * WIDE * HIDDEN) + 2 * 2 * STEPS * WIDE
    assert products(node(graph, "layer")) == token * STEPS * CORA.vertices
    assert graph.dense_flops == graph.counted_flops


def test_products_over_several_steps_a_vertex_grow_with_the_graph() -> None:
    graph = analyze(Steps(nn.Linear(WIDE, HIDDEN)), STEPS * WIDE, CORA)
    assert graph.weight == 2 * WIDE * HIDDEN * STEPS * CORA.vertices
    assert node(graph, "layer").shape == (CORA.vertices, STEPS, HIDDEN)


def test_a_bilinear_layer_weighs_its_products() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Bilinear(WIDE, WIDE, HIDDEN, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.layer(x, x)
            return out

    assert analyze(Pair(), WIDE, CORA).weight == 2 * WIDE * WIDE * HIDDEN * CORA.vertices


@pytest.mark.parametrize("asked", [SAMPLE, CORA])
def test_messages_that_are_added_up_by_hand_weigh_one_addition_an_edge(asked: GraphStatistics) -> None:
    class Summed(nn.Module):
        def forward(self, graph: Any, x: Tensor) -> Tensor:
            ends = graph.edges()
            return torch.zeros_like(x).index_add(0, ends[1], x[ends[0]])

    assert analyze(Summed(), WIDE, asked).weight == WIDE * asked.edges


def test_reductions_weigh_what_they_read() -> None:
    class Reduced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vector = nn.Parameter(torch.ones(WIDE))

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = (x @ self.vector) * torch.linalg.vector_norm(x, dim=1) + x.logsumexp(1)
            return out

    assert analyze(Reduced(), WIDE, CORA).weight == CORA.vertices * (2 * WIDE + WIDE + WIDE + 1 + 1)


def test_products_over_all_vertices_grow_with_them() -> None:
    class Gram(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.t() @ x

    graph = analyze(Gram(), WIDE, CORA)
    assert graph.weight == 2 * WIDE * WIDE * CORA.vertices
    assert graph.operations[-2].shape == (WIDE, WIDE)


def test_settings_of_torch_are_as_they_were_after_a_recording() -> None:
    before = torch.backends.mkldnn.enabled, torch.backends.mha.get_fastpath_enabled()
    with pytest.raises(ZeroDivisionError), recording():
        raise ZeroDivisionError
    assert (torch.backends.mkldnn.enabled, torch.backends.mha.get_fastpath_enabled()) == before
