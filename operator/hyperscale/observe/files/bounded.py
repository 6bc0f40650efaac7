"""Reading untrusted files: bounded size, one line per error."""

from __future__ import annotations

from pathlib import Path
from typing import Final

MAX_FILE_BYTES: Final = 256 * 1024 * 1024


class SnapshotError(Exception):
    """A snapshot file cannot be used; one line that names the file, the place in it and what to write instead."""

    def __init__(self, path: Path | str, message: str) -> None:
        """`message` without the path; line breaks become blanks."""
        self.path = str(path)
        self.message = " ".join(message.split())
        super().__init__(f"{self.path}: {self.message}")


def read_bounded(path: Path, limit_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Bytes of a regular file of at most `limit_bytes`; raises SnapshotError."""
    try:
        if path.exists() and not path.is_file():
            raise SnapshotError(path, "is not a regular file")
        with path.open("rb") as file:
            content = file.read(limit_bytes + 1)
    except FileNotFoundError as error:
        raise SnapshotError(path, "does not exist") from error
    except (OSError, ValueError) as error:
        raise SnapshotError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > limit_bytes:
        raise SnapshotError(path, f"is larger than {limit_bytes // 1024 // 1024} MiB; a snapshot of 5,000 nodes takes less than 64")
    return content


def read_text(path: Path) -> str:
    """Text of a UTF-8 file, byte order mark dropped; raises SnapshotError."""
    try:
        return read_bounded(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SnapshotError(path, f"is not UTF-8 text (byte {error.start}); a snapshot file is JSON, CSV or NPZ") from error
