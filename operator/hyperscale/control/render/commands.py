"""Default commands of launcher and workers, as argument lists: no shell ever reads them, so nothing in them needs quoting.

They work with any image that has OpenSSH, Open MPI 4 and Python, and a user of id 1000: sshd and ssh get their whole configuration here,
because only root may write /etc/ssh, and port 22 needs a capability that restricted pods do not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SSH_PORT: Final = 2222
SSH_PATH: Final = "/home/mpiuser/.ssh"
"""Where mpi-operator mounts the job's key pair; must be readable by the pod's user (sshAuthMountPath)."""
NETWORK_INTERFACE: Final = "eth0"
"""Name of a pod's interface; Open MPI must get the name, or it tries the loopback addresses of both ends."""
SSH_ARGUMENTS: Final = (
    *("-p", str(SSH_PORT), "-i", f"{SSH_PATH}/id_rsa"),
    # The key pair is the job's own and new; the host key of every worker is that same key.
    *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"),
    # DNS names of headless services appear a moment after their pods (mpi-operator's own default).
    *("-o", "ConnectionAttempts=10"),
)
"""Replaces mpi-operator's OMPI_MCA_plm_rsh_args: an argument beats the environment."""
LAUNCH_WRAPPER: Final = ("python3", "-m", "hyperscale.training.worker.launch", "--")
"""Hands mpirun's output through and keeps the result of rank 0 as the pod's termination message."""
PREPARE_COMMAND: Final = ("python3", "-m", "hyperscale.training.worker.prepare")
"""Reads the training graph and writes its parts to the shared volume."""
INSPECT_COMMAND: Final = ("python3", "-m", "hyperscale.training.worker.inspect_dataset")
"""Reads the training graph and reports its sizes."""
PREFLIGHT_COMMAND: Final = ("python3", "-m", "hyperscale.evaluate.preflight.pod_main")
"""Tries the job's code for a few steps and reports how it went."""
DEFAULT_ENTRY: Final = ("-m", "hyperscale.training.worker.train")
SCRIPT_ENTRY: Final = ("-m", "hyperscale.training.worker.script")
"""Sets RANK and the like for a script that knows nothing of this package; in front of its path."""
UNKNOWN_IMAGE_PROGRAM: Final = """\
import os, sys
try:
    from hyperscale.training.worker.script import main
except ImportError:
    told = os.environ
    for name in "RANK", "LOCAL_RANK":
        told.setdefault(name, told.get("OMPI_COMM_WORLD_" + name, "0"))
    told.setdefault("WORLD_SIZE", told.get("OMPI_COMM_WORLD_SIZE", "1"))
    told.setdefault("MASTER_ADDR", told.get("HYPERSCALE_MASTER_ADDR", "127.0.0.1"))
    told.setdefault("MASTER_PORT", "29500")
    told.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    if told.get("CHECKPOINT_DIR"):
        told.setdefault("HYPERSCALE_CHECKPOINT_DIR", told["CHECKPOINT_DIR"])
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
sys.exit(main(sys.argv[1:]))
"""
"""The same in a worker image of the user's: whether it has this package shows only there. Without it the store cannot be looked into."""


def worker_command() -> list[str]:
    """Sshd in the foreground as an ordinary user; its host key is the job's key, which the launcher alone knows."""
    options = (
        "PidFile=none",
        "UsePAM=no",
        "PasswordAuthentication=no",
        "KbdInteractiveAuthentication=no",
        f"AuthorizedKeysFile={SSH_PATH}/authorized_keys",
        # The key files belong to root and are readable by the pod's group: a Secret volume cannot do better.
        "StrictModes=no",
    )
    return [
        "/usr/sbin/sshd",
        *("-D", "-e", "-f", "/dev/null", "-p", str(SSH_PORT), "-h", f"{SSH_PATH}/id_rsa"),
        *(part for option in options for part in ("-o", option)),
    ]


def launcher_command(processes: int, variables: Iterable[str], script: str | None, wrapped: bool, packaged: bool) -> list[str]:
    """Mpirun of `processes` ranks over mpi-operator's hostfile.

    variables: names of environment variables that ranks get from the launcher: sshd hands down nothing of the container's environment
    script:    Python file to run, relative to the image's working directory; None runs the worker package
    wrapped:   the launcher's image has the worker package, whose wrapper reports the result
    packaged:  the workers' image has it too; False: that is unknown
    """
    parameters = (
        ("pml", "ob1"),
        ("btl", "tcp,self"),
        ("btl_tcp_if_include", NETWORK_INTERFACE),
        ("oob_tcp_if_include", NETWORK_INTERFACE),
        ("plm_rsh_no_tree_spawn", "1"),
        ("plm_rsh_args", " ".join(SSH_ARGUMENTS)),
    )
    return [
        *(LAUNCH_WRAPPER if wrapped else ()),
        *("mpirun", "-np", str(processes), "--bind-to", "none", "--map-by", "slot"),
        *(part for name, value in parameters for part in ("-mca", name, value)),
        *(part for name in variables for part in ("-x", name)),
        "python3",
        *_entry(script, packaged),
    ]


def _entry(script: str | None, packaged: bool) -> tuple[str, ...]:
    if script is None:
        return DEFAULT_ENTRY
    return (*SCRIPT_ENTRY, script) if packaged else ("-c", UNKNOWN_IMAGE_PROGRAM, script)
