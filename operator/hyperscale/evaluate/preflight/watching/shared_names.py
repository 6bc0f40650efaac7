"""Names in /dev/shm that a trial without a sandbox makes: only those are its own, and only those are removed after it."""

from __future__ import annotations

import contextlib
import os
from typing import Final

from hyperscale.evaluate.preflight.watching.call_table import SHARED_MEMORY

MAX_SHARED: Final = 4096
"""Names of one trial; a data loader makes a few for each batch and removes them itself."""


class SharedNames:
    """The folder is shared with every program of this machine, so a name that another one made is out of reach."""

    def __init__(self, folder: str = SHARED_MEMORY) -> None:
        self._folder = folder
        self._place: int | None = None
        with contextlib.suppress(OSError):
            self._place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._own: set[str] = set()

    def claim(self, file: str) -> bool:
        """Whether the trial may change this path below the folder; it is remembered as its own from then on."""
        name = file.removeprefix(self._folder)
        if name in self._own:
            return True
        if not self._is_free(name):
            return False
        if len(self._own) >= MAX_SHARED:
            self._own = {each for each in self._own if not self._is_free(each)}
        if len(self._own) >= MAX_SHARED:
            return False
        self._own.add(name)
        return True

    def _is_free(self, name: str) -> bool:
        """Whether it is a name directly in the folder that nothing has."""
        if self._place is None or not name or "/" in name or name in (".", ".."):
            return False
        try:
            os.stat(name, dir_fd=self._place, follow_symlinks=False)
        except FileNotFoundError:
            return True
        except (OSError, ValueError):
            return False
        return False

    def stored_bytes(self) -> int:
        """Return what the trial's own names hold."""
        total = 0
        for name in self._own:
            with contextlib.suppress(OSError):
                total += os.stat(name, dir_fd=self._place, follow_symlinks=False).st_blocks * 512
        return total

    def clean(self) -> None:
        """Remove the trial's own names, and nothing that they lead to."""
        for name in self._own:
            with contextlib.suppress(OSError):
                try:
                    os.unlink(name, dir_fd=self._place)
                except IsADirectoryError:
                    os.rmdir(name, dir_fd=self._place)
        self._own.clear()
        if self._place is not None:
            os.close(self._place)
            self._place = None
