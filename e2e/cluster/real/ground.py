"""Whether this machine can run real nodes, and what has to be installed for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

PACKAGES: Final = {
    "containerd": "containerd",
    "runc": "runc",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "tc": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
    "openssl": "openssl",
}
"""Debian's package of each command."""
PLUGINS: Final = Path("/usr/lib/cni")
_PLUGINS_PACKAGE: Final = "containernetworking-plugins"
CGROUPS: Final = Path("/sys/fs/cgroup")
HIERARCHIES: Final = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd")
"""The hierarchies that kubelet and runc need. A node has a folder in each that is mounted."""
_REQUIRED: Final = ("cpu", "cpuacct", "cpuset", "memory", "devices", "pids", "systemd")
_PYTHON: Final = (3, 11)
"""Of Debian 12, whose interpreter runs this environment's packages inside the containers."""
_APT_SECONDS: Final = 600.0
_LOCK_SECONDS: Final = 300
"""A fresh machine updates itself first."""
SYSTEM_FOLDERS: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where Debian puts ip, tc and iptables; the PATH of `su` and of some services lacks them."""


class GroundError(Exception):
    """Real nodes cannot run here; the message says why."""


def obstacle() -> str | None:
    """Why real nodes cannot run here, without changing anything; None when they can, perhaps after `ensure`."""
    if sys.platform != "linux":
        return "they need Linux"
    if os.geteuid() != 0:
        return "they need root, for network namespaces and cgroups"
    missing = [name for name in _REQUIRED if not os.access(CGROUPS / name / "cgroup.procs", os.W_OK)]
    if missing:
        return f"they need cgroup v1 hierarchies that can be written below {CGROUPS}; missing: {', '.join(missing)}"
    if not _may_unshare():
        return "this machine forbids new network and mount namespaces"
    if sys.version_info[:2] != _PYTHON:
        return "the environment is not of Python 3.11, whose packages the containers mount"
    absent = _absent()
    if absent and shutil.which("apt-get") is None:
        return f"these packages are missing and apt-get is too: {' '.join(absent)}"
    return None


def ensure() -> None:
    """Install the missing Debian packages; raises GroundError."""
    reason = obstacle()
    _find_system_commands()
    if reason is not None:
        raise GroundError(f"real nodes cannot run here: {reason}")
    absent = _absent()
    if not absent:
        return
    print(f"installing {' '.join(absent)}", file=sys.stderr, flush=True)
    # Debian starts containerd after its installation; ours are other ones, in namespaces of their own.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *absent]):
        _apt(command, environment)
    if left := _absent():
        raise GroundError(f"apt-get did not bring {' '.join(left)}: install them, then run this again")


def _apt(command: list[str], environment: dict[str, str]) -> None:
    whole = ("apt-get", "-qq", "-o", f"DPkg::Lock::Timeout={_LOCK_SECONDS}", *command)
    try:
        finished = subprocess.run(whole, env=environment, capture_output=True, text=True, timeout=_APT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise GroundError(f"apt-get {command[0]} did not end in {_APT_SECONDS:.0f} s: try it by hand, then run this again") from error
    if finished.returncode != 0:
        raise GroundError(f"apt-get {command[0]} failed: {finished.stderr.strip()[-500:]}")


def _find_system_commands() -> None:
    """Put the folders of system commands on the PATH of this process and of all that it starts."""
    there = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join([*there, *(folder for folder in SYSTEM_FOLDERS if folder not in there)])


def _absent() -> list[str]:
    everywhere = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS])
    found = {package for command, package in PACKAGES.items() if shutil.which(command, path=everywhere) is None}
    if not (PLUGINS / "bridge").exists():
        found.add(_PLUGINS_PACKAGE)
    return sorted(found)


def _may_unshare() -> bool:
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    return subprocess.run([unshare, "--mount", "--net", "true"], capture_output=True, check=False).returncode == 0
