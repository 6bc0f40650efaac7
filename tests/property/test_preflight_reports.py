"""Whatever strangers write into the end of a preflight's pod: only a report of a pass starts a job, and the status stays sound."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.preflight_outcome import HOLD_SECONDS
from hyperscale.control.status.conditions import derive
from hyperscale.model.api.job import PreflightMode
from hyperscale.model.api.preflight_report import PreflightFault, PreflightOutcome
from hyperscale.model.decision import MakePlan, Reason, Stop, Wait
from hyperscale.model.observed.owned_objects import BatchJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.pods import FINISHED_PHASES, OOM_KILLED, PREFLIGHT, PodView
from hyperscale.model.status import read_status, to_wire
from hyperscale.spec.plausible import is_status
from hyperscale.util.rfc3339 import timestamp
from tests.builders.seen import UID, changed, job_spec, seen

NOW = 1_000_000.0
KEY = "0011223344556677"
ADVISED, REQUIRED = (job_spec(preflight=str(mode)) for mode in (PreflightMode.ADVISE, PreflightMode.REQUIRE))
figures = st.one_of(st.integers(-5, 2**70), st.floats(), st.none(), st.text(max_size=3))
reports = st.fixed_dictionaries(
    {"sentence": st.text(max_size=40)},
    optional={
        "fault": st.one_of(st.sampled_from([str(fault) for fault in PreflightFault]), st.none(), st.text(max_size=8)),
        **dict.fromkeys(("steps", "stepSeconds", "peakMemoryBytes", "predictedGpuBytes", "deterministic"), figures),
        **dict.fromkeys(("idleParameters", "filesWritten", "addresses"), st.lists(st.text(max_size=20), max_size=18)),
        "unknown": st.integers(),
    },
).map(json.dumps)
endings = st.one_of(reports, st.text(max_size=60), st.just(OOM_KILLED), st.just("[" * 4000))


@st.composite
def looks(draw: st.DrawFn, job: Any = REQUIRED) -> ReconcileInput:
    """A preflight at any point of its life."""
    view = BatchJobView(
        uid=draw(st.sampled_from(["job", ""])),
        owner_uid=UID,
        key=draw(st.sampled_from([KEY, KEY, KEY, "other", ""])),
        succeeded=draw(st.booleans()),
        failed=draw(st.booleans()),
        overdue=draw(st.booleans()),
        deleting=draw(st.sampled_from([False, False, True])),
        created=timestamp(NOW - draw(st.sampled_from([0.0, 100.0, HOLD_SECONDS + 1.0]))),
    )
    pods = draw(
        st.lists(
            st.builds(
                PodView,
                namespace=st.just("team"),
                name=st.just("cora-preflight-x"),
                owner_uid=st.sampled_from(["job", "job", "someone-else"]),
                owner_kind=st.just("Job"),
                job_name=st.just("cora"),
                role=st.just(PREFLIGHT),
                phase=st.sampled_from(["Pending", "Running", *sorted(FINISHED_PHASES)]),
                reason=st.sampled_from(["", "Evicted"]),
                unschedulable=st.sampled_from(["", "0/3 nodes are available\x1b[31m"]),
                termination=endings,
            ),
            max_size=2,
        )
    )
    return seen(job, preflight_key=KEY, preflight=draw(st.one_of(st.none(), st.just(view))), preflight_pods=tuple(pods))


@given(looks())
def test_only_a_report_of_a_pass_by_a_pod_of_its_own_job_starts_a_job(look: ReconcileInput) -> None:
    decision = decide(look)
    pod = look.preflight.last_pod
    if isinstance(decision, MakePlan):
        assert pod is not None
        assert (pod.phase, pod.owner_uid) == ("Succeeded", "job")
        assert json.loads(pod.termination).get("fault") is None
        assert look.preflight.job is not None
        assert look.preflight.job.key == KEY
    else:
        assert isinstance(decision, Stop | Wait)
        assert decision.reason in (Reason.PREFLIGHTING, Reason.PREFLIGHT_FAILED, Reason.PREFLIGHT_UNKNOWN)
        assert derive(look, decision).plan is None


@given(looks())
def test_a_wait_is_asked_again_and_ends_with_the_time_of_the_hold(look: ReconcileInput) -> None:
    decision = decide(look)
    if isinstance(decision, Wait):
        assert decision.retry_after_seconds is not None
        late = changed(look, now=NOW + 2.0 * HOLD_SECONDS)
        begun = look.preflight.job is not None and look.preflight.job.key == KEY and not look.preflight.job.deleting
        assert isinstance(decide(late), Stop) or not begun


BEGUN = BatchJobView(uid="job", owner_uid=UID, key=KEY, created=timestamp(NOW))
WAITING = PodView("team", "cora-preflight-x", owner_uid="job", role=PREFLIGHT, unschedulable="0/3 nodes are available\x1b[31m")


@given(st.one_of(looks(), looks(ADVISED)))
@example(seen(REQUIRED, preflight_key=KEY, preflight=BEGUN, preflight_pods=(WAITING,)))
def test_the_status_is_one_that_the_operator_can_read_back_and_stays_with_the_next_pass(look: ReconcileInput) -> None:
    status = derive(look, decide(look))
    assert is_status(status)
    assert read_status(to_wire(status)) == status
    if status.preflight is not None:
        later = changed(look, status=status, preflight=None, preflight_pods=())
        assert derive(later, decide(later)).preflight == status.preflight
        assert (status.preflight.outcome is PreflightOutcome.PASSED) == (status.preflight.reason == "Passed")


@given(looks(ADVISED))
@example(seen(ADVISED, preflight_key=KEY))
def test_advice_decides_nothing(look: ReconcileInput) -> None:
    assert decide(look) == decide(seen(job_spec()))
