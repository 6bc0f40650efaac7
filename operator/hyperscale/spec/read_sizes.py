"""The sizes of a training graph that were read before, from the status of a resource into its parsed spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hyperscale.model.api.datasets import DatasetStatus, SizeSource, dataset_key, is_sized, with_sizes
from hyperscale.model.api.job import JobSpec


def with_read_sizes(job: JobSpec, resource: Mapping[str, Any]) -> JobSpec:
    """The job with the sizes in `status.dataset` where its spec states none; unchanged where those are of another `spec.dataset`.

    A job that has started keeps the sizes that its plan rests on.
    """
    status = resource.get("status")
    if is_sized(job) or not isinstance(status, Mapping):
        return job
    try:
        read = msgspec.convert(status.get("dataset"), DatasetStatus)
    except msgspec.ValidationError:
        return job
    current = read.source is SizeSource.READ and read.dataset_key == dataset_key(job.dataset)
    return with_sizes(job, read) if current or status.get("mpiJobRef") is not None else job
