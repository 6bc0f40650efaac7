"""A brute-force twin in SimPy, written apart from the compiled one: it shares the types of a job, and neither code nor random numbers.

Every place of the job is a process that lives, fails and takes the next ready node; the job is a process that they interrupt.
Lives of aged nodes are drawn again until they are long enough, and a lemon with factor 3 lives as long as the shortest of three lives.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator
from typing import Any

import simpy

from hyperscale.evaluate.twin.twin_types import JobRisk, LawFamily, LifeLaw, NodeRisk

Steps = Generator[simpy.Event, Any, None]


def end_seconds(job: JobRisk, seed: int, horizon_seconds: float) -> float:
    """When one future of the job ends; +inf past the horizon."""
    environment = simpy.Environment()
    run = _Run(environment, job, random.Random(seed))  # noqa: S311 - a simulation
    environment.run(until=simpy.AnyOf(environment, [run.process, environment.timeout(horizon_seconds)]))
    return environment.now if run.finished else math.inf


def life(law: LifeLaw, age: float, lemon_factor: float, dice: random.Random) -> float:
    """What is left of a life after `age`; lemon factors are whole numbers here."""
    return min(_longer_than(law, age, dice) for _ in range(round(lemon_factor))) - age


def _longer_than(law: LifeLaw, age: float, dice: random.Random) -> float:
    while True:
        if law.family == LawFamily.EXPONENTIAL:
            whole = dice.expovariate(1.0 / law.scale_seconds)
        elif law.family == LawFamily.WEIBULL:
            whole = dice.weibullvariate(law.scale_seconds, law.shape)
        elif law.family == LawFamily.LOGNORMAL:
            whole = dice.lognormvariate(math.log(law.scale_seconds), law.shape)
        elif law.family == LawFamily.GAMMA:
            whole = dice.gammavariate(law.shape, law.scale_seconds)
        else:
            return law.scale_seconds
        if whole >= age:
            return whole


class _Run:
    """One future."""

    def __init__(self, environment: simpy.Environment, job: JobRisk, dice: random.Random) -> None:
        self.environment, self.job, self.dice = environment, job, dice
        self.finished = False
        self.missing = 0
        self.saved = self.away_until = 0.0
        self.complete = environment.event().succeed()
        self.members = {node.name: node for node in job.nodes}
        self.ready = simpy.Store(environment)
        for spare in job.spares:
            self.ready.put((spare, spare.age_seconds))
        self.process = environment.process(self.train())
        for node in job.nodes:
            environment.process(self.place(node))

    def place(self, node: NodeRisk) -> Steps:
        """A place of the job: its node lives, fails, and the next ready node follows."""
        age = node.age_seconds
        while True:
            lives = [life(law, age, node.lemon_factor, self.dice) for law in node.laws.values()]
            yield self.environment.timeout(min(lives, default=1e18))
            if self.missing == 0:
                self.complete = self.environment.event()
            self.missing += 1
            del self.members[node.name]
            self.environment.process(self.repair(node))
            if self.process.is_alive:
                self.process.interrupt("failure")
            node, age = yield self.ready.get()
            self.members[node.name] = node
            self.missing -= 1
            if self.missing == 0:
                self.complete.succeed()

    def repair(self, node: NodeRisk) -> Steps:
        """A failed node is repaired and waits for a place, as a new unit."""
        yield self.environment.timeout(life(node.repair, 0.0, 1.0, self.dice))
        self.ready.put((node, 0.0))

    def train(self) -> Steps:
        """The job: gather the nodes, restart, work; all over from the last checkpoint when something interrupts."""
        starts = False
        while not self.finished:
            preemption = None
            try:
                yield from self.gather()
                if self.job.preemption is not None:
                    preemption = self.environment.process(self.preempt(self.environment.active_process))
                if starts:
                    yield self.environment.timeout(self.job.restart_seconds)
                yield from self.segments()
            except simpy.Interrupt as interrupt:
                starts = True
                if interrupt.cause == "preemption" and self.job.preemption is not None:
                    self.away_until = self.environment.now + life(self.job.preemption.length, 0.0, 1.0, self.dice)
                elif preemption is not None and preemption.is_alive:
                    preemption.interrupt()

    def gather(self) -> Steps:
        """Wait until no preemption lasts and every place has a node."""
        while self.environment.now < self.away_until or self.missing:
            if self.environment.now < self.away_until:
                yield self.environment.timeout(self.away_until - self.environment.now)
            if self.missing:
                yield self.complete

    def segments(self) -> Steps:
        """Work and write checkpoints to the end, the last one after all work."""
        while True:
            piece = min(self.job.checkpoint_interval_seconds, self.job.work_seconds - self.saved)
            yield from self.work(piece)
            yield self.environment.timeout(self.job.write_seconds)
            self.saved += piece
            if self.saved >= self.job.work_seconds * (1.0 - 1e-12):
                self.finished = True
                return

    def preempt(self, training: Any) -> Steps:  # noqa: ANN401 - SimPy's process
        """Take the job's nodes away after a while, unless something else stops it earlier."""
        assert self.job.preemption is not None  # noqa: S101 - the caller asked
        try:
            yield self.environment.timeout(self.dice.expovariate(self.job.preemption.per_second))
        except simpy.Interrupt:
            return
        if training.is_alive:
            training.interrupt("preemption")

    def work(self, left: float) -> Steps:
        """Work at the pace of the slowest node, in pieces within which the pace is the same."""
        while left > 0.0:
            now = self.environment.now
            periods = [period for node in self.members.values() for period in node.slowdowns]
            factor = max([1.0, *(p.factor for p in periods if p.start_seconds <= now < p.end_seconds)])
            changes = [moment - now for p in periods for moment in (p.start_seconds, p.end_seconds) if moment > now]
            duration = min([left * factor, *changes])
            yield self.environment.timeout(duration)
            left = 0.0 if duration == left * factor else left - duration / factor
