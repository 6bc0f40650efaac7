"""A Job (batch/v1) of ours around its pod: repeated where a node failed, not where its program refused. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.control.render.owner import owner_references
from hyperscale.control.render.template import Json
from hyperscale.model import constants
from hyperscale.model.meta import JobMetadata

BACKOFF_LIMIT: Final = 2
"""Evictions and lost nodes are tried again so often."""
REFUSED_EXIT_CODE: Final = 2
"""Of the programs, for input that will not do and memory that will not suffice: trying again changes nothing."""
KEY_LABELS: Final = (constants.PARTITION_KEY_LABEL, constants.DATASET_KEY_LABEL)


def batch_job(metadata: JobMetadata, name: str, labels: dict[str, str], pod: Json) -> Json:
    """The whole Job. pod: its template with one container; the label among `labels` that says what the Job is for is copied to it."""
    pod["metadata"]["labels"].update({key: labels[key] for key in KEY_LABELS if key in labels})
    container = pod["spec"]["containers"][0]["name"]
    rule = {"action": "FailJob", "onExitCodes": {"containerName": container, "operator": "In", "values": [REFUSED_EXIT_CODE]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "namespace": metadata.namespace,
            "name": name,
            "labels": labels,
            "ownerReferences": owner_references(metadata),
        },
        "spec": {
            "backoffLimit": BACKOFF_LIMIT,
            "completions": 1,
            "parallelism": 1,
            "podFailurePolicy": {
                "rules": [rule, {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}],
            },
            "template": pod,
        },
    }
