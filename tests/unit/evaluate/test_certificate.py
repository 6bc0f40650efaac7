"""Certificates: Coq and Lean accept that of a consistent plan and refuse that of an overfull one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.verify_cases import PlanCase
from benchmarks.verify_large import full_job
from hyperscale.evaluate.verify.certificate import certificate
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
