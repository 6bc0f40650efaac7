"""Which jobs are tried before their start, and when the same trial counts for a job."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec, PreflightMode, StartPolicy
from hyperscale.model.api.preflight_report import PreflightStatus
from hyperscale.model.meta import JobMetadata

KEY_DIGITS: Final = 16
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def preflight_key(job: JobSpec, metadata: JobMetadata) -> str:
    """Digest of what a preflight tries, as 16 hex digits; "" where nothing is tried.

    It covers what the code of a rank sees: model, dataset, workers, partitioning, node selector and the presence of checkpoints. It
    covers the annotation by which a person asks for another trial. A question of `hyperscale plan`, which never starts, is not tried.
    """
    question = constants.PREVIEW_LABEL in metadata.labels and job.start_policy is StartPolicy.NEVER
    if job.preflight is PreflightMode.OFF or question:
        return ""
    again = metadata.annotations.get(constants.PREFLIGHT_AGAIN_ANNOTATION, "")
    tried = (job.model, job.dataset, job.workers, job.partitioning, job.checkpoint is not None, job.placement.node_selector, again)
    text = bytearray()
    _ENCODER.encode_into(tried, text)
    return hashlib.sha256(text).hexdigest()[:KEY_DIGITS]


def is_held(job: JobSpec, metadata: JobMetadata, recorded: PreflightStatus | None) -> bool:
    """Whether a job without an MPIJob may not be planned, because its preflight does not let it start. recorded: of its status."""
    if job.preflight is not PreflightMode.REQUIRE:
        return False
    key = preflight_key(job, metadata)
    free = recorded is not None and recorded.key == key and recorded.lets_start
    return bool(key) and not free
