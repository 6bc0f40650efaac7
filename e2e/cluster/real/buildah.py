"""Images without a daemon or a registry: a Debian made here, and buildah with its own storage, so none of that is left behind."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SUITE: Final = "bookworm"
MIRROR: Final = "http://deb.debian.org/debian"
BASE: Final = "localhost/hyperscale-base"
"""What the Dockerfiles get as PYTHON_IMAGE."""
RUNTIME: Final = "localhost/hyperscale-runtime"
"""What they get as RUNTIME_IMAGE: the same Python and nothing to build with."""
BUILT: Final = "localhost/hyperscale-built"
RUNTIME_PACKAGES: Final = "python3,python-is-python3,ca-certificates,libstdc++6,usr-is-merged"
SLIM: Final = (
    "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
    *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("man", "doc", "locale")),
)
"""As a registry's slim image: no pages and translations, and merged folders without the Perl that merges them."""
_SETTINGS: Final = ("/etc/apt/apt.conf.d", "/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
"""How this machine reaches its package sources; mounted while an image is built."""


class ImageError(Exception):
    """An image could not be made; the message carries the tool's last words."""


@dataclass(frozen=True)
class Buildah:
    """Storage in a folder, which `remove` takes away.

    driver:  of the storage; `vfs` works everywhere and copies everything for every container, `overlay` does neither
    seconds: that one command may take
    """

    folder: Path
    driver: str = "vfs"
    seconds: float = 900.0

    def base(self, packages: str, *options: str, name: str = BASE, variant: str = "minbase") -> None:
        """A Debian with these packages as an image; options and variant are mmdebstrap's. Raises ImageError."""
        self._tool("mmdebstrap", f"--variant={variant}", f"--include={packages}", *options, SUITE, str(self.folder / "base.tar"), MIRROR)
        self.from_text("FROM scratch\nADD base.tar /\n", name, self.folder)

    def from_text(self, dockerfile: str, name: str, context: Path) -> None:
        """The text of a Dockerfile as an image; raises ImageError."""
        context.mkdir(exist_ok=True)
        (context / "Dockerfile").write_text(dockerfile)
        self._bud("-t", name, str(context))

    def build(self, dockerfile: Path, context: Path, *options: str, base: str = BASE, slim: bool = False) -> None:
        """A Dockerfile as the image BUILT; raises ImageError.

        slim: where the Dockerfile names an image to run on, it gets a smaller one than the base, made here
        """
        mounts = [part for path in _SETTINGS if Path(path).exists() for part in ("-v", f"{path}:{path}:ro")]
        bases = ["--build-arg", f"PYTHON_IMAGE={base}"]
        if slim and "ARG RUNTIME_IMAGE" in dockerfile.read_text():
            self.base(RUNTIME_PACKAGES, *SLIM, name=RUNTIME, variant="essential")
            bases += ["--build-arg", f"RUNTIME_IMAGE={RUNTIME}"]
        self._bud(*mounts, *options, *bases, "-f", str(dockerfile), "-t", BUILT, str(context))

    def run(self, *arguments: str) -> str:
        """The output of one of buildah's commands; raises ImageError."""
        return self._tool("buildah", *self._storage(), *arguments)

    def remove(self) -> None:
        """Take the storage away; what cannot be removed stays."""
        # Overlays of containers, and the folder of all of them, stay mounted between two commands.
        unmount = ("umount", "--recursive", "--lazy", str(self.folder / "root" / "overlay"))
        subprocess.run(unmount, capture_output=True, check=False)
        shutil.rmtree(self.folder / "root", ignore_errors=True)

    def _storage(self) -> tuple[str, ...]:
        return ("--root", str(self.folder / "root"), "--runroot", str(self.folder / "run"), "--storage-driver", self.driver)

    def _bud(self, *arguments: str) -> None:
        self.run("bud", "--isolation", "chroot", "--pull-never", "--network", "host", "--layers=false", *arguments)

    def _tool(self, *command: str) -> str:
        try:
            finished = subprocess.run(command, capture_output=True, text=True, timeout=self.seconds, check=False)
        except subprocess.TimeoutExpired as error:
            raise ImageError(f"{command[0]} did not end in {self.seconds:.0f} s") from error
        if finished.returncode != 0:
            raise ImageError(f"{command[0]} failed:\n{(finished.stderr or finished.stdout)[-1500:]}")
        return finished.stdout
