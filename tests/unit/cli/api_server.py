"""A small HTTP server with the lists and objects of a Kubernetes API server, and a kubeconfig for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.builders.answering import JSON, answering
from tests.unit.cli.cli_samples import snapshot

Json = dict[str, Any]


@dataclass
class World:
    """What the server answers; tests change it."""

    objects: dict[str, Json] = field(default_factory=dict)
    """By path; a list's items are cut into pages."""
    raw: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """By path: status and body, before anything else."""
    endless: bool = False
    """Every page has a continuation token."""
    asked: list[str] = field(default_factory=list)
    """Paths with queries, in order."""
    authorizations: set[str] = field(default_factory=set)

    def answer(self, target: str) -> tuple[int, bytes]:
        self.asked.append(target)
        parts = urlsplit(target)
        if parts.path in self.raw:
            return self.raw[parts.path]
        found = self.objects.get(parts.path)
        if found is None:
            return 404, json.dumps({"kind": "Status", "message": f"{parts.path} not found", "reason": "NotFound"}).encode()
        return 200, json.dumps(self._page(found, parse_qs(parts.query)) if "items" in found else found).encode()

    def _page(self, listed: Json, query: dict[str, list[str]]) -> Json:
        start, limit = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
        items = listed["items"]
        more = self.endless or start + limit < len(items)
        return {**listed, "metadata": {"continue": str(start + limit) if more else ""}, "items": items[start : start + limit]}


@contextmanager
def serving(world: World) -> Iterator[str]:
    """Serve `world` until the block ends; yields the server's URL."""

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str, bytes]:
        world.authorizations.add(request.headers.get("Authorization", ""))
        status, body = world.answer(request.path)
        return status, JSON, body

    with answering(answer) as port:
        yield f"http://127.0.0.1:{port}"


def kubeconfig(folder: Path, url: str, **user: Any) -> str:
    """Path of a kubeconfig with contexts `here` (namespace team-a) and `other` (none)."""
    path = folder / "kubeconfig"
    contexts = [
        {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}},
        {"name": "other", "context": {"cluster": "c", "user": "u"}},
    ]
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user or {"token": "open-sesame"}}],
        "contexts": contexts,
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


def nodes() -> list[Json]:
    """The sample cluster as v1 Nodes, and one without GPUs."""
    gpu_nodes = [
        {
            "metadata": {
                "name": node.name,
                "labels": {
                    **node.labels,
                    "nvidia.com/gpu.product": node.gpu_product or "",
                    "nvidia.com/gpu.memory": str((node.gpu_memory_bytes or 0) >> 20),
                    "nvidia.com/gpu.present": "true",
                },
            },
            "spec": {},
            "status": {
                "allocatable": {"nvidia.com/gpu": str(node.allocatable_gpus), "cpu": "64", "memory": "512Gi"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for node in snapshot().nodes
    ]
    return [*gpu_nodes, {"metadata": {"name": "control-plane"}, "spec": {}, "status": {"allocatable": {"cpu": "8"}}}]


def pods(count: int, node: str = "gpu-node-00") -> list[Json]:
    """Bound pods of which each holds one GPU of `node`."""
    return [
        {
            "metadata": {"namespace": "team-z", "name": f"pod-{index:04d}"},
            "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
            "status": {"phase": "Running"},
        }
        for index in range(count)
    ]


def world(pod_count: int = 3) -> World:
    """The sample cluster."""
    claim = "/api/v1/namespaces/team-a/persistentvolumeclaims/products"
    return World(objects={"/api/v1/nodes": {"items": nodes()}, "/api/v1/pods": {"items": pods(pod_count)}, claim: {"spec": {}}})
