"""The compiled simulator takes what fits its masks and tables and refuses the rest in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

streams = pytest.importorskip("hyperscale.learn.streams._streams", reason="the compiled simulator is not built here")

BASE, EMBEDDED = 31 * 48 + 48 + 48 * 48 + 48 + 48 + 31, 2 * 6 * 8 + 8 + 2 * 64 + 8 + 5 * 8 + 8 + 3 * 8 * 48


def stream(nodes: int = 8, jobs: int = 3, counts: tuple[int, ...] = (1, 2, 0, 0, 0, 0), **other: Any) -> Any:
    """Equal nodes, equal jobs."""
    given: dict[str, Any] = {
        "speed": np.ones(nodes),
        "latency": np.full((nodes, nodes), 1e-3),
        "per_byte": np.full((nodes, nodes), 1e-9),
        "domain": np.zeros(nodes, dtype=np.int32),
        "weights": np.ones(jobs),
        "noise": np.ones(jobs),
        "equal": np.zeros(jobs, dtype=np.uint8),
        "workers": np.array([counts] * jobs, dtype=np.int32),
        "figures": np.ones((jobs, 6, 6)),
        "gaps": np.ones(jobs),
        "half": np.ones(nodes, dtype=np.uint8),
        "load": 0.5,
        "placement_lambda": 0.1,
        "contention": True,
        "starvation_runs": 0.0,
    }
    return streams.Stream(*(given | other).values())


@pytest.mark.parametrize("nodes", [0, 65, 129])
def test_more_nodes_than_a_mask_has_bits_are_refused(nodes: int) -> None:
    with pytest.raises(ValueError, match="1 to 64 nodes"):
        stream(nodes)


@pytest.mark.parametrize("nodes", [2, 63, 64])
def test_as_many_nodes_as_a_mask_has_bits_are_simulated(nodes: int) -> None:
    run = stream(nodes)
    run.set_rule(0, 0.2, 0.2, 2.0, 0.2, 1.5, 1.6, 1.35, 4.0)
    for policy in range(6):
        assert np.isfinite(run.run(policy)[1]).all()


@pytest.mark.parametrize("counts", [(2, 0, 3, 0, 0, 0), (-2, 0, 0, 0, 0, 0), (4, 2, 1, 0, 0, 0), (17, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0)])
def test_worker_counts_rise_from_one(counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"worker counts|more workers|fits the cluster"):
        stream(32, counts=counts)


@pytest.mark.parametrize(
    "wrong",
    [
        {"latency": np.ones((4, 4))},
        {"per_byte": np.ones((8, 4))},
        {"domain": np.zeros(3, dtype=np.int32)},
        {"domain": np.full(8, 63, dtype=np.int32)},
        {"noise": np.ones(1)},
        {"equal": np.ones(1, dtype=np.uint8)},
        {"gaps": np.ones(1)},
        {"half": np.ones(2, dtype=np.uint8)},
        {"figures": np.ones((3, 2, 2))},
        {"workers": np.ones((3, 1), dtype=np.int32)},
    ],
)
def test_tables_of_other_shapes_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        stream(**wrong)


def test_a_network_of_another_kind_drops_what_was_recorded() -> None:
    run = stream(jobs=20, gaps=np.zeros(20))
    run.set_rule(0, 0.2, 0.2, 2.0, 0.2, 1.5, 1.6, 1.35, 4.0)
    run.run(5, record=True)
    assert len(run.recorded()[1])
    run.set_network(np.zeros(BASE + EMBEDDED, dtype=np.float32))
    with pytest.raises(ValueError, match="nothing was recorded"):
        run.pictures()
    assert not len(run.recorded()[1])


def test_a_queue_of_any_length_is_served_by_every_policy() -> None:
    run = stream(jobs=1100, gaps=np.zeros(1100), counts=(1, 0, 0, 0, 0, 0))
    run.set_rule(0, 0.2, 0.2, 2.0, 0.2, 1.5, 1.6, 1.35, 4.0)
    for policy in (0, 3, 4):
        assert np.isfinite(run.run(policy)[1]).all()


def test_where_nothing_runs_a_job_starts_that_few_nodes_can_run_together() -> None:
    """A training found it: the quick search begins with nodes 2 to 4, and from there no move reaches the only four that can all talk."""
    no = 1e100
    latency = [[0, 2e-4, 0.14, 0.16, no], [2e-4, 0, 0.17, 0.15, no], [0.14, 0.17, 0, 6e-4, 0.13], [0.16, 0.15, 6e-4, 0, 0.12]]
    slow, middle, quick = 9.6e-9, 4.5e-9, 2.2e-9
    per_byte = [
        [0, slow, slow, slow, slow],
        [slow, 0, middle, middle, slow],
        [slow, middle, 0, quick, quick],
        [slow, middle, quick, 0, quick],
    ]
    run = stream(
        nodes=5,
        jobs=1,
        counts=(4, 0, 0, 0, 0, 0),
        speed=np.array([1e14, 3.2e13, 1e14, 3.2e13, 4.5e13]),
        latency=np.array([*latency, [no, no, 0.13, 0.12, 0]]),
        per_byte=np.array([*per_byte, [slow, slow, quick, quick, 0]]),
        equal=np.ones(1, dtype=np.uint8),
        figures=np.tile([500.0, 1.1e12, 3000.0, 2.5e11, 1.9e17, 0.0], (1, 6, 1)),
    )
    for policy in (0, 3, 4):
        assert np.isfinite(run.run(policy)[1]).all()
    assert set(run.nodes()[0]) == {0, 1, 2, 3}


def test_jobs_that_come_at_once_are_decided_on_together() -> None:
    figures = np.ones((3, 6, 6))
    figures[:, :, 4] = np.array([100.0, 50.0, 1.0])[:, None]
    run = stream(nodes=2, jobs=3, counts=(2, 0, 0, 0, 0, 0), figures=figures, gaps=np.array([1.0, 0.0, 0.0]))
    run.set_rule(0, 0.0, 0.0, 1e9, 0.0, 0.0, 1e9, 0.0, 4.0)
    start = run.run(3)[0]
    assert start.argsort().tolist() == [2, 1, 0]
