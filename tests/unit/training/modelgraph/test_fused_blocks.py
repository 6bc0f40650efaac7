"""The fused operations on blocks of DGL: the same figures and gradients as the operations of dgl.ops that they stand for."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # escape sequences in the source of DGL 1.1
    import dgl

from hyperscale.training.modelgraph import fused_operations
from hyperscale.training.modelgraph.edges import of_dgl
from hyperscale.training.modelgraph.kernels import AttentionRows, Drop


def gather(graph: Any, x: Tensor, norm: str = "none") -> Tensor:
    return fused_operations.aggregate(of_dgl(graph).matrix(norm), x)


def attention(graph: Any, x: Tensor, source: Tensor, destination: Tensor, *, dropout: float = 0.0, seed: int = 0) -> Tensor:
    """GAT's weighted sum of x (m, H, D): (n, H, D)."""
    heads, depth = source.shape
    how = AttentionRows(heads, 0.2, Drop(dropout, seed))
    return fused_operations.attend(of_dgl(graph), x.reshape(len(x), heads * depth), (source, destination), how).view(-1, heads, depth)


def block_of(destinations: int = 12, sources: int = 20) -> Any:
    generator = torch.Generator().manual_seed(3)
    loops = torch.arange(destinations)
    ends = (torch.randint(0, sources, (60,), generator=generator), torch.randint(0, destinations, (60,), generator=generator))
    edges = (torch.cat([loops, ends[0]]), torch.cat([loops, ends[1]]))
    return dgl.create_block(edges, num_src_nodes=sources, num_dst_nodes=destinations)


def gradients(out: Tensor, *given: Tensor) -> list[Tensor]:
    factors = torch.linspace(-1.0, 1.0, out.numel()).view(out.shape)
    return [out.detach(), *torch.autograd.grad((out * factors).sum(), given)]


def test_gathering_is_copy_u_sum() -> None:
    block, x = block_of(), torch.randn(20, 7, requires_grad=True)
    for one, other in zip(gradients(gather(block, x), x), gradients(dgl.ops.copy_u_sum(block, x), x), strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    mean = dgl.ops.copy_u_mean(block, x)
    assert torch.allclose(gather(block, x, "mean"), mean, atol=1e-5)


def test_attention_is_the_five_operations_that_it_stands_for() -> None:
    block = block_of()
    x, source, destination = (torch.randn(*shape, requires_grad=True) for shape in ((20, 3, 5), (3, 5), (3, 5)))
    left, right = (x * source).sum(-1, keepdim=True), (x[:12] * destination).sum(-1, keepdim=True)
    scores = functional.leaky_relu(dgl.ops.u_add_v(block, left, right), 0.2)
    expected = dgl.ops.u_mul_e_sum(block, x, dgl.ops.edge_softmax(block, scores))
    given = attention(block, x, source, destination)
    for one, other in zip(gradients(given, x, source, destination), gradients(expected, x, source, destination), strict=True):
        assert torch.allclose(one, other, atol=2e-5)


def test_dropped_edges_follow_the_seed() -> None:
    block, x, vectors = block_of(), torch.randn(20, 3, 5), torch.randn(2, 3, 5)
    first, again, other = (attention(block, x, vectors[0], vectors[1], dropout=0.5, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_threads_share_the_rows_and_change_nothing_but_the_order_of_sums() -> None:
    graph = dgl.add_self_loop(dgl.rand_graph(3000, 30_000))
    x, source, destination = (torch.randn(*shape, requires_grad=True) for shape in ((3000, 4, 16), (4, 16), (4, 16)))
    given = {}
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            out = gather(graph, attention(graph, x, source, destination).flatten(1), "both")
            given[threads] = gradients(out, x, source, destination)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(given[1][0], given[3][0])
    for one, other in zip(given[1], given[3], strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4 * float(one.abs().max()))
