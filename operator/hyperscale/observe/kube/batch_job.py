"""Projection of a batch/v1 Job of ours, one that writes partitions or reads the sizes of a graph. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperscale.model.constants import DATASET_KEY_LABEL, PARTITION_KEY_LABEL
from hyperscale.model.observed.owned_objects import BatchJobView
from hyperscale.observe.kube.nested import controller_of, entries, nested, text_at


def batch_job_view(resource: Mapping[str, Any]) -> BatchJobView:
    """The view of one Job as the API server gives it; absent parts are empty."""
    metadata, status = nested(resource, "metadata"), nested(resource, "status")
    labels = nested(metadata, "labels")
    conditions = {entry.get("type"): entry for entry in entries(status, "conditions") if entry.get("status") == "True"}
    return BatchJobView(
        uid=metadata.get("uid", ""),
        owner_uid=text_at(controller_of(metadata), "uid"),
        key=labels.get(PARTITION_KEY_LABEL) or labels.get(DATASET_KEY_LABEL, ""),
        succeeded="Complete" in conditions,
        failed="Failed" in conditions,
        message=str(text_at(conditions.get("Failed", {}), "message")),
        deleting=bool(metadata.get("deletionTimestamp")),
    )
