"""A Secret in a pod."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mounted:
    """A Secret as the kubelet mounts it: every file is a link through a link, which an update exchanges at once."""

    folder: Path

    def write(self, **files: str) -> None:
        version = self.folder / f"..v{len(list(self.folder.glob('..v*')))}"
        version.mkdir(parents=True)
        for name, text in files.items():
            (version / name).write_text(text)
        swap = self.folder / "..swap"
        swap.symlink_to(version.name)
        os.replace(swap, self.folder / "..data")
        for name in files:
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
