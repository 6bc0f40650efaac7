"""What a run tells of itself, in the words of conditions: what it was trained on, over what, and what a failed launcher said last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.pods import LAUNCHER

MAX_LENGTH: Final = 512
"""Characters of a last line."""
HOST_STAGING: Final = (
    "ranks send every message through host memory and TCP, because the image's Horovod knows no GPU (spec.allreduce.hostStaging); "
    "build the worker image with HOROVOD_GPU_OPERATIONS=NCCL"
)


def run_condition(state: ReconcileInput, kind: str) -> tuple[str, str]:
    """Return reason and message of a condition of the MPIJob.

    A stand-in comes first: its accuracy is read as the builtin graph's otherwise. A failed launcher's last line follows: mpi-operator's own
    message only names the pod. What an earlier pass read of that line stays when the pod is gone.
    """
    mpijob, nothing = state.gang.mpijob, (False, "", "")
    true, reason, message = mpijob.conditions.get(kind, nothing) if mpijob is not None else nothing
    if true and kind != "Failed":
        return reason, "; ".join((*_notes(state), *filter(None, [message])))
    words = _last_words(state)
    if words:
        return reason, f"{message}; the launcher's last line: {words}" if message else f"the launcher's last line: {words}"
    before = state.job.status.condition(kind)
    return reason, before.message if message and before is not None and before.message.startswith(f"{message}; ") else message


def _notes(state: ReconcileInput) -> Iterator[str]:
    measured = state.gang.measured or state.job.status.measured
    if measured is not None and measured.generated:
        yield _stand_in(state)
    if measured is not None and measured.host_staging:
        yield HOST_STAGING


def _last_words(state: ReconcileInput) -> str:
    """The last line of the newest launcher that failed; empty where none did or it left nothing but a result."""
    failed = [pod for pod in state.gang.pods if pod.role == LAUNCHER and pod.phase == "Failed"]
    lines = max(failed, key=lambda pod: (pod.created, pod.name)).termination.strip().splitlines() if failed else []
    last = " ".join(lines[-1].split()) if lines else ""
    return "" if last.startswith("{") else last[:MAX_LENGTH]


def _stand_in(state: ReconcileInput) -> str:
    """What was trained on instead of the builtin graph, and what to write so that it is found."""
    source = state.job.parsed.dataset.source.builtin if state.job.parsed is not None else None
    name = source.name if source is not None else "the builtin graph"
    return (
        f"trained on a generated graph of {name}'s size, because {name} was not found: accuracy says nothing of {name}; "
        f"set HYPERSCALE_DATASETS (a folder with the graph's .npz) or HYPERSCALE_DATASETS_URL in spec.launcher.template and "
        f"spec.workers.template, or name a volume in spec.dataset.source.persistentVolumeClaim"
    )
