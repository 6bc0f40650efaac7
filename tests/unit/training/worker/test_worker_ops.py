"""Rows without zeros, and edges with loops."""

from __future__ import annotations

import numpy as np
import torch

from hyperscale.training.engine import neighbourhood
from hyperscale.training.engine.sparse_features import SparseRows, rows_of, worth_keeping_sparse

CPU = torch.device("cpu")


def test_sparse_rows_multiply_like_dense_ones() -> None:
    rng = np.random.default_rng(0)
    features = (rng.random((30, 40)) < 0.05).astype(np.float32) * rng.random((30, 40), dtype=np.float32)
    rows = rows_of(features, CPU, sparse=True)
    assert isinstance(rows, SparseRows)
    torch.testing.assert_close(rows.dense(), torch.from_numpy(features))
    weight = torch.randn(40, 6, requires_grad=True)
    rows.times(weight).square().sum().backward()  # type: ignore[no-untyped-call]
    sparse, weight.grad = weight.grad, None
    (torch.from_numpy(features) @ weight).square().sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(sparse, weight.grad)


def test_features_are_kept_without_zeros_where_few_are_not() -> None:
    assert [worth_keeping_sparse(filled, 1000.0) for filled in (0.0, 1.0, 99.0, 100.0)] == [False, True, True, False]
    assert isinstance(rows_of(np.ones((0, 4), np.float32), CPU, sparse=True), SparseRows)
    assert isinstance(rows_of(np.ones((3, 4), np.float32), CPU, sparse=False), torch.Tensor)


def test_loops_come_first_in_each_row() -> None:
    indptr, indices = neighbourhood.with_loops(np.array([0, 2, 2, 3]), np.array([1, 2, 0]))
    assert indptr.tolist() == [0, 3, 4, 6]
    assert indices.tolist() == [0, 1, 2, 1, 2, 0]
