"""What the bound pods of running jobs take of each node, indexed by job and node: a change costs only the nodes it concerns."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

from hyperscale.control.cache.records import Key
from hyperscale.model.admission_query import Claim, claims_of
from hyperscale.model.pods import PodView


class ClaimIndex:
    """Claims by node, kept up to date job by job."""

    def __init__(self) -> None:
        self._pods: dict[Key, tuple[PodView, ...]] = {}
        """Pods of each job as counted last."""
        self._on_node: dict[str, dict[Key, Claim]] = {}
        self._total: dict[str, Claim] = {}
        """Sorted by node; replaced, never changed: a question in progress keeps the one it was built with."""
        self._outdated: set[str] = set()
        """Nodes whose total does not count the last change yet."""

    def set(self, job: Key, pods: tuple[PodView, ...]) -> None:
        """Count these pods of the job from now on; () forgets it. The same tuple as before costs nothing."""
        before = self._pods.get(job, ())
        if before is pods:
            return
        if pods:
            self._pods[job] = pods
        else:
            self._pods.pop(job, None)
        nodes = _changed_nodes(before, pods)
        claims = claims_of(pod for pod in pods if pod.node in nodes)
        for node in nodes:
            on_node = self._on_node.setdefault(node, {})
            on_node.pop(job, None)
            if node in claims:
                on_node[job] = claims[node]
            if not on_node:
                del self._on_node[node]
        self._outdated |= nodes

    def keep_only(self, jobs: Collection[Key]) -> None:
        """Forget all other jobs."""
        for job in [job for job in self._pods if job not in jobs]:
            self.set(job, ())

    def total(self) -> dict[str, Claim]:
        """Return the claims of all jobs by node, sorted; the caller must not change the result."""
        if self._outdated:
            gone = {node for node in self._outdated if node not in self._on_node}
            fresh = {node: self._sum(node) for node in self._outdated - gone}
            new = fresh.keys() - self._total.keys()
            left = {node: claim for node, claim in self._total.items() if node not in gone} if gone else self._total
            merged = left | fresh
            self._total = dict(sorted(merged.items())) if new else merged
            self._outdated = set()
        return self._total

    def _sum(self, node: str) -> Claim:
        """In order of the jobs' keys, so that the sum does not depend on which changed last."""
        return reduce(Claim.plus, (claim for _, claim in sorted(self._on_node[node].items())))


def _changed_nodes(before: tuple[PodView, ...], after: tuple[PodView, ...]) -> set[str]:
    """Nodes of pods that only one of the two has.

    A pod that changed is another object; comparing contents would cost as much as counting again.
    """
    old, new = {id(pod) for pod in before}, {id(pod) for pod in after}
    return {pod.node for pods, others in ((before, new), (after, old)) for pod in pods if id(pod) not in others}
