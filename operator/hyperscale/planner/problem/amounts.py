"""What one worker takes of its node beside GPUs. Pure; without arrays, since the operator's own process asks too."""

from __future__ import annotations

from hyperscale.model.constants import GPU_RESOURCE
from hyperscale.model.planning import PODS, PlanRequest
from hyperscale.util.quantity import parse_number


def amounts_of(request: PlanRequest) -> dict[str, float]:
    """By resource name: cores, bytes, devices, and one pod."""
    asked = request.job.workers.resources.asked()
    stated = {name: parse_number(text) for name, text in asked.items() if name != GPU_RESOURCE}
    return {**(request.resources or stated), PODS: 1.0}
