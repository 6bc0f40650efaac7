"""The replay simulator, Gavel's policies in it, and the judge of step times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks import taught
from benchmarks.peers import gavel as peers
from benchmarks.replay import Cluster, Job, Policy, Running, place, replay
from benchmarks.suites import gavel, pollux
from hyperscale.cli.history.placements import read_table
from hyperscale.model.history.step_curves import Step

CLUSTER = Cluster((4, 4))


def job(number: int, *, gpus: int = 1, steps: float = 3600.0, packed: tuple[float, ...] = (0.5, 1.0), arrival: float = 0.0) -> Job:
    return Job(number, arrival, gpus, steps, 1.0, packed, tuple(speed / 2 for speed in packed))


@pytest.mark.parametrize("policy", gavel.policies(), ids=lambda policy: policy.name)
def test_every_policy_ends_a_trace_and_no_job_beats_its_fastest_type(policy: Policy) -> None:
    jobs = [job(number, gpus=2 ** (number % 3), steps=600.0 * (number + 1), arrival=200.0 * number) for number in range(12)]
    outcome = replay(jobs, CLUSTER, policy)
    assert sorted(outcome.finished) == list(range(12))
    for one, seconds in zip(jobs, outcome.completion(jobs), strict=True):
        assert seconds >= one.best_seconds


def test_a_job_alone_takes_its_time_and_one_start() -> None:
    outcome = replay([job(0)], CLUSTER, peers.Ordered("first", "first come"))
    assert outcome.finished == {0: pytest.approx(3630.0)}
    assert outcome.restarts == 1


def test_an_arrival_inside_a_round_waits_for_the_next() -> None:
    outcome = replay([job(0, steps=100.0, arrival=361.0)], CLUSTER, peers.Ordered("first", "first come"))
    assert outcome.finished == {0: pytest.approx(720.0 + 130.0)}


def test_jobs_that_stay_are_spread_and_jobs_that_may_move_are_packed() -> None:
    cluster = Cluster((8, 0))
    jobs = {0: job(0, gpus=2), 1: job(1, gpus=2), 2: job(2, gpus=4)}
    running = {0: Running(0, 2, (0, 0)), 1: Running(0, 2, (1, 1))}
    stay = place({0: 0, 1: 0, 2: 0}, jobs, running, cluster, may_move=False)
    move = place({0: 0, 1: 0, 2: 0}, jobs, running, cluster, may_move=True)
    assert stay[2].is_spread
    assert stay[2].speed(jobs[2]) == 0.25
    assert not any(run.is_spread for run in move.values())


def test_more_gpus_than_there_are_is_an_error_of_the_policy() -> None:
    with pytest.raises(ValueError, match="more GPUs"):
        place({0: 0, 1: 0}, {0: job(0, gpus=4), 1: job(1, gpus=1)}, {}, CLUSTER, may_move=True)


def test_a_policy_that_starves_a_job_is_named() -> None:
    class Idle:
        name = "idle"
        packs = True

        def decide(
            self, now: float, jobs: Sequence[Job], left: Mapping[int, float], running: dict[int, Running], cluster: Cluster
        ) -> dict[int, int]:
            return {}

    with pytest.raises(RuntimeError, match="idle: 1 jobs"):
        replay([job(0)], CLUSTER, Idle())


def test_max_min_divides_one_type_evenly() -> None:
    cluster = Cluster((4,))
    shares = peers.max_min([job(0, gpus=4, packed=(1.0,)), job(1, gpus=4, packed=(9.0,))], {}, cluster)
    assert shares[:, 0] == pytest.approx([0.5, 0.5])


def test_max_min_gives_the_fast_type_to_the_job_that_gains_most() -> None:
    jobs = [job(0, gpus=4, packed=(1.0, 1.1)), job(1, gpus=4, packed=(1.0, 8.0))]
    shares = peers.max_min_then_most(jobs, {}, CLUSTER)
    assert shares[1, 1] > shares[0, 1]


def test_the_rounds_serve_whoever_is_behind_its_share() -> None:
    cluster = Cluster((4,))
    jobs = [job(number, gpus=4, steps=36000.0, packed=(1.0,)) for number in range(2)]
    policy = peers.Rounds("Gavel", peers.max_min, fills=False)
    served = [next(iter(policy.decide(360.0 * count, jobs, {0: 1.0, 1: 1.0}, {}, cluster))) for count in range(20)]
    assert served.count(0) == 10


def test_seed_zero_is_the_trace_and_others_keep_its_jobs_and_times() -> None:
    jobs = [job(number, arrival=10.0 * number, steps=100.0 + number) for number in range(6)]
    assert gavel.permuted(jobs, 1.0, 0) == jobs
    other = gavel.permuted(jobs, 0.5, 3)
    assert sorted(one.number for one in other) == list(range(6))
    assert sorted(one.arrival for one in other) == [5.0 * number for number in range(6)]


def rows_of(noise: float) -> list[Step]:
    rng = np.random.default_rng(1)
    order = [(1,), (2,), (1, 2), (2, 1), (1, 3), (3, 1), (1, 4), (4, 1), (2, 3), (3, 2), (2, 4), (4, 2), (3, 4), (4, 3)]
    extra = [(1, 1, number) for number in range(1, 5)] + [(1, number, 1) for number in range(2, 5)]
    places = [*order, *extra, (1, 2, 3), (3, 2, 1), (2, 1, 3), (1, 2, 4), (4, 1, 2)]
    return [Step(gpus, 8.0, sum(gpus) * math.exp(rng.normal(0.0, noise))) for gpus in places]


def test_noise_is_read_off_permutations_alone() -> None:
    assert pollux.noise(rows_of(0.0)) == {8.0: pytest.approx(0.0, abs=1e-9)}
    assert pollux.noise(rows_of(0.1))[8.0] == pytest.approx(0.1, rel=0.5)


def test_true_values_rank_all_clear_pairs_right_and_false_ones_do_not() -> None:
    rows = rows_of(0.05)
    spread = pollux.noise(rows)
    truth = np.array([float(sum(row.gpus)) for row in rows])
    good, bad = pollux.score(rows, truth, spread, 0), pollux.score(rows, 1.0 / truth, spread, 0)
    assert good.clear > 0.95
    assert bad.clear == -good.clear
    assert good.error < 0.1 < bad.error


def test_a_table_without_permutations_is_ranked_over_all_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["placement,local_bsz,step_time_s"]
    for placement in ("1", "2", "3", "4", "11", "22", "33", "44", "111", "222", "333", "444", "1111", "2222"):
        rows += [f"{placement},{batch},{0.1 * len(placement) + 0.01 * int(placement[0]) + 0.001 * batch}" for batch in (8, 16, 32, 64)]
    file = tmp_path / "mine.csv"
    file.write_text("\n".join(rows) + "\n")
    goals = [row.case for row in pollux.judge(file, (0,)) if row.metric == "goal"]
    assert "mine, rows: 1 - tau over all pairs, noise unknown" in goals
    file.write_text("\n".join(rows[:8]) + "\n")
    assert pollux.judge(file, (0,)) == []
    assert "too few rows" in capsys.readouterr().out


def test_halves_keep_permutations_together_and_miss_nothing() -> None:
    rows = rows_of(0.1)
    for split in pollux.SPLITS:
        known, asked = pollux.halves(rows, split, 3)
        assert sorted(map(repr, known + asked)) == sorted(map(repr, rows))
    known, asked = pollux.halves(rows, "new placements", 3)
    assert not {tuple(sorted(row.gpus)) for row in known} & {tuple(sorted(row.gpus)) for row in asked}


def test_a_bad_line_of_a_placement_table_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("placement,local_bsz,step_time_s,sync_time_s\n11,8,0.5,0.1\n1x,8,0.5,0.1\n")
    with pytest.raises(ValueError, match=r"mine\.csv, line 3"):
        read_table(file)


def test_a_table_that_is_a_history_is_predicted_no_worse_by_its_curve_than_by_a_factor() -> None:
    rng = np.random.default_rng(2)
    places = [(1,), (2,), (4,), (1, 1), (2, 2), (4, 4), (1, 1, 1), (2, 2, 2), (4, 4, 4), (2, 1, 1), (4, 2, 1), (4, 4, 1)]
    slow = {1: 0.0, 2: 0.9, 3: 0.4}
    steps = [
        Step(gpus, 8.0, float((0.3 + slow[len(gpus)] + 0.02 * sum(gpus)) * np.exp(rng.normal(0.0, 0.02))), hosts=f"{number}")
        for number in range(5)
        for gpus in places
    ]
    rows = taught.rows("pollux", "made", steps, (0, 1))
    (goal,) = [row for row in rows if row.metric == "goal"]
    assert goal.value < 0.7
    assert taught.rows("pollux", "short", steps[:30], (0,)) == []
