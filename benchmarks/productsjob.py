"""Jobs on ogbn-products as a user writes them, which several benchmarks plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PRODUCTS_SIZE: Final[dict[str, int]] = {"vertices": 2_449_029, "edges": 123_718_280, "featureSize": 100, "classes": 47}
"""Edges in both directions, as training scripts load them."""


def products_job(model: Mapping[str, Any], workers: tuple[int, int], gpus_per_worker: int, **more: object) -> dict[str, Any]:
    """Return the spec of a job; workers: fewest and most; more: further fields of it."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus_per_worker)}}
    return {
        "model": dict(model),
        "dataset": {"source": {"persistentVolumeClaim": {"claimName": "graphs"}}, **PRODUCTS_SIZE},
        **more,
        "workers": {"minReplicas": workers[0], "maxReplicas": workers[1], "resources": resources},
    }
