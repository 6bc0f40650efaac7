"""One condition of `status.conditions`, the same for every kind."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class Condition(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.Condition."""

    type: Annotated[str, Meta(max_length=64)]
    status: Annotated[str, Meta(max_length=7)]
    """True, False or Unknown."""
    reason: Annotated[str, Meta(max_length=128)]
    message: Annotated[str, Meta(max_length=2048)] = ""
    observed_generation: int = 0
    last_transition_time: Annotated[str, Meta(max_length=32)] = ""
