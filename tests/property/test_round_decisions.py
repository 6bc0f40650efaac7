"""What holds for every round, whatever the jobs and pools."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from hyperscale.planner.rounds.round_check import unsound_round
from hyperscale.planner.rounds.round_policy import next_round
from hyperscale.planner.rounds.round_solver import assign
from hyperscale.planner.rounds.round_types import GpuOption, GpuPool, RoundJob, RoundSettings

SIZES = (1, 2, 4, 8)


def _job(key: str, rng: np.random.Generator, free: list[int]) -> RoundJob:
    """A job that may hold some of what is `free`, by pool; `free` changes."""
    scaling = rng.uniform(0.2, 1.0)
    offered = [(pool, size) for pool in range(len(free)) for size in SIZES if rng.random() < 0.7]
    options = tuple(GpuOption(pool, size, float(rng.uniform(0.0, 3.0) * size**scaling)) for pool, size in offered)
    fitting = [index for index, option in enumerate(options) if option.gpus <= free[option.pool]]
    current = int(rng.choice(fitting)) if fitting and rng.random() < 0.6 else None
    if current is not None:
        free[options[current].pool] -= options[current].gpus
    return RoundJob(
        key,
        options,
        current,
        attained=float(rng.exponential(5000.0)),
        remaining=float(rng.exponential(5000.0)) if rng.random() < 0.3 else None,
        restart_seconds=float(rng.uniform(0.0, 300.0)),
        unchanged_seconds=float(rng.uniform(0.0, 600.0)),
        movable=bool(rng.random() < 0.8),
    )


@st.composite
def questions(draw: st.DrawFn) -> tuple[tuple[RoundJob, ...], tuple[GpuPool, ...], RoundSettings]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pools = tuple(GpuPool(f"pool-{index}", int(rng.integers(1, 25))) for index in range(draw(st.integers(1, 3))))
    free = [pool.gpus for pool in pools]
    jobs = [_job(f"a/{number}", rng, free) for number in range(draw(st.integers(0, 9)))]
    bound = draw(st.one_of(st.none(), st.integers(0, 3)))
    return tuple(jobs), pools, RoundSettings(max_changes=bound, curve=draw(st.sampled_from((-0.5, 0.0, 1.0))))


@given(questions())
@settings(max_examples=150, deadline=None)
def test_every_answer_keeps_capacity_hold_down_the_churn_bound_and_what_may_not_move(
    question: tuple[tuple[RoundJob, ...], tuple[GpuPool, ...], RoundSettings],
) -> None:
    jobs, pools, terms = question
    assert unsound_round(next_round(jobs, pools, terms), jobs, pools, terms) == ()


@given(questions(), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_same_question_in_any_order_gets_the_same_bytes(
    question: tuple[tuple[RoundJob, ...], tuple[GpuPool, ...], RoundSettings], shuffle: object
) -> None:
    jobs, pools, terms = question
    mixed = list(jobs)
    shuffle.shuffle(mixed)  # type: ignore[attr-defined]
    assert msgspec.json.encode(next_round(mixed, pools, terms)) == msgspec.json.encode(next_round(jobs, pools, terms))


@given(questions())
@settings(max_examples=50, deadline=None)
def test_asked_again_after_its_own_answer_it_changes_no_running_job(
    question: tuple[tuple[RoundJob, ...], tuple[GpuPool, ...], RoundSettings],
) -> None:
    jobs, pools, terms = question
    answer = {grant.key: grant for grant in next_round(jobs, pools, terms)}
    after = [
        msgspec.structs.replace(job, current=answer[job.key].option, unchanged_seconds=0.0 if answer[job.key].changes else 1e6)
        for job in jobs
    ]
    again = next_round(after, pools, terms)
    changed = {job.key for job in after if answer[job.key].changes and job.current is not None}
    assert not any(grant.changes for grant in again if grant.key in changed)


@given(st.integers(0, 2**32 - 1), st.one_of(st.integers(1, 12), st.just(60)))
@settings(max_examples=30, deadline=None)
def test_the_assignment_is_worth_what_the_integer_program_finds(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    pools = np.array([0] + [pool for pool in range(2) for _ in SIZES])
    gpus = np.array([0, *SIZES, *SIZES])
    capacity = rng.integers(2, 20, 2)
    speeds, scaling = rng.uniform(0.5, 3.0, (count, 2)), rng.uniform(0.2, 1.0, count)
    values = np.zeros((count, len(pools)))
    values[:, 1:] = speeds[:, pools[1:]] * gpus[1:] ** scaling[:, None] * rng.lognormal(0.0, 1.0, count)[:, None]
    choice = assign(values, pools, gpus, capacity)
    used = np.bincount(pools[choice], weights=gpus[choice], minlength=2)
    assert (used <= capacity).all()
    rows = [np.kron(np.eye(count), np.ones(len(pools)))]
    rows += [np.tile(np.where(pools == pool, gpus, 0), count)[None, :] for pool in range(2)]
    limits = np.concatenate([np.ones(count), capacity])
    solved = milp(-values.ravel(), constraints=LinearConstraint(np.concatenate(rows), -np.inf, limits), integrality=1, bounds=Bounds(0, 1))
    assert values[np.arange(count), choice].sum() >= 0.9999 * -solved.fun - 1e-9
