"""A rule of a contradiction as a sentence: what it needs, and what the nodes that the other rules leave have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hyperscale.evaluate.verify.job_rules import JobRules, Rule

MAX_FIGURES: Final = 8
"""Nodes whose figures a sentence lists."""


def statement(job: JobRules, rule: Rule, together: Sequence[Rule]) -> str:
    """Return the sentence of one rule of a contradiction; figures of nodes are of those that the rules together leave open."""
    if rule.words:
        allowed = sum(1 for room in rule.room if room)
        return f"{allowed} of {_count(len(rule.room), 'node')} {rule.words}"
    left = _left(job, together)
    if rule.name.startswith("resource "):
        return _resource(job, rule, left)
    return {
        "workers": lambda: _workers(job),
        "workers allowed": lambda: _allowed(job),
        "partitions": lambda: f"{job.limits.partitions_asked} partitions are no multiple of the ranks of any such number of workers",
        "pins": lambda: f"worker {max(index for index, _ in job.limits.pins)} runs already and must stay",
        "free gpus": lambda: _free_gpus(job, rule, left),
        "apart": lambda: f"the workers keep apart, {_count(sum(1 for at in left if rule.room[at]), 'node')} can take one each",
        "quota": lambda: f"the namespace may take {job.limits.quota_gpus} GPUs more",
        "topology": lambda: _topology(job, rule, left),
        "dead links": lambda: _dead(job, rule, left),
        "reach": lambda: f"the nodes form {len({rule.groups[at] for at in left})} groups that cannot reach each other",
    }[rule.name]()


def _left(job: JobRules, together: Sequence[Rule]) -> list[int]:
    """Nodes that no rule with words closes."""
    closing = [rule for rule in together if rule.words]
    return [at for at in range(len(job.nodes)) if all(rule.room[at] for rule in closing)]


def _workers(job: JobRules) -> str:
    each, running = job.limits.gpus_each, job.workers - job.arriving
    needs = "needs" if job.arriving == 1 else "each need"
    stay = f", {running} more run already" if running else ""
    return f"{_count(job.arriving, 'worker')} of {_count(each, 'GPU')} {needs} {job.arriving * each} GPUs{stay}"


def _allowed(job: JobRules) -> str:
    limits = job.limits
    return f"the job allows {limits.workers_min} to {limits.workers_max} workers of {_count(limits.gpus_each, 'GPU')}"


def _free_gpus(job: JobRules, rule: Rule, left: Sequence[int]) -> str:
    free = [job.nodes[at].gpus for at in left]
    room = sum(rule.room[at] for at in left)
    few = f" ({' + '.join(map(str, free))})" if 1 < len(free) <= MAX_FIGURES else ""
    have = "has" if len(left) == 1 else "have"
    return f"{_nodes(job, left)} {have} {sum(free)} GPUs free{few}, room for {_count(room, 'worker')}"


def _resource(job: JobRules, rule: Rule, left: Sequence[int]) -> str:
    name = rule.name.removeprefix("resource ")
    at = [each for each, _ in job.limits.resources].index(name)
    each, scale = job.limits.amounts_each[at], job.limits.resources[at][1]
    room = sum(min(job.arriving, rule.room[node]) for node in left)
    have = "has" if len(left) == 1 else "have"
    return f"a worker requests {_amount(name, each, scale)}, {_nodes(job, left)} {have} room for {_count(room, 'worker')}"


def _nodes(job: JobRules, left: Sequence[int]) -> str:
    """The nodes that other rules leave."""
    return f"the {_count(len(left), 'node')}{' left' if len(left) < len(job.nodes) else ''}"


def _amount(name: str, amount: int, scale: int) -> str:
    return f"{amount / 2**30:.4g} GiB of {name}" if scale == 1 else f"{amount / scale:g} {name}"


def _topology(job: JobRules, rule: Rule, left: Sequence[int]) -> str:
    gpus: dict[int, int] = {}
    for at in left:
        if rule.room[at]:
            gpus[rule.groups[at]] = gpus.get(rule.groups[at], 0) + job.nodes[at].gpus
    largest = max(gpus.values(), default=0)
    return f"all workers must be in one of {_count(len(gpus), 'domain')} of {job.limits.topology_key}, the largest has {largest} GPUs free"


def _dead(job: JobRules, rule: Rule, left: Sequence[int]) -> str:
    inside = set(left)
    pairs = [pair for pair in rule.apart if set(pair) <= inside]
    names = ", ".join(f"{job.nodes[one].name} to {job.nodes[other].name}" for one, other in pairs[:MAX_FIGURES])
    return f"{_count(len(pairs), 'pair')} of nodes {'has' if len(pairs) == 1 else 'have'} a dead link ({names})"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
