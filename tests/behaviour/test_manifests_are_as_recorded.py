"""Manifests and patches of many jobs against their records (see CONTRIBUTING.md, Tests)."""

from __future__ import annotations

import pytest

from tests.behaviour import manifests, record, stored
from tests.behaviour.templates import EXAMPLES, MANIFEST_CASES, PATCHED_PODS

CASES = record.CASES[manifests.KIND]


@pytest.mark.parametrize("case", CASES)
def test_the_manifests_are_as_recorded(case: str) -> None:
    stored.assert_as_recorded(manifests.KIND, case, CASES[case]())


@pytest.mark.parametrize("case", CASES)
def test_manifests_that_are_rendered_again_have_the_same_bytes(case: str) -> None:
    assert stored.text(CASES[case]()) == stored.text(CASES[case]())


def test_every_example_is_recorded() -> None:
    names = {"-".join(path.relative_to(EXAMPLES).with_suffix("").parts) for path in EXAMPLES.rglob("*.yaml")}
    assert {f"example-{name}" for name in names} == {case for case in CASES if case.startswith("example-")}


def test_a_template_is_refused_exactly_where_the_case_says_so_and_every_kind_of_manifest_is_recorded() -> None:
    recorded = {case: stored.read(manifests.KIND, case) for case in MANIFEST_CASES}
    assert {case for case in recorded if "refused" in recorded[case]} == {case for case in recorded if case.startswith("refused-")}
    kinds = {key for value in recorded.values() for key in value}
    assert kinds == {"MPIJob", "partition key", "partition Job", "inspect Job", "preflight Job", "NetworkPolicy", "plan file", "refused"}


def test_pods_are_released_in_every_way() -> None:
    recorded = stored.read(manifests.KIND, "release-patches")
    assert set(recorded) == set(PATCHED_PODS)
    assert len(recorded["gated"]["Strict"]) == 4
    assert recorded["open"]["Strict"] == []
    assert recorded["gated-launcher"]["launcher"]
