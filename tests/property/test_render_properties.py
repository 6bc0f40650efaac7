from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.control.render.environment import literal
from hyperscale.control.render.mpijob import launcher_pod_for_dry_run, render, worker_pod_for_dry_run
from hyperscale.control.render.template import RenderError
from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec
from hyperscale.model.meta import JobMetadata
from hyperscale.model.plan import Plan
from tests.builders.placement import DEFAULTS, plan
from tests.builders.restricted import breaches
from tests.builders.wire import spec_of

SECRET = "zq"
"""Starts every text of the user's, so that it can be found again in what was rendered."""
NAMES = st.from_regex(r"zq[a-z0-9]{1,8}", fullmatch=True)
PATHS = st.none() | st.from_regex(r"zq[A-Za-z0-9_.-]{0,9}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,8}){0,2}", fullmatch=True)
TEXTS = st.text(max_size=12).map(lambda text: SECRET + text)
LABELS = st.dictionaries(NAMES, NAMES, max_size=2)
GPU_RESOURCES = st.fixed_dictionaries({}, optional={"limits": st.sampled_from([{"nvidia.com/gpu": 1}, {"cpu": "1"}, {}, {}, {}])})
RESOURCES = st.builds(
    lambda gpus, further: {"limits": {"nvidia.com/gpu": gpus, **further}, "requests": further},
    st.integers(1, 16),
    st.sampled_from([{}, {"cpu": 1}, {"cpu": "1", "memory": "8Gi"}]),
)

SECURITY = st.fixed_dictionaries(
    {},
    optional={
        "runAsUser": st.sampled_from([0, 1, 1000, "0"]),
        "runAsNonRoot": st.booleans(),
        "privileged": st.booleans(),
        "allowPrivilegeEscalation": st.booleans(),
        "procMount": st.sampled_from(["Default", "Unmasked"]),
        "seccompProfile": st.sampled_from([None, {"type": "Unconfined"}, {"type": "RuntimeDefault"}, {}]),
        "seLinuxOptions": st.sampled_from([{"type": "spc_t"}, {"type": "container_t"}, {"user": "u"}, {"level": "s0"}]),
        "capabilities": st.sampled_from([{"add": ["SYS_ADMIN"]}, {"add": ["NET_BIND_SERVICE"]}, {"drop": []}, {"drop": ["ALL"]}, None]),
    },
)
CONTAINERS = st.fixed_dictionaries(
    {"name": st.sampled_from(["worker", "launcher", "main", "side"])},
    optional={
        "image": NAMES,
        "command": st.lists(TEXTS, max_size=3),
        "args": st.lists(TEXTS, max_size=2),
        "env": st.lists(st.fixed_dictionaries({"name": NAMES | st.just("HYPERSCALE_JOB"), "value": TEXTS}), max_size=3),
        "securityContext": SECURITY | st.none(),
        "resources": GPU_RESOURCES,
        "ports": st.lists(st.fixed_dictionaries({"containerPort": st.just(80)}, optional={"hostPort": st.just(80)}), max_size=1),
        "livenessProbe": st.sampled_from([{"tcpSocket": {"port": 1}}, {"httpGet": {"host": "h", "port": 1}}]),
    },
)
POD_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(CONTAINERS, max_size=3, unique_by=lambda entry: entry["name"]),
        "initContainers": st.lists(CONTAINERS, max_size=1),
        "securityContext": SECURITY,
        "hostNetwork": st.booleans(),
        "hostPID": st.booleans(),
        "automountServiceAccountToken": st.booleans(),
        "schedulingGates": st.lists(st.sampled_from([{"name": "x.example.com/g"}, {"name": constants.PLACEMENT_GATE}]), max_size=1),
        "volumes": st.lists(
            st.sampled_from([{"name": "a", "hostPath": {"path": "/"}}, {"name": "a", "emptyDir": {}}, {"name": "a", "nfs": {}}]), max_size=1
        ),
        "nodeSelector": LABELS,
        "restartPolicy": st.just("Always"),
        "tolerations": st.sampled_from([[], [{"key": "nvidia.com/gpu", "operator": "Exists"}], [{"operator": "Exists"}]]),
    },
)
TEMPLATES = st.fixed_dictionaries(
    {}, optional={"spec": POD_SPECS, "metadata": st.fixed_dictionaries({}, optional={"labels": LABELS, "annotations": LABELS})}
)
SOURCES = st.one_of(
    st.builds(lambda name: {"persistentVolumeClaim": {"claimName": name}}, NAMES),
    st.builds(lambda name: {"configMap": {"name": name}}, NAMES),
    st.builds(
        lambda bucket, secret: {"s3": {"bucket": bucket, "secretRef": secret}},
        NAMES,
        st.none() | st.builds(lambda name: {"name": name}, NAMES),
    ),
    st.just({"builtin": {"name": "Cora"}}),
)


