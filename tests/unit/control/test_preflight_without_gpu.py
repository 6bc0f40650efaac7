"""A required preflight of code that asks for a GPU: the pod has none, so that nothing is known of the code and nothing stops it."""

from __future__ import annotations

from hyperscale.control.decide.chain import decide
from hyperscale.control.status.conditions import derive
from hyperscale.model.api.preflight import is_held, preflight_key
from hyperscale.model.api.preflight_report import PreflightOutcome, PreflightStatus
from hyperscale.model.decision import CreateMpiJob, MakePlan
from hyperscale.model.status import JobStatus
from tests.builders.seen import MEASURED
from tests.unit.control.test_preflights import KEY, METADATA, REQUIRED, TWO, ended, summary, tried

ASKED = '{"sentence": "Not judged: the code asks for a GPU", "needsGpu": true}'


def test_the_job_is_planned_and_started_and_the_condition_says_that_nothing_is_known() -> None:
    look = ended(ASKED, "Failed")
    assert isinstance(decide(look), MakePlan)
    assert summary(look) == ("Unknown", "NeedsGPU")
    written = derive(look, decide(look)).preflight
    assert written is not None
    assert (written.outcome, written.sentence) == (PreflightOutcome.UNKNOWN, "Not judged: the code asks for a GPU")
    later = tried(status=JobStatus(preflight=PreflightStatus(KEY, written.outcome, written.reason, "x")), plan=TWO, plan_recorded=True)
    assert not isinstance(decide(later), MakePlan)
    assert isinstance(decide(tried(status=later.job.status, plan=TWO, plan_recorded=True, metrics=MEASURED)), CreateMpiJob)


def test_a_fault_beside_it_counts() -> None:
    look = ended('{"sentence": "writes", "fault": "WroteOutside", "needsGpu": true}', "Failed")
    assert summary(look) == ("False", "WroteOutside")


def test_it_holds_no_job() -> None:
    key = preflight_key(REQUIRED, METADATA)
    assert not is_held(REQUIRED, METADATA, PreflightStatus(key, PreflightOutcome.UNKNOWN, "NeedsGPU", "x"))
    assert is_held(REQUIRED, METADATA, PreflightStatus("other", PreflightOutcome.UNKNOWN, "NeedsGPU", "x"))
    assert is_held(REQUIRED, METADATA, PreflightStatus(key, PreflightOutcome.FAILED, "NeedsGPU", "x"))
