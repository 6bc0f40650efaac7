"""A real Prometheus for the cluster: the one on PATH, else the Debian package unpacked into the cache (nothing is installed)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import yaml

from e2e.cluster.binaries import cache_directory
from e2e.cluster.ports import LOOPBACK
from e2e.cluster.processes import ProcessTable

NAME: Final = "prometheus"
CHECKER: Final = "promtool"
"""Comes in the same package."""
_TIMEOUT_SECONDS: Final = 5.0
_APT_SECONDS: Final = 300.0
_LINES_PER_SECOND: Final = 10_000
"""What a scrape may cost at most: larger clusters are scraped less often."""
SCRAPE_SECONDS: Final = 2


class PrometheusMissingError(Exception):
    """No Prometheus can be had; the message says what to install."""


def executable(name: str = NAME) -> Path:
    """Path of the prometheus binary, or of another of its package; raises PrometheusMissingError."""
    found = shutil.which(name)
    if found:
        return Path(found)
    kept = cache_directory() / f"{name}-debian"
    if not (kept / name).exists():
        _unpack(kept, name)
    return kept / name


def _unpack(target: Path, name: str) -> None:
    """Download the Debian package with apt-get as the current user and keep that binary."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise PrometheusMissingError("prometheus is not on PATH and this is not a Debian system: install Prometheus 2.40 or newer")
    print("fetching the Debian package prometheus (once)", file=sys.stderr, flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".prometheus-") as scratch:
        if not _download(Path(scratch), ()):
            lists = Path(scratch) / "state"
            (lists / "lists" / "partial").mkdir(parents=True)
            own = ("-o", f"Dir::State={lists}", "-o", "Dir::State::status=/var/lib/dpkg/status", "-o", f"Dir::Cache={scratch}/cache")
            _run(["apt-get", "-qq", *own, "update"], Path(scratch))
            if not _download(Path(scratch), own):
                raise PrometheusMissingError("the Debian package prometheus cannot be downloaded: install Prometheus and put it on PATH")
        package = next(Path(scratch).glob("prometheus_*.deb"))
        if not _run(["dpkg-deb", "-x", str(package), "unpacked"], Path(scratch)):
            raise PrometheusMissingError(f"{package.name} cannot be unpacked")
        out = Path(scratch) / "out"
        out.mkdir()
        shutil.copy(Path(scratch) / "unpacked/usr/bin" / name, out / name)
        try:
            out.rename(target)
        except OSError:  # another process was first
            if not (target / name).exists():
                raise


def _download(folder: Path, options: tuple[str, ...]) -> bool:
    return _run(["apt-get", "-qq", *options, "-o", "APT::Sandbox::User=", "download", NAME], folder) and any(
        folder.glob("prometheus_*.deb")
    )


def _run(command: list[str], folder: Path) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    finished = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=_APT_SECONDS, check=False)
    return finished.returncode == 0


def scrape_seconds(lines: int) -> int:
    """Scrape interval for an exporter that gives that many lines."""
    return max(SCRAPE_SECONDS, -(-lines // _LINES_PER_SECOND) * SCRAPE_SECONDS)


def write_configuration(directory: Path, exporter_port: int, interval_seconds: int, has_pods: bool = False) -> None:
    """prometheus.yml: the exporter, its own labels kept, and where pods run for good those that the exporter names."""
    job = {
        "job_name": "dcgm",
        "honor_labels": True,
        "metrics_path": "/metrics",
        "static_configs": [{"targets": [f"{LOOPBACK}:{exporter_port}"]}],
    }
    pods = {
        "job_name": "pods",
        "scrape_interval": f"{SCRAPE_SECONDS}s",
        "scrape_timeout": f"{SCRAPE_SECONDS}s",
        "http_sd_configs": [{"url": f"http://{LOOPBACK}:{exporter_port}/targets", "refresh_interval": f"{SCRAPE_SECONDS}s"}],
    }
    timing = {"scrape_interval": f"{interval_seconds}s", "scrape_timeout": f"{interval_seconds}s"}
    (directory / "prometheus.yml").write_text(yaml.safe_dump({"global": timing, "scrape_configs": [job, pods] if has_pods else [job]}))


def start(directory: Path, host: str, port: int) -> None:
    """Start Prometheus at that address with the configuration and data of the directory."""
    # fmt: off
    ProcessTable(directory).start(NAME, [
        str(executable()), f"--config.file={directory / 'prometheus.yml'}", f"--storage.tsdb.path={directory / 'prometheus'}",
        f"--web.listen-address={host}:{port}", "--storage.tsdb.retention.time=6h", "--log.level=warn",
    ])
    # fmt: on


def query(url: str, expression: str) -> list[dict[str, Any]]:
    """Result of an instant query; raises OSError when the server does not answer."""
    address = f"{url}/api/v1/query?{urlencode({'query': expression})}"
    with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310 (a loopback address of ours)
        result: list[dict[str, Any]] = json.load(response)["data"]["result"]
    return result


def try_query(url: str, expression: str) -> list[dict[str, Any]] | None:
    """Result of an instant query; None where the server does not answer in time, or not as it should."""
    try:
        return query(url, expression)
    except (OSError, ValueError, KeyError):
        return None


def has_scraped(url: str, since: float = 0.0) -> bool:
    """Whether the exporter's figures can be asked for, those of every GPU read after `since` (Unix seconds).

    A series that ended while Prometheus was stopped has no end mark: it is found for five minutes, beside the one that took its place.
    """
    return bool(try_query(url, f"min(max by (UUID) (timestamp(DCGM_FI_DEV_GPU_UTIL))) > {since}"))
