"""DGL is imported before any test: its own modules warn when they are compiled, and here warnings are errors."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import dgl  # noqa: F401
