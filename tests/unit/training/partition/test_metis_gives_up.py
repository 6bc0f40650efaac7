"""METIS ends without parts, as it does where memory is short."""

from __future__ import annotations

import numpy as np
import pymetis
import pytest

from hyperscale.model.adjacency import Adjacency
from hyperscale.training.partition import PartitionError
from hyperscale.training.partition.metis import metis


def test_it_is_one_line_that_says_what_to_write_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object, **__: object) -> None:
        raise RuntimeError("Caught an unknown exception!")

    monkeypatch.setattr(pymetis, "part_graph", give_up)
    square = Adjacency(np.array([0, 2, 4, 6, 8]), np.array([1, 3, 0, 2, 1, 3, 0, 2], dtype=np.int32))
    with pytest.raises(PartitionError, match=r"4 vertices and 4 edges in 2 parts .*spec\.workers\.resources"):
        metis(square, np.array([0.5, 0.5]), seed=0)
