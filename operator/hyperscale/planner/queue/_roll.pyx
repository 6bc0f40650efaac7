"""The roll of `kinds` compiled: the index rule started again and again until every job has ended. The same answers, bit for bit."""

from libc.math cimport INFINITY, isfinite, pow
from libc.stdlib cimport calloc, free as release

cdef int WAITS = 0
cdef int RUNS = 1
cdef int DONE = 2


cdef struct Roll:
    int jobs
    int demands
    int kinds
    const int *gpus          # (jobs, demands), 0 behind a job's last
    const double *seconds    # (jobs, demands, kinds)
    const double *mixed      # (jobs, demands)
    const double *weight     # (jobs,)
    const double *waited     # (jobs,)
    const double *start      # (jobs,)
    double patience
    double costs             # patience ends after this multiple of what the free nodes would cost
    double alpha_alone
    double alpha
    const int *rank          # (jobs,) place of the key
    double *best             # (jobs,) on the empty cluster
    int *state               # (jobs,)
    int *queue               # (jobs,) those that wait, by age
    int *held                # (jobs, kinds)
    int *room                # (kinds,)
    double *ends             # (jobs,)


cdef inline int total(const int *room, int kinds) noexcept nogil:
    cdef int kind, gpus = 0
    for kind in range(kinds):
        gpus += room[kind]
    return gpus


cdef double seconds_on(const Roll *r, int job, int demand, const int *room, int whole) noexcept nogil:
    """The fastest start on this room, `whole` GPUs in all; +inf where there is none."""
    cdef Py_ssize_t row = <Py_ssize_t>job * r.demands + demand
    cdef int gpus = r.gpus[row], kind
    cdef double best = INFINITY
    for kind in range(r.kinds):
        if room[kind] >= gpus and r.seconds[row * r.kinds + kind] < best:
            best = r.seconds[row * r.kinds + kind]
    return best if isfinite(best) or whole < gpus else r.mixed[row]


cdef double best_seconds(const Roll *r, int job, const int *room, int whole) noexcept nogil:
    cdef int demand
    cdef double found, best = INFINITY
    for demand in range(r.demands):
        if not r.gpus[job * r.demands + demand]:
            break
        found = seconds_on(r, job, demand, room, whole)
        if found < best:
            best = found
    return best


cdef int thrifty(const Roll *r, int job, double now, bint running, double alpha, int whole, double *seconds) noexcept nogil:
    """The worker count that the rule looks at, -1 where none fits within the limit; its seconds."""
    cdef double quickest, best = r.best[job], limit, found
    cdef int demand, chosen = -1
    if r.gpus[job * r.demands] > whole:  # rising: no other fits either
        return -1
    quickest = best_seconds(r, job, r.room, whole)
    if not isfinite(quickest):
        return -1
    if not r.waited[job] + now < r.costs * (quickest - best):
        best = quickest
    limit = r.patience * best if running else INFINITY
    for demand in range(r.demands):
        if not r.gpus[job * r.demands + demand]:
            break
        found = seconds_on(r, job, demand, r.room, whole)
        if not isfinite(found) or found > limit:
            continue
        if chosen < 0 or found * pow(<double>r.gpus[job * r.demands + demand] / r.gpus[job * r.demands + chosen], alpha) < seconds[0]:
            chosen = demand
            seconds[0] = found
    return chosen


cdef void take(const Roll *r, int job, int demand) noexcept nogil:
    """The GPUs of the fastest start: the first kind of the fastest, else of several, those with most room first."""
    cdef Py_ssize_t row = <Py_ssize_t>job * r.demands + demand
    cdef int *held = r.held + <Py_ssize_t>job * r.kinds
    cdef int gpus = r.gpus[row], kind, most, chosen = -1
    cdef double best = INFINITY
    for kind in range(r.kinds):
        held[kind] = 0
        if r.room[kind] >= gpus and r.seconds[row * r.kinds + kind] < best:
            best = r.seconds[row * r.kinds + kind]
            chosen = kind
    while gpus:
        most = chosen
        if chosen < 0:
            most = 0
            for kind in range(1, r.kinds):
                if r.room[kind] > r.room[most]:
                    most = kind
        held[most] = min(gpus, r.room[most])
        r.room[most] -= held[most]
        gpus -= held[most]


cdef int next_start(Roll *r, double now, int waiting, bint running) noexcept nogil:
    """Start what the rule starts; its job, -1 for none."""
    cdef double alpha = r.alpha_alone if waiting == 1 else r.alpha
    cdef int place, job, demand, chosen = -1, chosen_demand = -1, chosen_place = 0, whole = total(r.room, r.kinds)
    cdef double seconds = 0.0, least = INFINITY, chosen_seconds = 0.0
    for place in range(waiting):
        job = r.queue[place]
        demand = thrifty(r, job, now, running, alpha, whole, &seconds)
        if demand >= 0 and (chosen < 0 or seconds / r.weight[job] < least):
            least = seconds / r.weight[job]
            chosen, chosen_demand, chosen_seconds, chosen_place = job, demand, seconds, place
    if chosen >= 0:
        take(r, chosen, chosen_demand)
        r.state[chosen] = RUNS
        for place in range(chosen_place, waiting - 1):
            r.queue[place] = r.queue[place + 1]
        r.ends[chosen] = now + r.start[chosen] + chosen_seconds
    return chosen


