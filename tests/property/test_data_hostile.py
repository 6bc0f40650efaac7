"""Damaged data sets give a graph or one line, never another exception; nothing of that is about speed."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from hyperscale.training.data import DataError, read
from hyperscale.training.data.limits import Stated

EDGES = np.array([[0, 1], [1, 2], [2, 0], [2, 3]])


def npz() -> bytes:
    made = io.BytesIO()
    np.savez(
        made, edges=EDGES, indptr=[0, 1, 2, 2, 3], indices=[0, 1, 0], data=[1.0, 2, 3], shape=[4, 2], labels=[0, 1, 0, -1],
        split=np.array(["train", "val", "test", "none"]),
    )  # fmt: skip
    return made.getvalue()


def table() -> bytes:
    made = io.BytesIO()
    parquet.write_table(pa.table({"source": EDGES[:, 0], "destination": EDGES[:, 1]}), made)
    return made.getvalue()


def graphml() -> bytes:
    vertices = "".join(f'<node id="n{at}"><data key="d0">{at % 2}</data><data key="d1">0.{at}</data></node>' for at in range(4))
    edges = "".join(f'<edge source="n{u}" target="n{v}"/>' for u, v in EDGES)
    keys = '<key id="d0" for="node" attr.name="label"/><key id="d1" for="node" attr.name="f"/>'
    space = "http://graphml.graphdrawing.org/xmlns"
    return f'<graphml xmlns="{space}">{keys}<graph edgedefault="undirected">{vertices}{edges}</graph></graphml>'.encode()


def csv() -> bytes:
    return b"# edges\nsource,destination\n" + b"".join(b"%d,%d\n" % tuple(edge) for edge in EDGES)


WHOLE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "g.npz": ("NPZ", npz),
    "g.parquet": ("Parquet", table),
    "g.graphml": ("GraphML", graphml),
    "g.csv": ("CSV", csv),
    "g.csv.gz": ("CSV", lambda: gzip.compress(csv(), mtime=0)),
    "m.csv": ("SMILES", lambda: b"smiles,active\nCC,1\nc1ccccc1O,0\nCCN,\n"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(WHOLE))
@given(damage=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=4), kept=st.floats(0.3, 1))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files_are_read_or_refused(name: str, damage: list[tuple[float, int]], kept: float, tmp_path: Path) -> None:
    form, make = WHOLE[name]
    content = bytearray(make())
    content = content[: max(int(len(content) * kept), 1)] if kept < 0.9 else content
    for place, value in damage:
        content[min(int(place * len(content)), len(content) - 1)] = value
    (tmp_path / name).write_bytes(content)
    try:
        graph = read("persistentVolumeClaim", str(tmp_path / name), form, cache=None, stated=Stated(vertices=1000, edges=1000))
    except DataError as error:
        line = str(error)
        assert "\n" not in line
        assert len(line) < 700
        return
    vertices = len(graph.indptr) - 1
    assert vertices <= 1000
    assert graph.indices.min(initial=0) >= 0
    assert graph.indices.max(initial=-1) < vertices
    assert len(graph.features) == vertices
    assert np.isfinite(graph.features).all()
