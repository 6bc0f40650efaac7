"""Weights that a third party wrote: used where they are ours in every respect, else refused in words, within bounded memory."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from hyperscale.model.api.policy import QueueOrder, QueuePolicy
from hyperscale.planner.learned import learned_weights, weights_file
from hyperscale.planner.learned.learned_planner import planners
from hyperscale.planner.queue import queue_agent, queue_policies

SHIPPED = Path(weights_file.__file__).parent / "weights"
LOADERS: dict[str, tuple[Callable[[Path], object], type[Exception]]] = {
    "constructor": (learned_weights.load, learned_weights.WeightsError),
    "stream": (queue_agent.load_agent, queue_agent.AgentUnavailableError),
}
both = pytest.mark.parametrize("name", sorted(LOADERS))


def published(folder: Path, name: str, weights: bytes | None = None, **changed: Any) -> Path:
    """The shipped weights with other contents, for which the manifest vouches, and other fields in it (None: left out)."""
    weights = (SHIPPED / f"{name}.safetensors").read_bytes() if weights is None else weights
    (folder / f"{name}.safetensors").write_bytes(weights)
    manifest = json.loads((SHIPPED / f"{name}.json").read_text()) | {"sha256": hashlib.sha256(weights).hexdigest()} | changed
    (folder / f"{name}.json").write_text(json.dumps({key: value for key, value in manifest.items() if value is not None}))
    return folder


def refused(folder: Path, name: str, match: str) -> None:
    """It ends in the one error that the planners expect, and they do without."""
    loader, error = LOADERS[name]
    with pytest.raises(error, match=match):
        loader(folder)
    if name == "constructor":
        with pytest.warns(RuntimeWarning, match="nothing learned will plan"):
            assert [planner.name for planner in planners(folder)] == ["Heuristic"]
    else:
        assert queue_policies.published_agent(folder) is None


def edited(name: str, change: Callable[[dict[str, Any]], object]) -> bytes:
    tensors = load((SHIPPED / f"{name}.safetensors").read_bytes())
    change(tensors)
    return save(tensors)


def raw(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


@both
def test_the_shipped_weights_pass(tmp_path: Path, name: str) -> None:
    assert LOADERS[name][0](published(tmp_path, name)) is not None


def first(tensors: dict[str, Any]) -> str:
    return sorted(tensors)[0]


@both
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t.pop(first(t)), "does not hold"),
        (lambda t: t.update(extra=np.zeros(1, np.float32)), "does not hold the weights of this network: extra"),
        (lambda t: t.update({first(t): t[first(t)].reshape(1, -1)}), "does not hold"),
        (lambda t: t.update({first(t): np.zeros(0, np.float32)}), "does not hold"),
        (lambda t: t.update({first(t): np.full_like(t[first(t)], np.nan)}), "no training leaves"),
        (lambda t: t.update({first(t): np.full_like(t[first(t)], np.inf)}), "no training leaves"),
        (lambda t: t.update({first(t): np.full_like(t[first(t)], 1e30)}), "no training leaves"),
        (lambda t: t.update({first(t): t[first(t)].astype(np.float64)}), "no training leaves"),
        (lambda t: t.update({first(t): t[first(t)].astype(np.int32)}), "no training leaves"),
    ],
)
def test_tensors_that_the_network_does_not_have_are_refused(tmp_path: Path, name: str, change: Any, match: str) -> None:
    refused(published(tmp_path, name, edited(name, change)), name, match)


@both
@pytest.mark.parametrize(
    "weights",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 2**63) + b"{}",
        raw(b"{"),
        raw(b"[" * 50_000),
        raw(b'{"a":{"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,4]}}', b"\0" * 4),
        raw(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4398046511104]}}', b"\0" * 4),
        raw(b'{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}', b"\0" * 4),
        raw(b'{"a":{"dtype":"XX","shape":[2],"data_offsets":[0,4]}}', b"\0" * 4),
    ],
    ids=["empty", "length", "huge header", "cut", "nested", "huge shape", "huge offset", "other float", "unknown type"],
)
def test_files_that_are_no_weights_are_refused(tmp_path: Path, name: str, weights: bytes) -> None:
    refused(published(tmp_path, name, weights), name, "cannot be read")


@both
@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{}",
        b"null",
        b"\xff\xfe",
        b'{"sha256":"\xff"}',
        b'{"x":' + b"[" * 60_000,
        b'{"sha256":1}',
        b'{"seed":1e999}',
        b"{" + b" " * 70_000,
    ],
    ids=["empty", "no keys", "null", "bytes", "not UTF-8", "nested", "type", "range", "long"],
)
def test_manifests_that_are_none_are_refused(tmp_path: Path, name: str, manifest: bytes) -> None:
    published(tmp_path, name)
    (tmp_path / f"{name}.json").write_bytes(manifest)
    refused(tmp_path, name, "is no manifest|more than 65536 bytes")


@both
def test_every_key_that_counts_must_be_there(tmp_path: Path, name: str) -> None:
    version = {"constructor": "featureVersion", "stream": "features"}[name]
    for key in ("sha256", version):
        published(tmp_path, name)
        manifest = json.loads((tmp_path / f"{name}.json").read_text())
        del manifest[key]
        (tmp_path / f"{name}.json").write_text(json.dumps(manifest))
        refused(tmp_path, name, f"missing required field `{key}`")
    refused(published(tmp_path, name, None, **{version: 99}), name, "version 99")
    refused(published(tmp_path, name, sha256="0" * 64), name, "not")


@both
def test_huge_files_are_not_read_whole(tmp_path: Path, name: str) -> None:
    published(tmp_path, name)
    with (tmp_path / f"{name}.safetensors").open("r+b") as file:
        file.truncate(2**40)  # sparse
    tracemalloc.start()
    refused(tmp_path, name, "more than 16777216 bytes")
    assert tracemalloc.get_traced_memory()[1] < 3 * weights_file.MOST_WEIGHTS_BYTES
    tracemalloc.stop()


@both
@pytest.mark.parametrize("suffix", ["json", "safetensors"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, name: str, suffix: str) -> None:
    file = published(tmp_path, name) / f"{name}.{suffix}"
    file.unlink()
    os.mkfifo(file)
    loader, error = LOADERS[name]
    with pytest.raises(error, match="is missing"):
        loader(tmp_path)


def test_a_queue_whose_published_agent_is_damaged_is_served_by_the_rule(tmp_path: Path) -> None:
    chosen = queue_policies.choosers(QueuePolicy(order=QueueOrder.LEARNED), published(tmp_path, "stream", b"damaged"))
    assert chosen.agent is None
    assert chosen.fallbacks == (queue_policies.AGENT_UNAVAILABLE,)
