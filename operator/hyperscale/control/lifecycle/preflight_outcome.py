"""How far a preflight is, and how it ended: from its Job, its pod and the report that the pod left behind. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from hyperscale.model.api.job import JobSpec, PreflightMode
from hyperscale.model.api.preflight_report import (
    NEEDS_GPU,
    PREFLIGHT_SECONDS,
    PREFLIGHT_START_SECONDS,
    PreflightFault,
    PreflightOutcome,
    PreflightReport,
    PreflightStatus,
)
from hyperscale.model.constants import PREFLIGHT_KEY_LABEL
from hyperscale.model.observed.owned_objects import BatchJobView
from hyperscale.model.observed.reconcile_input import PreflightState, ReconcileInput
from hyperscale.model.pods import OOM_KILLED, PodView
from hyperscale.observe.run_report import printable, read_preflight
from hyperscale.util.rfc3339 import unix_seconds

HOLD_SECONDS: Final = PREFLIGHT_SECONDS + PREFLIGHT_START_SECONDS + 30.0
"""From the creation of the Job: its own deadline, and time for the Job controller to say that it has passed."""
MAX_LAST_WORDS: Final = 512
"""Characters kept of what a pod without a report wrote last."""

PASSED: Final = "Passed"
TIMED_OUT: Final = "TimedOut"
EVICTED: Final = "Evicted"
UNSCHEDULABLE: Final = "Unschedulable"
NOT_TRIED: Final = "NotTried"
"""Its pod found nothing that it could try."""
REPORT_UNREADABLE: Final = "ReportUnreadable"
WAITING: Final = "Waiting"
RUNNING: Final = "Running"


class PreflightStep(NamedTuple):
    """Where a preflight stands that has not ended."""

    reason: str
    message: str


def outcome_of(state: ReconcileInput) -> PreflightStatus | None:
    """How the preflight of the spec as it is has ended; None while it has not, and where there is none.

    What the status says of this very spec stays. Once the job has its MPIJob, so does what the status says of an earlier one, unless
    a preflight of this spec was begun before.
    """
    view, recorded, job = state.preflight, state.job.status.preflight, state.job.parsed
    if job is None:
        return recorded
    if job.preflight is PreflightMode.OFF:
        return None
    if recorded is not None and recorded.key == view.key:
        return recorded
    if _cannot_be_read(view):
        return _unknown(
            view.key, REPORT_UNREADABLE, f"the preflight's Job cannot be read: {_cleaned(view.job.message if view.job else '')}"
        )
    if view.job is not None and _has_begun(view):
        return _judged(view, view.job, state.clock.now + state.clock.server_ahead_seconds, job)
    return recorded if state.gang.mpijob is not None else None


def step_of(state: ReconcileInput) -> PreflightStep | None:
    """Where a preflight stands that is to end yet; None where none is, or it has ended."""
    view = state.preflight
    if outcome_of(state) is not None or not (may_begin(state) or _has_begun(view) or _has_pods(view)):
        return None
    if view.refusal is not None:
        return PreflightStep(str(view.refusal.reason), view.refusal.message)
    if not _has_begun(view):
        return PreflightStep(WAITING, f"the preflight's Job is {'being created' if view.job is None else 'still there from other code'}")
    return _step_of_pod(view.last_pod)


def _step_of_pod(pod: PodView | None) -> PreflightStep:
    if pod is not None and pod.unschedulable:
        return PreflightStep(UNSCHEDULABLE, f"the preflight's pod waits for a node: {printable(pod.unschedulable)}")
    if pod is None or pod.phase == "Pending":
        return PreflightStep(WAITING, "the preflight's pod is starting")
    return PreflightStep(RUNNING, "the job's code is tried for a few steps")


def may_begin(state: ReconcileInput) -> bool:
    """Whether a preflight may be begun: nothing runs yet that it could warn of. With Advise the pods may be on their way."""
    job, mpijob = state.job, state.gang.mpijob
    if job.parsed is None or not state.preflight.key or job.deleting or state.inspection.key:
        return False
    if mpijob is None:
        return not job.status.ended and not job.parsed.run_policy.suspend
    settled = mpijob.is_true("Running") or mpijob.ending is not None or mpijob.suspended or mpijob.owner_uid != job.metadata.uid
    return job.parsed.preflight is PreflightMode.ADVISE and not settled


def is_open(state: ReconcileInput) -> bool:
    """Whether its Job is to be created, or read again."""
    return step_of(state) is not None


def requires_preflight(state: ReconcileInput) -> bool:
    """Whether the start waits for a preflight: it is required, nothing was created yet, and it does not let the job start."""
    job = state.job.parsed
    if job is None or job.preflight is not PreflightMode.REQUIRE or state.gang.mpijob is not None or not state.preflight.key:
        return False
    outcome = outcome_of(state)
    return outcome is None or not outcome.lets_start


def _has_begun(view: PreflightState) -> bool:
    return view.job is not None and view.key != "" and view.job.key == view.key and not view.job.deleting


def _cannot_be_read(view: PreflightState) -> bool:
    """Whether the API server has a Job of that name that the operator cannot read."""
    return view.job is not None and view.key != "" and not view.job.uid


def _has_pods(view: PreflightState) -> bool:
    """Whether pods show that it was begun, after a restart of the operator when its Job has not been read again."""
    return view.key != "" and any(pod.labels.get(PREFLIGHT_KEY_LABEL) == view.key for pod in view.pods)


def _judged(view: PreflightState, job: BatchJobView, now: float, spec: JobSpec) -> PreflightStatus | None:
    """The outcome by its last pod, by its time where the pod says nothing, and by its Job where the pod left no report."""
    pod = view.last_pod
    ended = _of_pod(view.key, pod, spec) if pod is not None and pod.finished else None
    if ended is not None:
        return ended
    if job.overdue or (job.created and now > unix_seconds(job.created) + HOLD_SECONDS):
        return _timed_out(view.key, pod)
    if pod is not None and not pod.finished:
        return None
    return _without_report(view.key, job, pod) if job.failed or (job.succeeded and pod is not None) else None


def _of_pod(key: str, pod: PodView, spec: JobSpec) -> PreflightStatus | None:
    """What a pod that has ended says; None where it says nothing of the code."""
    return _out_of_memory(key, spec) if pod.termination == OOM_KILLED else _reported(key, pod)


def _reported(key: str, pod: PodView) -> PreflightStatus | None:
    """What the report says; None where there is none, or where it has a fault and its pod ended well."""
    report = read_preflight(pod.termination)
    if report is None or (report.fault is not None and pod.phase == "Succeeded"):
        return None
    if report.fault is None and report.needs_gpu:
        return _with_figures(_unknown(key, NEEDS_GPU, report.sentence), report)
    if report.fault is None and pod.phase != "Succeeded":
        return _unknown(key, NOT_TRIED, report.sentence)
    outcome = PreflightOutcome.PASSED if report.fault is None else PreflightOutcome.FAILED
    return _with_figures(PreflightStatus(key, outcome, report.fault.value if report.fault else PASSED, report.sentence), report)


def _with_figures(status: PreflightStatus, report: PreflightReport) -> PreflightStatus:
    return PreflightStatus(
        status.key,
        status.outcome,
        status.reason,
        status.sentence,
        steps=report.steps,
        step_seconds=report.step_seconds,
        peak_memory_bytes=report.peak_memory_bytes,
        predicted_gpu_bytes=report.predicted_gpu_bytes,
        deterministic=report.deterministic,
        idle_parameters=report.idle_parameters,
        files_written=report.files_written,
        addresses=report.addresses,
    )


def _unknown(key: str, reason: str, sentence: str) -> PreflightStatus:
    return PreflightStatus(key, PreflightOutcome.UNKNOWN, reason, sentence)


def _out_of_memory(key: str, spec: JobSpec) -> PreflightStatus:
    """A fault where the limit is the workers' own; else the limit was chosen for the preflight, and says nothing of a worker."""
    reason = PreflightFault.OUT_OF_MEMORY.value
    if (limit := spec.workers.resources.limits.get("memory")) is not None:
        sentence = f"the code took more than {limit} of memory, the limit of a worker; raise spec.workers.resources.limits.memory"
        return PreflightStatus(key, PreflightOutcome.FAILED, reason, sentence)
    return _unknown(
        key, reason, "the code took more memory than a preflight gets without a stated limit; write spec.workers.resources.limits.memory"
    )


