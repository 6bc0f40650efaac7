"""What the learned constructor sees, in seconds over the job's own seconds, so that no figure depends on units or cluster size. Pure.

The same code makes the features in training and in the planner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.api.job import Balance
from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.learned.learned_state import LARGEST, ConstructorState, Surroundings

VERSION: Final = 1
"""Of the features; weights made with another one are refused."""
NEIGHBOURS: Final = 16
"""Cheapest partners of a node that send it messages: a fixed number, so that larger clusters look the same from within."""
NODE_FEATURES: Final = 9
EDGE_FEATURES: Final = 8
WHOLE_FEATURES: Final = 9
STEP_FEATURES: Final = 18
DELTA: Final = 0
"""The step feature that greedy minimises: ln of the objective with the candidate over that with the best candidate."""

LOG_LIMIT: Final = 4.0
"""Decades."""
RATIO_LIMIT: Final = 4.0
NO_WAY: Final = 3.0
"""ln of how much worse than the best a candidate counts that cannot be completed."""


@dataclass(frozen=True)
class ConstructorView:
    """A cluster and a job as the network takes them in; m candidates, each with K partners."""

    node: FloatArray
    """(m, NODE_FEATURES)"""
    edge: FloatArray
    """(m, K, EDGE_FEATURES) of the link from a node to each of its partners."""
    partner: IntArray
    """(m, K) candidates, the cheapest first."""
    whole: FloatArray
    """(WHOLE_FEATURES,)"""


class View:
    """Features of one job on m candidates, all of them usable or taken already."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.scale = float(np.median(around.compute))
        """Seconds: arithmetic of a middling node."""
        blank = ConstructorState(around, np.zeros((1, 0), dtype=np.int64))
        seconds, nearest = blank.ahead()
        self.seed_seconds: FloatArray = np.where(around.slots > 0, seconds[0], LARGEST)
        """(m,) pair seconds of each candidate with its cheapest partners: what the first worker is chosen by."""
        possible = (around.slots > 0) & (self.seed_seconds < LARGEST)
        self.near_seconds: FloatArray = self.completions(blank, nearest, possible[None, :])[0]
        """(m,) objective of each with those partners."""

    def static_view(self) -> ConstructorView:
        """What does not depend on the workers placed so far."""
        around = self.around
        partner = self._partners()
        edge = self._edges(partner)
        joint = np.where(np.isfinite(around.joint), around.joint, LARGEST)
        near = np.take_along_axis(joint, partner, axis=1)
        count = around.workers - 1
        radius = near[:, min(count, near.shape[1]) - 1] if near.shape[1] else np.full(len(joint), self.scale)
        apart = around.costs.blocked.mean(axis=1)
        open_pairs = np.where(joint < LARGEST, joint, 0.0).sum(axis=1) / np.maximum(1, (joint < LARGEST).sum(axis=1))
        node = np.stack(
            (
                self._decades(around.compute),
                np.log2(np.clip(around.slots, 1, around.workers)) / 3.0,
                _behind(self.seed_seconds),
                _behind(self.near_seconds),
                self._decades(radius * count),
                self._decades(open_pairs * count),
                apart,
                self._decades(np.where(around.slots > 1, np.diag(joint) * count, self.scale)),
                self._decades(near.mean(axis=1) * count) if near.shape[1] else np.zeros(len(joint)),
            ),
            axis=1,
        )
        return ConstructorView(node, edge, partner, self._whole())

    def step(self, state: ConstructorState) -> tuple[FloatArray, BoolArray]:
        """Features (B, m, STEP_FEATURES) of every candidate as the next worker of every placement, and which may be chosen, (B, m)."""
        around = self.around
        feasible = state.open()
        ahead, nearest = state.ahead()
        ahead = np.where(feasible, ahead, np.inf)
        features = np.zeros((*feasible.shape, STEP_FEATURES))
        rest = (around.workers - state.size) / around.workers
        if state.size:
            added = state.added()
            objective = added.objective
            best = objective.min(axis=1, keepdims=True)
            best = np.where(np.isfinite(best), best, 1.0)
            for column, seconds in enumerate((added.compute, added.halo, added.ring, added.own_traffic, added.own_wait, added.hop)):
                features[:, :, 1 + column] = np.clip(np.where(feasible, seconds / best, 0.0), 0.0, RATIO_LIMIT)
            features[:, :, DELTA] = _behind(objective)
            features[:, :, 7] = np.minimum(state.members, 3)
        else:
            feasible &= self.seed_seconds[None, :] < LARGEST
            features[:, :, DELTA] = _behind(np.where(feasible, self.seed_seconds[None, :], np.inf))
            features[:, :, 8] = 1.0
        features[:, :, 9] = _behind(ahead) if rest * around.workers > 1 else 0.0
        features[:, :, 10] = _behind(np.where(feasible, self.seed_seconds[None, :], np.inf))
        features[:, :, 11] = np.where(feasible, _behind(np.where(feasible, self.near_seconds[None, :], np.inf)), 0.0)
        features[:, :, 12] = rest
        features[:, :, 13] = 1.0 / around.workers
        features[:, :, 14] = rest * features[:, :, DELTA]
        features[:, :, 15] = rest * features[:, :, 9]
        features[:, :, 16] = _behind(self.completions(state, nearest, feasible & (ahead < LARGEST)))
        features[:, :, 17] = rest * features[:, :, 16]
        return features, feasible

    def completions(self, state: ConstructorState, nearest: IntArray, feasible: BoolArray) -> FloatArray:
        """(B, m) seconds of every placement plus a candidate plus the workers `nearest` (B, m, rest); +inf where such a set cannot work."""
        seconds = np.full(feasible.shape, np.inf)
        if nearest.shape[2] + state.size + 1 != self.around.workers:
            return seconds
        for row in range(len(feasible)):
            each = np.flatnonzero(feasible[row])
            if len(each):
                seconds[row, each] = self.around.sets(state.chosen[row], each, nearest[row, each])
        return seconds

    def _partners(self) -> IntArray:
        """(m, K) the cheapest other candidates of each."""
        cost = np.where(np.isfinite(self.around.joint), self.around.joint, LARGEST)
        np.fill_diagonal(cost, np.inf)
        kept = min(NEIGHBOURS, len(cost) - 1)
        chosen: IntArray = np.argsort(cost, axis=1, kind="stable")[:, :kept]
        return chosen

    def _edges(self, partner: IntArray) -> FloatArray:
        """(m, K, EDGE_FEATURES) of the links to `partner`."""
        around, volume = self.around, self.around.volume
        costs, others = around.costs, max(1, around.workers - 1)
        rows = np.arange(len(partner))[:, None]
        latency, per_byte = costs.latency_seconds[rows, partner], costs.seconds_per_byte[rows, partner]
        blocked = costs.blocked[rows, partner]
        open_pair = np.where(blocked, 0.0, 1.0)
        mutual = (partner[partner] == np.arange(len(partner))[:, None, None]).any(axis=2)
        joint = np.where(np.isfinite(around.joint[rows, partner]), around.joint[rows, partner], LARGEST)
        return np.stack(
            (
                self._decades(joint * others),
                open_pair * self._decades(around.halo_bytes_pair * per_byte * others),
                open_pair * self._decades(volume.ring_latency_factor * latency),
                open_pair * self._decades(volume.ring_byte_factor * per_byte),
                open_pair * self._decades(volume.rounds * latency),
                blocked.astype(np.float64),
                mutual.astype(np.float64),
                self._decades(around.compute)[partner] - self._decades(around.compute)[:, None],
            ),
            axis=2,
        )

    def _whole(self) -> FloatArray:
        """(WHOLE_FEATURES,) of the job and the middling link."""
        around, volume, costs = self.around, self.around.volume, self.around.costs
        pairs = ~costs.blocked & ~np.eye(len(costs.blocked), dtype=np.bool_)
        latency = float(np.median(costs.latency_seconds[pairs])) if pairs.any() else 0.0
        per_byte = float(np.median(costs.seconds_per_byte[pairs])) if pairs.any() else 0.0
        middling = np.array(
            (
                around.halo_bytes_pair * per_byte * (around.workers - 1),
                volume.ring_latency_factor * latency,
                volume.ring_byte_factor * per_byte,
                volume.rounds * latency,
            )
        )
        rest = (
            np.log2(around.workers) / 4.0,
            around.workers / max(1, int(around.slots.sum())),
            float(costs.balance is Balance.EQUAL),
            costs.communication_weight,
            float((around.slots > 1).mean()),
        )
        return np.concatenate((self._decades(middling), np.array(rest)))

    def _decades(self, seconds: FloatArray) -> FloatArray:
        """log10 of `seconds` over the scale, within limits."""
        limit = 10.0**LOG_LIMIT
        figure: FloatArray = np.log10(np.clip(seconds / self.scale, 1.0 / limit, limit))
        return figure


def _behind(seconds: FloatArray) -> FloatArray:
    """Logarithm of `seconds` (..., m) over the least of each row; NO_WAY where infinite or too much."""
    rows = np.atleast_2d(seconds)
    possible = np.isfinite(rows) & (rows < LARGEST)
    least = np.where(possible, rows, np.inf).min(axis=1, keepdims=True)
    least = np.where(np.isfinite(least), least, 1.0)
    behind = np.where(possible, np.log(np.where(possible, rows, 1.0) / least), NO_WAY)
    figure: FloatArray = np.minimum(behind, NO_WAY)
    return figure.reshape(seconds.shape)
