"""Pods by name and by job. Pods that hold nothing and belong to no job are not kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hyperscale.control.cache.records import Key
from hyperscale.model.constants import JOB_UID_LABEL
from hyperscale.model.pods import BATCH_ROLES, PodView


class PodIndex:
    """The pods of the cluster that matter."""

    def __init__(self) -> None:
        self._pods: dict[Key, PodView] = {}
        self._of_job: dict[Key, set[Key]] = {}
        self._ranked: dict[Key, tuple[tuple[str, str], tuple[PodView, ...]]] = {}
        """What `ranked` said last of each job, until one of its pods changes."""

    def get(self, key: Key) -> PodView | None:
        """The pod, where it is kept."""
        return self._pods.get(key)

    def put(self, key: Key, view: PodView | None) -> None:
        """The pod from now on; None or one that does not matter takes it away."""
        before = self._pods.pop(key, None)
        if before is not None and before.job_name:
            self._leave(Key(before.namespace, before.job_name), key)
        if view is not None and matters(view):
            self._pods[key] = view
            if view.job_name:
                job = Key(view.namespace, view.job_name)
                self._of_job.setdefault(job, set()).add(key)
                self._ranked.pop(job, None)

    def values(self) -> Iterable[PodView]:
        """All of them."""
        return self._pods.values()

    def ranked(self, job: Key, mpijob_uid: str, job_uid: str = "") -> tuple[PodView, ...]:
        """Pods as of `of_job`, launcher first, then by rank; the same tuple until one of the job's pods changes."""
        last = self._ranked.get(job)
        if last is None or last[0] != (mpijob_uid, job_uid):
            pods = sorted(self.of_job(job, mpijob_uid, job_uid), key=lambda pod: (pod.role, pod.index or 0, pod.name))
            last = (mpijob_uid, job_uid), tuple(pods)
            if pods:
                self._ranked[job] = last
        return last[1]

    def of_job(self, job: Key, mpijob_uid: str, job_uid: str = "") -> Iterator[PodView]:
        """Pods of one MPIJob in any order, without those of an earlier MPIJob of that name, or of an earlier job than `job_uid`."""
        return (pod for key in self._of_job.get(job, ()) if _belongs(pod := self._pods[key], mpijob_uid, job_uid))

    def of_role(self, job: Key, role: str, job_uid: str) -> Iterator[PodView]:
        """Pods of a role, such as those that write a job's partitions, in any order, without those of an earlier job than `job_uid`."""
        pods = (self._pods[key] for key in self._of_job.get(job, ()))
        return (pod for pod in pods if pod.role == role and not _is_of_another(pod, job_uid))

    def __len__(self) -> int:
        return len(self._pods)

    def _leave(self, job: Key, key: Key) -> None:
        self._ranked.pop(job, None)
        pods = self._of_job[job]
        pods.discard(key)
        if not pods:
            del self._of_job[job]


def matters(pod: PodView) -> bool:
    """Whether it holds something, may soon, or belongs to a job."""
    return bool(pod.job_name) or (not pod.finished and (pod.gpus > 0 or pod.bound))


def _belongs(pod: PodView, mpijob_uid: str, job_uid: str) -> bool:
    """Workers are controlled by the MPIJob; the launcher by its Job, whose uid differs: there the labels decide."""
    return pod.owner_uid == mpijob_uid or (pod.owner_kind == "Job" and pod.role not in BATCH_ROLES and not _is_of_another(pod, job_uid))


def _is_of_another(pod: PodView, job_uid: str) -> bool:
    """Whether its label names another job; "" is no job's uid."""
    return bool(job_uid) and pod.labels.get(JOB_UID_LABEL, job_uid) != job_uid
