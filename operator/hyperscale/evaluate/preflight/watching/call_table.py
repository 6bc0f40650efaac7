"""Numbers of the system calls that a trial is watched for, and what to do with each. Pure.

x86-64 and aarch64, from the kernel's tables (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
"""

from __future__ import annotations

import errno
import os
from typing import Final, NamedTuple


class Machine(NamedTuple):
    """One architecture."""

    audit: int
    """AUDIT_ARCH_*, which a filter checks first: other tables have other numbers."""
    calls: dict[str, int]


X86: Final = Machine(
    0xC000003E,
    {
        "open": 2, "connect": 42, "sendto": 44, "sendmsg": 46, "clone": 56, "fork": 57, "vfork": 58, "kill": 62, "truncate": 76,
        "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88, "chmod": 90, "chown": 92,
        "ptrace": 101, "mknod": 133, "pivot_root": 155, "chroot": 161, "mount": 165, "umount2": 166, "setxattr": 188, "tkill": 200,
        "tgkill": 234, "add_key": 248, "request_key": 249, "keyctl": 250, "openat": 257, "mkdirat": 258, "mknodat": 259,
        "fchownat": 260, "unlinkat": 263, "renameat": 264, "linkat": 265, "symlinkat": 266, "fchmodat": 268, "unshare": 272,
        "lchown": 94, "lsetxattr": 189, "removexattr": 197, "lremovexattr": 198, "fchmodat2": 452,
        "shmget": 29, "semget": 64, "msgget": 68, "mq_open": 240, "bind": 49, "listen": 50,
        "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "prlimit64": 302,
        "perf_event_open": 298, "sendmmsg": 307, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "renameat2": 316,
        "seccomp": 317, "bpf": 321, "userfaultfd": 323, "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428,
        "move_mount": 429, "fsopen": 430, "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "mount_setattr": 442,
        "ioctl": 16, "fcntl": 72, "memfd_create": 319, "memfd_secret": 447, "setxattrat": 463, "removexattrat": 466,
        "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144, "sched_setaffinity": 203, "sched_setattr": 314,
        "ioprio_set": 251, "migrate_pages": 256, "move_pages": 279,
    },
)  # fmt: skip
ARM: Final = Machine(
    0xC00000B7,
    {
        "setxattr": 5, "mknodat": 33, "mkdirat": 34, "unlinkat": 35, "symlinkat": 36, "linkat": 37, "renameat": 38, "umount2": 39,
        "mount": 40, "pivot_root": 41, "truncate": 45, "chroot": 51, "fchmodat": 53, "fchownat": 54, "openat": 56, "unshare": 97,
        "ptrace": 117, "kill": 129, "tkill": 130, "tgkill": 131, "connect": 203, "sendto": 206, "sendmsg": 211, "add_key": 217,
        "request_key": 218, "keyctl": 219, "clone": 220, "perf_event_open": 241, "setns": 268, "sendmmsg": 269,
        "lsetxattr": 6, "removexattr": 14, "lremovexattr": 15, "fchmodat2": 452,
        "mq_open": 180, "msgget": 186, "semget": 190, "shmget": 194, "bind": 200, "listen": 201,
        "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "prlimit64": 261,
        "process_vm_readv": 270, "process_vm_writev": 271, "renameat2": 276, "seccomp": 277, "bpf": 280, "userfaultfd": 282,
        "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430, "clone3": 435,
        "openat2": 437, "pidfd_getfd": 438, "mount_setattr": 442,
        "ioctl": 29, "fcntl": 25, "memfd_create": 279, "memfd_secret": 447, "setxattrat": 463, "removexattrat": 466,
        "setpriority": 140, "sched_setparam": 118, "sched_setscheduler": 119, "sched_setaffinity": 122, "sched_setattr": 274,
        "ioprio_set": 30, "migrate_pages": 238, "move_pages": 239,
    },
)  # fmt: skip
MACHINES: Final = {"x86_64": X86, "aarch64": ARM}

