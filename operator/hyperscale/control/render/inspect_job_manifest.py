"""The Job (batch/v1) that reads the sizes of a job's training graph before its first plan. Pure."""

from __future__ import annotations

from hyperscale.control.render import commands
from hyperscale.control.render.batch_job import batch_job
from hyperscale.control.render.pod import common_labels, data_template
from hyperscale.control.render.template import Json
from hyperscale.model import constants
from hyperscale.model.api.datasets import dataset_key
from hyperscale.model.api.job import JobSpec
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.pods import INSPECT


def inspect_job(metadata: JobMetadata, job: JobSpec, defaults: RenderDefaults) -> Json:
    """The whole Job; the same arguments give the same object.

    It mounts the dataset as the partition Job does and asks for no GPU, and for no memory: nothing is known yet of the graph.
    Raises RenderError, with the field's path, where the user's worker template cannot be merged.
    """
    pod = data_template(metadata, job, None, defaults, INSPECT, commands.INSPECT_COMMAND)
    labels = {**common_labels(metadata, None, INSPECT), constants.DATASET_KEY_LABEL: dataset_key(job.dataset)}
    return batch_job(metadata, f"{metadata.name}-inspect", labels, pod)
