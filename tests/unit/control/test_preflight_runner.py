"""Preflights are begun and read beside the passes: once each, again when due, and nothing waits for the API server.

Longer than other modules: one stage of preflights and an API server, in the order of a preflight's life.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec.structs import replace

from hyperscale.control.apply.api_answers import ApiError, ConflictError, TransientError
from hyperscale.control.apply.dependents import Companions, DependentRefusedError
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.milestones import Milestone
from hyperscale.control.render.preflight_pod import network_policy, preflight_job
from hyperscale.control.render.template import RenderError
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.pending import Pending
from hyperscale.control.scheduler.preflight_runner import PreflightRunner
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.api.preflight import preflight_key
from hyperscale.model.api.preflight_report import PreflightOutcome, PreflightStatus
from hyperscale.model.decision import Reason
from hyperscale.model.meta import RenderDefaults
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.status import JobStatus, to_wire
from tests.builders.seen import UID, changed, job_spec, seen
from tests.unit.control.test_world import job as wire_job

KEY: Final = Key("team", "cora")
SPEC: Final = job_spec(preflight="Require")
METADATA: Final = seen().job.metadata
DEFAULTS: Final = RenderDefaults(worker_image="example.com/worker:1")


def wire(**status: Any) -> dict[str, Any]:
    """The job as the API server gives it."""
    found = wire_job("cora")
    found["metadata"] |= {"uid": UID, "namespace": "team"}
    found["spec"] = {
        "model": {"architecture": "GCN"},
        "dataset": {"source": {"builtin": {"name": "Cora"}}},
        "workers": {"minReplicas": 2, "maxReplicas": 4},
        "preflight": "Require",
    }
    return {**found, "status": status}


class Writes:
    """Raises as told, and keeps what it was asked for."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors, self.asked = list(errors), list[str]()

    async def ensure_preflight(self, key: Key, state: ReconcileInput, job: JobSpec) -> None:
        self.asked.append(state.preflight.key)
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error


class Stage:
    """A runner whose job is looked at, at a time that the test tells."""

    def __init__(self, *errors: Exception | None) -> None:
        self.now, self.woken, self.writes = 1000.0, list[Key](), Writes(*errors)
        self.step_seconds = 0.0
        """By which the clock was set."""
        self.cache = ClusterCache()
        self.cache.see_job(wire())
        self.context = ControlContext(
            self.cache, JobReader(), Telemetry(), lambda: self.now + self.step_seconds, self.woken.append, monotonic=lambda: self.now
        )
        self.runner = PreflightRunner(self.context, self.writes)

    async def look(self, spec: JobSpec = SPEC, **changes: Any) -> None:
        """One pass over the job, and what the runner makes of it."""
        view = self.runner.view(KEY, spec, METADATA)
        state = changed(replace(seen(spec), preflight=view), **changes)
        self.runner.consider(KEY, state)
        self.runner.consider(KEY, state)
        working = asyncio.create_task(self.runner.run())
        await asyncio.sleep(0.005)
        working.cancel()

    def refusal(self) -> Any:
        return self.runner.view(KEY, SPEC, METADATA).refusal


async def test_a_preflight_is_begun_once_and_its_job_read_again_when_due() -> None:
    stage = Stage()
    await stage.look()
    await stage.look()
    assert len(stage.writes.asked) == 1
    assert stage.woken == [KEY]
    stage.now += 5.0
    await stage.look()
    assert len(stage.writes.asked) == 2


async def test_another_code_is_seen_to_at_once() -> None:
    stage = Stage()
    await stage.look()
    await stage.look(job_spec(preflight="Require", model={"architecture": "GAT"}))
    assert len(set(stage.writes.asked)) == 2


async def test_nothing_is_begun_for_a_job_without_a_preflight_or_that_is_gone() -> None:
    stage = Stage()
    await stage.look(job_spec())
    stage.cache.see_job({**wire(), "metadata": {**wire()["metadata"], "resourceVersion": "9"}}, deleted=True)
    await stage.look()
    assert stage.writes.asked == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DependentRefusedError("exceeded quota: q", Reason.QUOTA_EXCEEDED), Reason.QUOTA_EXCEEDED),
        (DependentRefusedError("theirs", Reason.NAME_CONFLICT), Reason.NAME_CONFLICT),
        (RenderError("spec.workers.template", "no"), Reason.INVALID_POD_TEMPLATE),
    ],
)
async def test_a_refusal_is_known_to_the_next_pass_and_tried_again_later(error: Exception, reason: Reason) -> None:
    stage = Stage(error)
    await stage.look()
    assert stage.refusal().reason == reason
    stage.now += 5.0
    await stage.look()
    assert len(stage.writes.asked) == 1
    stage.now += 25.0
    await stage.look()
    assert stage.refusal() is None


