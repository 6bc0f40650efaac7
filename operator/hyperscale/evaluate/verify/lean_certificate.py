"""A certificate in Lean 4 that needs no library: it begins with `prelude` and defines its own numbers and lists.

It covers the order of workers and ranks, capacity, GPU memory, the permutations (ring, partitions, schedule), the quota and the shares. The
other constraints are in the Coq certificate only. Lean's kernel computes with numbers of any size where their type is called `Nat`.
Its compiler asks for the axiom `lcAny`; no theorem rests on it, which `#print axioms` shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hyperscale.evaluate.verify.normal_form import SHARE_SLACK, WHOLE_SHARE, PlanFacts, PlanLimits

CHUNK: Final = 16
"""Entries of a list in one definition: Lean bounds how deep a term nests."""
PRELUDE: Final = """\
prelude
set_option autoImplicit false
set_option genCtorIdx false
set_option bootstrap.inductiveCheckResultingUniverse false
set_option warn.classDefReducibility false
set_option maxRecDepth 1000000
universe u
inductive Bool where
  | false : Bool
  | true : Bool
inductive Nat where
  | zero : Nat
  | succ (n : Nat) : Nat
unsafe axiom lcAny : Type
@[class] inductive OfNat (α : Type u) (n : Nat) where
  | mk (value : α) : OfNat α n
noncomputable def OfNat.ofNat {α : Type u} (n : Nat) (stated : OfNat α n) : α :=
  OfNat.rec (motive := fun _ => α) (fun value => value) stated
@[instance] noncomputable def numeral (n : Nat) : OfNat Nat n := OfNat.mk n
inductive Numbers where
  | nil : Numbers
  | cons (x : Nat) (tail : Numbers) : Numbers
inductive Pairs where
  | nil : Pairs
  | cons (x y : Nat) (tail : Pairs) : Pairs
inductive PUnit : Sort u where
  | unit : PUnit
inductive Eq {α : Sort u} : α → α → Prop where
  | refl (a : α) : Eq a a
noncomputable def both (a b : Bool) : Bool := Bool.rec (motive := fun _ => Bool) Bool.false b a
noncomputable def either (a b : Bool) : Bool := Bool.rec (motive := fun _ => Bool) b Bool.true a
noncomputable def pick (c : Bool) (a b : Nat) : Nat := Bool.rec (motive := fun _ => Nat) b a c
noncomputable def Nat.add (a b : Nat) : Nat := Nat.rec (motive := fun _ => Nat) a (fun _ ih => Nat.succ ih) b
noncomputable def Nat.ble : Nat → Nat → Bool := fun a => Nat.rec (motive := fun _ => Nat → Bool) (fun _ => Bool.true)
  (fun _ ih b => Nat.rec (motive := fun _ => Bool) Bool.false (fun b' _ => ih b') b) a
noncomputable def Nat.beq (a b : Nat) : Bool := both (Nat.ble a b) (Nat.ble b a)
noncomputable def total (l : Numbers) : Nat := Numbers.rec (motive := fun _ => Nat) Nat.zero (fun x _ ih => Nat.add x ih) l
noncomputable def length (l : Numbers) : Nat := Numbers.rec (motive := fun _ => Nat) Nat.zero (fun _ _ ih => Nat.succ ih) l
noncomputable def member (k : Nat) (l : Numbers) : Bool :=
  Numbers.rec (motive := fun _ => Bool) Bool.false (fun x _ ih => either (Nat.beq x k) ih) l
noncomputable def inOrder (l : Numbers) : Nat → Bool := Numbers.rec (motive := fun _ => Nat → Bool) (fun _ => Bool.true)
  (fun x _ ih n => both (Nat.beq x n) (ih (Nat.succ n))) l
noncomputable def ordered (l : Numbers) (n : Nat) : Bool := both (Nat.beq (length l) n) (inOrder l Nat.zero)
noncomputable def permutes (l : Numbers) (n : Nat) : Bool :=
  both (Nat.beq (length l) n) (Nat.rec (motive := fun _ => Bool) Bool.true (fun k ih => both (member k l) ih) n)
noncomputable def load (node : Nat) (placed : Pairs) : Nat :=
  Pairs.rec (motive := fun _ => Nat) Nat.zero (fun at_ gpus _ ih => pick (Nat.beq at_ node) (Nat.add gpus ih) ih) placed
