"""Every fault that the doctor knows is found in facts that show it, alone, with a fix that names what to do."""

from __future__ import annotations

import pytest

from hyperscale.doctor.diagnose import CHECKS, diagnose
from hyperscale.doctor.facts import (
    Facts,
    Metrics,
    Unread,
)
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import Finding
from tests.unit.doctor.doctor_facts import (
    facts,
)
from tests.unit.doctor.fault_case import Case
from tests.unit.doctor.installation_cases import INSTALLATION_CASES
from tests.unit.doctor.metric_cases import METRIC_CASES

FORBIDDEN = Unread("list deployments.apps", 403, "deployments.apps is forbidden")
CASES = INSTALLATION_CASES + METRIC_CASES


def findings(given: Facts) -> tuple[Finding, ...]:
    return diagnose(given, "https://example").findings


def test_a_sound_installation_has_no_findings() -> None:
    report = diagnose(facts(), "https://example")
    assert report.findings == ()
    assert (report.exit_code, report.state) == (0, FindingState.OK)
    assert [one.check for one in report.checks] == list(CHECKS)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.fault} {index}" for index, case in enumerate(CASES)])
def test_each_fault_is_found_alone_with_its_fix(case: Case) -> None:
    found = {one.fault: one for one in findings(case.facts)}
    assert case.fault in found
    assert found[case.fault].state is case.state
    assert case.fix in found[case.fault].fix
    assert set(found) <= {case.fault} | case.also


def test_every_fault_has_a_case() -> None:
    assert {case.fault for case in CASES} == set(Fault)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.fault} {index}" for index, case in enumerate(CASES)])
def test_every_finding_says_what_why_and_what_to_do_on_one_line_each(case: Case) -> None:
    for one in findings(case.facts):
        assert one.message
        assert one.fix
        assert one.cause or one.fault is Fault.API_UNREACHABLE
        assert "\n" not in one.message + one.cause + one.fix


def test_the_worst_finding_decides_the_exit_code() -> None:
    codes = {state: diagnose(facts(**changes), "").exit_code for state, changes in _BY_STATE.items()}
    assert codes == {FindingState.OK: 0, FindingState.INFO: 0, FindingState.WARNING: 3, FindingState.ERROR: 4}


_BY_STATE: dict[FindingState, dict[str, object]] = {
    FindingState.OK: {},
    FindingState.INFO: {"version": "9.9"},
    FindingState.WARNING: {"metrics": Metrics()},
    FindingState.ERROR: {"nodes": ()},
}


def test_what_nobody_may_read_is_never_a_clean_bill() -> None:
    unread = dict.fromkeys(("crds", "workloads", "pods", "leases", "nodes", "policies", "jobs", "kueue", "reviews", "unusable"), FORBIDDEN)
    report = diagnose(facts(**unread, metrics=Metrics()), "")
    assert report.state is FindingState.WARNING
    assert {one.fault for one in report.findings} >= {Fault.NOT_CHECKED}
