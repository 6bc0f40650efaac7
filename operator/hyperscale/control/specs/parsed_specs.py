"""From watched resources to checked types: the job's spec and the policy that it is planned by, each parsed once a generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from hyperscale.control.render.mpijob import render
from hyperscale.control.render.pod import runs_own_program
from hyperscale.control.render.template import RenderError
from hyperscale.control.specs.plan_question import worker_asks
from hyperscale.evaluate.calibration.lessons import NO_LESSONS, Lessons
from hyperscale.model import constants
from hyperscale.model.api.datasets import graph_bytes, is_sized
from hyperscale.model.api.job import JobSpec, PartitioningMethod, PlannerChoice, StartPolicy
from hyperscale.model.api.policy import PolicySpec, PreferenceMode
from hyperscale.model.decision import Reason
from hyperscale.model.history.corrections import Corrections
from hyperscale.model.history.step_curves import CurveKey
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.observed.reconcile_input import SpecFault
from hyperscale.model.plan import Calibration, Plan
from hyperscale.model.planning import NO_VOLUMES, Volumes, chosen_calibrations, chosen_corrections
from hyperscale.spec.parse import SpecError, parse_job, parse_policy, with_read_sizes
from hyperscale.spec.plausible import readable_time
from hyperscale.util.quantity import parse_bytes

Json = dict[str, Any]
Parsed = TypeVar("Parsed", JobSpec, PolicySpec)
_Revision = tuple[str, int, str]
"""uid, generation, and the sizes of the graph that were read since."""

DEFAULT_POLICY_NAME: Final = "default"
"""PlannerPolicy used by jobs without policyRef; where it does not exist the built-in figures hold."""

GIBIBYTE: Final = 2**30
_CACHED: Final = 16_384
"""Parsed specs kept, 2 kB each; beyond that the oldest is parsed again when needed, which takes half a millisecond."""


class JobReader:
    """Parses jobs and policies; the same resource version is parsed once."""

    def __init__(self, volumes: Callable[[tuple[str, str]], Volumes] = lambda key: NO_VOLUMES) -> None:
        """volumes: what the claims of a job, by namespace and name, said when they were read last."""
        self.volumes = volumes
        self._jobs: dict[_Revision, JobSpec | SpecFault] = {}
        self._policies: dict[_Revision, PolicySpec | SpecFault] = {}
        self.calibrations: Mapping[str, tuple[Calibration, ...]] = {}
        """By architecture, what finished runs taught about predictions; the component that keeps history fills it."""
        self.corrections: Mapping[str, Corrections] = {}
        """Likewise, what they taught the cost model, by architecture; "" for every other one."""
        self.preferences: Callable[[str, PolicySpec], tuple[float, float, float] | None] = lambda namespace, policy: None
        """The weights of a namespace within the policy's bounds; the component that keeps decisions fills it."""
        self.decisions_read = False
        """Whether that component has read what people decided since the operator started; so it has where none is kept."""
        self.taught: Mapping[CurveKey, Calibration] = {}
        """Likewise, of workloads whose own runs taught a step time curve that can be trusted."""
        self.lessons: Lessons = NO_LESSONS
        """Likewise, for evaluations."""

    def weights_of(self, namespace: str, policy: PolicySpec) -> tuple[float, float, float] | None:
        """What people of a namespace weigh time, cost and risk by, as `preferences` says; None where the policy says Off."""
        return self.preferences(namespace, policy) if policy.preferences.mode is not PreferenceMode.OFF else None

    def applied_weights(self, namespace: str, policy: PolicySpec) -> tuple[float, float, float] | None:
        """The same where plans follow them; None where the policy only advises."""
        return self.preferences(namespace, policy) if policy.preferences.mode is PreferenceMode.APPLY else None

    def read(self, resource: Json, policies: Mapping[str, Json]) -> tuple[JobSpec | None, SpecFault | None]:
        """The job's spec, or what is wrong with it; a policy that is missing, broken or forbids the planner is the job's fault too."""
        job = self._parsed(self._jobs, resource, _renderable_job)
        if isinstance(job, SpecFault):
            return None, job
        policy = self._policy(resource, policies)
        if isinstance(policy, SpecFault):
            return None, policy
        if job.planner not in policy.planners:
            allowed = ", ".join(policy.planners) or "none"
            return None, _policy_fault("spec.planner", f"{job.planner} is not allowed by the PlannerPolicy; write one of: {allowed}")
        return job, None

    def plannable(self, resource: Json, policies: Mapping[str, Json]) -> JobSpec | None:
        """The job's spec where nothing is wrong with it and the size of its graph is known: what planners can be asked about."""
        job = self.read(resource, policies)[0]
        return job if job is not None and is_sized(job) else None

    def may_start(self, resource: Json, policies: Mapping[str, Json], plan: Plan | None) -> bool:
        """Whether the operator can have made an MPIJob with this plan for the job: only a job that may start gets one."""
        job = self.read(resource, policies)[0]
        if job is None or job.start_policy is StartPolicy.NEVER:
            return False
        if job.start_policy is not StartPolicy.MANUAL:
            return True
        approved = (resource["metadata"].get("annotations") or {}).get(constants.APPROVED_PLAN_ANNOTATION)
        return job.planner is PlannerChoice.NONE or (plan is not None and approved == plan.plan_id)

    def calibration(self, job: JobSpec, namespace: str = "") -> tuple[Calibration, ...]:
        """What finished runs taught about a namespace's job, as `chosen_calibrations` says."""
        return chosen_calibrations(self.calibrations, self.taught, job, namespace)

    def placement_corrections(self, job: JobSpec, policy: PolicySpec, namespace: str = "") -> Corrections | None:
        """What finished runs taught the cost model about a namespace's job; None where nothing, or where the policy only reports it."""
        return chosen_corrections(self.corrections, job, policy, namespace)

    def policy_of(self, resource: Json, policies: Mapping[str, Json]) -> PolicySpec:
        """The job's policy; the built-in one where `read` reports a fault."""
        policy = self._policy(resource, policies)
        return policy if isinstance(policy, PolicySpec) else PolicySpec()

    def policy_named(self, name: str, policies: Mapping[str, Json]) -> PolicySpec:
        """A policy by name; the built-in one where it is missing or broken."""
        resource = policies.get(name)
        parsed = self._parsed(self._policies, resource, parse_policy) if resource is not None else None
        return parsed if isinstance(parsed, PolicySpec) else PolicySpec()

    def _policy(self, resource: Json, policies: Mapping[str, Json]) -> PolicySpec | SpecFault:
        reference = (resource.get("spec") or {}).get("policyRef") or {}
        return self.policy(str(reference.get("name") or "") if isinstance(reference, dict) else "", policies)

    def policy(self, name: str, policies: Mapping[str, Json]) -> PolicySpec | SpecFault:
        """The policy that a job with this policyRef goes by, "" for none; or what is wrong with it."""
        resource = policies.get(name or DEFAULT_POLICY_NAME)
        if resource is None:
            if name:
                return _policy_fault("spec.policyRef.name", f'no PlannerPolicy "{name}" exists; create it or leave policyRef out')
            return PolicySpec()
        parsed = self._parsed(self._policies, resource, parse_policy)
        if isinstance(parsed, SpecFault):
            return _policy_fault("spec.policyRef.name", f'PlannerPolicy "{name or DEFAULT_POLICY_NAME}": {parsed.path}: {parsed.message}')
        return parsed

    def _parsed(self, cache: dict[_Revision, Parsed | SpecFault], resource: Json, parse: Callable[[Json], Parsed]) -> Parsed | SpecFault:
        metadata = resource["metadata"]
        key = (metadata["uid"], metadata.get("generation") or 0, str(resource.get("status") or ""))
        if key not in cache:
            while len(cache) >= _CACHED:
                del cache[next(iter(cache))]
            try:
                cache[key] = parse(resource)
            except SpecError as error:
                cache[key] = SpecFault(error.path, error.message)
            except RenderError as error:
                cache[key] = SpecFault(error.path, error.message, Reason.INVALID_POD_TEMPLATE)
        return cache[key]


