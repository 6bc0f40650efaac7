"""Futures of one job compiled: event by event, one stream of random numbers for each node of each future. The answers of
`futures_python`, bit for bit, which says what each step means."""

from libc.math cimport INFINITY, floor, log, pow
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free as release

from hyperscale.util._splitmix cimport draw, hashed, mixed, unit

cdef int FIXED = 0
cdef int WEIBULL = 1
cdef int RUNS = 0
cdef int RESTARTS = 1
cdef int STOPS = 2
cdef int END = 0
cdef int USEFUL = 1
cdef int CHECKPOINT = 2
cdef int LOST = 3
cdef int RESTART = 4
cdef int WAITING = 5
cdef int SLOW = 6
cdef double MIN_READY = 1e-300  # as MIN_READY_SECONDS of job_arrays


cdef struct Job:
    int nodes                # that take part at once
    int members              # nodes and spares
    int periods
    int max_failures
    const int *kind          # (laws,)
    const double *scale      # (laws,)
    const double *shape      # (laws,)
    const int *table         # (laws + 1,) first row of each table
    const double *ages       # (rows,)
    const double *hazards    # (rows,)
    const int *first         # (members + 1,) first entry of each member in `law_of`
    const int *law_of        # (entries,)
    const int *repair        # (members,) law
    const double *age        # (members,)
    const double *lemon      # (members,)
    const uint64_t *key      # (members + 1,) the last is preemption's
    const int *period_node   # (periods,)
    const double *period     # (periods, 3) start, end, factor
    double segments
    double interval
    double rest              # work of the last segment
    double write
    double restart
    double horizon
    double preempt_mean
    int preempt_law


cdef struct Play:
    uint64_t *state          # (members + 1,)
    double *fails            # (nodes,) by place in the job
    int *node_of             # (nodes,)
    int *heap                # (nodes,) places, the first to fail on top
    double *ready            # (members,) when a node outside the job can join it; -1 inside
    int *pool                # (members,) nodes outside the job
    int pooled
    double now
    double segment           # finished ones
    double part              # work done in this one
    double elapsed           # its wall-clock seconds without writing
    double written           # seconds of its checkpoint
    int slowed               # the node that slowed this segment last, -1 for none
    int stage
    double until             # end of the stop or of the restart
    double preempt
    int blame
    double *parts            # (7,) this future's
    double *delay            # (members + 1,) all futures'
    int failures
    int preemptions


cdef inline int above(const Play *p, int a, int b) noexcept nogil:
    return p.fails[a] < p.fails[b] or (p.fails[a] == p.fails[b] and a < b)


cdef void sink(Play *p, int nodes, int at) noexcept nogil:
    cdef int child, place = p.heap[at]
    while True:
        child = 2 * at + 1
        if child >= nodes:
            break
        if child + 1 < nodes and above(p, p.heap[child + 1], p.heap[child]):
            child += 1
        if not above(p, p.heap[child], place):
            break
        p.heap[at] = p.heap[child]
        at = child
    p.heap[at] = place


cdef double hazard_at(const Job *j, int law, double age) noexcept nogil:
    cdef int low = j.table[law], high = j.table[law + 1] - 1, middle
    if age <= 0.0:
        return 0.0
    if j.kind[law] == WEIBULL:
        return age / j.scale[law] if j.shape[law] == 1.0 else pow(age / j.scale[law], j.shape[law])
    if age >= j.ages[high]:
        return j.hazards[high] + (age - j.ages[high]) / j.scale[law]
    while high - low > 1:
        middle = (low + high) // 2
        if j.ages[middle] <= age:
            low = middle
        else:
            high = middle
    return j.hazards[low] + (age - j.ages[low]) * ((j.hazards[high] - j.hazards[low]) / (j.ages[high] - j.ages[low]))


