"""Large tensors are made of pages that the process already has."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from hyperscale.training.runtime import allocator

SCRIPT = """
import resource, sys
import numpy as np
from hyperscale.training.runtime import allocator
if sys.argv[1] == "keep" and not allocator.keep({}):
    sys.exit("not glibc")
def faults(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        np.ones(10_000_000, dtype=np.float64)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults(2)
print(faults(4))
"""


def faults(how: str) -> int:
    ran = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=False)
    if "not glibc" in ran.stderr:
        pytest.skip("this C library has no mallopt")
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


def test_large_arrays_reuse_pages() -> None:
    pages = 10_000_000 * 8 // resource.getpagesize()
    assert faults("keep") < pages // 10


def test_what_the_user_set_stays() -> None:
    assert not allocator.keep({"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1"})
    assert not allocator.keep({"MALLOC_MMAP_MAX_": "65536"})
