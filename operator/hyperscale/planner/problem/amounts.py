"""What one worker takes of its node beside GPUs. Pure; without arrays, since the operator's own process asks too."""

from __future__ import annotations

from hyperscale.model.planning import PODS, PlanRequest
from hyperscale.util.quantity import parse_number


def amounts_of(request: PlanRequest) -> dict[str, float]:
    """By resource name: cores, bytes, devices, and one pod."""
    workers = request.job.workers
    stated = {name: parse_number(text) for name, text in (("cpu", workers.cpu), ("memory", workers.memory)) if text is not None}
    return {**(request.resources or stated), PODS: 1.0}
