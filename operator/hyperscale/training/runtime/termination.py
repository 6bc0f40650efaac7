"""The termination message of a pod: what the kubelet keeps of a program after its end."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

MESSAGE_FILE: Final = "/dev/termination-log"
MESSAGE_VARIABLE: Final = "HYPERSCALE_TERMINATION_LOG"
MAX_BYTES: Final = 4096
"""What the kubelet keeps of a termination message."""


def leave(message: bytes) -> None:
    """Write the termination message as UTF-8, its end where it is too long; a pod without the file continues without it."""
    text = message.decode("utf-8", "replace").encode()[-MAX_BYTES:].decode("utf-8", "ignore")
    path = Path(os.environ.get(MESSAGE_VARIABLE, MESSAGE_FILE))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"{path}: {error.strerror}; the message is in the log only\n")
