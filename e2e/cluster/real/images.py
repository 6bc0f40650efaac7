"""What containers run: stages of the Dockerfiles on a Debian made here, and a pause image, all kept by digest.

Debian comes from mmdebstrap, the images from their Dockerfiles by buildah without a daemon. The worker's Python packages are not in its
image: nodes mount this environment's own, which a line in the image's site configuration puts on Python's path. Tests run agents whose
code is mounted too; the demo runs the complete images of operator and agent, with this checkout's compiled modules.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster.binaries import cache_directory
from e2e.cluster.progress import duration, say, wall_seconds
from e2e.cluster.real.buildah import BASE, BUILT, MIRROR, SLIM, SUITE, Buildah, ImageError

REPOSITORY: Final = Path(__file__).resolve().parents[3]
IMAGES: Final = REPOSITORY / "images"
PACKAGE: Final = REPOSITORY / "operator" / "hyperscale"
PAUSE_IMAGE: Final = "docker.io/hyperscale/pause:1"
PACKAGES_PATH: Final = "/opt/hyperscale/packages"
"""Where a node mounts the environment's packages in every container."""
OPERATOR_PATH: Final = "/opt/hyperscale/operator"
_BASE_PACKAGES: Final = "python3,python3-venv,python3-pip,python-is-python3,ca-certificates,binutils,usr-is-merged"
_BASE_CPU_SECONDS: Final = 45.0
_MOUNTED: Final = "localhost/hyperscale-mounted"
_MOUNTED_FILE: Final = f"""FROM {BASE}
RUN printf '%s\\n' {PACKAGES_PATH} {OPERATOR_PATH} > /usr/local/lib/python3.11/dist-packages/hyperscale.pth \\
 && mkdir -p {PACKAGES_PATH} {OPERATOR_PATH}
"""
"""What is under an image whose Python packages are mounted."""
_WHEEL_SECONDS: Final = 600.0


@dataclass(frozen=True)
class NodeImage:
    """A stage of a Dockerfile below images/.

    name:     of its folder there
    title:    for people
    target:   the stage; "" for the last
    mounted:  nodes mount its Python packages
    wheel:    it takes this checkout's package as a wheel, with the modules that are compiled here
    inputs:   files beside the Dockerfile, and folders of Python sources, that decide its content
    """

    name: str
    title: str
    cpu_seconds: float
    target: str = ""
    mounted: bool = False
    wheel: bool = False
    inputs: tuple[Path, ...] = ()

    @property
    def dockerfile(self) -> Path:
        """Where it is described."""
        return IMAGES / self.name / "Dockerfile"

    @property
    def digest(self) -> str:
        """Of everything that decides its content; tag of an image that has the code."""
        texts = (_BASE_PACKAGES, _MOUNTED_FILE if self.mounted else "", SUITE, MIRROR, self.name, self.target)
        digest = hashlib.sha256(b"\0".join(text.encode() for text in texts))
        for path in (self.dockerfile, *self.inputs):
            for file in _sources(path) if path.is_dir() else (path,):
                digest.update(str(file.relative_to(REPOSITORY)).encode() + b"\0" + file.read_bytes())
        return digest.hexdigest()[:16]

    @property
    def reference(self) -> str:
        """What pods call it. Stages without code have the tag that operator and chart give by themselves."""
        return f"docker.io/hyperscale/{self.name}:{'0.1.0' if self.target else self.digest}"

    @property
    def archive(self) -> Path:
        """Where its OCI archive is kept."""
        return cache_directory() / f"{self.name}-image-{self.digest}.tar"


WORKER: Final = NodeImage("worker", "the worker image", 25.0, "runtime", mounted=True)
AGENT_RUNTIME: Final = NodeImage("agent", "the agent image without its code", 12.0, "runtime", inputs=(IMAGES / "agent" / "agent.lock",))
AGENT: Final = NodeImage(
    "agent",
    "the agent image",
    12.0,
    inputs=(IMAGES / "agent" / "agent.lock", PACKAGE / "__init__.py", PACKAGE / "util", PACKAGE / "agent"),
)
OPERATOR: Final = NodeImage(
    "operator",
    "the operator image",
    60.0,
    wheel=True,
    inputs=(
        *(REPOSITORY / name for name in ("setup.py", "pyproject.toml", "README.md", "requirements/operator.lock", "images/compiled.py")),
        PACKAGE,
    ),
)
DEMO: Final = (WORKER, OPERATOR, AGENT)
"""What the nodes of the demo run beside the MPI Operator."""


def absent(images: Iterable[NodeImage]) -> list[NodeImage]:
    """Those that are not in the cache."""
    return [image for image in images if not image.archive.is_file()]


def cpu_seconds(images: Sequence[NodeImage]) -> float:
    """About what building them takes of the processor."""
    return sum(image.cpu_seconds for image in images) + (_BASE_CPU_SECONDS if images else 0.0)


def ensure(*images: NodeImage) -> list[Path]:
    """An OCI archive of each, made where this content was not built before, all on one Debian; raises ImageError."""
    missing = absent(images)
    if missing:
        titles = ", ".join(image.title for image in missing)
        say(f"making {titles} (once for this content): about {duration(wall_seconds(cpu_seconds(missing)))}")
        cache_directory().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_directory(), prefix=".images-") as scratch:
            _build(missing, Path(scratch))
    return [image.archive for image in images]


def _sources(folder: Path) -> list[Path]:
    """What git would keep of a folder of the package."""
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and path.suffix not in {".so", ".pyc"} and "egg-info" not in str(path)
    )


def _build(images: Sequence[NodeImage], scratch: Path) -> None:
    """Write the archives; each is renamed into its place when it is whole."""
    buildah = Buildah(scratch, "overlay")
    try:
        buildah.base(_BASE_PACKAGES, *SLIM, variant="apt")
        for image in images:
            options = ["--target", image.target] if image.target else []
            if image.wheel:
                options += ["--build-context", f"compile={_compiled(scratch / 'compiled')}"]
            if image.mounted:
                buildah.from_text(_MOUNTED_FILE, _MOUNTED, scratch / "mounted")
            buildah.build(image.dockerfile, REPOSITORY, *options, base=_MOUNTED if image.mounted else BASE)
            unfinished = scratch / "out.tar"
            buildah.run("push", "--disable-compression", BUILT, f"oci-archive:{unfinished}:{image.reference}")
            unfinished.rename(image.archive)
    finally:
        buildah.remove()


def _compiled(folder: Path) -> Path:
    """A folder in place of the Dockerfiles' stage `compile`: the wheel of this checkout, whose modules are compiled already."""
    uv = str(Path(sys.executable).with_name("uv"))
    wheel = ["--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder / "wheels")]
    finished = subprocess.run([uv, "build", *wheel, str(REPOSITORY)], capture_output=True, text=True, timeout=_WHEEL_SECONDS, check=False)
    if finished.returncode != 0:
        raise ImageError(f"uv build failed:\n{finished.stderr[-1500:]}")
    return folder


def ensure_pause(binary: Path) -> Path:
    """An OCI archive of one program."""
    content = binary.read_bytes()
    target = cache_directory() / f"pause-image-{hashlib.sha256(content).hexdigest()[:16]}.tar"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".pause-", delete=False) as unfinished:
            unfinished.write(_archive(content, PAUSE_IMAGE, "pause"))
        Path(unfinished.name).rename(target)
    return target


def write_program(target: Path, binary: Path, name: str) -> None:
    """Write the OCI archive of an image with this program alone, which needs no libraries."""
    target.write_bytes(_archive(binary.read_bytes(), name, binary.name))


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
