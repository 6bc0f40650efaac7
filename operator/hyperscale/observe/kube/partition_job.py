"""Projection of a batch/v1 Job that writes partitions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperscale.model.constants import PARTITION_KEY_LABEL
from hyperscale.model.observed.owned_objects import PartitionView


def partition_view(resource: Mapping[str, Any]) -> PartitionView:
    """The view of one Job as the API server gives it; absent parts are empty."""
    metadata = resource.get("metadata") or {}
    conditions = {
        condition.get("type"): condition
        for condition in (resource.get("status") or {}).get("conditions") or ()
        if condition.get("status") == "True"
    }
    controller: Mapping[str, Any] = next((owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")), {})
    return PartitionView(
        uid=metadata.get("uid", ""),
        owner_uid=controller.get("uid", ""),
        key=(metadata.get("labels") or {}).get(PARTITION_KEY_LABEL, ""),
        succeeded="Complete" in conditions,
        failed="Failed" in conditions,
        message=str((conditions.get("Failed") or {}).get("message") or ""),
        deleting=bool(metadata.get("deletionTimestamp")),
    )
