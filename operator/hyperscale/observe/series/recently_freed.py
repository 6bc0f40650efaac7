"""GPUs that pods gave back a moment ago: what an exporter said of them before is about pods that are gone. Pure.

An exporter is scraped every 15 or 30 seconds, a plan is made within one second of a job's end. Without this the next job would avoid the
GPUs that have just become free, since their last reading is the ended job's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.model.cluster import Gpu, Origin, Quality, Sample
from hyperscale.observe.quality import unknown

IDLE_RATIO: Final = 0.05
"""Less is the driver's own doing: such a reading is no pod's."""
KEPT_SECONDS: Final = 900.0
"""A reading that old is stale by any limit in use."""
ENDED: Final = "older than the end of the pod that held the GPU"
IDLE: Final = Sample(value=0.0, age_seconds=None, quality=Quality.ESTIMATED, source=Origin.PODS, confidence=0.8)
"""Kubernetes hands such a GPU out as free; no exporter has said so yet."""

PodName = tuple[str, str]
"""Namespace and name."""
Holders = Mapping[str, PodName]
"""The pod that a GPU's readings name, by UUID; absent where they name none."""


class Release(NamedTuple):
    """Some GPUs of one node became free."""

    at: float
    """Unix seconds."""
    gpus: int


class Releases:
    """The latest ends of pods, by node; bounded by time."""

    def __init__(self) -> None:
        self._by_node: dict[str, tuple[Release, ...]] = {}

    def note(self, node: str, gpus: int, at: float) -> None:
        """`gpus` GPUs of `node` are free since `at` (Unix seconds)."""
        kept = tuple(release for release in self._by_node.get(node, ()) if release.at > at - KEPT_SECONDS)
        self._by_node[node] = (*kept, Release(at, gpus))

    def forget(self, now: float) -> None:
        """Drop what is older than any reading in use."""
        for node in [node for node, releases in self._by_node.items() if releases[-1].at <= now - KEPT_SECONDS]:
            del self._by_node[node]

    def by_node(self) -> Mapping[str, tuple[Release, ...]]:
        """Oldest first."""
        return self._by_node


class Tenancy(NamedTuple):
    """Who has a node's GPUs, and who had them."""

    free_gpus: int
    """GPUs that no pod holds now."""
    holders: Holders
    holds: Callable[[PodName], bool | None]
    """Whether a pod of that name holds GPUs; None where it is a pod without any, such as the exporter's own."""
    releases: tuple[Release, ...] = ()


def settled(gpus: tuple[Gpu, ...], tenancy: Tenancy, moment: float, release_grace_seconds: float) -> tuple[Gpu, ...]:
    """A node's GPUs, without what was read of pods that have ended since.

    A busy reading is void when it names a pod that is gone. Where readings name no pods, as many of the busiest as were given back
    after them are void: pods get GPUs blindly, so that which ones they were does not matter. Never more than are free now.

    moment:         Unix seconds from which the samples' ages count
    release_grace_seconds: readings scraped so long after the end may still be the pod's: exporters repeat what they collected before
    """
    if tenancy.free_gpus <= 0 or not (tenancy.holders or tenancy.releases):
        return gpus
    busy = sorted((position for position, gpu in enumerate(gpus) if _use(gpu) > IDLE_RATIO), key=lambda position: -_use(gpus[position]))
    void = _outdated(busy, gpus, tenancy, moment, release_grace_seconds) if busy else []
    return tuple(_idle(gpu) if position in void else gpu for position, gpu in enumerate(gpus)) if void else gpus


def _outdated(busy: Sequence[int], gpus: Sequence[Gpu], tenancy: Tenancy, moment: float, release_grace_seconds: float) -> list[int]:
    """Positions in `busy` whose readings are of pods that have ended; at most as many as GPUs are free."""
    holder_runs = _holder_runs(busy, gpus, tenancy)
    void = [position for position in busy if holder_runs.get(position) is False][: tenancy.free_gpus]
    for position in busy:
        if len(void) >= tenancy.free_gpus:
            break
        scraped = moment - (gpus[position].utilization_ratio.age_seconds or 0.0)
        given_back = sum(release.gpus for release in tenancy.releases if scraped < release.at + release_grace_seconds)
        if position not in holder_runs and len(void) < given_back:
            void.append(position)
    return void


def _holder_runs(busy: Sequence[int], gpus: Sequence[Gpu], tenancy: Tenancy) -> dict[int, bool]:
    """Whether the pod that a busy GPU's reading names still holds GPUs; absent where it names none, or one without GPUs."""
    named = {position: tenancy.holders[gpus[position].uuid] for position in busy if gpus[position].uuid in tenancy.holders}
    runs = {position: tenancy.holds(pod) for position, pod in named.items()}
    return {position: holds for position, holds in runs.items() if holds is not None}


def _idle(gpu: Gpu) -> Gpu:
    used = gpu.memory_used_bytes
    return replace(gpu, utilization_ratio=IDLE, memory_used_bytes=used if used.value is None else unknown(ENDED, used.age_seconds))


def _use(gpu: Gpu) -> float:
    return -1.0 if gpu.utilization_ratio.value is None else gpu.utilization_ratio.value