noncomputable def fits (free placed : Pairs) : Bool :=
  Pairs.rec (motive := fun _ => Bool) Bool.true (fun node gpus _ ih => both (Nat.ble (load node placed) gpus) ih) free
noncomputable def below (needs : Pairs) : Bool :=
  Pairs.rec (motive := fun _ => Bool) Bool.true (fun need has _ ih => both (Nat.ble need has) ih) needs
noncomputable def allFirst (placed free : Pairs) : Bool := Pairs.rec (motive := fun _ => Bool) Bool.true (fun node _ _ ih => both
  (Pairs.rec (motive := fun _ => Bool) Bool.false (fun other _ _ found => either (Nat.beq node other) found) free) ih) placed
"""


def lean_source(limits: PlanLimits, facts: PlanFacts) -> str:
    """Return the source; Lean refuses it where one of the constraints does not hold."""
    theorems = (
        f"theorem {name} : Eq ({check}) Bool.true := Eq.refl Bool.true\n#print axioms {name}\n" for name, check in _checks(limits, facts)
    )
    return PRELUDE + "".join((*_arriving_lists(limits, facts), *_plan_lists(facts), *theorems))


def _arriving_lists(limits: PlanLimits, facts: PlanFacts) -> tuple[str, ...]:
    """What workers that do not run yet take, and what nodes have."""
    pins, nodes = set(limits.pins), limits.nodes
    new = [worker for worker in facts.workers if (worker.index, worker.node) not in pins]
    needs = [
        (max(limits.memory_each_bytes, worker.rank_bytes), nodes[worker.node].gpu_memory_bytes)
        for worker in new
        if worker.node < len(nodes)
    ]
    return (
        _numbers("taken", [worker.gpus for worker in new]),
        _pairs("placed", [(worker.node, worker.gpus) for worker in new]),
        _pairs("free", [(position, node.gpus) for position, node in enumerate(nodes)]),
        _pairs("needs", needs),
    )


def _plan_lists(facts: PlanFacts) -> tuple[str, ...]:
    return (
        _numbers("workers", [worker.index for worker in facts.workers]),
        _numbers("ranks", [rank for worker in facts.workers for rank in worker.ranks]),
        _numbers("ring", facts.ring),
        _numbers("parts", [part for parts in facts.parts_by_rank for part in parts]),
        _numbers("order", facts.schedule),
        _numbers("shares", [worker.share for worker in facts.workers]),
    )


def _checks(limits: PlanLimits, facts: PlanFacts) -> list[tuple[str, str]]:
    """Name and expression of each theorem."""
    total = sum(worker.gpus for worker in facts.workers)
    checks = [
        ("workers_in_order", f"ordered workers {len(facts.workers)}"),
        ("one_rank_one_place", f"ordered ranks {total}"),
        ("nodes_exist", "allFirst placed free"),
        ("capacity", "fits free placed"),
        ("gpu_memory", "below needs"),
        ("ring_is_a_permutation", f"permutes ring {len(facts.workers)}"),
        ("partitions_cover", f"permutes parts {facts.partitions}"),
        ("schedule_is_a_permutation", f"permutes order {limits.tensors}"),
        ("shares_not_below_one", f"Nat.ble {WHOLE_SHARE - SHARE_SLACK} (total shares)"),
        ("shares_not_above_one", f"Nat.ble (total shares) {WHOLE_SHARE + SHARE_SLACK}"),
    ]
    return checks if limits.quota_gpus is None else [*checks, ("quota", f"Nat.ble (total taken) {limits.quota_gpus}")]


def _numbers(name: str, entries: Sequence[int]) -> str:
    return _listed(name, "Numbers", [str(entry) for entry in entries])


def _pairs(name: str, entries: Sequence[tuple[int, int]]) -> str:
    return _listed(name, "Pairs", [f"{first} {second}" for first, second in entries])


def _listed(name: str, kind: str, cells: Sequence[str]) -> str:
    """Definitions of a list in chunks, the last chunk first."""
    lines: list[str] = []
    rest = f"{kind}.nil"
    starts: Iterable[int] = range(0, len(cells), CHUNK)
    for start in reversed(list(starts)):
        own = name if start == 0 else f"{name}_{start}"
        chunk = cells[start : start + CHUNK]
        lines.append(f"noncomputable def {own} : {kind} := {''.join(f'{kind}.cons {cell} (' for cell in chunk)}{rest}{')' * len(chunk)}\n")
        rest = own
    return "".join(lines) or f"noncomputable def {name} : {kind} := {rest}\n"
