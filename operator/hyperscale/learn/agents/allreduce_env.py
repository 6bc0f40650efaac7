"""AGPCS's other question as a game: whenever the channel is free, an agent says what is sent next, and what with it.

The gradients of one backward pass become ready one by one; an action sends some of those that wait, or waits for more. An agent may reorder
as well: it can send the largest or the latest first. `hyperscale.training.allreduce.schedule` has the exact answer for scoring.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hyperscale.learn.agents.allreduce_instances import AllreduceInstance, draw
from hyperscale.training.allreduce.schedule import Groups, lower_bounds

ACTIONS: Final = (
    "all that waits",
    "the oldest",
    "the older half",
    "the oldest worth four latencies",
    "the largest",
    "the latest",
    "wait for the next",
    "wait for the last",
)
AHEAD: Final = 4
"""Gradients to come that an agent sees one by one."""
OBSERVED: Final = 14 + 2 * AHEAD
WORTH: Final = 4.0
"""Of ACTIONS[3], in latencies."""

State = NDArray[np.float32]
Draw = Callable[[np.random.Generator], AllreduceInstance]


class Channel:
    """One backward pass being sent: the rules of the game, without gymnasium."""

    def __init__(self, instance: AllreduceInstance) -> None:
        """Begin when the first gradient is ready."""
        self.instance = instance
        self.length_seconds = max(
            lower_bounds(instance.ready_seconds, instance.sizes_bytes, instance.alpha, instance.beta).best_seconds
            - instance.ready_seconds[0],
            1e-9,
        )
        tails = np.cumsum(np.asarray(instance.sizes_bytes)[::-1])[::-1]
        sent_after = np.asarray(instance.ready_seconds) + instance.alpha + instance.beta * tails
        self._coming_bytes: list[float] = [*tails.tolist(), 0.0]
        self._coming_seconds: list[float] = [*np.maximum.accumulate(sent_after[::-1])[::-1].tolist(), 0.0]
        self.now = instance.ready_seconds[0]
        self.waiting: list[int] = []
        self.following = 0
        self.sent: list[tuple[int, ...]] = []
        self._collect()

    @property
    def ended(self) -> bool:
        """Whether everything is sent."""
        return not self.waiting and self.following == len(self.instance.ready_seconds)

    @property
    def groups(self) -> Groups:
        """What was sent so far."""
        return tuple(self.sent)

    @property
    def bound_seconds(self) -> float:
        """No way on from here ends earlier."""
        if self.ended:
            return self.now
        left = sum(self.instance.sizes_bytes[at] for at in self.waiting) + self._coming_bytes[self.following]
        return max(self.now + self.instance.alpha + self.instance.beta * left, self._coming_seconds[self.following])

    def act(self, action: int) -> float:
        """Do ACTIONS[action]; returns by how many seconds the bound rises. Waiting for what does not come sends all."""
        bound = self.bound_seconds
        left = len(self.instance.ready_seconds) - self.following
        if action >= 6 and left:
            self.now = self.instance.ready_seconds[self.following if action == 6 else -1]
        else:
            self._send(self._chosen(action))
        self._collect()
        if not self.waiting and not self.ended:
            self.now = self.instance.ready_seconds[self.following]
            self._collect()
        return self.bound_seconds - bound

    def observe(self) -> State:
        """(OBSERVED,): what waits, what comes, what is left; times and transfers in latencies, on a logarithmic scale."""
        instance, count = self.instance, len(self.instance.ready_seconds)
        alpha = max(instance.alpha, 1e-9)
        worth = [instance.beta * size / alpha for size in instance.sizes_bytes]
        waiting = [worth[at] for at in self.waiting] or [0.0]
        coming = range(self.following, count)
        gaps = [(instance.ready_seconds[at] - self.now) / alpha for at in coming]
        figures = [sum(waiting), waiting[0], max(waiting), waiting[-1], sum(worth[at] for at in coming), sum(worth)]
        figures += [gaps[-1] if gaps else 0.0, (self.now - instance.ready_seconds[0]) / alpha]
        for step in range(AHEAD):
            figures += [gaps[step], worth[self.following + step]] if step < len(gaps) else [0.0, 0.0]
        lengths = [
            alpha,
            self.now - instance.ready_seconds[0],
            instance.ready_seconds[-1] - self.now,
            instance.beta * self._coming_bytes[self.following],
        ]
        shares = [len(self.waiting) / count, len(coming) / count, *np.clip(np.divide(lengths, self.length_seconds), 0.0, 2.0)]
        return np.asarray([*np.log1p(np.maximum(figures, 0.0)), *shares], dtype=np.float32)

    def _chosen(self, action: int) -> list[int]:
        waiting, sizes = self.waiting, self.instance.sizes_bytes
        if action == 1:
            return waiting[:1]
        if action == 2:
            return waiting[: (len(waiting) + 1) // 2]
        if action == 3:
            sums = np.cumsum([self.instance.beta * sizes[at] for at in waiting])
            return waiting[: int(np.searchsorted(sums, WORTH * self.instance.alpha)) + 1]
        if action == 4:
            return [max(waiting, key=lambda at: (sizes[at], -at))]
        return waiting[-1:] if action == 5 else list(waiting)

    def _send(self, members: list[int]) -> None:
        self.now += self.instance.alpha + self.instance.beta * sum(self.instance.sizes_bytes[at] for at in members)
        self.sent.append(tuple(members))
        self.waiting = [at for at in self.waiting if at not in set(members)]

    def _collect(self) -> None:
        ready = self.instance.ready_seconds
        while self.following < len(ready) and ready[self.following] <= self.now:
            self.waiting.append(self.following)
            self.following += 1


class AllreduceEnv(gymnasium.Env[State, np.int64]):
    """One episode is one backward pass; the return is −(end of the last message − lower bound) in units of the bound's length.

    Each action pays for what it raises the bound by. That is −(seconds passed) with a potential that the agent's choices cannot change
    (Ng, Harada, Russell 1999), so the best play is the same, but models that take long no longer drown what a choice is worth.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it so

    def __init__(self, seed: int = 0, instances: Draw = draw) -> None:
        """`instances` draws each episode's gradients and network."""
        self.observation_space = spaces.Box(-np.inf, np.inf, (OBSERVED,), np.float32)
        self.action_space = spaces.Discrete(len(ACTIONS))
        self._rng = np.random.default_rng([seed, 23])
        self._instances = instances
        self._channel: Channel | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[State, dict[str, Any]]:
        """The next backward pass, its first gradient ready."""
        super().reset(seed=seed)
        if seed is not None:
            self._rng = np.random.default_rng([seed, 23])
        self._channel = Channel(self._instances(self._rng))
        return self._channel.observe(), {}

    def step(self, action: np.int64) -> tuple[State, float, bool, bool, dict[str, Any]]:
        """Send or wait."""
        if self._channel is None:
            raise RuntimeError("call reset() first")
        channel = self._channel
        raised = channel.act(int(action))
        return channel.observe(), -raised / channel.length_seconds, channel.ended, False, {}
