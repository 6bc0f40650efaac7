"""The columns of `kubectl get gnntj`, as text in the status."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class StatusColumns(Struct, frozen=True, gc=False, rename="camel"):
    """Text for the columns of `kubectl get`; tools read the typed fields."""

    ready: Annotated[str, Meta(max_length=16)] = ""
    """Ready workers of all, e.g. 3/4; empty once the run has ended."""
    epoch: Annotated[str, Meta(max_length=16)] = ""
    """Finished epochs of all, e.g. 120/200."""
    accuracy: Annotated[str, Meta(max_length=16)] = ""
    """On the test vertices, e.g. 81.8%."""
    predicted: Annotated[str, Meta(max_length=16)] = ""
    """Predicted time of an epoch, e.g. 7.2ms."""
    measured: Annotated[str, Meta(max_length=16)] = ""
    """Measured time of an epoch."""
