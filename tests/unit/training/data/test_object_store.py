"""Graphs from an S3-compatible object store: a real server, moto's, on loopback."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hyperscale.training.data import DataError, read


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Address of an S3-compatible store that has one bucket, `graphs`."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    saved = {name: os.environ.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")}
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_DEFAULT_REGION="us-east-1")
    boto3 = importlib.import_module("boto3")  # ships no annotations

    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}")
    client.create_bucket(Bucket="graphs")
    client.put_object(Bucket="graphs", Key="ring/edges.csv", Body=b"0,1\n1,2\n2,0\n")
    client.put_object(Bucket="graphs", Key="ring/nodes.csv", Body=b"label,f\n0,1\n1,2\n0,3\n")
    yield f"http://{host}:{port}"
    for name, value in saved.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    server.stop()


@pytest.mark.filterwarnings("ignore")
def test_files_and_folders_come_from_an_object_store_once(s3: str, tmp_path: Path) -> None:
    graph = read("s3", "s3://graphs/ring", "CSV", cache=tmp_path, endpoint=s3)
    assert graph.indices.tolist() == [1, 2, 0, 2, 0, 1]
    assert graph.features.ravel().tolist() == [1, 2, 3]
    alone = read("s3", "s3://graphs/ring/edges.csv", "CSV", cache=tmp_path, endpoint=s3)
    assert np.array_equal(alone.indices, graph.indices)
    kept = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*.csv"))
    read("s3", "s3://graphs/ring", "CSV", cache=tmp_path, endpoint=s3)
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*.csv")) == kept


@pytest.mark.filterwarnings("ignore")
def test_what_an_object_store_has_not_is_one_line(s3: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"s3://graphs/none\.npz: not found; check bucket and path"):
        read("s3", "s3://graphs/none.npz", "NPZ", cache=tmp_path, endpoint=s3)
    with pytest.raises(DataError, match="no address that can be read"):
        read("s3", "file:///etc/passwd", "NPZ", cache=tmp_path)
