"""One condition of `status.conditions`, the same for every kind."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Time = Annotated[str, Meta(max_length=32, extra_json_schema={"format": "date-time"})]
"""RFC 3339, UTC."""
ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.Condition."""

    type: Annotated[str, Meta(max_length=64)]
    status: ConditionStatus
    reason: Annotated[str, Meta(max_length=128)]
    message: Annotated[str, Meta(max_length=2048)] = ""
    observed_generation: int = 0
    last_transition_time: Time = ""
