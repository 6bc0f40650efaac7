"""A judge of rounds: every job once, no pool over its GPUs, no job moved that may not move. It shares no code with the policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hyperscale.planner.rounds.round_types import GpuPool, RoundGrant, RoundJob, RoundSettings


def unsound_round(
    grants: Sequence[RoundGrant], jobs: Sequence[RoundJob], pools: Sequence[GpuPool], settings: RoundSettings
) -> tuple[str, ...]:
    """Sentences that say what is wrong with an answer; empty when it may be carried out."""
    if wrong := _not_once(grants, jobs):
        return tuple(wrong)
    by_key = {job.key: job for job in jobs}
    for grant in grants:
        wrong += _unsound_grant(grant, by_key[grant.key], settings)
    wrong += _overfull(grants, by_key, pools)
    changes = sum(by_key[grant.key].current not in (None, grant.option) for grant in grants)
    if settings.max_changes is not None and changes > settings.max_changes:
        wrong.append(f"{changes} running jobs change, at most {settings.max_changes} may")
    return tuple(wrong)


def _not_once(grants: Sequence[RoundGrant], jobs: Sequence[RoundJob]) -> list[str]:
    asked, answered = Counter(job.key for job in jobs), Counter(grant.key for grant in grants)
    keys = sorted(key for key in asked.keys() | answered.keys() if asked[key] != answered[key])
    return [f"{key}: asked {asked[key]} times, answered {answered[key]} times" for key in keys]


def _overfull(grants: Sequence[RoundGrant], jobs: Mapping[str, RoundJob], pools: Sequence[GpuPool]) -> list[str]:
    used: Counter[int] = Counter()
    for grant in grants:
        options = jobs[grant.key].options
        if grant.option is not None and 0 <= grant.option < len(options):
            used[options[grant.option].pool] += options[grant.option].gpus
    over = [(pool, used[index]) for index, pool in enumerate(pools) if used[index] > pool.gpus]
    return [f"pool {pool.name}: {gpus} GPUs are given, it has {pool.gpus}" for pool, gpus in over]


def _unsound_grant(grant: RoundGrant, job: RoundJob, settings: RoundSettings) -> list[str]:
    wrong = []
    if grant.option is not None and not 0 <= grant.option < len(job.options):
        wrong.append(f"{job.key}: option {grant.option} is not one of its {len(job.options)}")
    if grant.changes != (grant.option != job.current):
        wrong.append(f"{job.key}: says changes {grant.changes}")
    if job.current is not None and grant.option != job.current:
        if not job.movable:
            wrong.append(f"{job.key}: changes, and may not")
        if job.unchanged_seconds < settings.hold_seconds:
            wrong.append(f"{job.key}: changes {job.unchanged_seconds:g} s after its last change")
    return wrong
