"""Plans that wait for their evaluation: namespaces take turns, and none may fill the queue alone."""

from __future__ import annotations

from typing import Final, NamedTuple

from hyperscale.control.cache.records import Key
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.plan import Plan

MAX_WAITING: Final = 1_000
"""Plans of all namespaces."""
MAX_WAITING_EACH: Final = 100
"""Plans of one namespace."""


class WaitingPlan(NamedTuple):
    """A plan to be evaluated."""

    key: Key
    plan: Plan
    job: JobSpec
    policy: PolicySpec
    running: bool
    """Whether the job's pods hold what the plan takes."""


class EvaluationQueue:
    """First in, first out within a namespace; the namespaces take turns."""

    def __init__(self, most: int = MAX_WAITING, most_each: int = MAX_WAITING_EACH) -> None:
        """most: plans of all namespaces together; most_each: of one."""
        self._most, self._most_each = most, most_each
        self._plans: dict[str, dict[Key, WaitingPlan]] = {}
        """By namespace, the one whose turn it is first; none is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, waiting: WaitingPlan) -> tuple[bool, WaitingPlan | None]:
        """Return whether the plan waits now, and the plan of another namespace that gave way for it.

        A later plan of a job takes the place of the earlier one. Where the queue is full, the last plan of the longest namespace gives
        way to a namespace that has fewer.
        """
        own = self._plans.get(waiting.key.namespace, {})
        if waiting.key in own:
            own[waiting.key] = waiting
            return True, None
        if len(own) >= self._most_each:
            return False, None
        gone = None
        if self._count >= self._most:
            longest = max(self._plans.values(), key=len)
            if len(longest) <= len(own) + 1:
                return False, None
            gone = longest[next(reversed(longest))]
            self.forget(gone.key)
        self._plans.setdefault(waiting.key.namespace, {})[waiting.key] = waiting
        self._count += 1
        return True, gone

    def take(self) -> WaitingPlan | None:
        """Return the oldest plan of the namespace whose turn it is; None where nothing waits."""
        namespace = next(iter(self._plans), None)
        if namespace is None:
            return None
        plans = self._plans.pop(namespace)
        waiting = plans.pop(next(iter(plans)))
        if plans:
            self._plans[namespace] = plans  # behind the others
        self._count -= 1
        return waiting

    def forget(self, key: Key) -> None:
        """Drop the plan of a job, where it waits."""
        plans = self._plans.get(key.namespace, {})
        if plans.pop(key, None) is not None:
            self._count -= 1
            if not plans:
                del self._plans[key.namespace]
