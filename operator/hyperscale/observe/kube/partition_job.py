"""Projection of a batch/v1 Job that writes partitions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperscale.model.constants import PARTITION_KEY_LABEL
from hyperscale.model.observed.owned_objects import PartitionView
from hyperscale.observe.kube.nested import controller_of, entries, nested, text_at


def partition_view(resource: Mapping[str, Any]) -> PartitionView:
    """The view of one Job as the API server gives it; absent parts are empty."""
    metadata, status = nested(resource, "metadata"), nested(resource, "status")
    conditions = {entry.get("type"): entry for entry in entries(status, "conditions") if entry.get("status") == "True"}
    return PartitionView(
        uid=metadata.get("uid", ""),
        owner_uid=text_at(controller_of(metadata), "uid"),
        key=nested(metadata, "labels").get(PARTITION_KEY_LABEL, ""),
        succeeded="Complete" in conditions,
        failed="Failed" in conditions,
        message=str(text_at(conditions.get("Failed", {}), "message")),
        deleting=bool(metadata.get("deletionTimestamp")),
    )
