"""What containers run: a Debian made here, the worker image's stage `runtime` on it, and a pause image; each kept by a digest of its input.

Debian comes from mmdebstrap, the image from images/worker/Dockerfile by buildah without a daemon. The Python packages are not in it: nodes
mount this environment's own, which a line in the image's site configuration puts on Python's path.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from e2e.cluster.binaries import cache_directory

REPOSITORY: Final = Path(__file__).resolve().parents[3]
DOCKERFILE: Final = REPOSITORY / "images" / "worker" / "Dockerfile"
WORKER_IMAGE: Final = "docker.io/hyperscale/worker:0.1.0"
"""What the operator gives to pods that name no image."""
PAUSE_IMAGE: Final = "docker.io/hyperscale/pause:1"
PACKAGES_PATH: Final = "/opt/hyperscale/packages"
"""Where a node mounts the environment's packages in every container."""
OPERATOR_PATH: Final = "/opt/hyperscale/operator"
_SUITE: Final = "bookworm"
_MIRROR: Final = "http://deb.debian.org/debian"
_BASE_TAG: Final = "localhost/hyperscale-base"
_HOOK: Final = f"""printf '%s\\n' {PACKAGES_PATH} {OPERATOR_PATH} > "$1/usr/local/lib/python3.11/dist-packages/hyperscale.pth"
mkdir -p "$1{PACKAGES_PATH}" "$1{OPERATOR_PATH}"
"""
_SECONDS: Final = 900.0


class ImageError(Exception):
    """An image could not be made; the message carries the tool's last words."""


def ensure_worker() -> Path:
    """An OCI archive of the worker image; made when this Dockerfile was not built before."""
    digest = hashlib.sha256(b"\0".join(text.encode() for text in (_HOOK, _SUITE, _MIRROR, WORKER_IMAGE)) + DOCKERFILE.read_bytes())
    return _kept("worker-image", digest.hexdigest(), _build_worker)


def ensure_pause(binary: Path) -> Path:
    """An OCI archive of one program."""
    content = binary.read_bytes()
    return _kept("pause-image", hashlib.sha256(content).hexdigest(), lambda target, _: target.write_bytes(_archive(content, PAUSE_IMAGE)))


def _kept(name: str, digest: str, make: Callable[[Path, Path], object]) -> Path:
    """The file of that digest in the cache; `make(target, scratch)` writes it. Safe to interrupt and to run twice."""
    target = cache_directory() / f"{name}-{digest[:16]}.tar"
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as scratch:
        unfinished = Path(scratch) / "out.tar"
        make(unfinished, Path(scratch))
        unfinished.rename(target)
    return target


def _build_worker(target: Path, scratch: Path) -> None:
    print("making the worker image (once for this Dockerfile, about two minutes)", file=sys.stderr, flush=True)
    hook = scratch / "hook"
    hook.write_text(f"#!/bin/sh\nset -e\n{_HOOK}")
    hook.chmod(0o755)
    packages = "--include=python3,ca-certificates"
    base = scratch / "base.tar"
    _run("mmdebstrap", "--variant=minbase", packages, f'--customize-hook={hook} "$1"', _SUITE, str(base), _MIRROR)
    # Storage of its own: nothing of the machine's other images is read, and nothing of ours is left.
    buildah = ("buildah", "--root", str(scratch / "root"), "--runroot", str(scratch / "run"), "--storage-driver", "vfs")
    try:
        (scratch / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        bud = (*buildah, "bud", "--isolation", "chroot", "--pull-never", "--network", "host", "--layers=false")
        _run(*bud, "-t", _BASE_TAG, str(scratch))
        settings = [path for path in ("/etc/apt/apt.conf.d", "/etc/resolv.conf") if Path(path).exists()]
        mounts = [part for path in settings for part in ("-v", f"{path}:{path}:ro")]
        _run(
            *bud, *mounts, "--target", "runtime", "--build-arg", f"PYTHON_IMAGE={_BASE_TAG}",
            "-f", str(DOCKERFILE), "-t", "localhost/hyperscale-worker", str(REPOSITORY / "images"),
        )  # fmt: skip
        _run(*buildah, "push", "--disable-compression", "localhost/hyperscale-worker", f"oci-archive:{target}:{WORKER_IMAGE}")
    finally:
        shutil.rmtree(scratch / "root", ignore_errors=True)


def _archive(program: bytes, name: str) -> bytes:
    """An OCI archive whose only file is /pause."""
    layer = _tar({"pause": (program, 0o755)})
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    blobs = [json.dumps(config).encode(), layer]
    kinds = ["application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar"]
    described = [{"mediaType": kind, "digest": _digest(blob), "size": len(blob)} for kind, blob in zip(kinds, blobs, strict=True)]
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": described[0], "layers": described[1:]}).encode()
    entry = {"mediaType": kind, "digest": _digest(manifest), "size": len(manifest), "annotations": {"io.containerd.image.name": name}}
    files = {f"blobs/sha256/{_digest(blob)[7:]}": (blob, 0o644) for blob in (*blobs, manifest)}
    files["index.json"] = (json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(), 0o644)
    files["oci-layout"] = (b'{"imageLayoutVersion":"1.0.0"}', 0o644)
    return _tar(files)


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path, (content, mode) in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _run(*command: str) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if finished.returncode != 0:
        raise ImageError(f"{command[0]} failed:\n{(finished.stderr or finished.stdout)[-1500:]}")
