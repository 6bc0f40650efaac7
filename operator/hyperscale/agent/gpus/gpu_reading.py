"""One reading of a node's GPUs as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from hyperscale.agent.state import STARTING, AgentState

PathKind = Literal["NVLink", "PcieSwitch", "PcieBridge", "Socket", "System"]


class MigInstance(msgspec.Struct, frozen=True):
    """A GPU instance of a GPU that MIG splits."""

    id: int
    profile: str
    """As DCGM writes it, e.g. 1g.10gb."""
    figures: Mapping[str, float]
    """By DCGM name; what the instance has of its own."""


class GpuReading(msgspec.Struct, frozen=True):
    """One GPU; a figure that is not known is not in `figures`."""

    index: int
    """NVML's index, the `gpu` label."""
    state: AgentState
    uuid: str = ""
    pci_bus_id: str = ""
    device: str = ""
    """nvidia0, …: by minor number."""
    model: str = ""
    figures: Mapping[str, float] = {}
    instances: tuple[MigInstance, ...] = ()


class GpuPath(msgspec.Struct, frozen=True):
    """The best way from one GPU of the node to another."""

    gpu: int
    peer: int
    kind: PathKind
    links: int
    """Number of NVLinks; 1 for the other kinds."""


class Reading(msgspec.Struct, frozen=True):
    """All GPUs of a node at one moment."""

    taken_at: float
    """Seconds by the reader's monotonic clock."""
    state: AgentState = STARTING
    driver: str = ""
    gpus: tuple[GpuReading, ...] = ()
    paths: tuple[GpuPath, ...] = ()
    errors: Mapping[str, int] = {}
    """NVML errors that are not normal, since the agent started, by pynvml's name of the code."""
