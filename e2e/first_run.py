"""What the first run of the demo has to build, in its order, and about how long each part takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from e2e import horovod
from e2e.cluster import binaries
from e2e.cluster.progress import duration, say, wall_seconds
from e2e.cluster.real import images

_PROGRAMS_CPU_SECONDS: Final = 470.0
"""Of the processor, for all Go programs that the cluster with real nodes needs, when none of their packages was compiled before."""
_ALL_PROGRAMS: Final = sum(len(tool.commands) for tool in (*binaries.TOOLS, *binaries.REAL_TOOLS) if tool not in binaries.CLIENTS)
_CLIENT_CPU_SECONDS: Final = 30.0
"""For one program more that people run against it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Something that is built once and kept."""

    name: str
    cpu_seconds: float


def parts(real: bool) -> list[Part]:
    """What is not in the cache yet, in the order of building; with `real` also what nodes that run containers need."""
    found = _programs((*binaries.TOOLS, *(binaries.REAL_TOOLS if real else ())))
    if left := images.absent(images.DEMO) if real else []:
        found.append(Part(f"{', '.join(image.title for image in left)}, after the first plan", images.cpu_seconds(left)))
    if (real or not horovod.absent()) and not horovod.built():
        found.append(Part("Horovod, after the first plan", horovod.CPU_SECONDS))
    return found


def _programs(tools: Sequence[binaries.Tool]) -> list[Part]:
    """Go programs to build: those of the cluster, then those that people run against it."""
    found = []
    if servers := binaries.absent([tool for tool in tools if tool not in binaries.CLIENTS]):
        count = sum(len(tool.commands) for tool in servers)
        found.append(Part(f"{count} Go programs of the cluster", _PROGRAMS_CPU_SECONDS * count / _ALL_PROGRAMS))
    if clients := binaries.absent(binaries.CLIENTS):
        names = " and ".join(tool.name for tool in clients)
        found.append(Part(f"{names}, after the first plan", _CLIENT_CPU_SECONDS * len(clients)))
    return found


def announce(left: Sequence[Part]) -> None:
    """Say what is left to build and about how long it takes; nothing where all is there."""
    if not left:
        return
    whole = sum(part.cpu_seconds for part in left)
    listed = "; ".join(f"{part.name} ({duration(wall_seconds(part.cpu_seconds))})" for part in left)
    say(f"to build, once: {len(left)} {'part' if len(left) == 1 else 'parts'}, about {duration(wall_seconds(whole))}: {listed}")