@st.composite
def jobs(draw: st.DrawFn, templates: st.SearchStrategy[dict[str, Any]] = TEMPLATES) -> JobSpec:
    spec: dict[str, Any] = {
        "model": {"architecture": draw(st.sampled_from(["GCN", "GAT"])), "script": draw(PATHS)},
        "dataset": {"source": draw(SOURCES), "path": draw(PATHS), "vertices": 9, "edges": 9, "featureSize": 9, "classes": 9},
        "workers": {
            "maxReplicas": 4,
            "resources": draw(RESOURCES),
            "template": draw(templates),
        },
        "placement": {"mode": draw(st.sampled_from(["Strict", "Preferred", "Advisory"])), "nodeSelector": draw(LABELS)},
        "checkpoint": draw(st.none() | st.builds(lambda name: {"claimName": name}, NAMES)),
        "launcher": {"template": draw(templates)},
    }
    return spec_of(spec)


PLANS = st.none() | st.integers(1, 4).map(lambda count: plan(*(f"node-{index}" for index in range(count))))
METADATA = st.builds(
    lambda queue: JobMetadata("team-a", "cora", "u", labels=queue), st.sampled_from([{}, {constants.KUEUE_QUEUE_LABEL: "gold"}])
)


def templates_of(mpijob: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    specs = mpijob["spec"]["mpiReplicaSpecs"]
    return specs["Worker"]["template"], specs["Launcher"]["template"]


def rendered_or_refused(meta: JobMetadata, job: JobSpec, chosen: Plan | None) -> dict[str, Any] | RenderError:
    try:
        return render(meta, job, chosen, DEFAULTS)
    except RenderError as refused:
        return refused


@settings(max_examples=50, deadline=None)
@given(METADATA, jobs(), PLANS)
def test_whatever_is_asked_the_pods_are_restricted_or_a_field_is_named(meta: JobMetadata, job: JobSpec, chosen: Plan | None) -> None:
    found = rendered_or_refused(meta, job, chosen)
    if isinstance(found, RenderError):
        assert found.path.startswith(("spec.workers.template.", "spec.launcher.template."))
        return
    for template in templates_of(found):
        assert breaches(template) == []


@settings(max_examples=50, deadline=None)
@given(METADATA, jobs(st.just({})), PLANS)
def test_every_job_without_templates_can_be_rendered(meta: JobMetadata, job: JobSpec, chosen: Plan | None) -> None:
    mpijob = render(meta, job, chosen, DEFAULTS)
    for template in templates_of(mpijob):
        assert breaches(template) == []
        assert len(template["spec"]["containers"]) == 1


@settings(max_examples=50, deadline=None)
@given(METADATA, jobs(), PLANS)
def test_gates_and_gpus_do_not_depend_on_the_users_template(meta: JobMetadata, job: JobSpec, chosen: Plan | None) -> None:
    found = rendered_or_refused(meta, job, chosen)
    if isinstance(found, RenderError):
        return
    worker, launcher = templates_of(found)
    gates = [{gate["name"] for gate in template["spec"].get("schedulingGates", [])} for template in (worker, launcher)]
    held = chosen is not None and job.placement.mode != "Advisory"
    if held:
        assert constants.PLACEMENT_GATE in gates[0]
        assert constants.LAUNCHER_GATE in gates[1]
    containers: list[dict[str, Any]] = [*worker["spec"]["containers"], *worker["spec"].get("initContainers", [])]
    main, others = containers[0], containers[1:]
    assert main["resources"]["limits"]["nvidia.com/gpu"] == job.workers.gpus_per_worker
    assert "nvidia.com/gpu" not in str([entry.get("resources") for entry in others])
    assert "nvidia.com/gpu" not in str([entry.get("resources") for entry in launcher["spec"]["containers"]])


@settings(max_examples=50, deadline=None)
@given(METADATA, jobs(), PLANS)
def test_the_same_job_and_plan_give_the_same_bytes(meta: JobMetadata, job: JobSpec, chosen: Plan | None) -> None:
    def once() -> bytes:
        found = rendered_or_refused(meta, job, chosen)
        if isinstance(found, RenderError):
            return str(found).encode()
        return msgspec.json.encode([found, worker_pod_for_dry_run(found), launcher_pod_for_dry_run(found)])

    assert once() == once()


@settings(max_examples=50, deadline=None)
@given(METADATA, jobs(st.just({})), PLANS)
def test_no_shell_runs_and_the_users_words_are_whole_arguments(meta: JobMetadata, job: JobSpec, chosen: Plan | None) -> None:
    for template in templates_of(render(meta, job, chosen, DEFAULTS)):
        command = template["spec"]["containers"][0]["command"]
        assert not {"sh", "bash", "-c", "/bin/sh", "env"} & set(command)
        assert all(part == job.model.script for part in command if SECRET in part)


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="$(){}Aa ", max_size=12))
def test_a_value_that_looks_like_a_reference_reaches_the_program_as_it_is(text: str) -> None:
    # What the kubelet does (k8s.io/kubernetes third_party/forked/golang/expansion): $$ is $, $( begins a name, any other $ is itself.
    rendered, out, index = literal(text), "", 0
    while index < len(rendered):
        pair = rendered[index : index + 2]
        assert pair != "$(", "the kubelet would look up a variable here"
        out += "$" if pair == "$$" else rendered[index]
        index += 2 if pair == "$$" else 1
    assert out == text
