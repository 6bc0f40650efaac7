"""The fused operations for layers that are written with DGL's own ones (dgl.ops), one call each; same figures, same gradients.

`gather` stands for copy_u_sum and the scaling around it, `attention` for u_add_v, leaky ReLU, edge_softmax, dropout and u_mul_e_sum. Both
take a DGL graph or block on the CPU; `takes` says whether they can, and where they cannot the caller continues with dgl.ops.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from hyperscale.training.modelgraph import fused_operations
from hyperscale.training.modelgraph.edges import of_dgl
from hyperscale.training.modelgraph.kernels import AttentionRows, Drop


def takes(graph: Any, *tensors: Tensor) -> bool:  # noqa: ANN401 - a DGLGraph; DGL ships no types
    """A DGL graph with one edge type and float32 rows, all on the CPU."""
    known = hasattr(graph, "canonical_etypes") and len(graph.canonical_etypes) == 1
    return known and graph.device.type == "cpu" and graph.num_edges() > 0 and fused_operations.fits(*tensors)


def gather(graph: Any, x: Tensor, norm: str = "none") -> Tensor:  # noqa: ANN401
    """Sum of x (m, F) over in-neighbours: (n, F). norm none, mean or right, left, both: weights by the graph's own degrees."""
    return fused_operations.aggregate(of_dgl(graph).matrix(norm), x)


def attention(
    graph: Any,  # noqa: ANN401
    x: Tensor,
    source: Tensor,
    destination: Tensor,
    *,
    slope: float = 0.2,
    dropout: float = 0.0,
    seed: int = 0,
) -> Tensor:
    """GAT's weighted sum of x (m, H, D): (n, H, D), with the score vectors `source` and `destination` (H, D).

    Destination v must be source v, as in DGL's blocks. The seed decides which edges dropout leaves out; its mask is never stored.
    """
    heads, depth = source.shape
    how = AttentionRows(heads, slope, Drop(dropout, seed))
    return fused_operations.attend(of_dgl(graph), x.reshape(len(x), heads * depth), (source, destination), how).view(-1, heads, depth)
