"""A stream of jobs on one cluster, simulated event by event, and the policies that decide what starts. Compiled; `simulator.py` is the door.

Jobs arrive, wait, hold one node per worker from their start to their end, and leave; nothing is preempted. Where a job runs is never the
policy's affair: (job, worker count) goes to the best of the free nodes that `place` of the planner's own kernel finds. What is decided
is which pending job starts next and with how many workers. Policies see estimates (`noise`), never the true seconds.

Every loop runs in the order of its indices and chance comes from the seed alone: same input, same output.
"""

from libc.math cimport INFINITY, exp, isfinite, log, pow
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport calloc, free as release, realloc
from libc.string cimport memcpy, memset

import numpy as np

from hyperscale.planner.search.kernels._kernel cimport (
    CANNOT_WORK, LEAST_ROUNDS, Instance, Workspace, objective, place, workspace_free, workspace_new,
)
from hyperscale.util._splitmix cimport draw

FEATURES = 31
HIDDEN = 48
NODE_FEATURES = 6
QUEUE_FEATURES = 5
WIDTH = 8
QUEUE = 16

cdef enum:
    F = 31           # features of a candidate
    H = 48           # hidden units of both layers
    OPTIONS = 6      # most worker counts of a job
    NODES = 64       # most nodes: one bit each
    CANDIDATES = 64  # most candidates of a decision, waiting among them
    OLDEST = 2       # jobs that are candidates by age
    SMALLEST = 6     # jobs that are candidates by area / weight
    DOMAINS = 64
    ORDER = 16       # most workers of a job
    NF = 6           # features of a node
    QF = 5           # features of a pending job in the embedding
    W = 8            # width of the embedding
    QJ = 16       # oldest pending jobs that it sees
    BASE = F * H + H + H * H + H + H + F
    GRAPH = 2 * NF * W + W + 2 * W * W + W + QF * W + W + 3 * W * H

cdef enum Policy:
    FIFO = 0
    EASY = 1
    INDEX = 2
    MARGINAL = 3
    MAXMIN = 4
    AGENT = 5

cdef int SEEDS = 2
cdef int SWEEPS = 3
cdef int EMPTY_SEEDS = 6
cdef double LEAST_REMAINING = 0.02
cdef double HISTORY_GAIN = 0.02
cdef double MOST_LENGTH = 16.0   # planner/queue/rule.py
cdef double WAITING_RUNS = 2.0, MOST_RUNS = 64.0, FIRST_RUNS = 16.0  # planner/queue/arrival_history.py
cdef int FIRST_ARRIVALS = 5
cdef double GOOD_SLOWDOWN = 1.5  # planner/queue/rule.py
cdef double AHEAD_PART = 0.5     # planner/queue/rule.py
cdef int LATER_ENDS = 4          # model/admission_query.py
cdef double LONG_RUNS = 8.0      # planner/queue/wait_bounds.py
cdef double MOST_GAP_VARIATION = 1000.0  # planner/queue/arrival_history.py


cdef struct Placed:
    # Outcome of one search, keyed by job and option and by the free nodes.
    uint64_t free
    uint64_t nodes
    double seconds
    double communication
    int32_t key          # 0: empty


cdef struct Rule:
    int order            # 0: seconds / weight, 1: area / weight
    double alone         # thrift with one pending job
    double thrift        # thrift with several
    double patience
    double size          # exponent with which patience falls as the job's best seconds grow, in mean runs
    double communication # what a second of communication counts more
    double costs         # patience ends after this multiple of what the free nodes would cost
    double speedup       # a job of the mean length waits for running jobs that end soon where it ends that many times sooner; 0: never


cdef struct Candidate:
    int job              # -1: wait
    int option


cdef struct Job:
    double arrival
    double counted       # seconds as which the mean run has it
    double weight
    double noise         # estimate / truth
    double best          # least seconds on the empty cluster, estimated
    double area          # least node seconds there, estimated
    int options
    int state            # 0 to come, 1 pending, 2 running, 3 done
    int workers[OPTIONS]
    double empty[OPTIONS]   # estimated seconds on the empty cluster
    double sooner        # how many times sooner it ends that waits for running jobs, at least 1
    bint waits           # the rule keeps it for them
    int option
    double start
    double finish
    double seconds       # true, without contention
    double communication
    double estimate
    double left          # seconds of work to do at rate 1
    double rate
    uint64_t nodes
    uint64_t domains     # whose links it shares with others


cdef bint _grown(void **held, size_t size) noexcept nogil:
    """realloc that keeps what was held where there is no memory; False then."""
    cdef void *grown = realloc(held[0], size)
    if grown == NULL:
        return False
    held[0] = grown
    return True


cdef inline int _bits(uint64_t mask) noexcept nogil:
    cdef int count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


cdef inline double _squash(double value) noexcept nogil:
    """0..inf to 0..1."""
    return value / (1.0 + value)


cdef inline double _ratio_log(double value, double limit) noexcept nogil:
    """Logarithm within +-limit."""
    cdef double result = log(value) if value > 0.0 else -limit
    return min(max(result, -limit), limit)