async def test_a_refusal_of_other_code_says_nothing_of_this() -> None:
    stage = Stage(DependentRefusedError("no"))
    await stage.look()
    assert stage.runner.view(KEY, job_spec(preflight="Require", model={"architecture": "GAT"}), METADATA).refusal is None


@pytest.mark.parametrize("error", [ConflictError(409, "changed"), TransientError(503, "busy"), ZeroDivisionError("a fault of our own")])
async def test_whatever_goes_wrong_is_tried_again_and_ends_nothing(error: Exception) -> None:
    stage = Stage(error)
    await stage.look()
    assert stage.refusal() is None
    stage.now += 30.0
    await stage.look()
    assert len(stage.writes.asked) == 2


class Hangs(Writes):
    """Never answers."""

    async def ensure_preflight(self, key: Key, state: ReconcileInput, job: JobSpec) -> None:
        await super().ensure_preflight(key, state, job)
        await asyncio.Event().wait()


async def test_a_pass_never_waits_for_an_api_server_that_hangs() -> None:
    stage = Stage()
    hangs = Hangs()
    stage.runner = PreflightRunner(stage.context, hangs)
    await stage.look()
    await stage.look()
    assert len(hangs.asked) == 1
    assert stage.woken == []


def pending(status: JobStatus | None = None) -> Pending:
    cache = ClusterCache()
    cache.see_job(wire(**to_wire(status)) if status is not None else wire())
    return Pending(cache, JobReader(), lambda: 1000.0)


def passed(key: str) -> JobStatus:
    return JobStatus(preflight=PreflightStatus(key, PreflightOutcome.PASSED, "Passed", "well"))


def test_a_held_job_gets_no_gpus_in_a_question_about_others() -> None:
    assert pending().entry(KEY, PolicySpec()) is None
    assert pending(passed("0000000000000000")).entry(KEY, PolicySpec()) is None
    assert pending(passed(preflight_key(SPEC, METADATA))).entry(KEY, PolicySpec()) is not None


class Api:
    """A namespace: what is in it by path, and the requests made."""

    def __init__(self, *found: tuple[str, dict[str, Any]], refuses: Callable[[str, dict[str, Any]], ApiError | None] | None = None) -> None:
        self.found = dict(found)
        self.asked: list[tuple[str, str]] = []
        self.refuses = refuses or (lambda *_: None)

    async def find(self, path: str) -> dict[str, Any] | None:
        return self.found.get(path)

    async def get(self, path: str) -> dict[str, Any]:
        return self.found[path]

    async def create(self, collection: str, body: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
        self.asked.append(("dry run" if query.get("dryRun") else "create", body["kind"]))
        if (error := self.refuses(collection, body)) is not None:
            raise error
        path = f"{collection}/{body['metadata']['name']}"
        if path in self.found:
            raise ConflictError(409, "exists")
        made = served(body)
        if not query.get("dryRun"):
            self.found[path] = made
        return made

    async def delete(self, path: str, uid: str, propagation: str) -> None:
        assert self.found[path]["metadata"]["uid"] == uid
        self.asked.append(("delete", self.found.pop(path)["kind"]))


def served(body: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """As the API server gives an object that the operator made; empty lists are left out."""
    spec = {key: entry for key, entry in body["spec"].items() if entry != []}
    made = {
        "uid": f"uid-of-{body['kind']}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": constants.FIELD_MANAGER}],
    }
    return {**body, "spec": spec, "metadata": {**body["metadata"], **made, **metadata}}


JOB_PATH: Final = "/apis/batch/v1/namespaces/team/jobs/cora-preflight"
POLICY_PATH: Final = "/apis/networking.k8s.io/v1/namespaces/team/networkpolicies/cora-preflight"


async def ensured(api: Api, spec: JobSpec = SPEC, milestones: list[Milestone] | None = None) -> ClusterCache:
    """The cache after the Job was to be there."""
    cache = ClusterCache()
    cache.see_job(wire())
    companions = Companions(api, cache, DEFAULTS, (milestones if milestones is not None else []).append)  # type: ignore[arg-type] # the part that is used
    await companions.ensure_preflight(KEY, METADATA, spec)
    return cache


