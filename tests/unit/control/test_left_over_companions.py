"""Which plan files and partition Jobs of an earlier job make way: those that the operator made, for a job that is gone."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.control.apply.api_answers import ConflictError
from hyperscale.control.apply.dependents import Companions, DependentRefusedError
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.intake import JOB
from hyperscale.control.render.plan_file import config_map
from hyperscale.control.render.pod import common_labels
from hyperscale.model import constants
from hyperscale.model.meta import RenderDefaults
from tests.builders.seen import plan, seen
from tests.unit.control.test_world import CORA, cache, job

NOW = seen().job.metadata
BEFORE = replace(NOW, uid="earlier-uid")
PLAN = plan("node-a")


def made_for(metadata: Any) -> dict[str, Any]:
    """As the API server gives the plan file that the operator made for a job."""
    found = config_map(metadata, PLAN, common_labels(metadata, PLAN, "plan"))
    found["metadata"] |= {"uid": "file-uid", "resourceVersion": "1", "managedFields": [{"manager": constants.FIELD_MANAGER}]}
    return found


class Api:
    """A namespace in which the plan file's name is taken."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found: dict[str, Any] | None = found
        self.deleted: list[str] = []

    async def create(self, collection: str, body: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
        if self.found is not None:
            raise ConflictError(409, "exists")
        return {**body, "metadata": {**body["metadata"], "uid": "new", "resourceVersion": "2"}}

    async def get(self, path: str) -> dict[str, Any]:
        assert self.found is not None
        return self.found

    async def delete(self, path: str, uid: str, propagation: str) -> None:
        self.deleted.append(uid)
        self.found = None


async def written(found: dict[str, Any], *others: str) -> Api:
    """The API after a plan file was to be written, while jobs of these uids live beside this one."""
    api, cache = Api(found), ClusterCache()
    for number, uid in enumerate(others):
        beside = job(f"other-{number}")
        beside["metadata"]["uid"] = uid
        cache.see_job(beside)
    companions = Companions(api, cache, RenderDefaults(worker_image="example.com/worker:1"), lambda _: None)  # type: ignore[arg-type] # the part that is used
    with suppress(DependentRefusedError):
        await companions.write_plan_file(NOW, PLAN)
    return api


async def test_what_the_operator_made_for_an_earlier_job_makes_way() -> None:
    assert (await written(made_for(BEFORE))).deleted == ["file-uid"]


@pytest.mark.parametrize("lacks", ["labels", "managedFields", "uid label", "api group"])
async def test_what_only_names_an_earlier_job_as_its_owner_is_left_alone(lacks: str) -> None:
    theirs = made_for(BEFORE)
    if lacks == "uid label":
        theirs["metadata"]["labels"][constants.JOB_UID_LABEL] = "another-uid"
    elif lacks == "api group":
        theirs["metadata"]["ownerReferences"][0]["apiVersion"] = "example.com/v1"
    else:
        del theirs["metadata"][lacks]
    assert (await written(theirs)).deleted == []


async def test_what_belongs_to_a_job_that_lives_is_left_alone() -> None:
    assert (await written(made_for(BEFORE), BEFORE.uid)).deleted == []


def succeeded(owner: str) -> dict[str, Any]:
    """A partition Job that has written its parts, for the job of that uid."""
    reference = {"apiVersion": constants.API_VERSION, "kind": constants.JOB_KIND, "name": CORA.name, "uid": owner, "controller": True}
    metadata = {"namespace": CORA.namespace, "name": "cora-partition", "uid": f"of-{owner}", "ownerReferences": [reference]}
    return {"metadata": metadata, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def test_parts_that_an_earlier_job_of_the_name_wrote_are_not_those_of_its_successor_whose_deletion_went_unseen() -> None:
    seen = cache()
    seen.see_batch_job(seen.partitions, CORA, succeeded(seen.jobs[CORA].uid))
    assert seen.partitions[CORA].succeeded
    successor = job(version=7)
    successor["metadata"]["uid"] = "successor"
    seen.replace(JOB, [successor], version=8)
    assert CORA not in seen.partitions


def test_what_a_pass_over_an_earlier_job_read_late_counts_for_nothing() -> None:
    seen = cache()
    seen.see_batch_job(seen.partitions, CORA, succeeded("earlier-uid"))
    assert CORA not in seen.partitions
