"""Two proofs that share no code with the product's: every placement tried, and a CP-SAT model. For small problems."""

from __future__ import annotations

from itertools import combinations, permutations, product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.families import Instance
from hyperscale.model.api.job import Balance
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.collective_tables import collective_table
from hyperscale.planner.cost.objective import largest_shares, objectives, set_objectives, volumes

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar

MAX_RING: Final = 7
"""Workers whose rings are all tried."""
SCALE: Final = 1e8
"""CP-SAT counts in integers: a hundred millionth of a known placement's objective."""
FINE: Final = 10**7
"""Steps in which the model's factors between 0 and 1 are counted."""
CHUNK: Final = 256


def by_trial(instance: Instance) -> float:
    """The lowest objective of all sets and all rings. Raises ValueError beyond MAX_RING workers."""
    workers = instance.workers
    if workers > MAX_RING:
        raise ValueError(f"{workers} workers have too many rings; at most {MAX_RING}")
    slots = np.repeat(np.arange(len(instance.slots)), np.minimum(instance.slots, workers))
    sets = np.unique(slots[np.array(list(combinations(range(len(slots)), workers)), dtype=np.int64)], axis=0)
    floor = set_objectives(instance.costs, sets)
    turns = [turn for turn in permutations(range(1, workers)) if len(turn) < 2 or turn[0] <= turn[-1]]
    rings = np.array([(0, *turn) for turn in turns], dtype=np.int64)
    best = np.inf
    ranked = np.argsort(floor, kind="stable")
    for at in range(0, len(ranked), CHUNK):
        rows = ranked[at : at + CHUNK]
        if floor[rows[0]] >= best:
            break
        best = min(best, float(objectives(instance.costs, sets[rows][:, rings].reshape(-1, workers)).min()))
    return best


def _carry_by_one_algorithm(
    model: CpModel,
    ring: IntVar,
    slowest: tuple[IntVar, IntVar, IntVar, IntVar],
    used: list[Any],
    table: FloatArray,
    most: FloatArray,
    sharp: IntArray,
) -> None:
    """One Boolean a class of switches, number of nodes and algorithm; the chosen one bounds the allreduce from below.

    slowest: hops between nodes and inside, of latency and of bytes, in the units of `most` (5,)
    table: (classes, nodes + 1, algorithms, 5) what each algorithm takes; a higher class is never slower
    sharp: (m,) class of each node; a placement has the least of those it uses
    """
    ways: list[Any] = []
    for at, nodes, way in product(range(len(table)), range(1, table.shape[1]), range(table.shape[2])):
        figures = table[at, nodes, way]
        ways.append(model.new_bool_var(f"way{at}-{nodes}-{way}"))
        for lesser in np.flatnonzero(sharp < at):
            model.add_implication(ways[-1], used[lesser].negated())
        part_of = [round(FINE * share) for share in np.divide(figures, most, out=np.zeros(5), where=most > 0)[:4]]
        waits = FINE * round(float(figures[4])) + part_of[0] * slowest[0] + part_of[1] * slowest[1]
        model.add(sum(used) == nodes).only_enforce_if(ways[-1])
        model.add(FINE * ring >= waits + part_of[2] * slowest[2]).only_enforce_if(ways[-1])
        model.add(FINE * ring >= waits + part_of[3] * slowest[3]).only_enforce_if(ways[-1])
    model.add_exactly_one(ways)


def _share_cards(model: CpModel, ring_bytes: IntVar, exits: dict[int, list[tuple[Any, int, int]]], slots: IntArray) -> None:
    """A node that the circuit leaves several times makes its hops, and those that lead to it, as many times as slow."""
    for source, hops in exits.items():
        for times in range(2, min(len(hops), int(np.sum(slots == source))) + 1):
            often = model.new_bool_var(f"leaves{source}-{times}")
            model.add(sum(hop for hop, _, _ in hops) <= times - 1).only_enforce_if(often.negated())
            for hop, _, cost in (*hops, *(entry for other in exits.values() for entry in other if entry[1] == source)):
                model.add(ring_bytes >= times * cost).only_enforce_if([hop, often])


def can_model(instance: Instance) -> bool:
    """True where the CP-SAT model is exact: equal shares, memory no limit, cards that one worker fills, no uplinks.

    How slow a half-filled card is depends on all its workers, and uplinks multiply shares inside and outside: neither is modelled.
    """
    costs = instance.costs
    if costs.railed or len(costs.uplink_domains):
        return False
    return costs.balance is Balance.EQUAL and bool((largest_shares(costs, instance.workers) >= 1.0 / instance.workers).all())


