"""Machines for several tasks at once: what is refused, what is kept, what Hulk's published assignment costs."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hyperscale.planner.assign.assign_problem import Tasks, counts, link_cost, sized
from hyperscale.planner.assign.change import add_machine, remove_machine
from hyperscale.planner.assign.order import bottleneck, shortest_path
from hyperscale.planner.assign.pipeline import Pipeline
from hyperscale.planner.assign.search import assign

HULK = Path(__file__).resolve().parents[3] / "../shared/data/hulk"


def two_sites(each: int = 4) -> np.ndarray:
    """Two sites: 1 ms inside, 100 ms between."""
    site = np.repeat([0, 1], each)
    cost = np.where(site[:, None] == site[None, :], 1.0, 100.0)
    np.fill_diagonal(cost, 0.0)
    return cost


def test_two_tasks_take_a_site_each() -> None:
    found = assign(sized(two_sites(), (4, 4)))
    assert found.cost == 12.0
    assert set(found.group[:4].tolist()) != set(found.group[4:].tolist())


def test_the_same_seed_gives_the_same_assignment() -> None:
    tasks = sized(np.round(np.add.outer(np.arange(20.0), np.arange(20.0)) * (1 - np.eye(20)), 1), (7, 6, 4))
    assert assign(tasks, 3).group.tolist() == assign(tasks, 3).group.tolist()


def test_a_deadline_that_is_over_still_gives_an_answer() -> None:
    tasks = sized(two_sites(), (3, 3))
    assert counts(tasks, assign(tasks, expired=lambda: True).group).tolist() == [3, 3]


def test_memory_comes_before_links() -> None:
    memory = np.array([16.0] * 4 + [64.0] * 4)
    tasks = Tasks(two_sites() + np.triu(np.ones((8, 8)), 4) + np.triu(np.ones((8, 8)), 4).T, (2, 2), (2, 2), memory, (128.0, 0.0))
    found = assign(tasks)
    assert found.short == 0.0
    assert memory[found.group == 0].sum() >= 128.0


@pytest.mark.parametrize(
    ("low", "high", "cost"),
    [((5, 4), (5, 4), two_sites()), ((3,), (2,), two_sites()), ((2,), (2,), np.triu(two_sites()))],
    ids=["more machines than there are", "fewest above most", "costs that are not symmetric"],
)
def test_what_cannot_be_is_refused(low: tuple[int, ...], high: tuple[int, ...], cost: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"sizes|symmetric"):
        Tasks(cost, low, high, np.zeros(8), tuple(0.0 for _ in low))


def test_a_new_machine_goes_to_the_site_it_is_near_to() -> None:
    tasks = Tasks(two_sites(), (3, 3), (5, 5), np.zeros(8), (0.0, 0.0))
    group = np.array([0] * 4 + [1] * 4)
    _, found = add_machine(tasks, group, np.array([100.0] * 4 + [1.0] * 4), 0.0)
    assert found.group.tolist() == [*group.tolist(), 1]
    _, far = add_machine(tasks, group, np.full(8, 100.0), 0.0)
    assert far.group[-1] == tasks.idle
    apart = Tasks(100.0 * (1.0 - np.eye(8)), (3, 3), (5, 5), np.zeros(8), (0.0, 0.0))
    _, none = add_machine(apart, group, np.full(8, 100.0), 0.0)
    assert none.group[-1] == apart.idle


def test_an_idle_machine_near_by_replaces_a_lost_one() -> None:
    tasks = sized(two_sites(), (3, 3))
    group = np.array([0, 0, 0, 2, 1, 1, 1, 2])
    _, found = remove_machine(tasks, group, 1)
    assert found.group.tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_without_an_idle_machine_a_task_that_can_spare_one_gives_it() -> None:
    tasks = Tasks(two_sites(), (4, 2), (4, 4), np.zeros(8), (0.0, 0.0))
    _, found = remove_machine(tasks, np.array([0] * 4 + [1] * 4), 0)
    assert counts(tasks, found.group).tolist() == [4, 3]
    with pytest.raises(IndexError):
        remove_machine(tasks, np.array([0] * 4 + [1] * 4), 8)


def test_groups_of_unequal_size_are_refused() -> None:
    with pytest.raises(ValueError, match="equal groups"):
        Pipeline(np.zeros((7, 7)), np.zeros((7, 7)), 2)


def test_paths_too_long_to_prove_are_refused() -> None:
    with pytest.raises(ValueError, match="17 stops"):
        shortest_path(np.zeros((17, 17)))


def test_orders_of_one_and_two_stops_are_trivial() -> None:
    assert bottleneck(np.zeros((1, 1))).worst == 0.0
    assert bottleneck(np.array([[0.0, 3.0], [3.0, 0.0]])).worst == 3.0


def test_without_the_compiled_kernel_the_twin_answers_with_one_warning() -> None:
    program = (
        "import sys, warnings; sys.modules['hyperscale.planner.assign._assign'] = None\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    import hyperscale.planner.assign.assign as chosen\n"
        "print(len(seen), chosen.SumSearch.__module__)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["1", "hyperscale.planner.assign.assign_numpy"]


@pytest.mark.skipif(not HULK.is_dir(), reason="../shared/data/hulk is absent")
def test_hulks_published_assignment_costs_what_was_counted() -> None:
    peer = importlib.import_module("benchmarks.peers.hulk")
    machines = peer.read(HULK)
    tasks = sized(machines.cost, peer.SIZES)
    assert link_cost(tasks, peer.published(machines)) == pytest.approx(73_474.3)
    assert assign(tasks).cost <= 0.54 * 73_474


@pytest.mark.skipif(not HULK.is_dir(), reason="../shared/data/hulk is absent")
def test_hulks_algorithm_1_gives_every_task_its_machines_once() -> None:
    peer = importlib.import_module("benchmarks.peers.hulk")
    machines = peer.read(HULK)
    group = peer.algorithm_1(machines, [lambda members, size=size: len(members) >= size for size in peer.SIZES])
    assert counts(sized(machines.cost, peer.SIZES), group).tolist() == list(peer.SIZES)
    none = peer.algorithm_1(machines, [lambda members: machines.memory[members].sum() >= 1e9])
    assert (none == 1).all()


def test_shares_of_a_model_follow_speed_as_far_as_memory_goes() -> None:
    systems = importlib.import_module("benchmarks.peers.systems")
    assert systems.shares(np.array([3.0, 1.0]), np.array([1.0, 1.0])).tolist() == [0.75, 0.25]
    assert systems.shares(np.array([3.0, 1.0]), np.array([0.5, 1.0])).tolist() == [0.5, 0.5]
    assert systems.shares(np.array([3.0, 1.0]), np.array([0.5, 0.4])) is None
