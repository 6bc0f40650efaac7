"""What a training program refuses with."""

from __future__ import annotations


class ContractError(ValueError):
    """One line: the variable or file, what is wrong with it, what to write instead."""
