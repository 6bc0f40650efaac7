"""GPU instances of a GPU that MIG splits, as DCGM names them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import pynvml

from hyperscale.agent.gpus.gpu_figures import plausible
from hyperscale.agent.gpus.gpu_reading import MigInstance
from hyperscale.agent.gpus.nvml_calls import Call
from hyperscale.agent.gpus.nvml_figures import MIB, memory

_MEMORY_SLICES: Final = 8
"""MIG cuts memory into eighths."""
_PROFILE: Final = re.compile(r" MIG (?:\d+c\.)?(\d+g\.\d+gb\S*)$")
"""End of a MIG device's name; a compute instance that is only a part of its GPU instance has 1c. before it."""


def instances(call: Call, handle: Any, pass_on: Callable[[pynvml.NVMLError], None]) -> tuple[MigInstance, ...]:  # noqa: ANN401
    """GPU instances by id; none on a GPU without MIG. `pass_on` takes errors that cost one figure and raises the others."""
    try:
        current, _pending = call("nvmlDeviceGetMigMode", handle)
        places = call("nvmlDeviceGetMaxMigDeviceCount", handle) if current == pynvml.NVML_DEVICE_MIG_ENABLE else 0
    except pynvml.NVMLError as error:
        pass_on(error)
        return ()
    instances: dict[int, MigInstance] = {}
    for place in range(places):
        try:
            device = call("nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
            instance = int(call("nvmlDeviceGetGpuInstanceId", device))
            if instance not in instances:  # compute instances of one GPU instance share its memory
                instances[instance] = MigInstance(instance, _profile(call, handle, device), _figures(call, device, pass_on))
        except pynvml.NVMLError as error:
            pass_on(error)
    return tuple(instances[number] for number in sorted(instances))


def _figures(call: Call, device: Any, pass_on: Callable[[pynvml.NVMLError], None]) -> dict[str, float]:  # noqa: ANN401
    try:
        return plausible(memory(call, device))
    except pynvml.NVMLError as error:
        pass_on(error)
        return {}


def _profile(call: Call, handle: Any, device: Any) -> str:  # noqa: ANN401 - NVML handles
    """Profile of a MIG device: the end of its name, else put together from its slices and memory."""
    if named := _PROFILE.search(str(call("nvmlDeviceGetName", device))):
        return named[1]
    attributes = call("nvmlDeviceGetAttributes_v2", device)
    total = call("nvmlDeviceGetMemoryInfo", handle).total
    share = math.ceil(attributes.memorySizeMB * MIB / total * _MEMORY_SLICES) / _MEMORY_SLICES
    return f"{attributes.gpuInstanceSliceCount}g.{round(share * math.ceil(total / 2**30))}gb"
