"""Compiled multilevel refinement: clustering inside parts, contraction, local search for the cut (FM) and for balance.

All of it follows from the arguments: chance is a seed, nothing looks at a clock. `refine.py` checks shapes and ranges before it calls.
Notation as in `_parts.pxd`.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from hyperscale.training.partition._parts cimport NONE, Parts, _borrow, _carry, _fits, _give_back
from hyperscale.util._splitmix cimport draw


cdef void _shuffle(int32_t *items, int64_t count, uint64_t *state) noexcept nogil:
    cdef int64_t i, j
    cdef int32_t kept
    for i in range(count - 1, 0, -1):
        j = <int64_t> (draw(state) % <uint64_t> (i + 1))
        kept = items[i]
        items[i] = items[j]
        items[j] = kept


# Coarsening ------------------------------------------------------------------------------------------------------------------------------


cdef void _by_degree(const int64_t[::1] indptr, int64_t n, int32_t *order, uint64_t *state) noexcept nogil:
    """Vertices in blocks of a drawn order, those of few neighbours first: they have the least choice, and hubs would swallow them."""
    cdef int64_t count[34]
    cdef int64_t v, degree, at, kept
    cdef int level
    memset(count, 0, sizeof(count))
    for v in range(n):
        degree = indptr[v + 1] - indptr[v]
        level = 0
        while degree > 3 and level < 32:
            degree >>= 1
            level += 1
        count[level + 1] += 1
    for level in range(33):
        count[level + 1] += count[level]
    for v in range(n):
        degree = indptr[v + 1] - indptr[v]
        level = 0
        while degree > 3 and level < 32:
            degree >>= 1
            level += 1
        order[count[level]] = <int32_t> v
        count[level] += 1
    at = 0
    for level in range(33):
        kept = count[level]
        _shuffle(order + at, kept - at, state)
        at = kept


cdef void _two_hops(const int64_t[::1] indptr, const int32_t[::1] indices, const int32_t[::1] part, int32_t[::1] group, uint8_t[::1] joined,
                    int64_t[:, ::1] heavy, const int64_t[::1] most, int32_t[::1] order, int32_t[::1] host, int64_t[::1] slot) noexcept nogil:
    """Who is still alone joins another one that hangs on the same neighbour, or that has no neighbour in its part either.

    Without it the leaves of hubs, and isolated vertices, would stay as they are on every level. `slot` (n,) comes as zeros; `host` is scratch.
    """
    cdef int64_t n = indptr.shape[0] - 1, i, e, key
    cdef int32_t v, other
    cdef int j
    cdef bint fits
    for i in range(n):
        host[i] = NONE
    for i in range(n):
        v = order[i]
        if joined[v]:
            continue
        key = -1
        for e in range(indptr[v], indptr[v + 1]):
            if part[indices[e]] == part[v]:
                key = group[indices[e]]
                break
        # Parts have fewer numbers than there are vertices, so that both kinds of keys have room in n slots each.
        other = (<int32_t> slot[key] if key >= 0 else host[part[v]]) - (1 if key >= 0 else 0)
        fits = other >= 0
        if fits:
            for j in range(heavy.shape[1]):
                if heavy[other, j] + heavy[v, j] > most[j]:
                    fits = False
        if fits:
            group[v] = other
            for j in range(heavy.shape[1]):
                heavy[other, j] += heavy[v, j]
        elif key >= 0:
            slot[key] = v + 1
        else:
            host[part[v]] = v


def cluster(
    const int64_t[::1] indptr,
    const int32_t[::1] indices,
    const int32_t[::1] edge_weights,
    const int64_t[:, ::1] weights,
    const int32_t[::1] part,
    const int64_t[::1] most,
    uint64_t seed,
    int32_t[::1] group,
):
    """Join each vertex that is still alone to the neighbouring cluster of its part that rates highest; returns how many clusters there are.

    The rating is (edge weight to the cluster) / (weights of both), Holtgrewe, Sanders and Schulz 2010; no cluster outgrows `most` (c,).
    Fills `group` (n,) with 0..clusters-1.
    """
    cdef int64_t n = indptr.shape[0] - 1, e, i
    cdef int columns = weights.shape[1], j
    cdef int32_t v, u, best, other, clusters = 0
    cdef double rating, highest
    cdef uint64_t state = seed
    cdef bint weighted = edge_weights.shape[0] > 0, fits
    cdef int32_t[::1] order = np.empty(n, np.int32), touched = np.empty(n, np.int32)
    cdef int64_t[::1] bond = np.zeros(n, np.int64)
    cdef int64_t[:, ::1] heavy = np.array(weights, np.int64)
    cdef uint8_t[::1] joined = np.zeros(n, np.uint8)
    cdef int32_t seen
    with nogil:
        for i in range(n):
            group[i] = <int32_t> i
        _by_degree(indptr, n, &order[0], &state)
        for i in range(n):
            v = order[i]
            if joined[v]:
                continue
            seen = 0
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                if part[u] != part[v]:
                    continue
                other = group[u]
                if bond[other] == 0:
                    touched[seen] = other
                    seen += 1
                bond[other] += edge_weights[e] if weighted else 1
            best = NONE
            highest = 0
            for e in range(seen):
                other = touched[e]
                rating = <double> bond[other] / <double> (heavy[other, 0] + 1)
                bond[other] = 0
                if rating <= highest:
                    continue
                fits = True
                for j in range(columns):
                    if heavy[other, j] + weights[v, j] > most[j]:
                        fits = False
                if fits and other != v:
                    highest = rating
                    best = other
            if best != NONE:
                group[v] = best
                joined[v] = 1
                joined[best] = 1
                for j in range(columns):
                    heavy[best, j] += weights[v, j]
        _two_hops(indptr, indices, part, group, joined, heavy, most, order, touched, bond)
        for i in range(n):
            if group[i] == i:
                touched[i] = clusters
                clusters += 1
        for i in range(n):
            group[i] = touched[group[i]]
    return clusters


def contract(
    const int64_t[::1] indptr,
    const int32_t[::1] indices,
    const int32_t[::1] edge_weights,
    const int64_t[:, ::1] weights,
    const int32_t[::1] group,
    int32_t groups,
    int64_t[::1] coarse_indptr,
    int32_t[::1] coarse_indices,
    int32_t[::1] coarse_edge_weights,
    int64_t[:, ::1] coarse_weights,
):
    """One vertex for each group; parallel edges become one of their summed weight, edges inside vanish. Returns the entries that were written.

    Adds to `coarse_weights` (groups, c), which comes as zeros.
    """
    cdef int64_t n = indptr.shape[0] - 1, e, i, written = 0, first
    cdef int32_t g, other
    cdef int columns = weights.shape[1], j
    cdef bint weighted = edge_weights.shape[0] > 0
    cdef int64_t[::1] start = np.zeros(groups + 2, np.int64), place = np.full(groups, -1, np.int64)
    cdef int32_t[::1] member = np.empty(n, np.int32)
    with nogil:
        for i in range(n):
            start[group[i] + 2] += 1
        for g in range(groups):
            start[g + 2] += start[g + 1]
        for i in range(n):
            member[start[group[i] + 1]] = <int32_t> i
            start[group[i] + 1] += 1
        for g in range(groups):
            coarse_indptr[g] = written
            first = written
            for i in range(start[g], start[g + 1]):
                for j in range(columns):
                    coarse_weights[g, j] += weights[member[i], j]
                for e in range(indptr[member[i]], indptr[member[i] + 1]):
                    other = group[indices[e]]
                    if other == g:
                        continue
                    if place[other] < first:
                        place[other] = written
                        coarse_indices[written] = other
                        coarse_edge_weights[written] = edge_weights[e] if weighted else 1
                        written += 1
                    else:
                        coarse_edge_weights[place[other]] += edge_weights[e] if weighted else 1
        coarse_indptr[groups] = written
    return written


# Local search ----------------------------------------------------------------------------------------------------------------------------


cdef struct Search:
    Parts of
    int32_t *bond                 # (n, k) weight of a vertex's edges to each part
    const int64_t *price          # (k,) an edge between parts a and b costs price[a] + price[b]
    int32_t *degree               # (n,) weight of all edges of a vertex
    int64_t *gain                 # (n,) of the best move, as of its last look
    int32_t *target               # (n,)
    int32_t *heap                 # vertices, highest gain first
    int32_t *place                # (n,) where in the heap, NONE outside
    int64_t size
    uint8_t *locked               # (n,) moved in this pass
    int32_t *moved                # (n,) log of moves
    int32_t *source               # (n,)


cdef inline bint _look(Search *s, int32_t v) noexcept nogil:
    """The best move of a vertex that fits; False where there is none. Of equal ones the one into the emptier part.

    In part p a vertex costs sum over q != p of bond[q] (price[p] + price[q]) = price[p] (degree - 2 bond[p]) + what is the same for all p.
    """
    cdef int32_t *bond = s.bond + <int64_t> v * s.of.k
    cdef int own = s.of.part[v], p, best = NONE
    cdef int64_t least = 0, cost, e, first, last
    cdef bint few
    if s.of.members[own] < 2 or bond[own] == s.degree[v]:
        return False
    # Few neighbours name the parts faster than the row of all parts does; a part named twice is looked at twice.
    first = s.of.indptr[v]
    last = s.of.indptr[v + 1]
    few = last - first < s.of.k
    if not few:
        first = 0
        last = s.of.k
    for e in range(first, last):
        p = s.of.part[s.of.indices[e]] if few else <int> e
        if p == own or bond[p] == 0 or p == best:
            continue
        cost = s.price[p] * (s.degree[v] - 2 * <int64_t> bond[p])
        if best == NONE or cost < least or (cost == least and _emptier(s, p, best)):
            if _fits(&s.of, v, p):
                best = p
                least = cost
    if best == NONE:
        return False
    s.target[v] = best
    s.gain[v] = s.price[own] * (s.degree[v] - 2 * <int64_t> bond[own]) - least
    return True


cdef inline bint _emptier(Search *s, int p, int q) noexcept nogil:
    return <double> s.of.load[p * s.of.columns] * s.of.limits[q * s.of.columns] < <double> s.of.load[q * s.of.columns] * s.of.limits[p * s.of.columns]


cdef inline void _up(Search *s, int64_t i) noexcept nogil:
    cdef int32_t v = s.heap[i]
    cdef int64_t parent
    while i > 0:
        parent = (i - 1) >> 1
        if s.gain[s.heap[parent]] >= s.gain[v]:
            break
        s.heap[i] = s.heap[parent]
        s.place[s.heap[i]] = <int32_t> i
        i = parent
    s.heap[i] = v
    s.place[v] = <int32_t> i


cdef inline void _down(Search *s, int64_t i) noexcept nogil:
    cdef int32_t v = s.heap[i]
    cdef int64_t child
    while True:
        child = 2 * i + 1
        if child >= s.size:
            break
        if child + 1 < s.size and s.gain[s.heap[child + 1]] > s.gain[s.heap[child]]:
            child += 1
        if s.gain[s.heap[child]] <= s.gain[v]:
            break
        s.heap[i] = s.heap[child]
        s.place[s.heap[i]] = <int32_t> i
        i = child
    s.heap[i] = v
    s.place[v] = <int32_t> i


cdef inline void _insert(Search *s, int32_t v) noexcept nogil:
    s.heap[s.size] = v
    s.size += 1
    _up(s, s.size - 1)


cdef inline void _remove(Search *s, int32_t v) noexcept nogil:
    cdef int64_t i = s.place[v]
    cdef int32_t last
    s.place[v] = NONE
    s.size -= 1
    if i == s.size:
        return
    last = s.heap[s.size]
    s.heap[i] = last
    s.place[last] = <int32_t> i
    _up(s, i)
    _down(s, s.place[last])


cdef inline void _shift(Search *s, int32_t v, int to) noexcept nogil:
    """Move a vertex; bonds of its neighbours and loads follow."""
    cdef int own = s.of.part[v]
    cdef int64_t e
    cdef int32_t w
    _carry(&s.of, v, to)
    for e in range(s.of.indptr[v], s.of.indptr[v + 1]):
        w = s.of.edge_weights[e] if s.of.edge_weights != NULL else 1
        s.bond[<int64_t> s.of.indices[e] * s.of.k + own] -= w
        s.bond[<int64_t> s.of.indices[e] * s.of.k + to] += w


cdef inline void _refile(Search *s, int32_t u, bint movable, int64_t before) noexcept nogil:
    """Into the heap, out of it, or to another place in it, by the gain that was `before`."""
    if not movable:
        if s.place[u] != NONE:
            _remove(s, u)
    elif s.place[u] == NONE:
        _insert(s, u)
    elif s.gain[u] > before:
        _up(s, s.place[u])
    elif s.gain[u] < before:
        _down(s, s.place[u])


cdef inline void _refresh(Search *s, int32_t u) noexcept nogil:
    """Put a vertex where its gain now belongs."""
    cdef int64_t before
    if s.locked[u]:
        return
    before = s.gain[u]
    _refile(s, u, _look(s, u), before)


cdef int64_t _climb(Search *s, int64_t patience) noexcept nogil:
    """Moves from the heap until they promise no more (Osipov and Sanders 2010), undone back to the best state; returns what the cut lost."""
    cdef int64_t total = 0, best = 0, made = 0, kept = 0, since = 0, e
    cdef double mean = 0, square = 0, gain, delta
    cdef int32_t v
    cdef int64_t old
    while s.size > 0:
        v = s.heap[0]
        old = s.gain[v]
        if not _look(s, v):
            _remove(s, v)
            continue
        if s.gain[v] < old:
            _down(s, 0)
            continue
        _remove(s, v)
        gain = s.gain[v]
        s.moved[made] = v
        s.source[made] = s.of.part[v]
        made += 1
        s.locked[v] = 1
        _shift(s, v, s.target[v])
        for e in range(s.of.indptr[v], s.of.indptr[v + 1]):
            _refresh(s, s.of.indices[e])
        total += <int64_t> gain
        if total > best:
            best = total
            kept = made
            since = 0
            mean = 0
            square = 0
            continue
        since += 1
        delta = gain - mean
        mean += delta / since
        square += delta * (gain - mean)
        if since > patience or (since > 15 and since * mean * mean > 2.0 * square / since + 10.0 * s.price[0] * s.price[0]):
            break
    while made > kept:
        made -= 1
        _shift(s, s.moved[made], s.source[made])
    while s.size > 0:
        s.size -= 1
        s.place[s.heap[s.size]] = NONE
    return best


cdef tuple _open(Search *s, const int64_t[::1] indptr, const int32_t[::1] indices, const int32_t[::1] edge_weights,
                 const int64_t[:, ::1] weights, const int64_t[:, ::1] limits, const int64_t[::1] price, int32_t[::1] part, uint64_t seed):
    """Borrow the arrays and take the memory, which is there as long as what is returned. `_give_back` ends it."""
    cdef int64_t n = indptr.shape[0] - 1
    cdef int32_t[::1] bond = np.zeros(n * limits.shape[0], np.int32)
    cdef int32_t[:, ::1] numbers = np.zeros((6, n), np.int32)
    cdef int64_t[::1] gain = np.empty(n, np.int64)
    cdef uint8_t[::1] locked = np.zeros(n, np.uint8)
    if not _borrow(&s.of, indptr, indices, edge_weights, weights, limits, part, seed):
        raise MemoryError
    s.price = &price[0]
    s.size = 0
    s.bond, s.gain, s.locked = &bond[0], &gain[0], &locked[0]
    s.degree, s.target, s.heap = &numbers[0, 0], &numbers[1, 0], &numbers[2, 0]
    s.place, s.moved, s.source = &numbers[3, 0], &numbers[4, 0], &numbers[5, 0]
    _count(s)
    return bond, numbers, gain, locked


cdef void _count(Search *s) noexcept nogil:
    """Bonds and places from nothing."""
    cdef int64_t v, e
    for v in range(s.of.n):
        s.place[v] = NONE
        for e in range(s.of.indptr[v], s.of.indptr[v + 1]):
            s.bond[v * s.of.k + s.of.part[s.of.indices[e]]] += s.of.edge_weights[e] if s.of.edge_weights != NULL else 1
            s.degree[v] += s.of.edge_weights[e] if s.of.edge_weights != NULL else 1


cdef inline bint _at_border(Search *s, int64_t v) noexcept nogil:
    """Its own few neighbours are nearer in memory than the row of all parts."""
    cdef int64_t e
    for e in range(s.of.indptr[v], s.of.indptr[v + 1]):
        if s.of.part[s.of.indices[e]] != s.of.part[v]:
            return True
    return False


def improve(
    const int64_t[::1] indptr,
    const int32_t[::1] indices,
    const int32_t[::1] edge_weights,
    const int64_t[:, ::1] weights,
    const int64_t[:, ::1] limits,
    const int64_t[::1] price,
    int32_t[::1] part,
    uint64_t seed,
    int passes,
    int starts,
    int64_t patience,
):
    """Lower the cut by moving vertices, none of them twice in a pass, from `starts` border vertices at a time; 0 starts from all together.

    Changes `part` (n,); a move never takes a part above its limits (k, c). Returns what the cut lost.
    """
    cdef Search s
    cdef int64_t i, j, borders, won, total = 0
    cdef int number
    cdef int32_t[::1] border = np.empty(indptr.shape[0] - 1, np.int32)
    if indptr.shape[0] < 2:
        return 0
    room = _open(&s, indptr, indices, edge_weights, weights, limits, price, part, seed)
    with nogil:
        for number in range(passes):
            borders = 0
            for i in range(s.of.n):
                s.locked[i] = 0
                if _at_border(&s, i):
                    border[borders] = <int32_t> i
                    borders += 1
            _shuffle(&border[0], borders, &s.of.random)
            won = 0
            i = 0
            while i < borders:
                j = borders if starts == 0 else min(borders, i + starts)
                while i < j:
                    if not s.locked[border[i]] and s.place[border[i]] == NONE and _look(&s, border[i]):
                        _insert(&s, border[i])
                    i += 1
                won += _climb(&s, patience)
            total += won
            if won == 0:
                break
    _give_back(&s.of)
    return total


def boundary(const int64_t[::1] indptr, const int32_t[::1] indices, const int32_t[::1] edge_weights, const int32_t[::1] part, int parts):
    """(weight of the edges between parts, (k,) int64 vertices of other parts that each part needs a copy of)."""
    found = np.zeros(parts, dtype=np.int64)
    cdef int64_t[::1] count = found
    cdef int64_t v, e, cut = 0
    cdef int32_t p
    cdef bint weighted = edge_weights.shape[0] > 0
    cdef int32_t[::1] seen = np.full(parts, NONE, np.int32)
    with nogil:
        for v in range(indptr.shape[0] - 1):
            for e in range(indptr[v], indptr[v + 1]):
                p = part[indices[e]]
                if p == part[v]:
                    continue
                cut += edge_weights[e] if weighted else 1
                if seen[p] != v:
                    seen[p] = <int32_t> v
                    count[p] += 1
    return cut // 2, found


def weigh(const int64_t[:, ::1] weights, const int32_t[::1] part, int parts):
    """(k, c) int64 what the parts of vertices with `weights` (n, c) weigh."""
    found = np.zeros((parts, weights.shape[1]), dtype=np.int64)
    cdef int64_t[:, ::1] load = found
    cdef int64_t v
    cdef int columns = weights.shape[1], j
    with nogil:
        for v in range(weights.shape[0]):
            for j in range(columns):
                load[part[v], j] += weights[v, j]
    return found


# Balance ---------------------------------------------------------------------------------------------------------------------------------


cdef inline bint _above(Search *s, int p, int32_t v) noexcept nogil:
    """Whether the part is above a limit that this vertex weighs on."""
    cdef int j
    for j in range(s.of.columns):
        if s.of.load[p * s.of.columns + j] > s.of.limits[p * s.of.columns + j] and s.of.weights[<int64_t> v * s.of.columns + j] > 0:
            return True
    return False


cdef bint _anywhere(Search *s, int32_t v) noexcept nogil:
    """As `_look`, into any part with room, neighbours there or not."""
    cdef int32_t *bond = s.bond + <int64_t> v * s.of.k
    cdef int own = s.of.part[v], p, best = NONE
    if s.of.members[own] < 2:
        return False
    for p in range(s.of.k):
        if p != own and (best == NONE or bond[p] > bond[best] or (bond[p] == bond[best] and _emptier(s, p, best))) and _fits(&s.of, v, p):
            best = p
    if best == NONE:
        return False
    s.target[v] = best
    s.gain[v] = <int64_t> bond[best] - bond[own]
    return True


def balance(
    const int64_t[::1] indptr,
    const int32_t[::1] indices,
    const int32_t[::1] edge_weights,
    const int64_t[:, ::1] weights,
    const int64_t[:, ::1] limits,
    int32_t[::1] part,
    uint64_t seed,
):
    """Take vertices out of parts above their limits, those first that cost the cut least; changes `part` (n,), True where all limits hold then."""
    cdef Search s
    cdef int64_t e
    cdef int64_t[::1] price = np.ones(limits.shape[0], dtype=np.int64)
    cdef int32_t v, u
    cdef int64_t old
    cdef int p, j
    cdef bint over = False
    if indptr.shape[0] < 2:
        return True
    room = _open(&s, indptr, indices, edge_weights, weights, limits, price, part, seed)
    with nogil:
        for v in range(<int32_t> s.of.n):
            if _above(&s, s.of.part[v], v) and _anywhere(&s, v):
                _insert(&s, v)
        while s.size > 0:
            v = s.heap[0]
            old = s.gain[v]
            if not _above(&s, s.of.part[v], v) or not _anywhere(&s, v):
                _remove(&s, v)
                continue
            if s.gain[v] < old:
                _down(&s, 0)
                continue
            _remove(&s, v)
            _shift(&s, v, s.target[v])
            for e in range(s.of.indptr[v], s.of.indptr[v + 1]):
                u = s.of.indices[e]
                if s.place[u] != NONE:
                    old = s.gain[u]
                    _refile(&s, u, _anywhere(&s, u), old)
        for p in range(s.of.k):
            for j in range(s.of.columns):
                if s.of.load[p * s.of.columns + j] > s.of.limits[p * s.of.columns + j]:
                    over = True
    _give_back(&s.of)
    return not over
