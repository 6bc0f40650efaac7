"""Sizes of pods that nodes have held since the operator started. Each pod counts once, when it is on its node, and less as it ages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from hyperscale.model.planning import AskedSize
from hyperscale.model.pods import PodView
from hyperscale.util.rfc3339 import unix_seconds

MAX_SIZES: Final = 32
"""Different numbers of GPUs that a question states; those with the fewest GPUs asked for are left out."""
DIGITS: Final = 3
"""Decimals of mean cores."""
HALF_LIFE_SECONDS: Final = 7 * 86_400.0
"""Age at which a pod counts half of a new one: what a cluster is asked for changes with projects, not with days."""
MIN_CAPPED_GPUS: Final = 64.0
"""GPUs of new pods that a namespace may count for whatever others ask for. Else a second one's few pods would be half of the demand."""
MAX_CORES_A_GPU: Final = 128.0
MAX_BYTES_A_GPU: Final = float(2 << 40)
"""More than clouds sell with one GPU. A pod that states more counts for this: the name of a node alone proves no room."""
MAX_AGES: Final = 32.0
"""Half-lives after which weights are restated; a namespace that asked for nothing meanwhile is forgotten."""


class _Sum(NamedTuple):
    """Pods of one number of GPUs in one namespace, each with its weight."""

    pods: float = 0.0
    cores: float = 0.0
    memory: float = 0.0
    """Bytes."""

    def plus(self, other: _Sum, times: float = 1.0) -> _Sum:
        return _Sum(self.pods + times * other.pods, self.cores + times * other.cores, self.memory + times * other.memory)


_NONE: Final = _Sum()


class AskedSizes:
    """Pods with GPUs by their number of GPUs: how many, and their cores and memory in the mean.

    A pod weighs 2^(its time / half-life), so that no weight changes as time passes (forward decay, Cormode et al. 2009). Of all GPUs asked
    for no namespace counts for more than the others together, or for `MIN_CAPPED_GPUS` where that is more. The price of stranded GPUs needs
    no more: mean demand and shares are the same as by every single size.
    """

    def __init__(self) -> None:
        self._sums: dict[str, dict[int, _Sum]] = {}
        """By namespace."""
        self._landmark: float | None = None
        """Unix seconds of a pod that weighs 1 in the sums; None before the first pod with a time."""
        self._newest = 0.0
        """Half-lives from the landmark to the newest pod."""
        self._sizes: tuple[AskedSize, ...] | None = ()

    def note(self, before: PodView | None, after: PodView | None, now: float = math.inf) -> None:
        """Count a pod that came to its node: one that fits no node asks for what no cluster gives. now: Unix seconds."""
        if after is not None and after.node and (before is None or not before.node):
            self.count(after, now)

    def count(self, pod: PodView, now: float = math.inf) -> None:
        """Count a pod that was on no node before; one without GPUs changes nothing.

        A pod without a time is as new as the newest, and one from the future is of `now`.
        """
        if pod.gpus <= 0:
            return
        weight = math.exp2(self._age(pod.created, now))
        of_namespace = self._sums.setdefault(pod.namespace, {})
        one = _Sum(1.0, min(pod.cpu_cores, MAX_CORES_A_GPU * pod.gpus), min(float(pod.memory_bytes), MAX_BYTES_A_GPU * pod.gpus))
        of_namespace[pod.gpus] = of_namespace.get(pod.gpus, _NONE).plus(one, weight)
        self._sizes = None

    def sizes(self) -> tuple[AskedSize, ...]:
        """Return the sizes, fewest GPUs first; the same tuple until a pod is counted."""
        if self._sizes is None:
            total = self._capped()
            most = sorted(total, key=lambda gpus: (-gpus * total[gpus].pods, gpus))[:MAX_SIZES]
            self._sizes = tuple(_mean(gpus, total[gpus]) for gpus in sorted(most))
        return self._sizes

    def _age(self, created: str, now: float) -> float:
        """Half-lives from the landmark to a pod, at least -MAX_AGES; sets the landmark where there is none, or it is too old."""
        if not created:
            return self._newest
        at = min(unix_seconds(created), now)
        if self._landmark is None:
            self._landmark = at
        age = (at - self._landmark) / HALF_LIFE_SECONDS
        if age > MAX_AGES:
            self._restate(age)
            self._landmark, self._newest, age = at, 0.0, 0.0
        self._newest = max(self._newest, age)
        return max(age, -MAX_AGES)

    def _restate(self, age: float) -> None:
        """State all sums by a landmark that is `age` half-lives later."""
        times = math.exp2(-age)
        restated = {name: {gpus: _NONE.plus(each, times) for gpus, each in sums.items()} for name, sums in self._sums.items()}
        self._sums = {name: sums for name, sums in restated.items() if _gpus(sums) >= math.exp2(-MAX_AGES)}

    def _capped(self) -> dict[int, _Sum]:
        """Weights of all namespaces by number of GPUs, of new pods 1 each."""
        times = math.exp2(-self._newest)
        gpus = {name: times * _gpus(sums) for name, sums in sorted(self._sums.items())}
        whole = math.fsum(gpus.values())
        total: dict[int, _Sum] = {}
        for name, own in gpus.items():
            others = whole - own
            cap = max(others, MIN_CAPPED_GPUS) if len(gpus) > 1 else math.inf
            counted = times * min(1.0, cap / own) if own > 0.0 else times
            for size, each in self._sums[name].items():
                total[size] = total.get(size, _NONE).plus(each, counted)
        return total


def _gpus(sums: Mapping[int, _Sum]) -> float:
    return math.fsum(gpus * each.pods for gpus, each in sums.items())


def _mean(gpus: int, of_size: _Sum) -> AskedSize:
    pods = of_size.pods
    return AskedSize(gpus, round(of_size.cores / pods, DIGITS), float(round(of_size.memory / pods)), pods)
