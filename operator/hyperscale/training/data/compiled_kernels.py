"""The compiled loops, or their numpy twins with one warning."""

from __future__ import annotations

import warnings

from hyperscale.training.data import numpy_kernels

try:
    from hyperscale.training.data import _kernels as kernels

    COMPILED = True
except ImportError:  # no C compiler where this was installed
    kernels = numpy_kernels  # type: ignore[misc]
    COMPILED = False
    warnings.warn("hyperscale.training.data._kernels is not compiled: graphs are read several times slower", RuntimeWarning, stacklevel=1)

__all__ = ["COMPILED", "kernels", "numpy_kernels"]