cdef double age_at(const Job *j, int law, double hazard) noexcept nogil:
    cdef int low = j.table[law], high = j.table[law + 1] - 1, middle
    if j.kind[law] == WEIBULL:
        return j.scale[law] * hazard if j.shape[law] == 1.0 else j.scale[law] * pow(hazard, 1.0 / j.shape[law])
    if hazard >= j.hazards[high]:
        return j.ages[high] + (hazard - j.hazards[high]) * j.scale[law]
    while high - low > 1:
        middle = (low + high) // 2
        if j.hazards[middle] <= hazard:
            low = middle
        else:
            high = middle
    return j.ages[low] + (hazard - j.hazards[low]) * ((j.ages[high] - j.ages[low]) / (j.hazards[high] - j.hazards[low]))


cdef double drawn(const Job *j, int law, double age, double lemon, uint64_t *state) noexcept nogil:
    cdef double life
    if j.kind[law] == FIXED:
        life = j.scale[law] - age
    elif age <= 0.0:
        return age_at(j, law, -log(unit(state)) / lemon)
    else:
        life = age_at(j, law, hazard_at(j, law, age) - log(unit(state)) / lemon) - age
    return life if life > 0.0 else 0.0


cdef double life_of(const Job *j, Play *p, int node, double age) noexcept nogil:
    cdef double life, shortest = INFINITY
    cdef int entry
    for entry in range(j.first[node], j.first[node + 1]):
        life = drawn(j, j.law_of[entry], age, j.lemon[node], p.state + node)
        if life < shortest:
            shortest = life
    return shortest


cdef void lose(Play *p, int member) noexcept nogil:
    cdef double lost = p.elapsed + p.written
    p.parts[LOST] += lost
    p.delay[member] += lost
    p.part = p.elapsed = p.written = 0.0
    p.slowed = -1


cdef void save(Play *p, double work) noexcept nogil:
    cdef double excess = p.elapsed - work
    p.parts[USEFUL] += work
    p.parts[SLOW] += excess
    if p.slowed >= 0:
        p.delay[p.slowed] += excess
    p.part = p.elapsed = 0.0
    p.slowed = -1


cdef int pace(const Job *j, const Play *p, double *factor, double *changes) noexcept nogil:
    cdef int row, slowest = -1
    factor[0] = 1.0
    changes[0] = INFINITY
    for row in range(j.periods):
        if p.ready[j.period_node[row]] >= 0.0:
            continue
        if j.period[3 * row] > p.now:
            if j.period[3 * row] < changes[0]:
                changes[0] = j.period[3 * row]
        elif j.period[3 * row + 1] > p.now:
            if j.period[3 * row + 1] < changes[0]:
                changes[0] = j.period[3 * row + 1]
            if j.period[3 * row + 2] > factor[0]:
                factor[0] = j.period[3 * row + 2]
                slowest = j.period_node[row]
    return slowest


cdef void whole_cycles(const Job *j, Play *p, double end, double factor, int slowest) noexcept nogil:
    cdef double cycle = j.interval * factor + j.write
    cdef double count = floor((end - p.now) / cycle)
    cdef double excess
    if count > j.segments - 1.0 - p.segment:
        count = j.segments - 1.0 - p.segment
    if count < 1.0:
        return
    excess = count * j.interval * (factor - 1.0)
    p.parts[USEFUL] += count * j.interval
    p.parts[SLOW] += excess
    if slowest >= 0:
        p.delay[slowest] += excess
    p.parts[CHECKPOINT] += count * j.write
    p.segment += count
    p.now += count * cycle


cdef bint advance(const Job *j, Play *p, double end, double factor, int slowest) noexcept nogil:
    cdef double work, need
    cdef bint last
    while True:
        if p.part == 0.0 and p.written == 0.0:
            whole_cycles(j, p, end, factor, slowest)
            if p.now > end:
                p.now = end
        last = p.segment >= j.segments - 1.0
        work = j.rest if last else j.interval
        if p.part < work:
            need = (work - p.part) * factor
            if slowest >= 0:
                p.slowed = slowest
            if p.now + need > end:
                p.part += (end - p.now) / factor
                p.elapsed += end - p.now
                p.now = end
                return False
            p.now += need
            p.elapsed += need
            p.part = work
        need = j.write - p.written
        if p.now + need > end:
            p.written += end - p.now
            p.now = end
            return False
        p.now += need
        save(p, work)
        p.parts[CHECKPOINT] += j.write
        p.written = 0.0
        p.segment += 1.0
        if last:
            return True


