"""The operator as the chart runs it: the unknown uid 65532, no HOME, nothing writable, no privileges."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest

from e2e.jobs import Job
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess, running
from tests.fault.watching import wait_created

UID: Final = 65532
READ_ONLY: Final = r"""
mount --make-rprivate / &&
while read -r _ place _ _; do
  case "$place" in
    /proc|/proc/*|/sys|/sys/*|/dev/pts|/dev/mqueue) ;;
    *) mount -o remount,bind,ro "$(printf '%b' "$place")" || exit 1 ;;
  esac
done < /proc/mounts
exec "$@"
"""
# dac_read_search: an interpreter below a folder that is not for all users can still be read; nothing can be written.
WRAPPER: Final = (
    *("unshare", "--mount", "sh", "-c", READ_ONLY, "confined"),
    *("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", "--no-new-privs"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search", "--bounding-set=-all,+dac_read_search"),
    *("env", "-u", "HOME", "-u", "USER", "-u", "LOGNAME", "-u", "TMPDIR"),
)


def confined(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as the operator would be run."""
    return subprocess.run([*WRAPPER, *command], capture_output=True, text=True, timeout=30, check=False)


@functools.cache
def obstacle() -> str:
    """Why nothing can be confined here; "" when it can."""
    if os.geteuid() != 0:
        return "needs root to take rights away"
    try:
        tried = confined("id", "-u")
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if tried.stdout.strip() == str(UID) else f"cannot confine a process here: {tried.stderr.strip()[-200:]}"


@pytest.fixture(scope="module")
def operator(stage: Stage) -> Iterator[OperatorProcess]:
    if obstacle():
        pytest.skip(obstacle())
    stage.proxy.reset()
    with running(stage.operator(WRAPPER), stage.api) as process:
        process.wait_ready()
        yield process


@pytest.mark.parametrize("place", ["/tmp", "/var/tmp", "/dev/shm", "/"])  # noqa: S108 - it is tried, and refused
def test_nothing_can_be_written(operator: OperatorProcess, place: str) -> None:
    refused = confined("touch", f"{place}/hyperscale-was-here")
    assert refused.returncode != 0
    assert "Read-only" in refused.stderr or "Permission denied" in refused.stderr


def test_a_job_gets_its_plan_from_an_operator_that_can_write_nothing(operator: OperatorProcess, job: Job) -> None:
    with open(f"/proc/{operator.pid}/status", encoding="ascii") as status:
        assert f"Uid:\t{UID}\t{UID}\t{UID}\t{UID}" in status.read()
    job.create()
    wait_created(job)
    assert len(job.nodes()) == 2
