"""What containers run: Debians made here, the stages `runtime` of worker and agent on them, and a pause image, all kept by digest.

Debian comes from mmdebstrap, the images from their Dockerfiles by buildah without a daemon. The worker's Python packages are not in its
image: nodes mount this environment's own, which a line in the image's site configuration puts on Python's path. The agent's few packages
are, as its lock pins them; only its code is mounted.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from e2e.cluster.binaries import cache_directory
from e2e.cluster.progress import duration, say, wall_seconds
from e2e.cluster.real.buildah import BUILT, MIRROR, SUITE, Buildah

REPOSITORY: Final = Path(__file__).resolve().parents[3]
DOCKERFILE: Final = REPOSITORY / "images" / "worker" / "Dockerfile"
AGENT_DOCKERFILE: Final = REPOSITORY / "images" / "agent" / "Dockerfile"
AGENT_LOCK: Final = AGENT_DOCKERFILE.with_name("agent.lock")
WORKER_IMAGE: Final = "docker.io/hyperscale/worker:0.1.0"
"""What the operator gives to pods that name no image."""
AGENT_IMAGE: Final = "docker.io/hyperscale/agent:0.1.0"
"""What the chart gives to the agents."""
PAUSE_IMAGE: Final = "docker.io/hyperscale/pause:1"
PACKAGES_PATH: Final = "/opt/hyperscale/packages"
"""Where a node mounts the environment's packages in every container."""
OPERATOR_PATH: Final = "/opt/hyperscale/operator"
_HOOK: Final = f"""printf '%s\\n' {PACKAGES_PATH} {OPERATOR_PATH} > "$1/usr/local/lib/python3.11/dist-packages/hyperscale.pth"
mkdir -p "$1{PACKAGES_PATH}" "$1{OPERATOR_PATH}"
"""
WORKER_CPU_SECONDS: Final = 100.0
AGENT_CPU_SECONDS: Final = 80.0
_AGENT_PACKAGES: Final = "python3,python3-venv,python3-pip,ca-certificates"


def worker_archive() -> Path:
    """Where the OCI archive of the worker image is kept."""
    digest = hashlib.sha256(b"\0".join(text.encode() for text in (_HOOK, SUITE, MIRROR, WORKER_IMAGE)) + DOCKERFILE.read_bytes())
    return _place("worker-image", digest.hexdigest())


def ensure_worker() -> Path:
    """An OCI archive of the worker image; made when this Dockerfile was not built before."""
    return _kept(worker_archive(), _build_worker)


def ensure_agent() -> Path:
    """An OCI archive of the agent's image without its code; made when this Dockerfile or lock was not built before."""
    texts = b"\0".join(text.encode() for text in (_AGENT_PACKAGES, SUITE, MIRROR, AGENT_IMAGE))
    digest = hashlib.sha256(texts + AGENT_DOCKERFILE.read_bytes() + AGENT_LOCK.read_bytes())
    return _kept(_place("agent-image", digest.hexdigest()), _build_agent)


def ensure_pause(binary: Path) -> Path:
    """An OCI archive of one program."""
    content = binary.read_bytes()
    place = _place("pause-image", hashlib.sha256(content).hexdigest())
    return _kept(place, lambda target, _: target.write_bytes(_archive(content, PAUSE_IMAGE, "pause")))


def write_program(target: Path, binary: Path, name: str) -> None:
    """Write the OCI archive of an image with this program alone, which needs no libraries."""
    target.write_bytes(_archive(binary.read_bytes(), name, binary.name))


def _place(name: str, digest: str) -> Path:
    return cache_directory() / f"{name}-{digest[:16]}.tar"


def _kept(target: Path, make: Callable[[Path, Path], object]) -> Path:
    """A file of the cache; `make(target, scratch)` writes it. Safe to interrupt and to run twice."""
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.stem}-") as scratch:
        unfinished = Path(scratch) / "out.tar"
        make(unfinished, Path(scratch))
        unfinished.rename(target)
    return target


def _build_worker(target: Path, scratch: Path) -> None:
    say(f"making the worker image (once for this Dockerfile): about {duration(wall_seconds(WORKER_CPU_SECONDS))}")
    hook = scratch / "hook"
    hook.write_text(f"#!/bin/sh\nset -e\n{_HOOK}")
    hook.chmod(0o755)
    _build(target, scratch, DOCKERFILE, WORKER_IMAGE, "python3,ca-certificates", f'--customize-hook={hook} "$1"')


def _build_agent(target: Path, scratch: Path) -> None:
    say(f"making the agent image (once for this Dockerfile): about {duration(wall_seconds(AGENT_CPU_SECONDS))}")
    _build(target, scratch, AGENT_DOCKERFILE, AGENT_IMAGE, _AGENT_PACKAGES)


def _build(target: Path, scratch: Path, dockerfile: Path, name: str, packages: str, *options: str) -> None:
    """The stage `runtime` of a Dockerfile on a Debian with these packages, as an OCI archive."""
    buildah = Buildah(scratch)
    try:
        buildah.base(packages, *options)
        buildah.build(dockerfile, REPOSITORY, "--target", "runtime")
        buildah.run("push", "--disable-compression", BUILT, f"oci-archive:{target}:{name}")
    finally:
        buildah.remove()


def _archive(program: bytes, name: str, file: str) -> bytes:
    """An OCI archive whose only file is the program, at the root."""
    layer = _tar({file: (program, 0o755)})
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [f"/{file}"], "User": "65535:65535"},
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
