"""What the first steps of a job's own code showed: written by the process that tried them, read by people and the operator."""

from __future__ import annotations

import enum
from typing import Annotated

from msgspec import Meta, Struct

from hyperscale.model.evaluation import Sentence, ShortText, ShortTexts

MAX_REPORT_BYTES = 4096
"""What Kubernetes keeps of a termination message."""
PREFLIGHT_SECONDS = 60
"""Time that the code has in a preflight."""
PREFLIGHT_START_SECONDS = 540
"""Time that a preflight's pod has to find a node and get its image."""


NEEDS_GPU = "NeedsGPU"
"""Reason of a preflight whose code asked for a GPU: it has none, so that it says nothing of the code and stops no start."""


class PreflightFault(enum.StrEnum):
    """Why a job must not start; the first that happened."""

    OUT_OF_MEMORY = "OutOfMemory"
    """It asked for more memory than its limit, or than a GPU of the plan has."""
    NOT_FINITE = "NotFinite"
    """The loss or a gradient was NaN or infinite."""
    CRASHED = "Crashed"
    """It ended with an error of its own."""
    NO_GRADIENT = "NoGradient"
    """A parameter that should be trained gets no gradient."""
    WROTE_OUTSIDE = "WroteOutside"
    """It wrote where a pod of the job has no volume."""
    USED_NETWORK = "UsedNetwork"
    """It asked for an address beyond that of its data."""
    TOO_MANY_PROCESSES = "TooManyProcesses"
    """It started more processes than allowed."""
    TIMED_OUT = "TimedOut"
    """It took no step within its time."""


class PreflightReport(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Outcome of one preflight. Figures that were not measured are absent."""

    sentence: Sentence
    """For people: what happened, and what to write instead."""
    fault: PreflightFault | None = None
    """None where the steps went well."""
    steps: Annotated[int, Meta(ge=0)] = 0
    """Steps taken."""
    step_seconds: Annotated[float, Meta(ge=0.0)] | None = None
    """Median time of a step, on the machine that tried it."""
    peak_memory_bytes: Annotated[int, Meta(ge=0)] | None = None
    """Most memory that tensors took at once."""
    predicted_gpu_bytes: Annotated[int, Meta(ge=0)] | None = None
    """Most memory that a rank is predicted to take on a GPU; predicted, not executed."""
    deterministic: bool | None = None
    """Whether the same seed gave the same losses twice."""
    idle_parameters: ShortTexts = ()
    """Trainable parameters without a gradient."""
    files_written: ShortTexts = ()
    addresses: ShortTexts = ()
    """Host and port that it tried to reach."""
    limits_held: ShortTexts = ()
    """What kept the code from more: the sandbox's and the process's limits that could be set."""
    needs_gpu: bool = False
    """Whether the code asked for a GPU, which a trial does not have; nothing after that was tried."""


class PreflightOutcome(enum.StrEnum):
    """What a preflight says of the start."""

    PASSED = "Passed"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    """It ended without a report that says so; nothing is known of the code."""


class PreflightStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How the last preflight ended, and its figures; absent before one has ended."""

    key: Annotated[str, Meta(max_length=16)]
    """Digest of what was tried: with another one the code is tried again."""
    outcome: PreflightOutcome
    reason: ShortText
    """As in the condition `Preflight`."""
    sentence: Sentence
    steps: Annotated[int, Meta(ge=0)] = 0
    """Steps taken."""
    step_seconds: Annotated[float, Meta(ge=0.0)] | None = None
    """Median time of a step in the pod, on its CPU."""
    peak_memory_bytes: Annotated[int, Meta(ge=0)] | None = None
    """Most memory that tensors took at once."""
    predicted_gpu_bytes: Annotated[int, Meta(ge=0)] | None = None
    """Most memory that a rank is predicted to take on a GPU."""
    deterministic: bool | None = None
    """Whether the same seed gave the same losses twice."""
    idle_parameters: ShortTexts = ()
    """Trainable parameters without a gradient."""
    files_written: ShortTexts = ()
    addresses: ShortTexts = ()
    """Host and port that the code tried to reach."""

    @property
    def lets_start(self) -> bool:
        """Whether a job that requires a preflight may start after this one."""
        return self.outcome is PreflightOutcome.PASSED or (self.outcome is PreflightOutcome.UNKNOWN and self.reason == NEEDS_GPU)
