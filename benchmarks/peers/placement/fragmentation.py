"""Rules that choose the node of one pod, as the authors of fragmentation gradient descent compare them, over rooms of three resources.

Best fit, dot product and FGD are as in the simulator of Weng et al. (USENIX ATC 2023, hkust-adsl/kubernetes-scheduler-simulator @
29a1e4c): best fit weighs cores and GPUs left, by the largest node; their dot product takes the node with the least product of what is
free and what is asked for. Tetris (SIGCOMM 2014), which they cite for it, takes the node with the largest product.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.choice.stranding import SizeDemand, added_stranding, stranded_gpus

TIED = 1e-9


class NodeRule(Protocol):
    """Chooses nodes for pods that arrive one after the other."""

    def start(self, rooms: FloatArray, sizes: FloatArray) -> None:
        """Begin on empty nodes. rooms: (n, 3) GPUs, cores and GiB; sizes: (c, 3) of the pods to come."""

    def pick(self, rooms: FloatArray, size: int, fitting: IntArray) -> int:
        """One of the `fitting` nodes (p,) for a pod of `size`, a row of `sizes`."""

    def placed(self, rooms: FloatArray, node: int) -> None:
        """A pod went to `node`; rooms: (n, 3) after it."""


class _Plain:
    """A rule that remembers nothing."""

    def start(self, rooms: FloatArray, sizes: FloatArray) -> None:
        """Keep sizes and the largest amount of each resource that any node has."""
        self.sizes, self.largest = sizes, rooms.max(axis=0)

    def placed(self, rooms: FloatArray, node: int) -> None:
        """Nothing is kept by node."""


class RandomNode(_Plain):
    """Any node with room."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 1])

    def pick(self, rooms: FloatArray, size: int, fitting: IntArray) -> int:
        """Return one with equal chances."""
        return int(self._rng.choice(fitting))


class BestFit(_Plain):
    """Least cores and GPUs left."""

    def pick(self, rooms: FloatArray, size: int, fitting: IntArray) -> int:
        """Return the node with the least half of cores left plus half of GPUs left, by the largest node."""
        left = (rooms[fitting] - self.sizes[size]) / self.largest
        return int(fitting[np.argmin(left[:, 0] + left[:, 1])])


class DotProduct(_Plain):
    """Least product of what is free and what is asked for."""

    sign = 1.0

    def pick(self, rooms: FloatArray, size: int, fitting: IntArray) -> int:
        """Return the node by the product over all resources, each by the largest node."""
        product = (rooms[fitting] / self.largest) @ (self.sizes[size] / self.largest)
        return int(fitting[np.argmin(self.sign * product)])


class Tetris(DotProduct):
    """Largest product: the emptiest node that the pod is like."""

    sign = -1.0


class FewestIdle(_Plain):
    """The planner's best fit without sizes: the fewest GPUs left, then the first."""

    def pick(self, rooms: FloatArray, size: int, fitting: IntArray) -> int:
        """Return the node with the fewest free GPUs."""
        return int(fitting[np.argmin(rooms[fitting, 0])])


class _Descent(_Plain):
    """A rule that takes the node whose figure grows least; only the figures of the node that changed are computed again."""

    def value(self, rooms: FloatArray) -> FloatArray:
        """(n,) figure of each room."""
        raise NotImplementedError  # abstract: each rule below has its own

    def growth(self, room: FloatArray) -> FloatArray:
        """(c,) growth of the figure of one room (3,) by a pod of each size; of no meaning where it does not fit."""
        return self.value(np.maximum(room - self.sizes, 0.0)) - self.value(room[None, :])

    def start(self, rooms: FloatArray, sizes: FloatArray) -> None:
        """Compute the growth of every node by every size."""
        super().start(rooms, sizes)
        self._remembered: dict[bytes, FloatArray] = {}
        kinds, which = np.unique(rooms, axis=0, return_inverse=True)
        self._growth = np.stack([self.growth(room) for room in kinds], axis=1)[:, which.ravel()]

    def pick(self, rooms: FloatArray, size: int, fitting: IntArray) -> int:
        """Return the node with the least growth, of equal ones that with the fewest free GPUs, then the first."""
        growth = self._growth[size, fitting]
        tied = fitting[growth <= growth.min() + TIED]
        return int(tied[np.argmin(rooms[tied, 0])])

    def placed(self, rooms: FloatArray, node: int) -> None:
        """Compute one column, unless a room like this one has had it before."""
        key = rooms[node].round(6).tobytes()
        if key not in self._remembered:
            self._remembered[key] = self.growth(rooms[node])
        self._growth[:, node] = self._remembered[key]


class GradientDescent(_Descent):
    """FGD: GPUs of a node that a pod drawn from the distribution cannot use because it does not fit there."""

    def __init__(self, weights: FloatArray) -> None:
        """weights: (c,) how often each size is asked for; they sum to 1."""
        self._weights = weights

    def value(self, rooms: FloatArray) -> FloatArray:
        """Return the expected fragment of each room."""
        misses = ~(rooms[:, None, :] + TIED >= self.sizes).all(axis=2)
        fragment: FloatArray = (misses @ self._weights) * rooms[:, 0]
        return fragment


class LeastStranding(_Descent):
    """The planner's own price: `hyperscale.planner.choice.stranding`."""

    def __init__(self, demand: SizeDemand) -> None:
        self._demand = demand

    def value(self, rooms: FloatArray) -> FloatArray:
        """Return the stranded GPUs of each room."""
        return stranded_gpus(rooms, self._demand)

    def growth(self, room: FloatArray) -> FloatArray:
        """Return the planner's figure of a pod's placement."""
        return added_stranding(np.broadcast_to(room, self.sizes.shape), self.sizes, self._demand)