cdef int next_end(const Roll *r) noexcept nogil:
    """The running job that ends next, the first by key among equals; -1 where none runs."""
    cdef int job, found = -1
    for job in range(r.jobs):
        if r.state[job] == RUNS and (
            found < 0 or r.ends[job] < r.ends[found] or (r.ends[job] == r.ends[found] and r.rank[job] < r.rank[found])
        ):
            found = job
    return found


cdef void follow(Roll *r, int[:, ::1] starts) noexcept nogil:
    """To the end of all jobs; `starts` becomes what those hold that start at once."""
    cdef int job, kind, waiting = 0, running = 0
    cdef double now = 0.0
    for job in range(r.jobs):
        if r.state[job] == WAITS:
            r.queue[waiting] = job
            waiting += 1
        else:
            running += 1
    while waiting:
        job = next_start(r, now, waiting, running > 0)
        if job >= 0:
            waiting -= 1
            running += 1
            if now == 0.0:
                for kind in range(r.kinds):
                    starts[job, kind] = r.held[<Py_ssize_t>job * r.kinds + kind]
            continue
        job = next_end(r)
        if job < 0:  # more than the cluster holds by this reckoning
            for job in range(r.jobs):
                if r.state[job] == WAITS:
                    r.ends[job] = now + r.best[job]
            return
        running -= 1
        now = r.ends[job]
        r.state[job] = DONE
        for kind in range(r.kinds):
            r.room[kind] += r.held[<Py_ssize_t>job * r.kinds + kind]


def roll(
    const int[:, ::1] gpus,
    const double[:, :, ::1] seconds,
    const double[:, ::1] mixed,
    const double[:, ::1] figures,
    const int[::1] rank,
    const int[:, ::1] held,
    const unsigned char[::1] waits,
    const int[::1] free,
    const double[::1] knobs,
    double[::1] ends,
    int[:, ::1] starts,
):
    """Fill `ends` (jobs,) and `starts` (jobs, kinds), which must be zeros; see `forecast.Forecast` for what is what. ValueError: a shape."""
    cdef Py_ssize_t jobs = gpus.shape[0], demands = gpus.shape[1], kinds = free.shape[0], job, kind
    if not jobs or not demands or not kinds:
        raise ValueError("there must be jobs, worker counts and kinds")
    if seconds.shape[0] != jobs or seconds.shape[1] != demands or seconds.shape[2] != kinds:
        raise ValueError("seconds must be (jobs, demands, kinds)")
    if mixed.shape[0] != jobs or mixed.shape[1] != demands or figures.shape[0] != 4 or figures.shape[1] != jobs or rank.shape[0] != jobs:
        raise ValueError("mixed must be (jobs, demands), figures (4, jobs), rank (jobs,)")
    if held.shape[0] != jobs or held.shape[1] != kinds or waits.shape[0] != jobs or knobs.shape[0] != 4:
        raise ValueError("held must be (jobs, kinds), waits (jobs,), knobs (4,)")
    if ends.shape[0] != jobs or starts.shape[0] != jobs or starts.shape[1] != kinds:
        raise ValueError("ends must be (jobs,), starts (jobs, kinds)")
    cdef double *best = <double *>calloc(jobs, sizeof(double))
    cdef int *whole = <int *>calloc(2 * jobs + jobs * kinds + 2 * kinds, sizeof(int))
    if not best or not whole:
        release(best)
        release(whole)
        raise MemoryError
    cdef int *capacity = whole + 2 * jobs + jobs * kinds
    cdef Roll r
    r.jobs, r.demands, r.kinds = <int>jobs, <int>demands, <int>kinds
    r.gpus, r.seconds, r.mixed = &gpus[0, 0], &seconds[0, 0, 0], &mixed[0, 0]
    r.weight, r.waited, r.start = &figures[0, 0], &figures[1, 0], &figures[2, 0]
    r.rank, r.patience, r.costs, r.alpha_alone, r.alpha = &rank[0], knobs[0], knobs[1], knobs[2], knobs[3]
    r.best, r.state, r.queue, r.held, r.room, r.ends = best, whole, whole + jobs, whole + 2 * jobs, capacity + kinds, &ends[0]
    with nogil:
        for kind in range(kinds):
            capacity[kind] = r.room[kind] = free[kind]
        for job in range(jobs):
            r.state[job] = WAITS if waits[job] else RUNS
            ends[job] = figures[3, job]
            for kind in range(kinds):
                capacity[kind] += held[job, kind]
                if waits[job]:
                    r.room[kind] += held[job, kind]
                else:
                    r.held[job * kinds + kind] = held[job, kind]
        for job in range(jobs):
            best[job] = best_seconds(&r, <int>job, capacity, total(capacity, r.kinds))
        follow(&r, starts)
    release(best)
    release(whole)
