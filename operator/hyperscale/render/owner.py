"""The owner reference of everything made for a job: the garbage collector takes it along."""

from __future__ import annotations

from hyperscale import names
from hyperscale.model.meta import JobMetadata
from hyperscale.render.template import Json


def owner_references(metadata: JobMetadata) -> list[Json]:
    """`metadata.ownerReferences` with the job as controller."""
    return [
        {
            "apiVersion": names.API_VERSION,
            "kind": names.JOB_KIND,
            "name": metadata.name,
            "uid": metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        },
    ]