def _policy_fault(path: str, message: str) -> SpecFault:
    return SpecFault(path, message, of_policy=True)


def metadata_of(resource: Json) -> JobMetadata:
    """What of a job's metadata the operator goes by."""
    metadata = resource["metadata"]
    return JobMetadata(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        generation=metadata.get("generation") or 0,
        created=readable_time(metadata.get("creationTimestamp")),
    )


def _renderable_job(resource: Json) -> JobSpec:
    """The parsed job; templates of its own are tried with the renderer too, before anybody is asked for a plan.

    Raises SpecError, and RenderError for a template.
    """
    job = with_read_sizes(parse_job(resource), resource)
    if job.launcher.template or job.workers.template:
        render(metadata_of(resource), job, None, RenderDefaults(worker_image="any"))
        worker_asks(job)
    _check_memory(job)
    return job


def _check_memory(job: JobSpec) -> None:
    """Where no Job partitions, every worker reads the whole graph before it keeps its part; raises SpecError where that cannot fit.

    What a user's own program reads is its own affair. The templates are known to render.
    """
    by_a_job = job.partitioning.claim_name is not None and job.partitioning.method is not PartitioningMethod.NONE
    memory = job.workers.resources.limits.get("memory")
    if by_a_job or memory is None or not is_sized(job) or runs_own_program(job):
        return
    needed, given = graph_bytes(job), parse_bytes(memory)
    if needed > given:
        other = " with another spec.partitioning.method than None" if job.partitioning.method is PartitioningMethod.NONE else ""
        message = (
            f"{memory} is less than the training graph alone takes, {needed / GIBIBYTE:.3g} GiB; raise it, or name a "
            f"spec.partitioning.claimName{other}: then one Job partitions and workers read only their parts"
        )
        raise SpecError("spec.workers.resources.limits.memory", message)