REFUSED: Final = {
    # glibc falls back to calls that can be watched.
    "clone3": errno.ENOSYS,
    "openat2": errno.ENOSYS,
    "io_uring_setup": errno.ENOSYS,
    # Memory that no process has mapped counts nowhere.
    **dict.fromkeys(("memfd_create", "memfd_secret"), errno.ENOSYS),
    # What these make stays on the machine when its process is gone.
    **dict.fromkeys(("shmget", "semget", "msgget", "mq_open"), errno.ENOSYS),
    **dict.fromkeys(
        (
            "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "pidfd_send_signal", "mount", "umount2", "pivot_root",
            "chroot", "unshare", "setns", "bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "seccomp",
            "open_tree", "move_mount", "fsopen", "mount_setattr",
        ),
        errno.EPERM,
    ),
}  # fmt: skip
"""Call to the error that it gets."""
OWNERS: Final = {
    "fcntl": (8, 10, 15),  # F_SETOWN, F_SETSIG, F_SETOWN_EX
    "ioctl": (0x8901, 0x8902),  # FIOSETOWN, SIOCSPGRP
}
"""Call to the values of its second argument that are refused: they name a process that the kernel then signals for its caller."""


class PathCall(NamedTuple):
    """Which arguments of a call name the files that it changes."""

    paths: tuple[tuple[int | None, int], ...]
    """(argument of the folder, argument of the path); None: relative to the working directory.

    Another name of a file writes to it too, so both names of a link count.
    """
    flags: int | None = None
    """Argument whose bits say whether it writes; None: it always does."""


PATH_CALLS: Final = {
    "open": PathCall(((None, 0),), 1),
    "openat": PathCall(((0, 1),), 2),
    "creat": PathCall(((None, 0),)),
    "truncate": PathCall(((None, 0),)),
    "mkdir": PathCall(((None, 0),)),
    "mkdirat": PathCall(((0, 1),)),
    "rmdir": PathCall(((None, 0),)),
    "unlink": PathCall(((None, 0),)),
    "unlinkat": PathCall(((0, 1),)),
    "rename": PathCall(((None, 0), (None, 1))),
    "renameat": PathCall(((0, 1), (2, 3))),
    "renameat2": PathCall(((0, 1), (2, 3))),
    "link": PathCall(((None, 0), (None, 1))),
    "linkat": PathCall(((0, 1), (2, 3))),
    "symlink": PathCall(((None, 1),)),
    "symlinkat": PathCall(((1, 2),)),
    "chmod": PathCall(((None, 0),)),
    "fchmodat": PathCall(((0, 1),)),
    "chown": PathCall(((None, 0),)),
    "fchownat": PathCall(((0, 1),)),
    "mknod": PathCall(((None, 0),)),
    "mknodat": PathCall(((0, 1),)),
    "fchmodat2": PathCall(((0, 1),)),
    "lchown": PathCall(((None, 0),)),
    **dict.fromkeys(("setxattr", "lsetxattr", "removexattr", "lremovexattr"), PathCall(((None, 0),))),
    **dict.fromkeys(("setxattrat", "removexattrat"), PathCall(((0, 1),))),
}
WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
"""Flags of which each makes an open one that writes."""
FORKS: Final = ("fork", "vfork")
SIGNALS: Final = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
"""Their first argument is a process."""
LIMITING: Final = "prlimit64"
"""Sets limits of the process in its first argument, 0 for the caller, where its third one is not 0."""
SCHEDULING: Final = ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "migrate_pages", "move_pages")
"""Their first argument is a process or a thread, 0 for the caller."""
PRIORITIES: Final = {"setpriority": (0, 1), "ioprio_set": (1, 2)}
"""Call to the values of its first argument for which its second one is a process, and for which it is a group of them."""
TALKS: Final = ("connect", "sendto", "sendmsg", "sendmmsg")
WAITS: Final = ("bind", "listen")
"""For others to come."""
CLONE_THREAD: Final = 0x00010000
CLONE_NAMESPACES: Final = 0x7E020000
"""Mounts, cgroups, host names, IPC, users, processes, network: what unshare and setns are refused for."""
SHARED_MEMORY: Final = "/dev/shm/"  # noqa: S108 - a place that is watched
