"""The compiled loops, or None with one warning: numpy then answers where it can."""

from __future__ import annotations

import warnings

try:
    from hyperscale.data import _kernels
except ImportError:  # no C compiler where this was installed
    _kernels = None  # type: ignore[assignment]
    warnings.warn("hyperscale.data._kernels is not compiled: graphs are read several times slower", RuntimeWarning, stacklevel=1)

kernels = _kernels