cdef void fail(const Job *j, Play *p) noexcept nogil:
    cdef int place = p.heap[0], at, chosen = 0, node = p.node_of[place], other
    cdef double joins
    p.failures += 1
    lose(p, node)
    p.ready[node] = p.now + drawn(j, j.repair[node], 0.0, 1.0, p.state + node)
    if p.ready[node] < MIN_READY:
        p.ready[node] = MIN_READY
    p.pool[p.pooled] = node
    p.pooled += 1
    for at in range(1, p.pooled):
        other = p.pool[at]
        if p.ready[other] < p.ready[p.pool[chosen]] or (p.ready[other] == p.ready[p.pool[chosen]] and other < p.pool[chosen]):
            chosen = at
    other = p.pool[chosen]
    p.pooled -= 1
    p.pool[chosen] = p.pool[p.pooled]
    joins = p.ready[other] if p.ready[other] > p.now else p.now
    p.node_of[place] = other
    p.fails[place] = joins + life_of(j, p, other, j.age[other] if p.ready[other] == 0.0 else 0.0)
    p.ready[other] = -1.0
    sink(p, j.nodes, 0)
    if p.stage != STOPS:
        p.until = joins
        p.blame = node
    elif joins > p.until:
        p.until = joins
        p.blame = node
    p.stage = STOPS


cdef void preempted(const Job *j, Play *p) noexcept nogil:
    p.preemptions += 1
    lose(p, j.members)
    p.until = p.now + drawn(j, j.preempt_law, 0.0, 1.0, p.state + j.members)
    p.preempt = INFINITY
    p.blame = j.members
    p.stage = STOPS


cdef void restarts(const Job *j, Play *p) noexcept nogil:
    p.stage = RESTARTS
    p.until = p.now + j.restart
    if j.preempt_law >= 0 and (p.preempt == INFINITY or p.preempt <= p.now):
        p.preempt = p.now - log(unit(p.state + j.members)) * j.preempt_mean


cdef void stand(Play *p, double end, int part) noexcept nogil:
    cdef double passed = end - p.now
    p.parts[part] += passed
    p.delay[p.blame] += passed
    p.now = end


