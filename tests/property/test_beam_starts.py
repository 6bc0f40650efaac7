"""Beam search keeps to the slots and proposes different sets; wide enough, it leaves none out; the same question has the same answer."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.learn.topologies import instance
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.objective import Costs, volumes
from hyperscale.planner.search.beam import beam_sets
from hyperscale.planner.search.exact import best_of_all
from hyperscale.planner.search.kernels.kernel import CANNOT_WORK, kernel_for, objectives
from hyperscale.planner.search.ring import EXACT_WORKERS, all_rings
from hyperscale.util.float_sums import sum_in_order
from tests.property.test_kernel_agreement import CASES, case, drawn_orders

_beam = pytest.importorskip("hyperscale.planner.search.kernels._beam", reason="the compiled beam is not built here")


@settings(max_examples=40, deadline=None)
@given(CASES, st.integers(8, 40))
def test_sets_of_a_beam_are_different_and_have_room(drawn: tuple[int, int, str, float], width: int) -> None:
    costs, slots, workers, _ = case(drawn)
    found = beam_sets(costs, slots, workers, width)
    assert found.shape[1] == workers
    assert len(found) <= width
    assert len({tuple(row) for row in np.sort(found, axis=1).tolist()}) == len(found)
    for row in found:
        assert (np.bincount(row, minlength=len(slots)) <= slots).all()
    assert np.isfinite(objectives(costs, found)).all()
    assert (found == beam_sets(costs, slots, workers, width)).all()


@settings(max_examples=20, deadline=None)
@given(CASES)
def test_a_beam_as_wide_as_there_are_sets_finds_the_best_set(drawn: tuple[int, int, str, float]) -> None:
    costs, slots, workers, _ = case(drawn)
    best = best_of_all(costs, slots, workers, 600)
    if best is None or workers < 2 or len(slots) > 8 or kernel_for(costs, slots, workers) is None:
        return
    found = beam_sets(costs, slots, workers, 5000, kept=5000)
    if np.isfinite(objectives(costs, best[None, :])).all():
        assert np.sort(best).tolist() in np.sort(found, axis=1).tolist()


TYPICAL = 2.0
"""Links beside those of a member that count as if they were the same for all paths, as in the compiled beam."""
SPARE = 2
"""Children kept for every path that continues, as in the compiled beam."""


def scores(costs: Costs, workers: int, path: tuple[int, ...]) -> FloatArray:
    """(m,) objective of the whole job as if `path` and each candidate were its fair sample, summed in the order of the compiled beam."""
    # More branches than elsewhere: the formula in the order in which the compiled beam adds, so that both round alike.
    volume, now, tax = volumes(costs, workers), len(path) + 1, costs.communication_weight
    known = len(path) / (len(path) + TYPICAL) if 1 < now < workers else 1.0
    weight, slow, rounds = costs.weight, costs.weight / costs.flops_per_second, max(float(volume.rounds), 1e-50) * known
    latency, per_byte, nothing = costs.reach_seconds, costs.apart_seconds_per_byte, np.zeros(len(costs.weight))
    filling, alone = costs.filling_workers, costs.card_slowness(np.arange(len(costs.weight)), np.array(workers))
    part, inside, inner = 1.0 / costs.gpus_per_worker, costs.inside_seconds_per_byte, costs.gpus_per_worker > 1
    total = sum_in_order(weight[list(path)].tolist()) + weight
    pairs = total * total - (sum_in_order((weight[list(path)] ** 2).tolist()) + weight * weight) * part
    scale = volume.halo_bytes * known * now / (workers * np.maximum(pairs, 1e-12 * total * total))
    rate = costs.workload.epoch_flops * now / (total * workers)
    worst, slowest, own_pay, own_far = nothing, nothing, nothing, (costs.inside_latency_seconds if inner else nothing)
    for place, one in enumerate(path):
        others = [other for at, other in enumerate(path) if at != place]
        pay = sum_in_order(float(weight[other] * per_byte[one, other]) for other in others)
        far = max((float(latency[one, other]) for other in others), default=0.0)
        far = max(far, float(latency[one, one])) if inner else far
        # As many on its node as the path has; a candidate that would be one more there is the last one, or none.
        mass = np.full(len(weight), sum(weight[one] for other in path if other == one))
        mass[one] += weight[one]
        within = inside[one] * part * weight[one] * (mass - part * weight[one])
        card = np.maximum(mass, filling[one] * weight[one]) if costs.railed else mass
        halo = rounds * np.maximum(far, latency[one]) + scale * (card * (pay + weight * per_byte[one]) + within)
        worst, slowest = np.maximum(worst, halo), np.maximum(slowest, halo + rate * slow[one])
        own_pay, own_far = own_pay + weight[one] * per_byte[one], np.maximum(own_far, latency[one])
    halo = rounds * own_far + scale * (np.maximum(weight, filling * weight) * own_pay + inside * part * weight * (weight - part * weight))
    again = path[-1] if path else -1
    keep = np.arange(len(weight)) != again  # one more on the last node is as the last one
    worst, slowest = np.where(keep, np.maximum(worst, halo), worst), np.where(keep, np.maximum(slowest, halo + rate * slow), slowest)
    # Latency and seconds per byte between two nodes; 0 from a node to itself.
    apart = np.where(np.eye(len(weight), dtype=np.bool_), 0.0, latency)
    hops = per_byte * np.maximum(alone[:, None], alone)
    ring, within = [nothing, nothing], [nothing, nothing]
    for at, figure in enumerate((apart, hops)):
        ring[at] = nothing + max((float(figure[pair]) for pair in pairwise(path)), default=0.0)
        for end in (*path[-1:], *(path[:1] if now == workers else ())):
            ring[at] = np.maximum(ring[at], figure[end])
    for at, own in enumerate((np.diagonal(latency), inside)):
        for node in {*path}:
            joined = np.arange(len(weight)) == node
            within[at] = np.maximum(within[at], np.where(inner | joined | (path.count(node) > 1), own[node], 0.0))
        within[at] = np.maximum(within[at], own) if inner else within[at]
    # As many nodes of the whole job as if the path were its fair sample.
    nodes = -(-(len({*path}) + np.where(np.isin(np.arange(len(weight)), list(path)), 0, 1)) * workers // now)
    found: FloatArray = slowest + tax * worst
    # The class of the path's own nodes: a candidate's counts once it is a member.
    sharp = int(costs.sharp_class[list(path)].min(initial=len(costs.sharp_efficiencies) - 1))
    return found + (1.0 + tax) * volume.allreduce_seconds(nodes, ring[0], within[0], ring[1], within[1], sharp)


def same_first(path: tuple[int, ...], found: list[float]) -> list[tuple[int, float]]:
    """Candidates with their scores, the last one of the path before the others."""
    return sorted(enumerate(found), key=lambda entry: (entry[0],) != path[-1:])


def plain_beam(costs: Costs, slots: IntArray, workers: int, width: int) -> list[tuple[int, ...]]:
    """What the compiled beam finds, written plainly."""
    paths: list[tuple[int, ...]] = [()]
    for now in range(1, workers + 1):
        children = [
            (float(score), (*path, candidate))
            for path in paths
            for candidate, score in same_first(path, scores(costs, workers, path).tolist())
            if score < CANNOT_WORK and path.count(candidate) < slots[candidate] and (candidate not in path or candidate == path[-1])
        ]
        different: dict[tuple[int, ...], tuple[int, ...]] = {}
        for _, path in sorted(children, key=lambda child: child[0])[: SPARE * width]:
            different.setdefault((*sorted(path), path[-1] if now < workers else -1), path)
        paths = list(different.values())[:width]
    return paths


def compiled_beam(costs: Costs, slots: IntArray, workers: int, width: int) -> list[tuple[int, ...]]:
    kernel = kernel_for(costs, slots, workers)
    assert kernel is not None
    orders = np.zeros((width, workers), dtype=np.int32)
    return [tuple(row) for row in orders[: _beam.beam(kernel, orders, TYPICAL)].tolist()]


@settings(max_examples=20, deadline=None)
@given(CASES, st.integers(1, 12))
def test_the_compiled_beam_is_the_plain_one(drawn: tuple[int, int, str, float], width: int) -> None:
    costs, slots, workers, _ = case(drawn)
    assert compiled_beam(costs, slots, workers, width) == plain_beam(costs, slots, workers, width)


@pytest.mark.parametrize("nodes", [63, 64, 65, 130])
def test_the_compiled_beam_is_the_plain_one_where_candidates_fill_no_whole_chunks(nodes: int) -> None:
    drawn = instance("random", nodes, 6, 100)
    costs = replace(drawn.costs, memory_bytes=np.full(nodes, np.inf))
    slots = drawn.topology.slots
    assert compiled_beam(costs, slots, 6, 10) == plain_beam(costs, slots, 6, 10)


@settings(max_examples=40, deadline=None)
@given(CASES)
def test_the_best_set_is_closed_by_the_best_of_all_its_rings(drawn: tuple[int, int, str, float]) -> None:
    costs, slots, workers, rng = case(drawn)
    workers = min(workers, EXACT_WORKERS)
    rows = drawn_orders(slots, workers, rng, 6).astype(np.int32)
    kernel, sets, seconds = kernel_for(costs, slots, workers), np.sort(rows, axis=1), np.empty(len(rows))
    assert kernel is not None
    before = objectives(costs, rows.astype(np.int64))
    kernel.close(rows, seconds, 100_000, 10_000_000)
    assert (np.sort(rows, axis=1) == sets).all()
    finite = np.where(seconds < CANNOT_WORK, seconds, np.inf)
    np.testing.assert_allclose(objectives(costs, rows.astype(np.int64)), finite, rtol=1e-9)
    assert (finite <= before * (1 + 1e-12)).all()
    rings = sets.astype(np.int64)[:, all_rings(workers)].reshape(-1, workers)
    np.testing.assert_allclose(finite.min(), objectives(costs, rings).min(), rtol=1e-9)


def test_rings_of_sixteen_end_with_their_work_and_the_same_rows_close_the_same_way() -> None:
    drawn = instance("random", 64, 16, 100)
    costs = replace(drawn.costs, memory_bytes=np.full(64, np.inf))
    rows = drawn_orders(drawn.topology.slots, 16, np.random.default_rng(3), 40).astype(np.int32)
    kernel = kernel_for(costs, drawn.topology.slots, 16)
    assert kernel is not None
    closed = [(rows.copy(), np.empty(len(rows))) for _ in range(3)]
    for (orders, seconds), most in zip(closed, (200_000, 200_000, 0), strict=True):
        kernel.close(orders, seconds, 500, most)
    assert (closed[0][0] == closed[1][0]).all()
    assert closed[0][1].min() < closed[2][1].min()
    assert (closed[2][0] == rows).all()


@pytest.mark.parametrize(("length", "count"), [(5, 4), (6, 3)])
def test_rows_of_another_length_and_too_few_seconds_are_refused(length: int, count: int) -> None:
    costs, slots, _, _ = case((7, 16, "Capacity", 0.0))
    kernel = kernel_for(costs, slots + 1, 6)
    assert kernel is not None
    with pytest.raises(ValueError, match="rows of"):
        kernel.close(np.zeros((4, length), dtype=np.int32), np.empty(count), 10, 10)
