"""Numbers that users write as text: decimal strings and Kubernetes quantities, marked by `Meta(extra=...)` at their fields.

A marked field has a number for its type and keeps its bounds; `spec/written.py` reads the text, writes it and gives its schema.
"""

from __future__ import annotations

from typing import Final

WRITTEN: Final = "written"
"""Key of `Meta(extra=...)` under which the form stands."""
DECIMAL: Final = {WRITTEN: "decimal"}
"""A decimal string such as "0.1" or "5e-4": a float in JSON does not survive every client."""
SIGNED_DECIMAL: Final = {WRITTEN: "signed"}
"""A decimal string that may be below 0."""
QUANTITY: Final = {WRITTEN: "quantity"}
"""A `resource.Quantity`: an integer or a string such as 24Gi."""

DECIMAL_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$"
SIGNED_PATTERN: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$"
DECIMAL_PATTERNS: Final = {DECIMAL[WRITTEN]: DECIMAL_PATTERN, SIGNED_DECIMAL[WRITTEN]: SIGNED_PATTERN}
"""By form."""
QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""Of every quantity in the API of Kubernetes (controller-tools, pkg/crd/known_types.go)."""
MAX_LENGTH: Final = 32
"""Characters of either text."""