async def test_the_network_is_closed_and_the_pod_tried_before_the_job_exists() -> None:
    milestones: list[Milestone] = []
    api = Api()
    cache = await ensured(api, milestones=milestones)
    assert api.asked == [("create", "NetworkPolicy"), ("dry run", "Pod"), ("create", "Job")]
    assert milestones == [Milestone.BEFORE_PREFLIGHT, Milestone.PREFLIGHT_CREATED]
    view = cache.preflights[KEY]
    assert (view.key, view.owner_uid, view.created) == (preflight_key(SPEC, METADATA), UID, "2026-01-01T00:00:00Z")


async def test_a_restarted_operator_finds_its_job_and_makes_no_second() -> None:
    api = Api((JOB_PATH, served(preflight_job(METADATA, SPEC, DEFAULTS))))
    cache = await ensured(api)
    assert [verb for verb, kind in api.asked if kind == "Job"] == ["create"]
    assert cache.preflights[KEY].uid == "uid-of-Job"
    assert len(api.found) == 1


async def test_a_job_for_other_code_makes_way() -> None:
    other = job_spec(preflight="Require", model={"architecture": "GAT"})
    api = Api((JOB_PATH, served(preflight_job(METADATA, other, DEFAULTS))))
    cache = await ensured(api)
    assert ("delete", "Job") in api.asked
    assert KEY not in cache.preflights


async def test_a_policy_for_other_data_is_replaced_and_the_same_one_is_left() -> None:
    sizes = {"vertices": 10, "edges": 20, "featureSize": 3, "classes": 2, "path": "g.npz", "format": "NPZ"}
    bucket = job_spec(preflight="Require", dataset={"source": {"s3": {"bucket": "b", "endpoint": "http://10.0.0.5:9000"}}, **sizes})
    api = Api((POLICY_PATH, served(network_policy(METADATA, bucket))))
    await ensured(api)
    assert ("delete", "NetworkPolicy") in api.asked
    assert "egress" not in api.found[POLICY_PATH]["spec"]
    del api.found[JOB_PATH]
    api.asked.clear()
    await ensured(api)
    assert ("delete", "NetworkPolicy") not in api.asked


@pytest.mark.parametrize("path", [JOB_PATH, POLICY_PATH], ids=["Job", "NetworkPolicy"])
async def test_what_belongs_to_another_is_left_alone(path: str) -> None:
    body = preflight_job(METADATA, SPEC, DEFAULTS) if path == JOB_PATH else network_policy(METADATA, SPEC)
    api = Api((path, served(body, ownerReferences=[])))
    with pytest.raises(DependentRefusedError, match="another owner") as refused:
        await ensured(api)
    assert refused.value.reason == Reason.NAME_CONFLICT
    assert path in api.found
    assert ("delete", body["kind"]) not in api.asked


async def test_a_quota_that_refuses_the_pod_is_named_and_no_job_is_made() -> None:
    quota = ApiError(403, 'pods "cora-preflight-dry-run" is forbidden: exceeded quota: small')
    api = Api(refuses=lambda path, body: quota if body["kind"] == "Pod" else None)
    with pytest.raises(DependentRefusedError, match="exceeded quota: small") as refused:
        await ensured(api)
    assert refused.value.reason == Reason.QUOTA_EXCEEDED
    assert JOB_PATH not in api.found


async def test_a_missing_right_to_close_the_network_opens_no_job() -> None:
    missing = ApiError(403, 'networkpolicies.networking.k8s.io is forbidden: User "x" cannot create resource "networkpolicies"')
    api = Api(refuses=lambda path, body: missing if body["kind"] == "NetworkPolicy" else None)
    with pytest.raises(DependentRefusedError) as refused:
        await ensured(api)
    assert refused.value.reason == Reason.FORBIDDEN
    assert JOB_PATH not in api.found


async def test_a_webhook_that_knows_no_dry_run_is_no_refusal() -> None:
    webhook = ApiError(400, "admission webhook w does not support dry run")
    api = Api(refuses=lambda path, body: webhook if body["kind"] == "Pod" else None)
    await ensured(api)
    assert JOB_PATH in api.found


def test_an_ended_preflight_is_counted_once() -> None:
    telemetry = Telemetry()
    before, after = None, PreflightStatus("k", PreflightOutcome.FAILED, "Crashed", "boom")
    telemetry.count_preflight(before, after)
    telemetry.count_preflight(after, after)
    telemetry.count_preflight(after, None)
    assert telemetry.registry.get_sample_value("hyperscale_preflights_total", {"outcome": "Failed"}) == 1.0
