"""Certificates: Coq and Lean accept that of a consistent plan and refuse that of an overfull one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.verify_cases import PlanCase
from benchmarks.verify_large import full_job
from hyperscale.evaluate.verify.certificate import certificate
from hyperscale.evaluate.verify.lean_certificate import lean_source
from hyperscale.evaluate.verify.normal_form import PlanFacts
from tests.proofs import lean
from tests.proofs.toolchain import Toolchain, ToolchainMissingError, toolchain


@pytest.fixture(scope="module")
def coq() -> Toolchain:
    try:
        return toolchain()
    except ToolchainMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def lean_at_hand() -> None:
    try:
        lean.lean()
    except ToolchainMissingError as error:
        pytest.skip(str(error))


def source(case: PlanCase, language: str) -> str:
    return certificate(case.plan, case.request, case.snapshot, language, case.quota_gpus)


def by_coq(coq: Toolchain, text: str, folder: Path) -> tuple[int, str]:
    (folder / "Certificate.v").write_text(text)
    finished = coq.run("coqc", "Certificate.v", folder=folder)
    return finished.returncode, (finished.stdout + finished.stderr).decode()


def test_coq_accepts_512_ranks_on_64_nodes_without_axioms(coq: Toolchain, tmp_path: Path) -> None:
    code, printed = by_coq(coq, source(full_job(64, 8), "coq"), tmp_path)
    assert (code, printed.strip()) == (0, "Closed under the global context")


def test_coq_refuses_an_overfull_plan(coq: Toolchain, tmp_path: Path) -> None:
    code, printed = by_coq(coq, source(full_job(4, 8, short=True), "coq"), tmp_path)
    assert code == 1
    assert 'Unable to unify "true" with "false"' in printed


def test_lean_accepts_a_consistent_plan(lean_at_hand: None, tmp_path: Path) -> None:
    assert lean.accepts(source(full_job(8, 8), "lean"), tmp_path)


def test_lean_refuses_an_overfull_plan(lean_at_hand: None, tmp_path: Path) -> None:
    assert not lean.accepts(source(full_job(8, 8, short=True), "lean"), tmp_path)


LEAN_FAULTS: dict[str, Callable[[PlanFacts], PlanFacts]] = {
    "rank twice": lambda facts: replace(facts, workers=(replace(facts.workers[0], ranks=(0, 0)), *facts.workers[1:])),
    "unknown node": lambda facts: replace(facts, workers=(replace(facts.workers[0], node=99), *facts.workers[1:])),
    "rank too large": lambda facts: replace(facts, workers=(replace(facts.workers[0], rank_bytes=2**50), *facts.workers[1:])),
    "ring entry twice": lambda facts: replace(facts, ring=(0, 0, 2, 3)),
    "partition lost": lambda facts: replace(facts, parts_by_rank=((), *facts.parts_by_rank[1:])),
    "schedule entry lost": lambda facts: replace(facts, schedule=facts.schedule[1:]),
    "share lost": lambda facts: replace(facts, workers=(replace(facts.workers[0], share=0), *facts.workers[1:])),
}


@pytest.mark.parametrize("fault", LEAN_FAULTS)
def test_lean_refuses_each_kind_of_fault_that_it_covers(fault: str, lean_at_hand: None, tmp_path: Path) -> None:
    limits, facts = full_job(4, 2).normal()
    assert lean.accepts(lean_source(limits, facts), tmp_path)
    assert not lean.accepts(lean_source(limits, LEAN_FAULTS[fault](facts)), tmp_path)


def test_lean_refuses_a_plan_beyond_the_quota(lean_at_hand: None, tmp_path: Path) -> None:
    limits, facts = full_job(4, 2).normal()
    assert not lean.accepts(lean_source(replace(limits, quota_gpus=7), facts), tmp_path)


@pytest.mark.parametrize("language", ["coq", "lean"])
def test_the_same_plan_has_the_same_certificate(language: str) -> None:
    assert source(full_job(4, 2), language) == source(full_job(4, 2), language)


def test_a_lean_certificate_needs_no_library() -> None:
    text = source(full_job(4, 2), "lean")
    assert text.startswith("prelude\n")
    assert "import" not in text


def test_another_language_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match="'agda' is not supported; write one of coq, lean"):
        source(full_job(2, 1), "agda")
