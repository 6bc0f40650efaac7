"""What a trial is asked, what the tried process tells, and what the watcher found out."""

from __future__ import annotations

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from hyperscale.model.api.preflight_report import PreflightFault

MAX_EVENT_BYTES: Final = 1 << 16
"""Of one line that the tried process tells."""
MAX_EVENTS: Final = 10_000
MAX_TEXT: Final = 512
"""Characters kept of an error."""
MIB: Final = 1 << 20

Text = Annotated[str, Meta(max_length=4 * MAX_TEXT)]


class Sandbox(enum.StrEnum):
    """What surrounds the tried process."""

    BUBBLEWRAP = "bubblewrap"
    """Namespaces of its own: files, network, processes."""
    GVISOR = "gvisor"
    """A kernel of its own."""
    NONE = "none"
    """Limits of the process alone."""


class Limits(Struct, frozen=True):
    """How much the tried code may use."""

    steps: int = 5
    """After which it is ended."""
    seconds: float = 30.0
    """From its start to its end, by the wall clock."""
    memory_bytes: int = 4 << 30
    """Of all of its processes together."""
    processes: int = 16
    """At once; threads do not count."""
    file_bytes: int = 256 << 20
    """Of all files that it writes."""


class TrialRequest(Struct, frozen=True):
    """Code to try, with its surroundings. Paths are those of this machine."""

    script: str | None = None
    """None tries the job's built-in model."""
    environment: dict[str, str] = {}
    """Of the contract; nothing of the caller's own environment is added."""
    readable: tuple[str, ...] = ()
    """Folders that it may read, besides Python and its packages."""
    data: str | None = None
    """Folder that it sees as /data."""
    addresses: tuple[str, ...] = ()
    """host:port that it may reach: those of its data."""
    limits: Limits = Limits()
    seed: int = 0
    sandbox: Sandbox = Sandbox.NONE
    shared_tmp: bool = False
    """Whether /tmp is the pod's own, so that writing there leaves nothing behind."""


class Said(enum.StrEnum):
    """Kinds of events."""

    READY = "ready"
    """Limits stand; from here on it is the author's code."""
    STEP = "step"
    NOT_FINITE = "notFinite"
    IDLE = "idle"
    WROTE = "wrote"
    ADDRESS = "address"
    PROCESSES = "processes"
    OUT_OF_MEMORY = "outOfMemory"
    ERROR = "error"
    DONE = "done"


class TrialEvent(Struct, frozen=True, omit_defaults=True):
    """One thing that the tried process tells. It may lie: the watcher believes no good news that it can check."""

    kind: Said
    text: Text = ""
    """A path, an address, a parameter, the last line of a traceback."""
    step: Annotated[int, Meta(ge=0)] = 0
    loss: str = ""
    """As float.hex, so that two runs are compared to the bit."""
    seconds: float = 0.0
    bytes: Annotated[int, Meta(ge=0)] = 0
    """Peak of memory so far, beyond what the process took before the code."""
    held_bytes: Annotated[int, Meta(ge=0)] = 0
    """Only of DONE: most memory at the end of a step, with what it took before the code. Pages of files do not count; 0: not told."""
    limits: tuple[str, ...] = ()
    """Only of READY."""


class Fault(Struct, frozen=True):
    """One thing that must not happen."""

    kind: PreflightFault
    text: Text
    step: int = 0
    """In which it happened; 0 before the first."""


class Observation(Struct, frozen=True, omit_defaults=True):
    """One trial, as the watcher has it."""

    faults: tuple[Fault, ...] = ()
    """In the order in which they happened."""
    steps: int = 0
    losses: tuple[str, ...] = ()
    step_seconds: tuple[float, ...] = ()
    peak_bytes: int | None = None
    """Beyond what Python and torch took before the code; the tried process says so."""
    resident_bytes: int = 0
    """Most memory of all of its processes at once, as the kernel has it."""
    seconds: float = 0.0
    idle: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    """Those that held."""


REQUESTS: Final = msgspec.json.Decoder(TrialRequest)
EVENTS: Final = msgspec.json.Decoder(TrialEvent)
OBSERVATIONS: Final = msgspec.json.Decoder(Observation)
