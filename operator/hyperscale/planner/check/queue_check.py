"""An independent judge of decisions about the queue: every job once, no GPU twice, every plan as the checker of plans has it. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import JobPreemption, PreemptionAnswer, PreemptionQuestion
from hyperscale.planner.check.check_needs import add_worker
from hyperscale.planner.check.plan_check import violations


def unsound(turns: AdmissionResult, question: AdmissionRequest, snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Sentences that say what is wrong with an answer; empty when it may be carried out."""
    return (*_every_job_once(turns, question), *_plans(turns, question, snapshot))


def _every_job_once(turns: AdmissionResult, question: AdmissionRequest) -> Iterator[str]:
    asked = Counter(queued.request.job_key for queued in question.jobs)
    answered = Counter([start.key for start in turns.starts] + [hold.key for hold in turns.holds])
    for key in sorted(asked.keys() | answered.keys()):
        if asked[key] != answered[key]:
            yield f"{key}: asked about {asked[key]} times, answered {answered[key]} times"


def _plans(turns: AdmissionResult, question: AdmissionRequest, snapshot: ClusterSnapshot) -> Iterator[str]:
    requests = {queued.request.job_key: queued.request for queued in question.jobs}
    free = {node.name: question.free_gpus.get(node.name, node.free_gpus) for node in snapshot.nodes}
    begun = (
        (replace(requests[start.key], free_gpus=free, reserved_amounts=question.reserved_amounts), start.plan)
        for start in turns.starts
        if start.key in requests  # told by the other rule
    )
    yield from unsound_plans(list(begun), snapshot)


def unsound_plans(begun: Sequence[tuple[PlanRequest, Plan]], snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Sentences that say what is wrong with plans that start together, each on what the plans before it have left.

    begun: requests with what is free before any of the jobs starts, the same for all
    """
    if not begun:
        return ()
    first = begun[0][0]
    free = {node.name: first.free_gpus.get(node.name, node.free_gpus) for node in snapshot.nodes}
    reserved = {name: dict(amounts) for name, amounts in first.reserved_amounts.items()}
    wrong: list[str] = []
    for request, plan in begun:
        left = replace(request, free_gpus=free, reserved_amounts=reserved)
        wrong += [f"{request.job_key}: {sentence}" for sentence in violations(plan, left, snapshot)]
        for worker in plan.workers:
            free[worker.node] = free.get(worker.node, 0) - worker.gpus
            add_worker(reserved.setdefault(worker.node, {}), request)
    return tuple(wrong)


def unsound_stops(stops: PreemptionAnswer, question: PreemptionQuestion) -> tuple[str, ...]:
    """Sentences that say what is wrong with advice about running jobs; empty when it may be acted on."""
    running = {job.running.request.job_key for job in question.running}
    job_keys = running | {queued.request.job_key for queued in question.pending}
    times_by_key = Counter(stop.key for stop in stops.stops)
    wrong = [f"{key}: answered {times} times" for key, times in sorted(times_by_key.items()) if times > 1]
    return (*wrong, *(sentence for stop in stops.stops for sentence in _unsound_stop(stop, running, job_keys)))


def _unsound_stop(stop: JobPreemption, running: Collection[str], job_keys: Collection[str]) -> Iterator[str]:
    if stop.key not in running:
        yield f"{stop.key} was not asked about"
    if not stop.beneficiaries or not all(key in job_keys for key in stop.beneficiaries):
        yield f"{stop.key}: its GPUs go to no job of the question"
    if not (math.isfinite(stop.saved_seconds) and stop.saved_seconds > 0.0 and math.isfinite(stop.price_seconds)):
        yield f"{stop.key}: saves {stop.saved_seconds} s for {stop.price_seconds} s"