cdef void begin(const Job *j, Play *p, uint64_t seed, uint64_t future) noexcept nogil:
    cdef uint64_t own = mixed(hashed(seed) ^ hashed(future))
    cdef int node, place
    for node in range(j.members + 1):
        p.state[node] = mixed(own ^ j.key[node])
    p.now = p.segment = p.part = p.elapsed = p.written = p.until = 0.0
    p.pooled = p.failures = p.preemptions = 0
    p.slowed = -1
    p.blame = j.members
    p.stage = RUNS
    for node in range(7):
        p.parts[node] = 0.0
    for node in range(j.members):
        if node < j.nodes:
            p.ready[node] = -1.0
            p.node_of[node] = p.heap[node] = node
            p.fails[node] = life_of(j, p, node, j.age[node])
        else:
            p.ready[node] = 0.0
            p.pool[p.pooled] = node
            p.pooled += 1
    for place in range(j.nodes // 2 - 1, -1, -1):
        sink(p, j.nodes, place)
    p.preempt = INFINITY
    if j.preempt_law >= 0:
        p.preempt = -log(unit(p.state + j.members)) * j.preempt_mean


cdef double follow(const Job *j, Play *p) noexcept nogil:
    """Play to the end of the job or of the horizon; its end, +inf past the horizon."""
    cdef double event, failure, factor, changes
    cdef int slowest
    while True:
        failure = p.fails[p.heap[0]]
        event = failure if failure < j.horizon else j.horizon
        if p.stage != STOPS and p.preempt < event:
            event = p.preempt
        if p.stage == RUNS:
            slowest = pace(j, p, &factor, &changes)
            if advance(j, p, changes if changes < event else event, factor, slowest):
                return p.now
            if changes < event:
                continue
        elif p.until <= event:
            stand(p, p.until, WAITING if p.stage == STOPS else RESTART)
            if p.stage == STOPS:
                restarts(j, p)
            else:
                p.stage = RUNS
            continue
        else:
            stand(p, event, WAITING if p.stage == STOPS else RESTART)
        if p.now >= j.horizon or p.failures >= j.max_failures:
            break
        if p.now >= failure:
            fail(j, p)
        else:
            preempted(j, p)
    save(p, p.part)
    p.parts[CHECKPOINT] += p.written
    return INFINITY


def simulate(
    const int[::1] kind,
    const double[:, ::1] law,
    const int[::1] table,
    const double[:, ::1] rows,
    const int[::1] first,
    const int[::1] law_of,
    const int[::1] repair,
    const double[:, ::1] member,
    const uint64_t[::1] key,
    const int[::1] period_node,
    const double[:, ::1] period,
    const double[::1] figures,
    const int[::1] counts,
    uint64_t seed,
    uint64_t start,
    double[:, ::1] parts,
    int[:, ::1] events,
    double[::1] delay,
):
    """Fill `parts` (n, 7), `events` (n, 2) and `delay` (members + 1,) for futures start..start + n - 1; see `job_arrays`. ValueError: a shape."""
    cdef Py_ssize_t future, futures = parts.shape[0], members = repair.shape[0]
    cdef Job j
    cdef Play p
    if kind.shape[0] < 1 or law.shape[0] != 2 or law.shape[1] != kind.shape[0] or table.shape[0] != kind.shape[0] + 1:
        raise ValueError("law must be (2, laws), table (laws + 1,)")
    if rows.shape[0] != 2 or rows.shape[1] < 1 or rows.shape[1] < table[kind.shape[0]] or first.shape[0] != members + 1:
        raise ValueError("rows must be (2, rows), first (members + 1,)")
    if law_of.shape[0] < 1 or member.shape[0] != 2 or member.shape[1] != members or key.shape[0] != members + 1:
        raise ValueError("law_of must have an entry, member be (2, members), key (members + 1,)")
    if period_node.shape[0] < 1 or period.shape[0] != period_node.shape[0] or period.shape[1] != 3:
        raise ValueError("period must be (periods, 3)")
    if figures.shape[0] != 7 or counts.shape[0] != 4 or not 1 <= counts[0] <= members or counts[1] > period_node.shape[0]:
        raise ValueError("figures must be (7,), counts (4,)")
    if parts.shape[1] != 7 or events.shape[0] != futures or events.shape[1] != 2 or delay.shape[0] != members + 1:
        raise ValueError("parts must be (n, 7), events (n, 2), delay (members + 1,)")
    if not futures:
        return
    p.state = <uint64_t *>calloc(members + 1, sizeof(uint64_t))
    p.fails = <double *>calloc(counts[0] + members, sizeof(double))
    p.node_of = <int *>calloc(2 * counts[0] + members, sizeof(int))
    if not p.state or not p.fails or not p.node_of:
        release(p.state)
        release(p.fails)
        release(p.node_of)
        raise MemoryError
    p.ready = p.fails + counts[0]
    p.heap = p.node_of + counts[0]
    p.pool = p.heap + counts[0]
    p.delay = &delay[0]
    j.nodes, j.members, j.periods, j.max_failures, j.preempt_law = counts[0], <int>members, counts[1], counts[2], counts[3]
    j.kind, j.scale, j.shape, j.table = &kind[0], &law[0, 0], &law[1, 0], &table[0]
    j.ages, j.hazards, j.first, j.law_of, j.repair = &rows[0, 0], &rows[1, 0], &first[0], &law_of[0], &repair[0]
    j.age, j.lemon, j.key, j.period_node, j.period = &member[0, 0], &member[1, 0], &key[0], &period_node[0], &period[0, 0]
    j.segments, j.interval, j.rest, j.write, j.restart, j.horizon, j.preempt_mean = (
        figures[0], figures[1], figures[2], figures[3], figures[4], figures[5], figures[6]
    )
    with nogil:
        for future in range(futures):
            p.parts = &parts[future, 0]
            begin(&j, &p, seed, start + <uint64_t>future)
            parts[future, END] = follow(&j, &p)
            events[future, 0] = p.failures
            events[future, 1] = p.preemptions
    release(p.state)
    release(p.fails)
    release(p.node_of)
