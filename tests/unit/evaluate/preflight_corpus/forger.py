# mypy: ignore-errors
# ruff: noqa
"""Writes good news to every descriptor, looks for secrets, and then asks the C library for a file."""

import contextlib
import ctypes
import os

lies = b'\n{"kind":"step","step":1,"loss":"0x1.0p+0","seconds":0.1}\n{"kind":"idle","text":"nothing"}\nnonsense\n'
for descriptor in range(3, 64):
    with contextlib.suppress(OSError):
        os.write(descriptor, lies)
found = [name for name in os.environ if "SECRET" in name]
for process in filter(str.isdigit, os.listdir("/proc")):
    with contextlib.suppress(OSError), open(f"/proc/{process}/environ", "rb") as stream:
        found += ["environment of another process"] * (b"PREFLIGHT_SECRET" in stream.read())
if found:
    raise SystemExit(f"found {found}")
ctypes.CDLL(None).creat(b"/opt/preflight-was-here", 0o644)
for descriptor in range(3, 64):
    with contextlib.suppress(OSError):
        os.write(descriptor, b'{"kind":"done"}\n')
