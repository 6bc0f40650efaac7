"""Everything that is written to the API server for a job, as JSON values under names that do not change with those of the code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec
import yaml
from msgspec.structs import replace

from hyperscale.control.apply.actions import suspension
from hyperscale.control.render.batch_jobs import inspect_job, partition_job, partition_key
from hyperscale.control.render.mpijob import launcher_pod_for_dry_run, render, worker_pod_for_dry_run
from hyperscale.control.render.plan_file import config_map
from hyperscale.control.render.pod import common_labels
from hyperscale.control.render.preflight_pod import network_policy, preflight_job
from hyperscale.control.render.release import launcher_release_patch, release_patch
from hyperscale.control.render.template import RenderError
from hyperscale.model.api.datasets import is_sized
from hyperscale.model.api.job import JobSpec, PlacementMode, PreflightMode
from hyperscale.model.decision import Reason, SetSuspend
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.plan import Plan
from hyperscale.model.pods import PodView
from hyperscale.spec.parse import parse_job, parse_policy
from tests.behaviour.looks import THREE, moving
from tests.behaviour.templates import EXAMPLES, MANIFEST_CASES, PATCHED_PODS, Json, ManifestCase
from tests.builders import placement
from tests.builders.seen import mpijob

KIND: Final = "manifests"
DEFAULTS: Final = RenderDefaults(worker_image="registry.example.com/hyperscale/worker:1")
PARTITION_BYTES: Final = 3 * 2**30
PLAN_ID: Final = "PLAN-ID"


def output(case: ManifestCase) -> Json:
    """All manifests of a job, or the path by which its template is refused."""
    job, metadata = parse_job(case.resource), metadata_of(case)
    plan = plan_of(case, job)
    try:
        manifests: Json = {"MPIJob": render(metadata, job, plan, DEFAULTS)}
        if key := partition_key(job, plan):
            manifests |= {"partition key": key, "partition Job": partition_job(metadata, job, plan, DEFAULTS, PARTITION_BYTES)}
        if not is_sized(job):
            manifests["inspect Job"] = inspect_job(metadata, job, DEFAULTS)
        if job.preflight is not PreflightMode.OFF:
            manifests |= {"preflight Job": preflight_job(metadata, job, DEFAULTS), "NetworkPolicy": network_policy(metadata, job)}
    except RenderError as error:
        return {"refused": error.path}
    if plan is not None:
        manifests["plan file"] = config_map(metadata, plan, common_labels(metadata, plan, "plan"))
    return {kind: normalised(manifest, plan) for kind, manifest in manifests.items()}


def metadata_of(case: ManifestCase) -> JobMetadata:
    wire = case.resource["metadata"]
    return JobMetadata(
        namespace=wire.get("namespace", "default"), name=wire["name"], uid="7f3c", labels=wire.get("labels", {}), generation=1
    )


def plan_of(case: ManifestCase, job: JobSpec) -> Plan | None:
    if not case.planned:
        return None
    nodes = case.nodes if case.nodes is not None else tuple(f"node-{index}" for index in range(job.workers.max_replicas))
    return placement.plan(*nodes, gpus=job.workers.gpus_per_worker)


def normalised(value: Any, plan: Plan | None) -> Any:
    """The value with one word for the plan's id, and with JSON inside texts as values, so that a difference names its path."""
    if isinstance(value, dict):
        return {key: normalised(entry, plan) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [normalised(entry, plan) for entry in value]
    if not isinstance(value, str):
        return value
    if value.startswith(("{", "[")):
        try:
            return {"JSON text": normalised(json.loads(value), plan)}
        except json.JSONDecodeError:
            pass
    return value.replace(plan.plan_id, PLAN_ID) if plan is not None else value


def release_patches() -> Json:
    """The patch of every pod in every placement mode, and the launcher's."""
    found: Json = {}
    for name, (gates, selector) in PATCHED_PODS.items():
        pod = PodView(namespace="team-a", name="cora-worker-0", uid="u1", gates=gates, node_selector=selector)
        by_mode = {mode.value: release_patch(pod, "host-a", mode) for mode in PlacementMode}
        found[name] = by_mode | {"launcher": launcher_release_patch(pod), "without uid": launcher_release_patch(replace(pod, uid=""))}
    return found


def suspension_patches() -> Json:
    """What is merged into an MPIJob that is suspended or resumed, in place, with a new plan, and with another number of workers."""
    looks = {"in place": moving(migrating=False), "with a new plan": moving(), "with another count": moving(plan=THREE)}
    found: Json = {}
    for name, look in looks.items():
        for suspend in (True, False):
            step = SetSuspend(Reason.MIGRATING, suspend=suspend)
            patch = suspension(mpijob(resource_version="42" if suspend else ""), look, step)
            found[f"{'suspended' if suspend else 'resumed'} {name}"] = normalised(patch, look.plan.in_force)
    return found


def dry_run_pods() -> Json:
    """The pods that are tried on the API server before an MPIJob with the user's own templates is created."""
    case = MANIFEST_CASES["worker-template-of-the-user"]
    job = parse_job(case.resource)
    plan = plan_of(case, job)
    made = render(metadata_of(case), job, plan, DEFAULTS)
    return {"worker": normalised(worker_pod_for_dry_run(made), plan), "launcher": normalised(launcher_pod_for_dry_run(made), plan)}


def example_policy() -> Json:
    """The policy of examples/ with all defaults."""
    wire: Json = msgspec.to_builtins(parse_policy(yaml.safe_load((EXAMPLES / "policy.yaml").read_text(encoding="utf-8"))))
    return wire


OTHERS: Final[dict[str, Callable[[], Json]]] = {
    "dry-run-pods": dry_run_pods,
    "example-policy": example_policy,
    "release-patches": release_patches,
    "suspension-patches": suspension_patches,
}
