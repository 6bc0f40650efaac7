"""Compiled twin of `assign_numpy`: the same numbers in the same order of operations, hence the same bits."""

from libc.math cimport log
from libc.stdint cimport int64_t, uint64_t

import numpy as np

from hyperscale.planner.assign.kernel_limits import least_gain, pipes_fit, sums_fit
from hyperscale.util._splitmix cimport draw, unit

cdef double IMPROVES = -1e-9
cdef double RELATIVE = 1e-12
cdef double INFINITE = float("inf")


cdef inline Py_ssize_t _below(uint64_t* state, Py_ssize_t limit) noexcept nogil:
    return <Py_ssize_t>((draw(state) >> 33) % <uint64_t>limit)


cdef class SumSearch:
    """Sets of machines under the sum of pair costs inside each set."""

    cdef double[:, ::1] cost
    cdef double[::1] memory, need, weight, held
    cdef double penalty, improves
    cdef int64_t[::1] low, high, members, best
    cdef double[:, ::1] near
    cdef readonly object group
    cdef int64_t[::1] of
    cdef Py_ssize_t machines, sets

    def __init__(self, double[:, ::1] cost, double[::1] memory, double[::1] need, double penalty, double[::1] weight,
                 int64_t[::1] low, int64_t[::1] high, group):
        cdef Py_ssize_t i, j
        if not sums_fit(cost, memory, need, weight, low, high, group):
            raise ValueError("costs, memory, sets and the assignment do not fit")
        self.improves = -least_gain(cost, memory, penalty)
        self.cost, self.memory, self.need, self.penalty, self.weight, self.low, self.high = cost, memory, need, penalty, weight, low, high
        self.group = np.array(group, dtype=np.int64)
        self.of = self.group
        self.machines, self.sets = cost.shape[0], weight.shape[0]
        self.near = np.zeros((self.machines, self.sets))
        self.held = np.zeros(self.sets)
        self.members = np.zeros(self.sets, dtype=np.int64)
        self.best = np.array(group, dtype=np.int64)
        for i in range(self.machines):
            self.held[self.of[i]] += memory[i]
            self.members[self.of[i]] += 1
            for j in range(self.machines):
                self.near[i, self.of[j]] += cost[i, j]

    cdef inline double _short(self, Py_ssize_t g, double change) noexcept nogil:
        """Growth of the penalty of set g when its memory changes."""
        cdef double after = self.need[g] - (self.held[g] + change)
        cdef double before = self.need[g] - self.held[g]
        return self.penalty * ((after if after > 0.0 else 0.0) - (before if before > 0.0 else 0.0))

    cdef inline double _swap(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
        cdef Py_ssize_t a = self.of[i], b = self.of[j]
        cdef double gain = self.memory[j] - self.memory[i]
        return (
            self.weight[a] * (self.near[j, a] - self.cost[i, j] - self.near[i, a])
            + self.weight[b] * (self.near[i, b] - self.cost[i, j] - self.near[j, b])
            + self._short(a, gain)
            + self._short(b, -gain)
        )

    cdef inline double _move(self, Py_ssize_t i, Py_ssize_t b) noexcept nogil:
        cdef Py_ssize_t a = self.of[i]
        return (
            self.weight[b] * self.near[i, b]
            - self.weight[a] * self.near[i, a]
            + self._short(a, -self.memory[i])
            + self._short(b, self.memory[i])
        )

    cdef inline double _cycle(self, Py_ssize_t i, Py_ssize_t j, Py_ssize_t k) noexcept nogil:
        cdef Py_ssize_t a = self.of[i], b = self.of[j], c = self.of[k]
        return (
            self.weight[a] * (self.near[k, a] - self.cost[i, k] - self.near[i, a])
            + self.weight[b] * (self.near[i, b] - self.cost[i, j] - self.near[j, b])
            + self.weight[c] * (self.near[j, c] - self.cost[j, k] - self.near[k, c])
            + self._short(a, self.memory[k] - self.memory[i])
            + self._short(b, self.memory[i] - self.memory[j])
            + self._short(c, self.memory[j] - self.memory[k])
        )

    cdef inline bint _may_move(self, Py_ssize_t i, Py_ssize_t b) noexcept nogil:
        cdef Py_ssize_t a = self.of[i]
        return a != b and self.members[a] > self.low[a] and self.members[b] < self.high[b]

    cdef void _put(self, Py_ssize_t i, Py_ssize_t b) noexcept nogil:
        """Machine i goes to set b."""
        cdef Py_ssize_t a = self.of[i], x
        self.of[i] = b
        self.held[a] -= self.memory[i]
        self.held[b] += self.memory[i]
        self.members[a] -= 1
        self.members[b] += 1
        for x in range(self.machines):
            self.near[x, a] -= self.cost[x, i]
            self.near[x, b] += self.cost[x, i]

    def swap_delta(self, Py_ssize_t i, Py_ssize_t j):
        """Change of the cost when machines i and j, of different sets, change places."""
        return self._swap(i, j)

    def move_delta(self, Py_ssize_t i, Py_ssize_t b):
        """Change of the cost when machine i goes to set b, another than its own."""
        return self._move(i, b)

    def cycle_delta(self, Py_ssize_t i, Py_ssize_t j, Py_ssize_t k):
        """Change of the cost when i takes the place of j, j that of k, k that of i, all of different sets."""
        return self._cycle(i, j, k)

    def descend(self, bint cycles):
        """Take the best improving move or exchange until none is left; the number taken."""
        cdef int taken = 0
        with nogil:
            while self._best_pair() or (cycles and self._best_cycle()):
                taken += 1
        return taken

    cdef bint _best_pair(self) noexcept nogil:
        cdef double lowest = self.improves, delta
        cdef Py_ssize_t i, j, at_i = -1, at_j = -1, to
        cdef bint moves = False
        for i in range(self.machines):
            for j in range(i + 1, self.machines):
                if self.of[i] != self.of[j]:
                    delta = self._swap(i, j)
                    if delta < lowest:
                        lowest, at_i, at_j, moves = delta, i, j, False
        for i in range(self.machines):
            for j in range(self.sets):
                if self._may_move(i, j):
                    delta = self._move(i, j)
                    if delta < lowest:
                        lowest, at_i, at_j, moves = delta, i, j, True
        if at_i < 0:
            return False
        if moves:
            self._put(at_i, at_j)
        else:
            to = self.of[at_i]
            self._put(at_i, self.of[at_j])
            self._put(at_j, to)
        return True

    cdef bint _best_cycle(self) noexcept nogil:
        cdef double lowest = self.improves, delta
        cdef Py_ssize_t i, j, k, at_i = -1, at_j = -1, at_k = -1, to
        for i in range(self.machines):
            for j in range(i + 1, self.machines):
                if self.of[i] == self.of[j]:
                    continue
                for k in range(i + 1, self.machines):
                    if self.of[k] == self.of[i] or self.of[k] == self.of[j]:
                        continue
                    delta = self._cycle(i, j, k)
                    if delta < lowest:
                        lowest, at_i, at_j, at_k = delta, i, j, k
        if at_i < 0:
            return False
        to = self.of[at_i]
        self._put(at_i, self.of[at_j])
        self._put(at_j, self.of[at_k])
        self._put(at_k, to)
        return True

    def anneal(self, Py_ssize_t steps, double hot, double cold, uint64_t seed):
        """So many proposals between two temperatures; `group` becomes the best seen; the change of the cost from the start."""
        cdef double temperature = hot, ratio = (cold / hot) ** (1.0 / max(steps, 1)), now = 0.0, lowest = 0.0, delta
        cdef Py_ssize_t step, i, j, to, x
        cdef uint64_t state = seed
        for x in range(self.machines):
            self.best[x] = self.of[x]
        with nogil:
            for step in range(steps if self.machines else 0):
                temperature *= ratio
                i = _below(&state, self.machines)
                j = _below(&state, self.machines + self.sets)
                if j < self.machines:
                    if self.of[i] == self.of[j]:
                        continue
                    delta = self._swap(i, j)
                else:
                    if not self._may_move(i, j - self.machines):
                        continue
                    delta = self._move(i, j - self.machines)
                if delta > 0.0 and delta > -temperature * log(unit(&state)):
                    continue
                to = self.of[i]
                if j < self.machines:
                    self._put(i, self.of[j])
                    self._put(j, to)
                else:
                    self._put(i, j - self.machines)
                now += delta
                if now < lowest + IMPROVES:
                    lowest = now
                    for x in range(self.machines):
                        self.best[x] = self.of[x]
            for x in range(self.machines):
                if self.of[x] != self.best[x]:
                    self._put(x, self.best[x])
        return lowest


cdef class PipeSearch:
    """Groups of equal size under DT-FM's cost: the slowest member's gradient exchange plus the way there and back through the groups."""

    cdef double[:, ::1] gradient
    cdef int64_t[:, ::1] rank
    cdef double[::1] level
    cdef int64_t[::1] kind, of, best
    cdef readonly object group
    cdef int64_t[:, ::1] member, pair, kept
    cdef double[::1] load, reach
    cdef Py_ssize_t devices, groups, size
    cdef double now

    def __init__(self, double[:, ::1] gradient, int64_t[:, ::1] rank, double[::1] level, int64_t[::1] kind, group, Py_ssize_t groups):
        cdef Py_ssize_t i, a, b
        if not pipes_fit(gradient, rank, level, kind, group, groups):
            raise ValueError("costs, ranks, kinds and the groups do not fit")
        self.gradient, self.rank, self.level, self.kind = gradient, rank, level, kind
        self.group = np.array(group, dtype=np.int64)
        self.of = self.group
        self.devices, self.groups = gradient.shape[0], groups
        self.size = self.devices // groups
        self.best = np.array(group, dtype=np.int64)
        self.member = np.zeros((groups, self.size), dtype=np.int64)
        self.pair = np.zeros((groups, groups), dtype=np.int64)
        self.kept = np.zeros((2, groups), dtype=np.int64)
        self.load = np.zeros(groups)
        self.reach = np.zeros((1 << groups) * groups)
        self._refill()

    cdef void _refill(self) noexcept:
        """Everything from `of`."""
        cdef Py_ssize_t i, a, b
        cdef int64_t[::1] filled = np.zeros(self.groups, dtype=np.int64)
        for i in range(self.devices):
            self.member[self.of[i], filled[self.of[i]]] = i
            filled[self.of[i]] += 1
        for a in range(self.groups):
            self.load[a] = self._load(a)
            for b in range(a):
                self.pair[a, b] = self.pair[b, a] = self._match(a, b)
        self.now = self._slowest() + 2.0 * self._path()

    cdef double _load(self, Py_ssize_t a) noexcept nogil:
        """The slowest member's gradient exchange, seconds."""
        cdef double highest = 0.0, total
        cdef Py_ssize_t x, y
        for x in range(self.size):
            total = 0.0
            for y in range(self.size):
                if x != y:
                    total += self.gradient[self.member[a, x], self.member[a, y]]
            if total > highest:
                highest = total
        return highest

    cdef double _slowest(self) noexcept nogil:
        cdef double highest = 0.0
        cdef Py_ssize_t a
        for a in range(self.groups):
            if self.load[a] > highest:
                highest = self.load[a]
        return highest

    cdef bint _matches(self, Py_ssize_t a, Py_ssize_t b, int64_t limit) noexcept nogil:
        """Whether a perfect matching of groups a and b uses no pair above rank `limit`."""
        cdef uint64_t row[64]
        cdef int taken[64]
        cdef Py_ssize_t x, y
        for x in range(self.size):
            row[x] = 0
            taken[x] = -1
            for y in range(self.size):
                if self.rank[self.member[a, x], self.member[b, y]] <= limit:
                    row[x] |= <uint64_t>1 << y
        cdef uint64_t seen
        for x in range(self.size):
            seen = 0
            if not _augment(row, taken, x, &seen, self.size):
                return False
        return True

    cdef int64_t _match(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        """Rank of the bottleneck matching of two groups."""
        cdef int64_t least = 0, most = 0, nearest_row, nearest_column, middle, found
        cdef Py_ssize_t x, y
        for x in range(self.size):
            nearest_row = nearest_column = self.level.shape[0]
            for y in range(self.size):
                found = self.rank[self.member[a, x], self.member[b, y]]
                if found < nearest_row:
                    nearest_row = found
                if found > most:
                    most = found
                found = self.rank[self.member[a, y], self.member[b, x]]
                if found < nearest_column:
                    nearest_column = found
            if nearest_row > least:
                least = nearest_row
            if nearest_column > least:
                least = nearest_column
        while least < most:
            middle = (least + most) >> 1
            if self._matches(a, b, middle):
                most = middle
            else:
                least = middle + 1
        return least

    cdef double _tree(self) noexcept nogil:
        """The lightest spanning tree of the groups: no open path is shorter."""
        cdef double far[16]
        cdef bint inside[16]
        cdef double total = 0.0, nearest, weight
        cdef Py_ssize_t a, step, at = 0
        for a in range(self.groups):
            far[a] = INFINITE
            inside[a] = False
        for step in range(self.groups - 1):
            inside[at] = True
            for a in range(self.groups):
                weight = self.level[self.pair[at, a]]
                if not inside[a] and weight < far[a]:
                    far[a] = weight
            nearest = INFINITE
            for a in range(self.groups):
                if not inside[a] and far[a] < nearest:
                    nearest = far[a]
                    at = a
            total += nearest
        return total

    cdef double _path(self) noexcept nogil:
        """The cheapest open path through all groups (Held and Karp)."""
        cdef Py_ssize_t groups = self.groups, mask, last, to, full = (<Py_ssize_t>1 << groups) - 1, after
        cdef double way, lowest = INFINITE
        for mask in range(1, full + 1):
            for last in range(groups):
                self.reach[mask * groups + last] = 0.0 if mask == (<Py_ssize_t>1 << last) else INFINITE
        for mask in range(1, full):
            for last in range(groups):
                way = self.reach[mask * groups + last]
                if way == INFINITE:
                    continue
                for to in range(groups):
                    if mask & (<Py_ssize_t>1 << to):
                        continue
                    after = (mask | (<Py_ssize_t>1 << to)) * groups + to
                    if way + self.level[self.pair[last, to]] < self.reach[after]:
                        self.reach[after] = way + self.level[self.pair[last, to]]
        for last in range(groups):
            if self.reach[full * groups + last] < lowest:
                lowest = self.reach[full * groups + last]
        return lowest

    def score(self):
        """The cost of `group`, seconds."""
        return self.now

    def pair_costs(self):
        """Bottleneck matching cost of every pair of groups, (groups, groups), seconds."""
        return np.asarray(self.level)[np.asarray(self.pair)] * (1.0 - np.eye(self.groups))

    cdef bint _try(self, Py_ssize_t i, Py_ssize_t j, double limit) noexcept nogil:
        """Exchange devices i and j if the cost is then no more than `limit`; whether it was done."""
        cdef Py_ssize_t a = self.of[i], b = self.of[j], x, at_i = 0, at_j = 0
        cdef double load_a = self.load[a], load_b = self.load[b], slowest, cost
        for x in range(self.size):
            if self.member[a, x] == i:
                at_i = x
            if self.member[b, x] == j:
                at_j = x
        self.member[a, at_i] = j
        self.member[b, at_j] = i
        self.load[a] = self._load(a)
        self.load[b] = self._load(b)
        slowest = self._slowest()
        for x in range(self.groups):
            self.kept[0, x] = self.pair[a, x]
            self.kept[1, x] = self.pair[b, x]
        cost = INFINITE
        if slowest <= limit:
            for x in range(self.groups):
                if x != a:
                    self.pair[a, x] = self.pair[x, a] = self._match(a, x)
                if x != b and x != a:
                    self.pair[b, x] = self.pair[x, b] = self._match(b, x)
            if slowest + 2.0 * self._tree() <= limit:
                cost = slowest + 2.0 * self._path()
        if cost <= limit:
            self.of[i] = b
            self.of[j] = a
            self.now = cost
            return True
        self.member[a, at_i] = i
        self.member[b, at_j] = j
        self.load[a] = load_a
        self.load[b] = load_b
        for x in range(self.groups):
            self.pair[a, x] = self.pair[x, a] = self.kept[0, x]
        for x in range(self.groups):
            self.pair[b, x] = self.pair[x, b] = self.kept[1, x]
        return False

    def swap_score(self, Py_ssize_t i, Py_ssize_t j):
        """The cost after an exchange of devices i and j of different groups; nothing is changed."""
        cdef double before = self.now, after
        self._try(i, j, INFINITE)
        after = self.now
        self._try(i, j, INFINITE)
        self.now = before
        return after

    def descend(self):
        """Take improving exchanges, first found first, until none is left; the number taken."""
        cdef Py_ssize_t i, j, taken = 0, idle = 0
        cdef bint better = True
        with nogil:
            while better:
                better = False
                for i in range(self.devices):
                    for j in range(i + 1, self.devices):
                        if self.of[i] != self.of[j] and self.kind[i] != self.kind[j] and self._try(i, j, self.now - max(-IMPROVES, RELATIVE * self.now)):
                            better = True
                            taken += 1
        return taken

    def anneal(self, Py_ssize_t steps, double hot, double cold, uint64_t seed):
        """So many proposals between two temperatures; `group` becomes the best seen; its cost, seconds."""
        cdef double temperature = hot, ratio = (cold / hot) ** (1.0 / max(steps, 1)), lowest = self.now
        cdef Py_ssize_t step, i, j, x
        cdef uint64_t state = seed
        for x in range(self.devices):
            self.best[x] = self.of[x]
        with nogil:
            for step in range(steps):
                temperature *= ratio
                i = _below(&state, self.devices)
                j = _below(&state, self.devices)
                if self.of[i] == self.of[j] or self.kind[i] == self.kind[j]:
                    continue
                if self._try(i, j, self.now - temperature * log(unit(&state))) and self.now < lowest + IMPROVES:
                    lowest = self.now
                    for x in range(self.devices):
                        self.best[x] = self.of[x]
        for x in range(self.devices):
            self.of[x] = self.best[x]
        self._refill()
        return self.now


cdef bint _augment(uint64_t* row, int* taken, Py_ssize_t x, uint64_t* seen, Py_ssize_t size) noexcept nogil:
    """Kuhn's step: room for row x, if need be by moving others."""
    cdef Py_ssize_t y
    for y in range(size):
        if (row[x] >> y) & 1 and not (seen[0] >> y) & 1:
            seen[0] |= <uint64_t>1 << y
            if taken[y] < 0 or _augment(row, taken, taken[y], seen, size):
                taken[y] = <int>x
                return True
    return False
