"""The learned constructor without tensors: the forward pass of `hyperscale.learn.constructor.network` in numpy, and its way to a placement.

Double precision throughout, and logits are rounded before the choice: equal nodes stay equal whatever their place in a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.learned.learned_features import DELTA, ConstructorView, View
from hyperscale.planner.learned.learned_state import ConstructorState, Surroundings

WIDTH: Final = 64
HEADS: Final = 4
LAYERS: Final = 3
DIGITS: Final = 6
"""Of a logit that count."""
NORM_EPSILON: Final = 1e-5


class ConstructorNetwork:
    """Weights and what they say."""

    def __init__(self, weights: Mapping[str, FloatArray]) -> None:
        """weights: by name, as torch names them; raises KeyError where one is missing."""
        self._weights = {name: np.asarray(array, dtype=np.float64) for name, array in weights.items()}
        self._alpha = float(np.exp(self._weights["log_alpha"][0]))

    def embed(self, view: ConstructorView) -> tuple[FloatArray, FloatArray]:
        """(m, WIDTH) of the candidates and (WIDTH,) of the whole."""
        node, edge, whole = self._normal("node", view.node), self._normal("edge", view.edge), self._normal("whole", view.whole)
        message = np.maximum(self._linear("pool_node", node)[view.partner] + self._linear("pool_edge", edge), 0.0)
        around = np.broadcast_to(whole, (len(node), len(whole)))
        pooled = np.concatenate((node, message.mean(axis=1), message.max(axis=1), around), axis=1)
        hidden = np.maximum(self._linear("node_in", pooled), 0.0)
        for layer in range(LAYERS):
            hidden = self._attention(f"layers.{layer}", hidden, edge, view.partner)
        together = np.concatenate((hidden.mean(axis=0), hidden.max(axis=0), whole))
        return hidden, np.maximum(self._linear("whole_in", together), 0.0)

    def logits(self, hidden: FloatArray, fixed: FloatArray, chosen: IntArray, step: FloatArray) -> FloatArray:
        """(B, m) of every candidate as the next worker of placements `chosen` (B, s); `fixed` as `prepared` has it."""
        if chosen.shape[1]:
            members = hidden[chosen]
            placed = np.concatenate((members.mean(axis=1), members.max(axis=1)), axis=1)
        else:
            placed = np.zeros((len(chosen), 2 * WIDTH))
        mixed = fixed[None] + self._linear("head_members", placed)[:, None, :] + self._linear("head_step", self._normal("step", step))
        inner = np.maximum(self._linear("head_hidden", np.maximum(mixed, 0.0)), 0.0)
        learned: FloatArray = self._linear("head_out", inner)[:, :, 0] - self._alpha * step[:, :, DELTA]
        return learned

    def prepared(self, hidden: FloatArray, whole: FloatArray) -> FloatArray:
        """(m, WIDTH) part of the head that is the same in every step."""
        part: FloatArray = self._linear("head_node", hidden) + self._linear("head_whole", whole)
        return part

    def construct(self, view: View, start: IntArray, takes_slot: bool = True, stop: Callable[[], bool] = lambda: False) -> IntArray | None:
        """(k,) one placement, worker by worker, each the likeliest; None where it gets stuck or is stopped.

        start: (s,) members that are placed already; `takes_slot` as State has it
        """
        around: Surroundings = view.around
        hidden, whole = self.embed(view.static_view())
        fixed = self.prepared(hidden, whole)
        state = ConstructorState(around, start[None, :], takes_slot)
        while state.size < around.workers:
            if stop():
                return None
            features, feasible = view.step(state)
            if not feasible.any():
                return None
            state.add(_likeliest(self.logits(hidden, fixed, state.chosen, features), feasible))
        placed: IntArray = state.chosen[0]
        return placed

    def _attention(self, name: str, hidden: FloatArray, edge: FloatArray, partner: IntArray) -> FloatArray:
        """(m, WIDTH) after one layer."""
        size, per_head = len(hidden), WIDTH // HEADS
        query = self._linear(f"{name}.query", hidden).reshape(size, HEADS, per_head) / per_head**0.5
        key = self._linear(f"{name}.key", hidden).reshape(size, HEADS, per_head)[partner]
        value = (self._linear(f"{name}.value", hidden)[partner] + self._linear(f"{name}.edge_value", edge)).reshape(key.shape)
        score = (key * query[:, None]).sum(axis=3) + self._linear(f"{name}.edge_bias", edge)
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        mixed = (value * weight[:, :, :, None]).sum(axis=1).reshape(size, WIDTH)
        hidden = self._norm(f"{name}.norm", hidden + self._linear(f"{name}.out", mixed))
        wide = np.maximum(self._linear(f"{name}.wide", hidden), 0.0)
        return self._norm(f"{name}.last_norm", hidden + self._linear(f"{name}.narrow", wide))

    def _linear(self, name: str, given: FloatArray) -> FloatArray:
        product: FloatArray = given @ self._weights[f"{name}.weight"].T
        bias = self._weights.get(f"{name}.bias")
        return product if bias is None else product + bias

    def _norm(self, name: str, given: FloatArray) -> FloatArray:
        centred = given - given.mean(axis=1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=1, keepdims=True) + NORM_EPSILON)
        normal: FloatArray = centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return normal

    def _normal(self, name: str, given: FloatArray) -> FloatArray:
        normal: FloatArray = (given - self._weights[f"{name}_mean"]) * self._weights[f"{name}_scale"]
        return normal


def _likeliest(logits: FloatArray, feasible: BoolArray) -> IntArray:
    """(B,) the first candidate of the highest logit that may be chosen."""
    best: IntArray = np.argmax(np.where(feasible, np.round(logits, DIGITS), -np.inf), axis=1)
    return best
