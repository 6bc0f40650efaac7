"""What a stranger stores ends no process and stops no other job; each object that cannot be used is named in the log once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from e2e.cluster.api import ApiError
from e2e.cluster.control_plane import wait_until
from e2e.cluster.topology import DEFAULT_FILE, load
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault import strangers
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess, running
from tests.fault.proxy import Asked
from tests.fault.strangers import OPTIONAL, VICTIM, Case
from tests.fault.watching import wait_created

NODES = tuple(machine.name for machine in load(DEFAULT_FILE).nodes)
CASES = strangers.cases(NODES)
LIMIT_BYTES = 2**30


@pytest.fixture(scope="module")
def victim(stage: Stage) -> Iterator[str]:
    """A Ready node of eight GPUs that nothing but this module uses."""
    resources = {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi", "pods": "250"}
    labels = {"kubernetes.io/hostname": VICTIM, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "example.com/only": VICTIM}
    status = {"allocatable": resources, "capacity": resources, "conditions": [{"type": "Ready", "status": "True"}]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": VICTIM, "labels": labels}, "status": status}
    stage.api.create("/api/v1/nodes", node)
    stage.api.patch(f"/api/v1/nodes/{VICTIM}", {"spec": {"taints": None}})
    yield VICTIM
    stage.api.delete(f"/api/v1/nodes/{VICTIM}")


@pytest.fixture(scope="module")
def kinds(stage: Stage) -> Iterator[None]:
    """The kinds of other operators that ours reads where they exist."""
    paths = []
    for kind in OPTIONAL:
        group, _, version = strangers.VERSIONS[kind].partition("/")
        definition = strangers.definition(group, version, kind, strangers.COLLECTIONS[kind].rpartition("/")[2])
        paths.append(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}")
        stage.api.apply(paths[-1], definition)
    for kind in OPTIONAL:
        wait_until(partial(served, stage, kind), PATIENCE_SECONDS, f"{kind} is not served")
    yield
    for path in paths:
        stage.api.delete(path)


def served(stage: Stage, kind: str) -> bool:
    try:
        return stage.api.find(strangers.COLLECTIONS[kind]) is not None
    except ApiError:
        return False


@pytest.fixture
def stored(stage: Stage, space: str, victim: str, kinds: None) -> Iterator[dict[str, Case]]:
    """A function that stores every case; all are gone after the test."""
    stage.proxy.reset()
    yield CASES
    for name, case in CASES.items():
        case.take_away(stage.api, space, name)


def is_listing(asked: Asked) -> bool:
    return asked.path.endswith("/gnntrainingjobs") and not asked.is_watch


def store_all(stage: Stage, space: str) -> None:
    for name, case in CASES.items():
        case.store(stage.api, space, name)


def naming(process: OperatorProcess, space: str) -> Counter[str]:
    """How often the log says of each case that it cannot be used."""
    said: Counter[str] = Counter()
    for line in process.log.splitlines():
        message = str(json.loads(line)["message"])
        for name, case in CASES.items():
            said[name] += message.startswith(f"{case.kind} {case.key(space, name)} cannot be used as it is: ")
    return said


def check(process: OperatorProcess, stage: Stage, space: str) -> None:
    """Every case is named once, another job starts, and the victim's GPUs stay taken."""

    def all_named() -> bool:
        assert not process.ended, process.log
        return all(naming(process, space)[name] for name in CASES)

    wait_until(all_named, PATIENCE_SECONDS, f"not named: {[name for name in CASES if not naming(process, space)[name]]}")
    bystander = Job(stage.api, space, "bystander")
    bystander.create()
    wait_created(bystander)
    assert VICTIM not in bystander.nodes()
    greedy = Job(stage.api, space, "greedy")
    greedy.create(workers={"minReplicas": 2, "maxReplicas": 2, "template": {"spec": {"nodeSelector": {"example.com/only": VICTIM}}}})
    greedy.wait(lambda: greedy.condition("Planned").get("status") == "False", "it is not told that there is no room")
    assert greedy.mpijob() is None
    assert process.probe("/healthz") == 200
    assert process.probe("/readyz") == 200
    assert {name: count for name, count in naming(process, space).items() if count != 1} == {}
    pods = sum(case.kind == "Pod" for case in CASES.values())
    wait_until(
        lambda: process.metric("hyperscale_unreadable_objects", kind="Pod") == pods,
        PATIENCE_SECONDS,
        f"{pods} unreadable pods are not counted",
    )
    assert process.peak_memory_bytes() < LIMIT_BYTES


def test_there_are_enough_cases_of_every_kind() -> None:
    assert len(CASES) >= 40
    assert {case.kind for case in CASES.values()} == set(strangers.COLLECTIONS)


def test_what_strangers_store_while_the_operator_runs_stops_nothing(stage: Stage, space: str, stored: dict[str, Case]) -> None:
    with stage.watching(resync_seconds=2) as process:
        store_all(stage, space)
        check(process, stage, space)


def test_an_operator_that_finds_all_of_it_starts(stage: Stage, space: str, stored: dict[str, Case]) -> None:
    store_all(stage, space)
    with running(stage.operator(resync_seconds=2), stage.api) as process:
        process.wait_ready()
        check(process, stage, space)


@pytest.mark.parametrize("name", ["job-nested-9000", "job-many-lists", "job-large-text"])
def test_a_job_that_cannot_be_decoded_says_so_itself(stage: Stage, space: str, stored: dict[str, Case], name: str) -> None:
    CASES[name].store(stage.api, space, name)
    path = CASES[name].path(space, name)
    with stage.watching(resync_seconds=2):
        wait_until(lambda: '"reason":"InvalidSpec"' in stage.api.text(path), PATIENCE_SECONDS, "the job is not told")
        since = len(stage.proxy.asked)
        wait_until(lambda: len(stage.proxy.asked_since(since, is_listing)) >= 3, PATIENCE_SECONDS, "jobs are not listed again")
        assert stage.proxy.asked_since(since, lambda asked: asked.path == f"{path}/status") == [], "what is told is not told again"


def test_a_status_that_the_operator_cannot_have_written_is_replaced(stage: Stage, space: str, stored: dict[str, Case]) -> None:
    name = "job-status-endless-wait"
    CASES[name].store(stage.api, space, name)
    job = Job(stage.api, space, name)
    assert "lastPreemption" in job.status()
    with stage.watching(resync_seconds=2):
        wait_created(job)
    assert "lastPreemption" not in job.status()
