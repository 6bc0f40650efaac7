"""The owner reference of everything made for a job: the garbage collector takes it along."""

from __future__ import annotations

from hyperscale.control.render.template import Json
from hyperscale.model import constants
from hyperscale.model.meta import JobMetadata


def owner_references(metadata: JobMetadata) -> list[Json]:
    """`metadata.ownerReferences` with the job as controller."""
    return [
        {
            "apiVersion": constants.API_VERSION,
            "kind": constants.JOB_KIND,
            "name": metadata.name,
            "uid": metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        },
    ]
