"""What an agent knows of its GPUs, in one word and one line: never a crash, never a zero for what is unknown. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec


class DriverCondition(Enum):
    """State of a node's GPU readings, or of one GPU; the values are those of the `state` label."""

    STARTING = "Starting"
    READY = "Ready"
    NO_LIBRARY = "NoLibrary"
    NO_DRIVER = "NoDriver"
    NO_GPU = "NoGPU"
    NO_PERMISSION = "NoPermission"
    VERSION_MISMATCH = "VersionMismatch"
    GPU_LOST = "GPULost"
    RESET_REQUIRED = "ResetRequired"
    UNREADABLE = "Unreadable"
    STALLED = "Stalled"
    LEFT_TO_DCGM = "LeftToDCGM"
    OFF = "Off"


FIXES: Final = {
    DriverCondition.NO_LIBRARY: "give the pod the driver's libnvidia-ml.so.1: the NVIDIA runtime class with "
    "NVIDIA_VISIBLE_DEVICES=all and NVIDIA_DRIVER_CAPABILITIES=utility, or mount the library and set LD_LIBRARY_PATH",
    DriverCondition.NO_DRIVER: "load the NVIDIA driver on the node",
    DriverCondition.NO_GPU: "the driver sees no GPU: run no agent with GPU readings here, or look at the node's PCI bus",
    DriverCondition.NO_PERMISSION: "let the pod's user open /dev/nvidiactl and /dev/nvidia*",
    DriverCondition.VERSION_MISMATCH: "the driver was exchanged under a running pod: restart the agent's pod, else the node",
    DriverCondition.GPU_LOST: "the GPU fell off the bus: drain the node and reset or replace the GPU",
    DriverCondition.RESET_REQUIRED: "drain the node and reset the GPU",
    DriverCondition.UNREADABLE: "see whether nvidia-smi on the node meets the same error; if so, drain and reboot the node",
    DriverCondition.STALLED: "a call into the driver does not return: look for XIDs in the kernel's log, drain and reboot the node",
}
"""What to do about it."""

_WORST_FIRST: Final = (DriverCondition.GPU_LOST, DriverCondition.RESET_REQUIRED, DriverCondition.NO_PERMISSION, DriverCondition.UNREADABLE)


class AgentState(msgspec.Struct, frozen=True):
    """One condition and why."""

    condition: DriverCondition
    message: str = ""
    """For people, one line; empty when all is well."""

    @property
    def line(self) -> str:
        """Condition, reason and what to do, in one line."""
        parts = (self.condition.value, self.message, FIXES.get(self.condition, ""))
        return ": ".join(part for part in parts if part)


STARTING: Final = AgentState(DriverCondition.STARTING)
OFF: Final = AgentState(DriverCondition.OFF, "GPU readings are switched off")


def worst(states: Iterable[AgentState]) -> AgentState:
    """The state of a node whose GPUs have these states: the worst of them; Ready when all are."""
    faulty = sorted((state for state in states if state.condition in _WORST_FIRST), key=lambda state: _WORST_FIRST.index(state.condition))
    return faulty[0] if faulty else AgentState(DriverCondition.READY)
