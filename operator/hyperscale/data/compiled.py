"""The compiled loops, or their numpy twins with one warning."""

from __future__ import annotations

import warnings

from hyperscale.data import twins

try:
    from hyperscale.data import _kernels as kernels

    COMPILED = True
except ImportError:  # no C compiler where this was installed
    kernels = twins  # type: ignore[misc]
    COMPILED = False
    warnings.warn("hyperscale.data._kernels is not compiled: graphs are read several times slower", RuntimeWarning, stacklevel=1)

__all__ = ["COMPILED", "kernels", "twins"]
