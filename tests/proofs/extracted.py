"""The checker that Coq extracted from its proof, as a program that reads plans in normal form."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from e2e.cluster.binaries import cache_directory
from hyperscale.evaluate.verify import normal_form, proof
from hyperscale.evaluate.verify.normal_form import Constraint, NodeLimits, PlacedWorker, PlanFacts, PlanLimits
from tests.proofs.toolchain import Toolchain, toolchain

HERE: Final = Path(__file__).parent
SOURCES: Final = (Path(proof.__file__).parent / "PlanChecker.v", HERE / "Extract.v", HERE / "driver.ml")
PROGRAM: Final = "driver.byte"
ASSUMPTIONS: Final = "assumptions.txt"
"""What Coq prints of the axioms behind each theorem, beside the program."""


class ProofRefusedError(Exception):
    """Coq or OCaml refused a source; the message is theirs."""


@cache
def extracted_checker() -> Path:
    """Return the program, compiled once for each state of its sources; raises ToolchainMissingError and ProofRefusedError."""
    tools = toolchain()
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()[:16]
    target = cache_directory() / f"plan-checker-{digest}"
    if not (target / PROGRAM).is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".checker-") as scratch:
            _compile(tools, Path(scratch))
            target.mkdir(exist_ok=True)
            for name in (ASSUMPTIONS, PROGRAM):
                (Path(scratch) / name).rename(target / name)
    return target / PROGRAM


def _compile(tools: Toolchain, folder: Path) -> None:
    for source in SOURCES:
        (folder / source.name).write_bytes(source.read_bytes())
    printed = []
    for program, *arguments in (
        ("coqc", "PlanChecker.v"),
        ("coqc", "Extract.v"),
        ("ocamlc.opt", "-w", "-3", "-alert", "-deprecated", "-o", PROGRAM, "extracted.mli", "extracted.ml", "driver.ml"),
    ):
        finished = tools.run(program, *arguments, folder=folder)
        if finished.returncode != 0:
            raise ProofRefusedError(f"{program} {' '.join(arguments)}: {finished.stderr.decode()[-2000:]}")
        printed.append(finished.stdout.decode())
    (folder / ASSUMPTIONS).write_text(printed[0])


def verdicts(cases: Sequence[tuple[PlanLimits, PlanFacts]]) -> list[frozenset[Constraint]]:
    """Return the broken constraints of each case, as the proved checker has them."""
    program = extracted_checker()
    given = " ".join(map(str, [len(cases), *(number for limits, facts in cases for number in wire(limits, facts))]))
    finished = toolchain().run("ocamlrun", str(program), folder=program.parent, given=given.encode())
    if finished.returncode != 0:
        raise ProofRefusedError(finished.stderr.decode()[-2000:])
    lines = finished.stdout.decode().split()
    return [frozenset(name for name, bit in zip(Constraint, line, strict=True) if bit == "0") for line in lines]


def wire(limits: PlanLimits, facts: PlanFacts) -> Iterator[int]:
    """The normal form as the numbers that driver.ml reads; every list begins with its length."""
    yield len(limits.nodes)
    for node in limits.nodes:
        yield from _node(node)
    yield from (limits.gpus_each, limits.memory_each_bytes, *_list(limits.amounts_each))
    yield from (limits.workers_min, limits.workers_max, int(limits.apart), int(limits.one_domain))
    for pairs in (limits.pins, limits.dead, limits.unreachable):
        yield from _pairs(pairs)
    yield from (limits.partitions_asked, limits.tensors, -1 if limits.quota_gpus is None else limits.quota_gpus)
    yield len(facts.workers)
    for worker in facts.workers:
        yield from _worker(worker)
    yield from (*_list(facts.ring), facts.partitions, len(facts.parts_by_rank))
    for parts in facts.parts_by_rank:
        yield from _list(parts)
    yield from (*_list(facts.schedule), *_pairs(facts.ranks_by_node))


def _node(node: NodeLimits) -> Iterator[int]:
    yield from (int(node.takes_workers), node.gpus, min(node.gpu_memory_bytes, normal_form.UNLIMITED), node.domain, *_list(node.amounts))


def _worker(worker: PlacedWorker) -> Iterator[int]:
    yield from (worker.index, worker.node, *_list(worker.ranks), worker.gpus, worker.share, worker.rank_bytes)


def _list(entries: Sequence[int]) -> Iterator[int]:
    yield from (len(entries), *entries)


def _pairs(pairs: Sequence[tuple[int, int]]) -> Iterator[int]:
    yield len(pairs)
    yield from _flat(pairs)


def _flat(pairs: Iterable[tuple[int, int]]) -> Iterator[int]:
    return (number for pair in pairs for number in pair)