def by_cp_sat(instance: Instance, known: IntArray, seconds: float) -> tuple[float, float]:
    """Best objective and proven bound of OR-Tools CP-SAT on one core, given a known placement as a hint of scale only.

    One Boolean a slot and one a directed hop; the hops form one circuit through the chosen slots (AddCircuit). A node that the circuit
    leaves c times makes its hops c times as slow. With equal shares a worker's time is linear in the chosen partners for each number of
    workers on its node, its farthest partner's wait and the epoch are maxima over implications, and so are the slowest hops between nodes
    and inside of them. One Boolean says which algorithm carries the allreduce, over as many nodes as are used and with the least of their
    switches; all of them are offered. Capacity's shares divide by the chosen speeds' sum and squares, which is not linear, so it is not
    modelled.
    """
    from ortools.sat.python import cp_model

    # More branches than elsewhere: one model, whose constraints all need the same variables; read from top to bottom it is the docstring.
    costs, workers = instance.costs, instance.workers
    volume = volumes(costs, workers)
    slots = np.repeat(np.arange(len(instance.slots)), np.minimum(instance.slots, workers))
    unit = float(objectives(costs, known[None, :])[0]) / SCALE
    model = cp_model.CpModel()
    chosen = [model.new_bool_var(f"slot{at}") for at in range(len(slots))]
    model.add(sum(chosen) == workers)
    compute = costs.workload.epoch_flops / workers / costs.flops_per_second[slots]
    latency, per_byte = costs.latency_seconds[np.ix_(slots, slots)], costs.seconds_per_byte[np.ix_(slots, slots)]
    blocked = costs.blocked[np.ix_(slots, slots)]
    part, node = 1.0 / costs.gpus_per_worker, slots[:, None] == slots[None, :]
    wait = _whole(volume.rounds * latency / unit)
    # share² pairs: share (1/k) · share (1/k) · H / (1 − 1/(k g))
    pair = volume.halo_bytes / (workers * (workers - part)) / unit
    traffic, inside = _whole(pair * np.where(node, 0.0, per_byte)), pair * np.diag(per_byte) * part
    horizon = int(SCALE) * 4
    epoch, worst_halo = model.new_int_var(0, horizon, "epoch"), model.new_int_var(0, horizon, "halo")
    ring_wait, ring_bytes = model.new_int_var(0, horizon, "ring latency"), model.new_int_var(0, horizon, "ring bytes")
    inner_wait, inner_bytes = model.new_int_var(0, horizon, "inside latency"), model.new_int_var(0, horizon, "inside bytes")
    gradients = volume.steps * costs.workload.gradient_bytes
    per_epoch = (volume.steps, volume.steps, gradients, gradients, volume.steps)
    table = collective_table(costs.ranks(workers), workers, costs.sharp_efficiencies) * per_epoch
    most = table[:, 1:].max(axis=(0, 1, 2)) / unit
    hop_wait, hop_bytes = _whole(most[0] * latency), _whole(most[2] * per_byte)
    own_wait, own_bytes = _whole(most[1] * np.diag(latency)), _whole(most[3] * np.diag(per_byte))
    exits: dict[int, list[tuple[Any, int, int]]] = {}
    """Hops out of each node: the Boolean, the node at the other end, its cost."""
    arcs: list[Any] = [(at, at, chosen[at].negated()) for at in range(len(slots))]
    for row in range(len(slots)):
        far = model.new_int_var(0, horizon, f"far{row}")
        partners = [other for other in range(len(slots)) if other != row]
        if costs.gpus_per_worker > 1:
            model.add(far >= int(wait[row, row])).only_enforce_if(chosen[row])
            model.add(inner_wait >= int(own_wait[row])).only_enforce_if(chosen[row])
            model.add(inner_bytes >= int(own_bytes[row])).only_enforce_if(chosen[row])
        for other in partners:
            if blocked[row, other]:
                model.add_bool_or(chosen[row].negated(), chosen[other].negated())
                continue
            model.add(far >= int(wait[row, other])).only_enforce_if([chosen[row], chosen[other]])
            hop = model.new_bool_var(f"hop{row}-{other}")
            arcs.append((row, other, hop))
            if node[row, other]:
                model.add(inner_wait >= int(own_wait[row])).only_enforce_if([chosen[row], chosen[other]])
                model.add(inner_bytes >= int(own_bytes[row])).only_enforce_if([chosen[row], chosen[other]])
                continue
            exits.setdefault(int(slots[row]), []).append((hop, int(slots[other]), int(hop_bytes[row, other])))
            model.add(ring_wait >= int(hop_wait[row, other])).only_enforce_if(hop)
            model.add(ring_bytes >= int(hop_bytes[row, other])).only_enforce_if(hop)
        mates = [other for other in range(len(slots)) if node[row, other]]
        apart = sum(int(traffic[row, other]) * chosen[other] for other in partners if not node[row, other])
        for count in range(1, len(mates) + 1):
            exact = model.new_bool_var(f"count{row}-{count}")
            model.add(sum(chosen[mate] for mate in mates) == count).only_enforce_if(exact)
            model.add(sum(chosen[mate] for mate in mates) != count).only_enforce_if(exact.negated())
            halo = far + count * apart + round(float(inside[row]) * (count - part))
            model.add(worst_halo >= halo).only_enforce_if([chosen[row], exact])
            model.add(epoch >= round(float(compute[row]) / unit) + halo).only_enforce_if([chosen[row], exact])
    _share_cards(model, ring_bytes, exits, slots)
    model.add_circuit(arcs)
    used: list[Any] = [model.new_bool_var(f"node{at}") for at in range(len(instance.slots))]
    for at in range(len(used)):
        of_node: list[Any] = [chosen[row] for row in np.flatnonzero(slots == at)]
        model.add_max_equality(used[at], of_node or [0])
    ring = model.new_int_var(0, horizon, "allreduce")
    _carry_by_one_algorithm(model, ring, (ring_wait, inner_wait, ring_bytes, inner_bytes), used, table / unit, most, costs.sharp_class)
    weight = round(1000 * costs.communication_weight)
    model.minimize(1000 * epoch + weight * worst_halo + (1000 + weight) * ring)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.max_time_in_seconds, solver.parameters.random_seed = 1, seconds, 0
    solver.solve(model)
    overhead = volume.steps * costs.workload.step_overhead_seconds
    return solver.objective_value * unit / 1000 + overhead, solver.best_objective_bound * unit / 1000 + overhead


def _whole(seconds: FloatArray) -> IntArray:
    whole: IntArray = np.minimum(np.rint(seconds), 4 * SCALE).astype(np.int64)
    return whole