def _timed_out(key: str, pod: PodView | None) -> PreflightStatus:
    """The reason why it got no further, as far as the last pod tells."""
    if pod is None:
        sentence = f"no pod of the preflight has ended in {HOLD_SECONDS:.0f} s; see the events of its Job"
        return _unknown(key, TIMED_OUT, sentence)
    if pod.unschedulable:
        return _unknown(key, UNSCHEDULABLE, f"no node took the preflight's pod in {HOLD_SECONDS:.0f} s: {_cleaned(pod.unschedulable)}")
    if pod.reason == EVICTED:
        return _unknown(key, EVICTED, "the preflight's pod was evicted from its node each time")
    return _unknown(key, TIMED_OUT, f"the preflight's pod has not ended in {HOLD_SECONDS:.0f} s")


def _without_report(key: str, job: BatchJobView, pod: PodView | None) -> PreflightStatus:
    if pod is not None and pod.reason == EVICTED:
        return _unknown(key, EVICTED, "the preflight's pod was evicted from its node")
    last_words = _cleaned(pod.termination if pod is not None and pod.termination.strip() else job.message)
    return _unknown(
        key, REPORT_UNREADABLE, f"the preflight's pod left no report that can be read; it ended with: {last_words or 'nothing'}"
    )


def _cleaned(text: str) -> str:
    """One line of printable characters: the end of a text, where programs say what went wrong."""
    return printable(text)[-MAX_LAST_WORDS:]