cdef class Stream:
    """One cluster, one sequence of jobs.

    speed: (n,) of a worker · latency, per_byte: (n, n), BLOCKED_SECONDS of latency where two nodes cannot talk · domain: (n,) whose uplink
    a node uses, below 63; -1: all nodes hang on one switch · weights: (J,) · noise: (J,) estimate / truth · equal: (J,) whether parts are equal
    workers: (J, 6) rising, 0 behind the last · figures: (J, 6, 6) rounds, halo bytes, ring latency factor, ring byte factor, flops, overhead
    gaps: (J,) between arrivals, of mean 1 · half: (n,) nodes on which the load is measured
    """

    cdef int n, jobs
    cdef double *speed
    cdef double *ones
    cdef double *latency
    cdef double *per_byte             # (n, n) 0 on the diagonal: a job has one worker on a node
    cdef double *inside
    cdef double *figures
    cdef char *equal
    cdef int *domain
    cdef Job *job
    cdef Workspace *ws
    cdef Placed *cache
    cdef size_t cache_size, cache_used
    cdef double placement_lambda, total_speed
    cdef bint contention
    cdef double starvation
    cdef double strict_bounds        # starvation bounds after which no other job starts before the one that waits longest
    cdef bint bounded_patience       # the rule waits for better nodes no longer than poor ones cost
    cdef double wait_price           # what a second of waiting costs more for each second waited before
    cdef double idle_costs           # as often what poor nodes cost it a job which fits lets the agent wait, and the rule for running jobs,
    cdef double idle_runs            # and as many own best runs beyond that; inf: no bound
    cdef readonly double mean_area
    cdef readonly double mean_seconds
    # state of a run
    cdef double now
    cdef int arrived
    cdef uint64_t free
    cdef int free_count
    cdef int *pending
    cdef int *granted                # (J,) scratch
    cdef int *counted                # (2 n,) scratch of the planner's kernel
    cdef int pendings
    cdef int *running
    cdef int runnings
    cdef int seen
    cdef double mean_gap, mean_gap_square, mean_run, mean_need, last_arrival
    cdef int judged_from             # arrivals from which on the agent decides; before, and on other streams, the rule does
    cdef double judged[4]            # least and largest load, least and largest squared variation of the gaps
    cdef double judged_bound         # shortest starvation bound, in mean runs
    cdef uint64_t chance
    # candidates of the decision at hand
    cdef Candidate candidate[CANDIDATES]
    cdef int candidates
    cdef double features[CANDIDATES][F]
    cdef Rule rule
    cdef double mask_patience
    cdef int rule_job, rule_option
    # record
    cdef bint record
    cdef bint out_of_memory          # of the record: a run without the GIL cannot raise
    cdef float *rows
    cdef size_t row_count, row_room
    cdef int32_t *counts
    cdef int32_t *actions
    cdef double *times
    cdef size_t decision_count, decision_room
    cdef double *event_time
    cdef double *event_cost
    cdef double *event_state         # weight in the system, node seconds to do, weight x best seconds of the pending
    cdef size_t event_count, event_room
    cdef readonly long decisions
    cdef readonly double cost        # weight in the system over time, and lambda x weight x communication, so far
    cdef bint open_decision
    cdef float *net
    # graph embedding, where the network has one
    cdef bint embeds
    cdef float *near                 # (n, n) rows of sum 1: how near two nodes are, by bandwidth
    cdef float node[NODES][NF]
    cdef float queue[QJ][QF + 1]  # the last says that there is a job
    cdef float *node_rows
    cdef float *queue_rows
    cdef uint64_t *masks

    def __cinit__(self, const double[::1] speed, const double[:, ::1] latency, const double[:, ::1] per_byte, const int[::1] domain,
                  const double[::1] weights, const double[::1] noise, const unsigned char[::1] equal, const int[:, ::1] workers,
                  const double[:, :, ::1] figures, const double[::1] gaps, const unsigned char[::1] half, double load, double placement_lambda,
                  bint contention, double starvation_runs):
        cdef int i, j, o
        self.n, self.jobs = len(speed), len(weights)
        if self.n > NODES or self.n < 1:
            raise ValueError("a simulated cluster has 1 to 64 nodes")
        if (latency.shape[0] != self.n or latency.shape[1] != self.n or per_byte.shape[0] != self.n or per_byte.shape[1] != self.n
                or len(domain) != self.n or len(half) != self.n or len(noise) != self.jobs or len(equal) != self.jobs or len(gaps) != self.jobs
                or workers.shape[0] != self.jobs or workers.shape[1] != OPTIONS or figures.shape[0] != self.jobs
                or figures.shape[1] != OPTIONS or figures.shape[2] != 6 or np.max(domain, initial=0) >= DOMAINS - 1):
            raise ValueError("tables of nodes and jobs do not fit")
        self.speed = <double *> calloc(3 * self.n, sizeof(double))
        self.latency = <double *> calloc(2 * self.n * self.n, sizeof(double))
        self.figures = <double *> calloc(self.jobs * OPTIONS * 6, sizeof(double))
        self.equal = <char *> calloc(self.jobs, 1)
        self.domain = <int *> calloc(self.n, sizeof(int))
        self.job = <Job *> calloc(self.jobs, sizeof(Job))
        self.pending = <int *> calloc(self.jobs, sizeof(int))
        self.granted = <int *> calloc(self.jobs, sizeof(int))
        self.running = <int *> calloc(NODES, sizeof(int))
        self.counted = <int *> calloc(2 * self.n, sizeof(int))
        self.ws = workspace_new(self.n, ORDER)
        self.cache_size = 1 << 16
        self.cache = <Placed *> calloc(self.cache_size, sizeof(Placed))
        self.net = <float *> calloc(BASE + GRAPH, sizeof(float))
        self.near = <float *> calloc(self.n * self.n, sizeof(float))
        if (self.speed == NULL or self.latency == NULL or self.figures == NULL or self.equal == NULL or self.domain == NULL or self.job == NULL
                or self.pending == NULL or self.granted == NULL or self.running == NULL or self.counted == NULL or self.ws == NULL
                or self.cache == NULL or self.net == NULL or self.near == NULL):
            raise MemoryError()
        self.ones, self.inside, self.per_byte = self.speed + self.n, self.speed + 2 * self.n, self.latency + self.n * self.n
        self.placement_lambda, self.contention = placement_lambda, contention
        for i in range(self.n):
            self.speed[i], self.ones[i], self.domain[i] = speed[i], 1.0, domain[i]
            self.total_speed += speed[i]
            for j in range(self.n):
                self.latency[i * self.n + j], self.per_byte[i * self.n + j] = latency[i, j], per_byte[i, j]
            self.inside[i], self.per_byte[i * self.n + i] = per_byte[i, i], 0.0
        for j in range(self.jobs):
            self.equal[j] = equal[j]
            self.job[j].weight, self.job[j].noise = weights[j], noise[j]
            for o in range(OPTIONS):
                for i in range(6):
                    self.figures[(j * OPTIONS + o) * 6 + i] = figures[j, o, i]
                if workers[j, o] < 0 or (workers[j, o] > 0 and o and workers[j, o] <= workers[j, o - 1]) or (workers[j, o] and self.job[j].options < o):
                    raise ValueError("worker counts rise from at least one, zeros behind the last")
                if workers[j, o] > 0:
                    if workers[j, o] > min(self.n, ORDER):
                        raise ValueError("more workers than nodes, or than 16")
                    self.job[j].workers[o] = workers[j, o]
                    self.job[j].options = o + 1
        self._draw_near()
        self._measure(half, gaps, load)
        self.starvation = starvation_runs * self.mean_seconds if starvation_runs > 0 else INFINITY
        self.strict_bounds, self.idle_costs, self.idle_runs, self.bounded_patience = 1.0, 1.0, INFINITY, True
        self.judged[0], self.judged[1], self.judged[2], self.judged[3] = 0.0, INFINITY, 0.0, INFINITY

    def __dealloc__(self):
        release(self.speed)
        release(self.latency)
        release(self.figures)
        release(self.equal)
        release(self.domain)
        release(self.job)
        release(self.pending)
        release(self.granted)
        release(self.running)
        release(self.counted)
        workspace_free(self.ws)
        release(self.cache)
        release(self.net)
        release(self.near)
        release(self.node_rows)
        release(self.queue_rows)
        release(self.masks)
        release(self.rows)
        release(self.counts)
        release(self.actions)
        release(self.times)
        release(self.event_time)
        release(self.event_cost)
        release(self.event_state)

    cdef int _measure(self, const unsigned char[::1] half, const double[::1] gaps, double load) except -1:
        """Seconds on the empty cluster, then arrivals at `load`: their rate times the mean cheapest area on half the nodes, over n."""
        cdef int j, o
        cdef uint64_t everything = self._all(), mask = 0
        cdef double area, least, seconds, at = 0.0
        cdef Placed found
        for j in range(self.n):
            if half[j]:
                mask |= <uint64_t> 1 << j
        self.mean_area = self.mean_seconds = 0.0
        for j in range(self.jobs):
            least = seconds = INFINITY
            self.job[j].best = self.job[j].area = INFINITY
            for o in range(self.job[j].options):
                found = self._search(j, o, everything, EMPTY_SEEDS)
                if not isfinite(found.seconds):
                    found = self._search(j, o, everything, self.n)
                self.job[j].empty[o] = found.seconds * self.job[j].noise
                seconds = min(seconds, found.seconds)
                self.job[j].best = min(self.job[j].best, self.job[j].empty[o])
                self.job[j].area = min(self.job[j].area, self.job[j].empty[o] * self.job[j].workers[o])
                if _bits(mask) >= self.job[j].workers[o]:
                    area = self._search(j, o, mask, SEEDS).seconds * self.job[j].workers[o]
                    least = min(least, area)
                least = min(least, found.seconds * self.job[j].workers[o]) if not isfinite(least) else least
            if not isfinite(seconds):
                raise ValueError("a job fits the cluster with none of its worker counts")
            self.mean_area += least / self.jobs
            self.mean_seconds += seconds / self.jobs
        for j in range(self.jobs):
            at += gaps[j] * self.mean_area / (load * self.n)
            self.job[j].arrival = at
        return 0

    cdef void _draw_near(self) noexcept nogil:
        """Weights of the messages between nodes: bandwidth, each row of sum 1, nothing where two cannot talk."""
        cdef int i, j
        cdef double sum
        for i in range(self.n):
            sum = 0.0
            for j in range(self.n):
                if i != j and self.latency[i * self.n + j] < CANNOT_WORK:
                    sum += 1.0 / self.per_byte[i * self.n + j]
            for j in range(self.n):
                if i != j and self.latency[i * self.n + j] < CANNOT_WORK:
                    self.near[i * self.n + j] = <float> (1.0 / self.per_byte[i * self.n + j] / sum)

    cdef inline uint64_t _all(self) noexcept nogil:
        return ~<uint64_t> 0 if self.n == 64 else (<uint64_t> 1 << self.n) - 1

    cdef Placed _search(self, int j, int o, uint64_t free, int seeds) noexcept nogil:
        """The best placement found on the nodes of `free`; seconds inf where there is none."""
        cdef Instance q
        cdef unsigned char usable[NODES]
        cdef int order[ORDER]
        cdef double ring[5]
        cdef int i
        cdef Placed found
        cdef double *figure = self.figures + (j * OPTIONS + o) * 6
        for i in range(self.n):
            usable[i] = (free >> i) & 1
        q.m, q.k, q.equal, q.inner, q.part, q.times = self.n, self.job[j].workers[o], self.equal[j], False, 1.0, self.counted
        q.speed, q.weight = self.speed, (self.ones if self.equal[j] else self.speed)
        q.lat, q.spb, q.inside, q.slots = self.latency, self.per_byte, self.inside, NULL
        q.rounds, q.halo_bytes = max(figure[0], LEAST_ROUNDS), figure[1]
        q.ring_latency_factor, q.ring_byte_factor = figure[2], figure[3]
        # One GPU a node: every ring is over as many nodes as workers, and its cards are full. Streams know no trees and no uplinks.
        ring[0], ring[1], ring[2], ring[3], ring[4] = figure[2], 0.0, figure[3], 0.0, 0.0
        q.fours, q.stride, q.collectives, q.floors, q.held = 0, 0, ring, ring, self.counted + self.n
        q.classes, q.sharp = 1, NULL
        q.railed, q.filling, q.slow, q.least_slow = False, NULL, NULL, NULL
        q.levels, q.domains, q.domain, q.uplink, q.mass = 0, 0, NULL, NULL, NULL
        q.epoch_flops, q.overhead_seconds, q.communication_weight = figure[4], figure[5], self.placement_lambda
        found.key, found.free, found.nodes = 1 + j * OPTIONS + o, free, 0
        found.seconds = found.communication = INFINITY
        if not place(&q, usable, seeds, SWEEPS, order, self.ws) < CANNOT_WORK:
            return found
        for i in range(q.k):
            found.nodes |= <uint64_t> 1 << order[i]
        q.communication_weight = 0.0
        found.seconds = objective(&q, order)
        q.communication_weight = 1.0
        found.communication = objective(&q, order) - found.seconds
        return found

    cdef Placed _placed(self, int j, int o) noexcept nogil:
        """The same on the nodes that are free now, remembered."""
        cdef int32_t key = 1 + j * OPTIONS + o
        cdef uint64_t state = self.free ^ (<uint64_t> key << 40)
        cdef size_t at, i
        if self.cache_used * 2 > self.cache_size:
            if self.cache_size >= (1 << 17) or not self._grow():
                memset(self.cache, 0, self.cache_size * sizeof(Placed))
                self.cache_used = 0
        at = <size_t> draw(&state) & (self.cache_size - 1)
        while self.cache[at].key != 0:
            if self.cache[at].key == key and self.cache[at].free == self.free:
                return self.cache[at]
            at = (at + 1) & (self.cache_size - 1)
        self.cache[at] = self._search(j, o, self.free, SEEDS)
        if not isfinite(self.cache[at].seconds) and self.free_count == self.n:  # where nothing runs, each job must fit
            self.cache[at] = self._search(j, o, self.free, self.n)
        self.cache_used += 1
        return self.cache[at]

    cdef bint _grow(self) noexcept nogil:
        cdef size_t i, at, size = self.cache_size * 2
        cdef uint64_t state
        cdef Placed *table = <Placed *> calloc(size, sizeof(Placed))
        if table == NULL:
            return False
        for i in range(self.cache_size):
            if self.cache[i].key != 0:
                state = self.cache[i].free ^ (<uint64_t> self.cache[i].key << 40)
                at = <size_t> draw(&state) & (size - 1)
                while table[at].key != 0:
                    at = (at + 1) & (size - 1)
                table[at] = self.cache[i]
        release(self.cache)
        self.cache, self.cache_size = table, size
        return True

    cdef inline double _estimate(self, int j, int o) noexcept nogil:
        """Seconds that the policy expects on the free nodes; inf where it does not fit. Never less than on the empty cluster."""
        if self.job[j].workers[o] > self.free_count:
            return INFINITY
        return max(self._placed(j, o).seconds * self.job[j].noise, self.job[j].empty[o])

    # ---- the course of events

    cdef void _begin(self, uint64_t seed) noexcept nogil:
        cdef int j
        self.now, self.arrived, self.free, self.free_count = 0.0, 0, self._all(), self.n
        self.pendings = self.runnings = self.seen = 0
        self.mean_gap = self.mean_gap_square = self.mean_run = self.mean_need = self.last_arrival = 0.0
        self.chance = seed
        self.row_count = self.decision_count = self.event_count = 0
        self.decisions, self.cost, self.open_decision = 0, 0.0, False
        for j in range(self.jobs):
            self.job[j].state = 0

    cdef void _arrive(self) noexcept nogil:
        cdef Job *job = &self.job[self.arrived]
        cdef double gain, gap = job.arrival - self.last_arrival
        job.state = 1
        self.pending[self.pendings] = self.arrived
        self.pendings += 1
        self.arrived += 1
        self.seen += 1
        gain = max(1.0 / self.seen, HISTORY_GAIN)
        self.mean_gap += gain * (gap - self.mean_gap)
        self.mean_gap_square += gain * (gap * gap - self.mean_gap_square)
        if 1 < self.seen <= FIRST_ARRIVALS:
            self.mean_run = min(self.mean_run, FIRST_RUNS * job.best)
        job.counted = min(job.best, WAITING_RUNS * self.mean_run) if self.mean_run > 0.0 else job.best
        self.mean_run += gain * (job.counted - self.mean_run)
        self.mean_need += gain * (job.area - self.mean_need)
        self.last_arrival = job.arrival

    cdef void _launch(self, int j, int o) noexcept nogil:
        """Start it on the free nodes."""
        cdef Placed found = self._placed(j, o)
        cdef Job *job = &self.job[j]
        cdef int i, at = 0
        job.state, job.option, job.start = 2, o, self.now
        job.seconds, job.communication, job.nodes = found.seconds, found.communication, found.nodes
        job.estimate = max(found.seconds * job.noise, job.empty[o])
        job.left, job.rate, job.finish = found.seconds, 1.0, self.now + found.seconds
        self.free &= ~found.nodes
        self.free_count -= job.workers[o]
        for i in range(self.pendings):
            if self.pending[i] != j:
                self.pending[at] = self.pending[i]
                at += 1
        self.pendings = at
        self.running[self.runnings] = j
        self.runnings += 1
        job.domains = self._domains(found.nodes)
        if self.contention:
            self._rates()

    cdef uint64_t _domains(self, uint64_t nodes) noexcept nogil:
        """Uplinks that the job's traffic crosses: of every domain that holds some of its nodes but not all."""
        cdef int i
        cdef uint64_t touched = 0
        for i in range(self.n):
            if (nodes >> i) & 1:
                touched |= <uint64_t> 1 << (63 if self.domain[i] < 0 else self.domain[i])
        if _bits(touched) > 1 or (touched >> 63 and _bits(nodes) > 1):
            return touched
        return 0

    cdef void _rates(self) noexcept nogil:
        """Traffic on a shared uplink stretches with the part of the time that the others use it."""
        cdef int a, b
        cdef double share, stretch
        cdef Job *job
        cdef Job *other
        for a in range(self.runnings):
            job = &self.job[self.running[a]]
            stretch = 1.0
            for b in range(self.runnings):
                other = &self.job[self.running[b]]
                if a != b and job.domains & other.domains:
                    stretch += other.communication / other.seconds
            share = job.communication / job.seconds
            job.rate = 1.0 / (1.0 - share + share * stretch)
            job.finish = self.now + job.left / job.rate

    cdef void _count_runs(self) noexcept nogil:
        """Jobs that have run for a mean run count as what they are; planner/queue/arrival_history.py, `has_run`."""
        cdef int i
        cdef Job *job
        for i in range(self.runnings):
            job = &self.job[self.running[i]]
            if job.counted < job.best and self.now - job.start >= self.mean_run:
                self.mean_run += max(1.0 / self.seen, HISTORY_GAIN) * max(0.0, min(job.best, MOST_RUNS * self.mean_run) - job.counted)
                job.counted = job.best

    cdef bint _step(self) noexcept nogil:
        """On to the next arrivals or completion; False when nothing is left to come."""
        cdef int i, first = -1
        cdef double at = INFINITY, rate = 0.0
        cdef Job *job
        for i in range(self.runnings):
            if self.job[self.running[i]].finish < at:
                at, first = self.job[self.running[i]].finish, i
        if self.arrived < self.jobs and self.job[self.arrived].arrival <= at:
            at, first = self.job[self.arrived].arrival, -1
        elif first < 0:
            return False
        for i in range(self.pendings):
            job = &self.job[self.pending[i]]
            rate += job.weight + self.wait_price * (0.5 * (self.now + at) - job.arrival)
        for i in range(self.runnings):
            job = &self.job[self.running[i]]
            rate += job.weight * (1.0 + self.placement_lambda * job.communication / job.seconds)
        self.cost += rate * (at - self.now)
        if self.record:
            self._note_event(at)
        if self.contention:
            for i in range(self.runnings):
                job = &self.job[self.running[i]]
                job.left -= (at - self.now) * job.rate
        self.now = at
        self._count_runs()
        if first < 0:
            while self.arrived < self.jobs and self.job[self.arrived].arrival <= at:  # the operator asks about all of them together
                self._arrive()
            return True
        job = &self.job[self.running[first]]
        job.state = 3
        self.free |= job.nodes
        self.free_count += job.workers[job.option]
        for i in range(first, self.runnings - 1):
            self.running[i] = self.running[i + 1]
        self.runnings -= 1
        if self.contention:
            self._rates()
        return True

    cdef inline double _remaining(self, int j) noexcept nogil:
        """As the policy sees it: what was expected at the start less what has passed, never nothing."""
        cdef Job *job = &self.job[j]
        return max(job.estimate - (self.now - job.start), LEAST_REMAINING * job.estimate)

    cdef int _starving(self) noexcept nogil:
        """The job before which no other starts any more; -1: none."""
        if self.pendings and self.now - self.job[self.pending[0]].arrival > self.strict_bounds * self.starvation:
            return self.pending[0]
        return -1

    # ---- choosing

    cdef int _thrifty(self, int j, double alpha, double limit, double *seconds, int most, double until, int extra) noexcept nogil:
        """The worker count by thrift among those that fit within `limit` seconds: a larger one must pay. -1: none.

        A count is also left out when it exceeds `most`, or would run beyond `until` on more than `extra` nodes.
        """
        cdef int o, best = -1
        cdef double value
        for o in range(self.job[j].options):
            if self.job[j].workers[o] > min(self.free_count, most):
                break
            value = self._estimate(j, o)
            if not value <= limit or not isfinite(value):
                continue
            if value > until and self.job[j].workers[o] > extra:
                continue
            if best < 0 or alpha < 0.0 or value * pow(<double> self.job[j].workers[o] / self.job[j].workers[best], alpha) < seconds[0]:
                best, seconds[0] = o, value
        return best

    cdef double _measure_seconds(self, const Rule *rule, int j) noexcept nogil:
        """What the rule's patience is counted from; planner/queue/rule.py."""
        cdef int o
        cdef double least = INFINITY, counted = INFINITY
        for o in range(self.job[j].options):
            least = min(least, self._estimate(j, o))
            counted = min(counted, self._counted_seconds(rule, j, o))
        if not isfinite(least) or self.now - self.job[j].arrival < rule.costs * (least - self.job[j].best):
            return self.job[j].best
        return counted

    cdef double _counted_seconds(self, const Rule *rule, int j, int o) noexcept nogil:
        """Seconds on the free nodes as the rule counts them."""
        cdef Placed found
        cdef double value
        if self.job[j].workers[o] > self.free_count:
            return INFINITY
        found = self._placed(j, o)
        value = max(found.seconds * self.job[j].noise, self.job[j].empty[o])
        return value * (1.0 + rule.communication * found.communication / found.seconds) if isfinite(value) else INFINITY

    cdef int _thrifty_counted(self, const Rule *rule, int j, double alpha, double limit, double *seconds) noexcept nogil:
        """As `_thrifty`, by the seconds as the rule counts them."""
        cdef int o, best = -1
        cdef double value
        for o in range(self.job[j].options):
            if self.job[j].workers[o] > self.free_count:
                break
            value = self._counted_seconds(rule, j, o)
            if not isfinite(value) or (not value <= limit and self._estimate(j, o) > min(GOOD_SLOWDOWN, rule.patience) * self.job[j].best):
                continue
            if best < 0 or alpha < 0.0 or value * pow(<double> self.job[j].workers[o] / self.job[j].workers[best], alpha) < seconds[0]:
                best, seconds[0] = o, value
        return best

    cdef double _limit(self, const Rule *rule, int j) noexcept nogil:
        """The most seconds with which the rule starts the job while others run; planner/queue/rule.py, `_limit`."""
        cdef double measure = self._measure_seconds(rule, j) if self.bounded_patience else self.job[j].best
        return measure * self._slowdown(rule, j)

    cdef double _slowdown(self, const Rule *rule, int j) noexcept nogil:
        """planner/queue/rule.py, `start_slowdown`."""
        return max(1.0, rule.patience * self._length_factor(rule, j))

    cdef double _length_factor(self, const Rule *rule, int j) noexcept nogil:
        """planner/queue/rule.py, `length_factor`."""
        return pow(min(max(self.job[j].best / self.mean_run, 1.0 / MOST_LENGTH), MOST_LENGTH), -rule.size)

    cdef double _later_seconds(self, const Rule *rule, int j, double now_seconds, double ahead) noexcept nogil:
        """Counted seconds till the end of j at the best of a start now, which takes `now_seconds`, and at each of the next ends.

        The nodes of the jobs that end by then are free too. `ahead`: node seconds of the jobs that take those nodes first.
        """
        cdef uint64_t free = self.free, ended = 0
        cdef int count = self.free_count, i, o, end, first
        cdef double least = now_seconds, wait
        for end in range(min(LATER_ENDS, self.runnings)):
            first, wait = -1, INFINITY
            for i in range(self.runnings):
                if not (ended >> i) & 1 and self._remaining(self.running[i]) < wait:
                    first, wait = i, self._remaining(self.running[i])
            if first < 0 or wait + self.job[j].best >= least:
                break
            ended |= <uint64_t> 1 << first
            self.free |= self.job[self.running[first]].nodes
            self.free_count += self.job[self.running[first]].workers[self.job[self.running[first]].option]
            for o in range(self.job[j].options):
                least = min(least, wait + ahead / (self.free_count - count) + self._counted_seconds(rule, j, o))
        self.free, self.free_count = free, count
        return least

    cdef void _find_waits(self, const Rule *rule, bint exact) noexcept nogil:
        """How much sooner each pending job ends that waits for running jobs, and whether the rule lets it: `later_waits` in Python.

        exact: also for jobs that no wait helps enough; only the agent sees that
        """
        cdef int i, k, j, o
        cdef double counted, least, seconds = 0.0, enough, ahead = 0.0, soonest = INFINITY
        for i in range(self.runnings):
            soonest = min(soonest, self._remaining(self.running[i]))
        for i in range(self.pendings):  # shortest first, among equals the older
            j, k = self.pending[i], i
            self.job[j].sooner, self.job[j].waits = 1.0, False
            while k > 0 and self.job[self.granted[k - 1]].best / self.job[self.granted[k - 1]].weight > self.job[j].best / self.job[j].weight:
                self.granted[k] = self.granted[k - 1]
                k -= 1
            self.granted[k] = j
        if rule.speedup <= 0.0 or not self.runnings:
            return
        for i in range(self.pendings):
            j = self.granted[i]
            counted = least = INFINITY
            for o in range(self.job[j].options):
                least = min(least, self._estimate(j, o))
                counted = min(counted, self._counted_seconds(rule, j, o))
            if not isfinite(least):
                continue
            enough = max(1.0, rule.speedup * self._length_factor(rule, j))
            if exact or counted > enough * (soonest + self.job[j].best):
                self.job[j].sooner = counted / self._later_seconds(rule, j, counted, ahead)
            self.job[j].waits = (
                self.job[j].sooner > enough
                and self.now - self.job[j].arrival < self.idle_costs * (least - self.job[j].best)
            )
            if self.job[j].waits or self._thrifty_counted(rule, j, 0.0, self._limit(rule, j), &seconds) < 0:
                ahead += AHEAD_PART * self.job[j].area

    cdef int _by_rule(self, const Rule *rule, int *option) noexcept nogil:
        """The index rule: the pending job that starts, -1 to wait. With θ after `_find_waits`."""
        cdef int i, j, o, best = -1
        cdef double seconds = 0.0, value, least = INFINITY, alpha = rule.alone if self.pendings == 1 else rule.thrift
        cdef double limit
        cdef bint waits = rule.speedup > 0.0
        for i in range(self.pendings):
            j = self.pending[i]
            if (self.job[j].best if rule.order == 0 else self.job[j].area) / self.job[j].weight >= least:
                continue
            limit = self._limit(rule, j) if self.runnings else INFINITY
            o = self._thrifty_counted(rule, j, alpha, limit, &seconds)
            if o < 0:
                continue
            value = seconds * (self.job[j].workers[o] if rule.order == 1 else 1) / self.job[j].weight
            if value < least and not (waits and self.job[j].waits):
                least, best, option[0] = value, j, o
        return best

    cdef int _starve_first(self, double alpha, int *option) noexcept nogil:
        """The starving job if it fits; nobody else may start before it."""
        cdef double seconds = 0.0
        cdef int j = self._starving()
        option[0] = self._thrifty_counted(&self.rule, j, alpha, INFINITY, &seconds)
        return j if option[0] >= 0 else -1

    cdef int _late_start(self, double alpha, int *option) noexcept nogil:
        """The longest waiting of the jobs beyond the bound for which the free nodes are good enough by the rule's patience; -1: none."""
        cdef int i, j
        cdef double seconds = 0.0, limit
        for i in range(self.pendings):
            j = self.pending[i]
            if not self.now - self.job[j].arrival > self.starvation:
                return -1
            limit = self._slowdown(&self.rule, j) * self.job[j].best if self.runnings else INFINITY
            option[0] = self._thrifty_counted(&self.rule, j, alpha, limit, &seconds)
            if option[0] >= 0:
                return j
        return -1

    cdef int _fifo(self, double alpha, bint backfill, int *option) noexcept nogil:
        """The head of the queue; with backfill others that do not delay its reservation on its least workers (EASY)."""
        cdef int i, k, r, spare, head
        cdef double seconds = 0.0, shadow
        if self.pendings == 0:
            return -1
        head = self.pending[0]
        option[0] = self._thrifty(head, alpha, INFINITY, &seconds, NODES, INFINITY, 0)
        if option[0] >= 0:
            return head
        if not backfill:
            return -1
        shadow = self._shadow(self.job[head].workers[0], &spare)
        for i in range(1, self.pendings):
            option[0] = self._thrifty(self.pending[i], alpha, INFINITY, &seconds, NODES, shadow, spare)
            if option[0] >= 0:
                return self.pending[i]
        return -1

    cdef double _shadow(self, int workers, int *spare) noexcept nogil:
        """Seconds from now until `workers` nodes are free, and how many more are free by then."""
        cdef int i, count = self.free_count, first
        cdef double at = 0.0, least
        cdef uint64_t used = 0
        while count < workers:
            least, first = INFINITY, -1
            for i in range(self.runnings):
                if not (used >> i) & 1 and self._remaining(self.running[i]) < least:
                    least, first = self._remaining(self.running[i]), i
            if first < 0:
                break
            used |= <uint64_t> 1 << first
            count += self.job[self.running[first]].workers[self.job[self.running[first]].option]
            at = least
        spare[0] = count - workers
        return at

    cdef int _marginal(self, int *option) noexcept nogil:
        """Optimus and AFS without preemption: least workers by area, then a step up where the speed-up per node is largest; shortest first."""
        cdef int i, j, o, best, left = self.free_count, chosen = -1
        cdef double gain, most, least
        cdef int *granted = self.granted
        if self.pendings == 0:
            return -1
        for i in range(self.pendings):
            granted[i] = -1
        while True:  # least workers, smallest area per weight first
            best, least = -1, INFINITY
            for i in range(self.pendings):
                j = self.pending[i]
                if granted[i] < 0 and self.job[j].workers[0] <= left and self.job[j].area / self.job[j].weight < least:
                    best, least = i, self.job[j].area / self.job[j].weight
            if best < 0:
                break
            granted[best] = 0
            left -= self.job[self.pending[best]].workers[0]
        while True:
            best, most = -1, 0.0
            for i in range(self.pendings):
                j, o = self.pending[i], granted[i]
                if o < 0 or o + 1 >= self.job[j].options or self.job[j].workers[o + 1] - self.job[j].workers[o] > left:
                    continue
                gain = self.job[j].weight * (self.job[j].empty[o] - self.job[j].empty[o + 1]) / (self.job[j].workers[o + 1] - self.job[j].workers[o])
                if gain > most:
                    best, most = i, gain
            if best < 0:
                break
            j, o = self.pending[best], granted[best]
            left -= self.job[j].workers[o + 1] - self.job[j].workers[o]
            granted[best] = o + 1
        least = INFINITY
        for i in range(self.pendings):
            j = self.pending[i]
            if granted[i] >= 0 and isfinite(self._estimate(j, granted[i])) and self.job[j].empty[granted[i]] / self.job[j].weight < least:
                chosen, option[0], least = j, granted[i], self.job[j].empty[granted[i]] / self.job[j].weight
        return chosen

    cdef int _maxmin(self, int *option) noexcept nogil:
        """Gavel's max-min without preemption: an equal weighted share of the nodes each; who got least of its share goes first."""
        cdef int i, j, o, chosen = -1, pick
        cdef double total = 0.0, most = -1.0, seconds, share, owed
        for i in range(self.pendings):
            total += self.job[self.pending[i]].weight
        for i in range(self.runnings):
            total += self.job[self.running[i]].weight
        for i in range(self.pendings):
            j = self.pending[i]
            share = self.n * self.job[j].weight / total
            pick = -1
            for o in range(self.job[j].options):
                if self.job[j].workers[o] <= self.free_count and (pick < 0 or self.job[j].workers[o] <= share) and isfinite(self._estimate(j, o)):
                    pick = o
            owed = self.job[j].weight * (self.now - self.job[j].arrival + 1e-9) / self.job[j].best
            if pick >= 0 and owed > most:
                chosen, option[0], most = j, pick, owed
        return chosen

    # ---- the agent

    cdef void _gather(self) noexcept nogil:
        """Candidates of this decision: oldest and smallest jobs and the rule's, all worker counts that fit and patience allows, and to wait.

        Only the late job, or the long one that the rule starts, where there is one.
        """
        cdef int i, j, o, c, quickest = 0, jobs = 0, best, starving = self._starving(), first = starving
        cdef double alpha = self.rule.alone if self.pendings == 1 else self.rule.thrift
        cdef int chosen[OLDEST + SMALLEST + 1]
        cdef double least, value
        cdef bint known, overdue, may_wait = True
        self.candidates = 0
        self._find_waits(&self.rule, True)
        if starving >= 0:
            self.rule_job = self._starve_first(alpha, &self.rule_option)
        else:
            self.rule_job = first = self._late_start(alpha, &self.rule_option)
        if first >= 0:
            chosen[0], jobs = first, 1
        else:
            self.rule_job = self._by_rule(&self.rule, &self.rule_option)
            if self.rule_job >= 0 and self.runnings and self.job[self.rule_job].best > LONG_RUNS * self.mean_run:
                first, chosen[0], jobs = self.rule_job, self.rule_job, 1
        if first < 0:
            for i in range(min(OLDEST, self.pendings)):
                chosen[jobs] = self.pending[i]
                jobs += 1
            for c in range(SMALLEST):
                best, least = -1, INFINITY
                for i in range(self.pendings):
                    j = self.pending[i]
                    value = self.job[j].area / self.job[j].weight
                    if value < least:
                        known = False
                        for o in range(jobs):
                            known |= chosen[o] == j
                        if not known:
                            best, least = j, value
                if best < 0:
                    break
                chosen[jobs] = best
                jobs += 1
            if self.rule_job >= 0:
                known = False
                for o in range(jobs):
                    known |= chosen[o] == self.rule_job
                if not known:
                    chosen[jobs] = self.rule_job
                    jobs += 1
        for i in range(jobs):
            j = chosen[i]
            least = INFINITY
            for o in range(self.job[j].options):
                value = self._estimate(j, o)
                if value < least:
                    least, quickest = value, o
            overdue = (isfinite(least)
                       and self.now - self.job[j].arrival > self.idle_costs * (least - self.job[j].best) + self.idle_runs * self.job[j].best)
            may_wait = may_wait and not overdue
            for o in range(self.job[j].options):
                value = self._estimate(j, o)
                if not isfinite(value):
                    continue
                if (starving < 0 and self.runnings and value > self.mask_patience * self.job[j].best
                        and not (j == self.rule_job and o == self.rule_option) and not (overdue and o == quickest)):
                    continue
                self.candidate[self.candidates].job, self.candidate[self.candidates].option = j, o
                self.candidates += 1
        if self.candidates and self.runnings and first < 0 and may_wait:
            self.candidate[self.candidates].job, self.candidate[self.candidates].option = -1, 0
            self.candidates += 1

    cdef void _describe(self) noexcept nogil:
        """Features of every candidate; planner/queue/features.py is the same in Python and says what each means."""
        cdef int i, c, j, o, k, p, ahead, lead = -1, second_job, second_option = 0
        cdef double seconds[CANDIDATES]
        cdef double best[CANDIDATES]
        cdef double scale = self.mean_run, backlog = 0.0, soon = 0.0, later = 0.0, next = INFINITY, busy, value, least = INFINITY
        cdef double free_speed = 0.0, taken, remaining, up, down, own
        cdef double *x
        cdef double shared[9]
        cdef Rule plain
        cdef Placed found
        plain.order, plain.alone, plain.thrift, plain.patience, plain.size, plain.communication, plain.costs = 0, 0.0, 0.0, INFINITY, 0.0, 0.0, 1.0
        plain.speedup = 0.0
        second_job = self._by_rule(&plain, &second_option)
        for i in range(self.pendings):
            backlog += self.job[self.pending[i]].area
        for i in range(self.runnings):
            j = self.running[i]
            k = self.job[j].workers[self.job[j].option]
            remaining = self._remaining(j)
            next = min(next, remaining)
            if remaining <= 0.25 * scale:
                soon += k
            if remaining <= scale:
                later += k
        for i in range(self.n):
            if (self.free >> i) & 1:
                free_speed += self.speed[i]
        shared[0] = <double> self.free_count / self.n
        shared[1] = log(1.0 + self.pendings) / 4.0
        shared[2] = log(1.0 + backlog / (self.n * scale)) / 2.0
        shared[3] = <double> self.runnings / self.n
        shared[4] = _squash(next / scale) if isfinite(next) else 1.0
        shared[5] = soon / self.n
        shared[6] = later / self.n
        shared[7] = min(self.mean_need / max(self.mean_gap * self.n, 1e-12), 2.0) / 2.0
        shared[8] = free_speed / self.total_speed
        for c in range(self.candidates):
            if self.candidate[c].job < 0:
                continue
            j, o = self.candidate[c].job, self.candidate[c].option
            seconds[c] = self._estimate(j, o)
            if seconds[c] / self.job[j].weight < least:
                least, lead = seconds[c] / self.job[j].weight, c
        for c in range(self.candidates):
            best[c] = INFINITY
            for i in range(self.candidates):
                if self.candidate[c].job >= 0 and self.candidate[i].job == self.candidate[c].job:
                    best[c] = min(best[c], seconds[i])
        for c in range(self.candidates):
            x = &self.features[c][0]
            for i in range(9):
                x[i] = shared[i]
            i = lead if self.candidate[c].job < 0 else c  # waiting shows what is given up: the candidate with the least seconds / weight
            j, o = self.candidate[i].job, self.candidate[i].option
            k, value = self.job[j].workers[o], seconds[i]
            found = self._placed(j, o)
            taken = 0.0
            for ahead in range(self.n):
                if (found.nodes >> ahead) & 1:
                    taken += self.speed[ahead]
            own = self.job[j].best / self.job[j].weight
            ahead = 0
            for p in range(self.pendings):
                if self.job[self.pending[p]].best / self.job[self.pending[p]].weight < own:
                    ahead += 1
            up = down = 1.0
            if o + 1 < self.job[j].options:
                up = self._estimate(j, o + 1) / value
                up = up if isfinite(up) else 1.0
            if o > 0:
                down = value / self._estimate(j, o - 1)
                down = down if isfinite(down) and down > 0.0 else 1.0
            x[9] = 1.0 if self.candidate[c].job < 0 else 0.0
            x[10] = _ratio_log(value / scale, 6.0) / 3.0
            x[11] = _ratio_log(value * k / (self.job[j].weight * max(self.mean_need, 1e-12)), 6.0) / 3.0
            x[12] = _ratio_log(value / self.job[j].best, 3.0)
            x[13] = _ratio_log(value / self.job[j].empty[o], 3.0)
            x[14] = <double> k / self.n
            x[15] = <double> k / self.free_count
            x[16] = _ratio_log(self.job[j].weight, 3.0)
            x[17] = _squash((self.now - self.job[j].arrival) / scale)
            x[18] = _squash((self.now - self.job[j].arrival) / self.job[j].best)
            x[19] = found.communication / found.seconds
            x[20] = taken / max(free_speed, 1e-300)
            x[21] = <double> ahead / self.pendings
            x[22] = min(up, 3.0)
            x[23] = min(down, 3.0)
            x[24] = _ratio_log(value / best[i], 3.0)
            x[25] = 1.0 if (self.candidate[c].job == self.rule_job and (self.rule_job < 0 or o == self.rule_option)) else 0.0
            x[26] = 1.0 if (self.candidate[c].job == second_job and (second_job < 0 or o == second_option)) else 0.0
            x[27] = _ratio_log(value / self.job[j].weight / least, 6.0) / 3.0
            x[28] = _ratio_log((next + self.job[j].best) / value, 3.0) if isfinite(next) else 3.0
            x[29] = _squash((self.now - self.job[j].arrival) / self.starvation) if isfinite(self.starvation) else 0.0
            x[30] = _ratio_log(self.job[j].sooner, 3.0)

    cdef void _picture(self) noexcept nogil:
        """Features of nodes and of the oldest pending jobs, for the embedding."""
        cdef int i, j, r
        cdef double scale = self.mean_run
        for i in range(self.n):
            self.node[i][0] = <float> (self.speed[i] * self.n / self.total_speed)
            self.node[i][1] = <float> ((self.free >> i) & 1)
            self.node[i][2] = self.node[i][3] = self.node[i][4] = 0.0
            self.node[i][5] = 1.0
        for r in range(self.runnings):
            j = self.running[r]
            for i in range(self.n):
                if (self.job[j].nodes >> i) & 1:
                    self.node[i][2] = <float> _squash(self._remaining(j) / scale)
                    self.node[i][3] = <float> (self.job[j].communication / self.job[j].seconds)
                    self.node[i][4] = <float> (<double> self.job[j].workers[self.job[j].option] / self.n)
        for i in range(QJ):
            for j in range(QF + 1):
                self.queue[i][j] = 0.0
        for i in range(min(QJ, self.pendings)):
            j = self.pending[i]
            self.queue[i][0] = <float> (_ratio_log(self.job[j].best / scale, 6.0) / 3.0)
            self.queue[i][1] = <float> (_ratio_log(self.job[j].area / max(self.mean_need, 1e-12), 6.0) / 3.0)
            self.queue[i][2] = <float> _squash((self.now - self.job[j].arrival) / scale)
            self.queue[i][3] = <float> _ratio_log(self.job[j].weight, 3.0)
            self.queue[i][4] = <float> (<double> self.job[j].workers[0] / self.n)
            self.queue[i][5] = 1.0

    cdef void _embed(self, float *free, float *held, float *queue) noexcept nogil:
        """Two rounds of messages between nodes, each node's own state and its neighbours' by bandwidth; and the mean of the queue.

        held: (n, W) of every node · free: (W,) mean over the free ones · queue: (W,) mean over pending jobs
        """
        cdef int i, j, f, w, count
        cdef float around[NODES][W]
        cdef float first[NODES][W]
        cdef float *own1 = self.net + BASE
        cdef float *near1 = own1 + NF * W
        cdef float *bias1 = near1 + NF * W
        cdef float *own2 = bias1 + W
        cdef float *near2 = own2 + W * W
        cdef float *bias2 = near2 + W * W
        cdef float *wait = bias2 + W
        cdef float *bias3 = wait + QF * W
        for i in range(self.n):
            for f in range(NF):
                around[i][f] = 0.0
            for j in range(self.n):
                for f in range(NF):
                    around[i][f] += self.near[i * self.n + j] * self.node[j][f]
            for w in range(W):
                first[i][w] = bias1[w]
            for f in range(NF):
                for w in range(W):
                    first[i][w] += self.node[i][f] * own1[f * W + w] + around[i][f] * near1[f * W + w]
            for w in range(W):
                first[i][w] = max(first[i][w], <float> 0.0)
        for i in range(self.n):
            for w in range(W):
                around[i][w] = 0.0
            for j in range(self.n):
                for w in range(W):
                    around[i][w] += self.near[i * self.n + j] * first[j][w]
            for w in range(W):
                held[i * W + w] = bias2[w]
            for f in range(W):
                for w in range(W):
                    held[i * W + w] += first[i][f] * own2[f * W + w] + around[i][f] * near2[f * W + w]
            for w in range(W):
                held[i * W + w] = max(held[i * W + w], <float> 0.0)
        for w in range(W):
            free[w] = queue[w] = 0.0
        for i in range(self.n):
            if (self.free >> i) & 1:
                for w in range(W):
                    free[w] += held[i * W + w] / self.free_count
        count = min(QJ, self.pendings)
        for i in range(count):
            for w in range(W):
                around[0][w] = bias3[w]
                for f in range(QF):
                    around[0][w] += self.queue[i][f] * wait[f * W + w]
                queue[w] += max(around[0][w], <float> 0.0) / count

    cdef void _pooled(self, int c, const float *free, const float *held, const float *queue, float *pooled) noexcept nogil:
        """(3 W,) of one candidate: its nodes' mean (zeros to wait), the free nodes' mean, the queue's."""
        cdef int i, w, k
        cdef uint64_t nodes = self._candidate_nodes(c)
        for w in range(W):
            pooled[w], pooled[W + w], pooled[2 * W + w] = 0.0, free[w], queue[w]
        k = _bits(nodes)
        for i in range(self.n):
            if (nodes >> i) & 1:
                for w in range(W):
                    pooled[w] += held[i * W + w] / k

    cdef uint64_t _candidate_nodes(self, int c) noexcept nogil:
        return self._placed(self.candidate[c].job, self.candidate[c].option).nodes if self.candidate[c].job >= 0 else 0

    cdef void _scores(self, double *scores) noexcept nogil:
        """The network: F-48-48-1 with ReLU, and a linear path beside it; the embedding, where there is one, joins the first layer."""
        cdef int c, i, h
        cdef float free[W]
        cdef float queue[W]
        cdef float held[NODES * W]
        cdef float pooled[3 * W]
        cdef float *w4 = self.net + BASE + GRAPH - 3 * W * H
        if self.embeds:
            self._embed(free, held, queue)
        cdef float first[H]
        cdef float second[H]
        cdef float value
        cdef float *w1 = self.net
        cdef float *b1 = w1 + F * H
        cdef float *w2 = b1 + H
        cdef float *b2 = w2 + H * H
        cdef float *w3 = b2 + H
        cdef float *skip = w3 + H
        for c in range(self.candidates):
            for h in range(H):
                first[h], second[h] = b1[h], b2[h]
            for i in range(F):
                value = <float> self.features[c][i]
                if value != 0.0:
                    for h in range(H):
                        first[h] += value * w1[i * H + h]
            if self.embeds:
                self._pooled(c, free, held, queue, pooled)
                for i in range(3 * W):
                    for h in range(H):
                        first[h] += pooled[i] * w4[i * H + h]
            for i in range(H):
                if first[i] > 0.0:
                    for h in range(H):
                        second[h] += first[i] * w2[i * H + h]
            value = 0.0
            for h in range(H):
                if second[h] > 0.0:
                    value += second[h] * w3[h]
            for i in range(F):
                value += <float> self.features[c][i] * skip[i]
            scores[c] = value

    cdef int _pick(self, const double *scores, bint sample) noexcept nogil:
        """The best candidate, or one drawn by softmax."""
        cdef int c, best = 0
        cdef double total = 0.0, at
        for c in range(self.candidates):
            if scores[c] > scores[best]:
                best = c
        if not sample:
            return best
        for c in range(self.candidates):
            total += exp(scores[c] - scores[best])
        at = total * ((draw(&self.chance) >> 11) * (1.0 / 9007199254740992.0))
        for c in range(self.candidates):
            at -= exp(scores[c] - scores[best])
            if at < 0.0:
                return c
        return best

    cdef bint _is_judged(self) noexcept nogil:
        """Whether the arrivals so far are like those that the agent was judged on; planner/queue/likeness.py."""
        cdef double square = self.mean_gap * self.mean_gap
        cdef double load, variation = MOST_GAP_VARIATION
        if self.seen < self.judged_from or self.starvation < self.judged_bound * self.mean_run:
            return False
        load = self.mean_need / max(self.mean_gap * self.n, 1e-12)
        if square > 0.0:
            variation = min(max(0.0, self.mean_gap_square / square - 1.0), MOST_GAP_VARIATION)
        return self.judged[0] <= load <= self.judged[1] and self.judged[2] <= variation <= self.judged[3]

    cdef int _by_agent(self, bint sample, int *option) noexcept nogil:
        cdef double scores[CANDIDATES]
        cdef int chosen = 0
        self._gather()
        if self.candidates == 0:
            return -1
        if self.candidates > 1:
            self._describe()
            if self.embeds:
                self._picture()
            self._scores(scores)
            chosen = self._pick(scores, sample)
            if self.record:
                self._note_decision(chosen)
        option[0] = self.candidate[chosen].option
        return self.candidate[chosen].job

    cdef bint _row_space(self) noexcept nogil:
        """Make room for one more decision of the record; False without memory, and what there is stays as it is."""
        cdef size_t room
        if self.row_count + self.candidates > self.row_room:
            room = 2 * self.row_room + 4096
            if not _grown(<void **> &self.rows, room * F * sizeof(float)):
                return False
            if self.embeds and not _grown(<void **> &self.masks, room * sizeof(uint64_t)):
                return False
            self.row_room = room
        if self.decision_count + 1 > self.decision_room:
            room = 2 * self.decision_room + 512
            if not (_grown(<void **> &self.counts, room * sizeof(int32_t)) and _grown(<void **> &self.actions, room * sizeof(int32_t))
                    and _grown(<void **> &self.times, room * sizeof(double))):
                return False
            if self.embeds and not (_grown(<void **> &self.node_rows, room * self.n * NF * sizeof(float))
                                    and _grown(<void **> &self.queue_rows, room * QJ * (QF + 1) * sizeof(float))):
                return False
            self.decision_room = room
        return True

    cdef void _note_decision(self, int action) noexcept nogil:
        cdef int c, i
        if not self._row_space():
            self.out_of_memory = True
            return
        for c in range(self.candidates):
            for i in range(F):
                self.rows[(self.row_count + c) * F + i] = <float> self.features[c][i]
            if self.embeds:
                self.masks[self.row_count + c] = self._candidate_nodes(c)
        if self.embeds:
            memcpy(self.node_rows + self.decision_count * self.n * NF, &self.node[0][0], self.n * NF * sizeof(float))
            memcpy(self.queue_rows + self.decision_count * QJ * (QF + 1), &self.queue[0][0], QJ * (QF + 1) * sizeof(float))
        self.row_count += self.candidates
        self.counts[self.decision_count], self.actions[self.decision_count] = self.candidates, action
        self.times[self.decision_count] = self.now
        self.decision_count += 1

    cdef void _note_event(self, double at) noexcept nogil:
        """The cost so far at time `at`."""
        cdef size_t room
        if self.event_count + 1 > self.event_room:
            room = 2 * self.event_room + 1024
            if not (_grown(<void **> &self.event_time, room * sizeof(double)) and _grown(<void **> &self.event_cost, room * sizeof(double))
                    and _grown(<void **> &self.event_state, 3 * room * sizeof(double))):
                self.out_of_memory = True
                return
            self.event_room = room
        self.event_time[self.event_count], self.event_cost[self.event_count] = at, self.cost
        self.event_count += 1

    cdef void _note_state(self) noexcept nogil:
        """What the future of the last event's moment depends on most."""
        cdef int i
        cdef Job *job
        cdef double *state
        if self.event_count == 0:
            return
        state = self.event_state + 3 * (self.event_count - 1)
        state[0] = state[1] = state[2] = 0.0
        for i in range(self.pendings):
            job = &self.job[self.pending[i]]
            state[0] += job.weight
            state[1] += job.area
            state[2] += job.weight * job.best
        for i in range(self.runnings):
            job = &self.job[self.running[i]]
            state[0] += job.weight
            state[1] += self._remaining(self.running[i]) * job.workers[job.option]

    cdef int _choose(self, int policy, double alpha, bint sample, int *option) noexcept nogil:
        """The job that starts now, -1: none."""
        cdef int late
        if self.pendings == 0 or self.free_count == 0:
            return -1
        if policy == AGENT:
            if self._is_judged():
                return self._by_agent(sample, option)
            policy = INDEX
        if policy == INDEX:
            alpha = self.rule.alone if self.pendings == 1 else self.rule.thrift
        if self._starving() >= 0:
            return self._starve_first(alpha, option)
        late = self._late_start(alpha, option)
        if late >= 0:
            return late
        if policy == INDEX:
            self._find_waits(&self.rule, False)
            return self._by_rule(&self.rule, option)
        if policy == MARGINAL:
            return self._marginal(option)
        if policy == MAXMIN:
            return self._maxmin(option)
        return self._fifo(alpha, policy == EASY, option)

    def set_rule(self, int order, double alone, double thrift, double patience, double size, double communication, double costs,
                 double speedup, double mask_patience):
        """Parameters of the index rule, and the agent's own patience."""
        self.rule = Rule(order=order, alone=alone, thrift=thrift, patience=patience, size=size, communication=communication, costs=costs,
                         speedup=speedup)
        self.mask_patience = mask_patience

    def set_idle_bound(self, double costs, double runs):
        """A job that fits ends the agent's waiting after `costs` times what poor nodes cost it and `runs` of its own best run; inf: never."""
        self.idle_costs, self.idle_runs = costs, runs

    def set_strict_bounds(self, double bounds):
        """From how many starvation bounds on no other job starts before the one that waits longest; from one on it goes first on good nodes."""
        self.strict_bounds = bounds

    def set_bounded_patience(self, bint bounded):
        """Whether the rule waits for better nodes only as long as poor ones would cost the job."""
        self.bounded_patience = bounded

    def set_judged(self, int arrivals, double least_load, double most_load, double least_variation, double most_variation,
                   double least_bound_runs):
        """When the agent decides instead of the rule, in whole runs: by arrivals, load, variation of the gaps and starvation bound so far."""
        self.judged_from, self.judged_bound = arrivals, least_bound_runs
        self.judged[0], self.judged[1], self.judged[2], self.judged[3] = least_load, most_load, least_variation, most_variation

    def set_wait_price(self, double price):
        """What a second of waiting adds to the cost for each second that the job has waited before; 0: waiting costs its weight alone."""
        self.wait_price = price

    def set_network(self, const float[::1] weights):
        """F x 48, 48, 48 x 48, 48, 48, F numbers one after the other; with GRAPH more, the embedding's. For a whole run, not within one."""
        cdef Py_ssize_t i
        if len(weights) != BASE and len(weights) != BASE + GRAPH:
            raise ValueError("not the number of weights of this network")
        if (len(weights) > BASE) != self.embeds:  # what was recorded has another shape
            self.row_room = self.decision_room = self.row_count = self.decision_count = 0
        self.embeds = len(weights) > BASE
        for i in range(len(weights)):
            self.net[i] = weights[i]

    def run(self, int policy, double alpha=0.0, bint sample=False, uint64_t seed=0, bint record=False):
        """From the first arrival to the last completion; -> (start, finish, communication, seconds, workers), each (J,)."""
        cdef int j, option = 0
        with nogil:
            self.record = record
            self._begin(seed)
            while self._step():
                if self.record:
                    self._note_state()
                while True:
                    self.decisions += 1
                    j = self._choose(policy, alpha, sample, &option)
                    if j < 0:
                        break
                    self._launch(j, option)
            self.record = False
        if self.out_of_memory:
            raise MemoryError("the record of a run does not fit into memory")
        if self.pendings:
            raise RuntimeError("jobs were left in the queue")
        return self.outcome()

    def begin(self, uint64_t seed=0):
        """Before the first arrival; then `advance`."""
        self.record = False
        self._begin(seed)

    def advance(self):
        """On to the next decision with more than one candidate; those with one are taken on the way. False at the end."""
        cdef bint found
        with nogil:
            found = self._advance()
        return found

    cdef bint _advance(self) noexcept nogil:
        while self.open_decision or self._step():
            self.candidates = 0
            if self.pendings and self.free_count:
                self._gather()
            if self.candidates > 1:
                self._describe()
                self._picture()
                return True
            self.open_decision = self.candidates == 1
            if self.open_decision:
                self._launch(self.candidate[0].job, self.candidate[0].option)
        return False

    def act(self, int chosen):
        """Take one of the candidates. Raises IndexError for one that is not there."""
        cdef int j
        if chosen < 0 or chosen >= self.candidates:
            raise IndexError("no such candidate")
        j = self.candidate[chosen].job
        self.decisions += 1
        self.open_decision = j >= 0
        if j >= 0:
            self._launch(j, self.candidate[chosen].option)

    def observed(self):
        """Of the decision at hand: features (C, F) float64, job of each candidate (C,) with -1 for waiting, its workers (C,)."""
        cdef int c, i
        rows, jobs, counts = np.zeros((self.candidates, F)), np.zeros(self.candidates, dtype=np.int64), np.zeros(self.candidates, dtype=np.int64)
        cdef double[:, ::1] table = rows
        for c in range(self.candidates):
            for i in range(F):
                table[c, i] = self.features[c][i]
            jobs[c] = self.candidate[c].job
            counts[c] = self.job[self.candidate[c].job].workers[self.candidate[c].option] if self.candidate[c].job >= 0 else 0
        return rows, jobs, counts

    def agent_scores(self):
        """What the network thinks of the candidates of the decision at hand, (C,)."""
        cdef double scores[CANDIDATES]
        cdef int c
        self._scores(scores)
        return np.array([scores[c] for c in range(self.candidates)])

    def rule_choice(self):
        """(job, workers) that the rule would start now; (-1, 0) to wait."""
        cdef int workers = self.job[self.rule_job].workers[self.rule_option] if self.rule_job >= 0 else 0
        return self.rule_job, workers

    def view(self):
        """What the policies see now, as plain Python: pending (job, weight, waited, options), running (job, workers, remaining), cluster.

        An option: workers, seconds now, seconds on the empty cluster, communication seconds, part of the cluster's speed. After the options
        of a pending job its starts at the next ends: wait, freed nodes, seconds, communication seconds.
        """
        cdef int i, j, o, node
        cdef Placed found
        cdef double taken, free_speed = 0.0
        pending = []
        for i in range(self.pendings):
            j = self.pending[i]
            options = []
            for o in range(self.job[j].options):
                taken = 0.0
                if isfinite(self._estimate(j, o)):
                    found = self._placed(j, o)
                    for node in range(self.n):
                        if (found.nodes >> node) & 1:
                            taken += self.speed[node]
                    share = found.communication / found.seconds
                else:
                    share = 0.0
                seconds = self._estimate(j, o)
                options.append((self.job[j].workers[o], seconds, self.job[j].empty[o], share * seconds if share else 0.0, taken / self.total_speed))
            pending.append((j, self.job[j].weight, self.now - self.job[j].arrival, options, self._later_starts(j)))
        running = [(self.running[i], self.job[self.running[i]].workers[self.job[self.running[i]].option], self._remaining(self.running[i]))
                   for i in range(self.runnings)]
        for node in range(self.n):
            if (self.free >> node) & 1:
                free_speed += self.speed[node]
        cluster = (self.free_count, self.n, free_speed / self.total_speed, self.seen, self.mean_gap, self.mean_run, self.mean_need)
        return pending, running, cluster, self.starvation

    def _later_starts(self, int j):
        """(wait, freed nodes, seconds, communication seconds) of j at each of the next ends with each worker count that fits then."""
        cdef uint64_t free = self.free
        cdef int count = self.free_count, i, o
        cdef Placed found
        starts = []
        ends = sorted((self._remaining(self.running[i]), i) for i in range(self.runnings))
        for wait, i in ends[:LATER_ENDS]:
            self.free |= self.job[self.running[i]].nodes
            self.free_count += self.job[self.running[i]].workers[self.job[self.running[i]].option]
            for o in range(self.job[j].options):
                seconds = self._estimate(j, o)
                if isfinite(seconds):
                    found = self._placed(j, o)
                    starts.append((wait, self.free_count - count, seconds, found.communication / found.seconds * seconds))
        self.free, self.free_count = free, count
        return starts

    def outcome(self):
        """(start, finish, communication, seconds, workers) of every job, each (J,)."""
        cdef int j
        result = np.zeros((5, self.jobs))
        cdef double[:, ::1] table = result
        for j in range(self.jobs):
            table[0, j], table[1, j] = self.job[j].start, self.job[j].finish
            table[2, j], table[3, j] = self.job[j].communication, self.job[j].seconds
            table[4, j] = self.job[j].workers[self.job[j].option]
        return result

    def pictures(self):
        """What the embedding saw in the last recorded run: nodes (D, n, 6), queue (D, 16, 6), candidates' nodes (R, n), nearness (n, n)."""
        cdef size_t row
        cdef int i
        count, n = self.decision_count, self.n
        if not self.embeds or count == 0:
            raise ValueError("the last run had no embedding, or nothing was recorded")
        held = np.zeros((self.row_count, n), dtype=np.float32)
        cdef float[:, ::1] table = held
        for row in range(self.row_count):
            for i in range(self.n):
                table[row, i] = <float> ((self.masks[row] >> i) & 1)
        nodes = np.asarray(<float[:count * n * NF]> self.node_rows).copy().reshape(count, n, NF)
        queue = np.asarray(<float[:count * QJ * (QF + 1)]> self.queue_rows).copy().reshape(count, QJ, QF + 1)
        return nodes, queue, held, np.asarray(<float[:n * n]> self.near).copy().reshape(n, n)

    def nodes(self):
        """Nodes of every job, ascending."""
        cdef int i, j
        return [[i for i in range(self.n) if (self.job[j].nodes >> i) & 1] for j in range(self.jobs)]

    def jobs_table(self):
        """(arrival, weight, best seconds on the empty cluster, its least area) of every job, each (J,); true, not estimated."""
        cdef int j
        result = np.zeros((4, self.jobs))
        cdef double[:, ::1] table = result
        for j in range(self.jobs):
            table[0, j], table[1, j] = self.job[j].arrival, self.job[j].weight
            table[2, j], table[3, j] = self.job[j].best / self.job[j].noise, self.job[j].area / self.job[j].noise
        return result

    def recorded(self):
        """Of the last recorded run: features (R, F), candidates (D,), actions (D,), times (D,), event times (E,), cost so far (E,), state (E, 3)."""
        return (
            np.asarray(<float[:self.row_count, :F]> self.rows).copy() if self.row_count else np.zeros((0, F), dtype=np.float32),
            np.asarray(<int32_t[:self.decision_count]> self.counts).copy() if self.decision_count else np.zeros(0, dtype=np.int32),
            np.asarray(<int32_t[:self.decision_count]> self.actions).copy() if self.decision_count else np.zeros(0, dtype=np.int32),
            np.asarray(<double[:self.decision_count]> self.times).copy() if self.decision_count else np.zeros(0),
            np.asarray(<double[:self.event_count]> self.event_time).copy() if self.event_count else np.zeros(0),
            np.asarray(<double[:self.event_count]> self.event_cost).copy() if self.event_count else np.zeros(0),
            np.asarray(<double[:self.event_count, :3]> self.event_state).copy() if self.event_count else np.zeros((0, 3)),
        )
