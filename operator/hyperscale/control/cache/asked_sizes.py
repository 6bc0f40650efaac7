"""Sizes of pods that nodes have held since the operator started. Each pod counts once, when it is on its node."""

from __future__ import annotations

from typing import Final

from hyperscale.model.planning import AskedSize
from hyperscale.model.pods import PodView

MAX_SIZES: Final = 32
"""Different numbers of GPUs that a question states; those with the fewest GPUs asked for are left out."""
DIGITS: Final = 3
"""Decimals of mean cores."""


class AskedSizes:
    """Pods with GPUs by their number of GPUs: how many, and their cores and memory in the mean.

    The price of stranded GPUs needs no more: mean demand and shares are the same as by every single size.
    """

    def __init__(self) -> None:
        self._sums: dict[int, tuple[int, float, int]] = {}
        """Pods, cores and bytes."""
        self._sizes: tuple[AskedSize, ...] | None = ()

    def note(self, before: PodView | None, after: PodView | None) -> None:
        """Count a pod that came to its node: one that fits no node asks for what no cluster gives."""
        if after is not None and after.node and (before is None or not before.node):
            self.count(after)

    def count(self, pod: PodView) -> None:
        """Count a pod that was on no node before; one without GPUs changes nothing."""
        if pod.gpus <= 0:
            return
        pods, cores, memory = self._sums.get(pod.gpus, (0, 0.0, 0))
        self._sums[pod.gpus] = pods + 1, cores + pod.cpu_cores, memory + pod.memory_bytes
        self._sizes = None

    def sizes(self) -> tuple[AskedSize, ...]:
        """Return the sizes, fewest GPUs first; the same tuple until a pod is counted."""
        if self._sizes is None:
            most = sorted(self._sums, key=lambda gpus: (-gpus * self._sums[gpus][0], gpus))[:MAX_SIZES]
            self._sizes = tuple(_mean(gpus, *self._sums[gpus]) for gpus in sorted(most))
        return self._sizes


def _mean(gpus: int, pods: int, cores: float, memory: int) -> AskedSize:
    return AskedSize(gpus, round(cores / pods, DIGITS), float(memory // pods), float(pods))
