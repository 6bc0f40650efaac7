"""One real node: its files, its cgroup, containerd and kubelet, and how all of these end.

containerd makes the node's mount namespace, in which the fixed paths of kubelet and CNI are folders of this node; kubelet joins it. Nothing
of that is mounted outside, so ending the processes unmounts everything, and the cluster's directory can be removed safely.

Longer than other modules: one node, so that what begins it stands beside what ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.cluster.control_plane import NotReadyError, wait_until
from e2e.cluster.processes import ProcessTable
from e2e.cluster.real.ground import CGROUPS, HIERARCHIES, PLUGINS
from e2e.cluster.real.images import PAUSE_IMAGE
from e2e.cluster.real.network import NAMESPACES
from e2e.cluster.real.slots import DOMAIN, Place, Slot

_SOCKET_SECONDS: Final = 20.0
_IMPORT_SECONDS: Final = 300.0
_PERIOD_MICROSECONDS: Final = 100_000
_MAX_PODS: Final = 30
_MEMORY_KIB: Final = 8 << 20
_KILLS: Final = 100
_KILL_POLL_SECONDS: Final = 0.05
_BOUND: Final = {
    "kubelet": "/var/lib/kubelet",
    "cni-state": "/var/lib/cni",
    "pod-logs": "/var/log/pods",
    "container-logs": "/var/log/containers",
    "containerd-run": "/run/containerd",
    "pod-networks": "/run/netns",
}
"""Folders of the node, and where programs with fixed paths find them."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of this machine that every container of a node sees, read-only."""

    source: Path
    target: str


@dataclass(frozen=True, slots=True)
class RealNode:
    """A node of one cluster."""

    name: str
    place: Place
    directory: Path
    """Of the cluster."""

    @property
    def home(self) -> Path:
        """Everything that the node keeps."""
        return self.directory / "nodes" / self.name

    @property
    def driver(self) -> Path:
        """What all its containers see as the driver's libraries; empty."""
        return self.home / "driver"

    @property
    def socket(self) -> Path:
        """Of containerd."""
        return self.place.run / "containerd.sock"

    @property
    def containerd(self) -> str:
        """Name of the process."""
        return f"containerd-{self.name}"

    @property
    def kubelet(self) -> str:
        """Name of the process."""
        return f"kubelet-{self.name}"

    def prepare(self, slot: Slot, authority: Path, mounts: Sequence[Mount]) -> None:
        """Write the configuration and make the cgroup."""
        for name in (*_BOUND, "cni", "containerd"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        self.place.run.mkdir(parents=True, exist_ok=True)
        (self.place.run / "kubelet").symlink_to(self.home / "kubelet")  # the path of a socket may have 107 characters only
        for path in _BOUND.values():
            Path(path).mkdir(parents=True, exist_ok=True)
        _make_cgroup(self.place.link)
        (self.home / "containerd.toml").write_text(_containerd_configuration(self))
        (self.home / "cni" / "10-pods.conflist").write_text(json.dumps(_cni_configuration(self)))
        (self.home / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet_configuration(self, slot, authority)))
        (self.home / "container.json").write_text(json.dumps(_base_specification(mounts)))

    def start(self, table: ProcessTable, kubelet: Path, kubeconfig: Path, images: Sequence[Path], labels: Mapping[str, str]) -> None:
        """Start containerd, import the images, start kubelet."""
        binds = "".join(f"mount --bind {shlex.quote(str(self.home / name))} {path}\n" for name, path in _BOUND.items())
        storage = shlex.quote(str(self.home / "containerd"))
        memory = f"mount -t tmpfs -o size=4g,mode=0711 images {storage}\n" if _has_memory() else ""
        script = f"set -e\n{binds}{memory}exec containerd --config {shlex.quote(str(self.home / 'containerd.toml'))}"
        network = f"--net={NAMESPACES / self.place.link}"
        unshare = ["unshare", "--mount", "--propagation", "slave"]
        found = table.start(self.containerd, [*unshare, "nsenter", network, "sh", "-c", script])
        self._wait_containerd(table)
        for image in images:
            self.import_image(image)
        command = ["nsenter", f"--mount=/proc/{found.pid}/ns/mnt", network, str(kubelet)]
        given = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
        # fmt: off
        table.start(self.kubelet, [
            *command, "--config", str(self.home / "kubelet.yaml"), "--kubeconfig", str(kubeconfig), "--hostname-override", self.name,
            "--node-ip", self.place.address, "--node-labels", given,
        ])
        # fmt: on

    def _wait_containerd(self, table: ProcessTable) -> None:
        def answers() -> bool:
            table.require(self.containerd)
            return self.socket.exists() and self._ctr("version").returncode == 0

        wait_until(answers, _SOCKET_SECONDS, f"containerd of {self.name} does not answer: see {table.log(self.containerd)}")

    def import_image(self, image: Path) -> None:
        """Give the node the images of an OCI archive; raises NotReadyError."""
        finished = self._ctr("images", "import", str(image))
        if finished.returncode != 0:
            raise NotReadyError(f"{self.name}: {image.name} cannot be imported: {finished.stderr.strip()[-500:]}")

    def has_image(self, name: str) -> bool:
        """Whether the node has an image of that name."""
        return bool(self._ctr("images", "list", "--quiet", f"name=={name}").stdout.strip())

    def name_image(self, name: str, other: str) -> None:
        """Give an image that the node has another name as well; raises NotReadyError."""
        finished = self._ctr("images", "tag", "--force", name, other)
        if finished.returncode != 0:
            raise NotReadyError(f"{self.name}: {name} cannot be called {other}: {finished.stderr.strip()[-500:]}")

    def _ctr(self, *command: str) -> subprocess.CompletedProcess[str]:
        whole = ("ctr", "--address", str(self.socket), "--namespace", "k8s.io", *command)
        return subprocess.run(whole, capture_output=True, text=True, timeout=_IMPORT_SECONDS, check=False)

    def limit_cpu(self, cores: float | None) -> None:
        """What all pods of the node may use together; None lifts the limit."""
        quota = -1 if cores is None else round(cores * _PERIOD_MICROSECONDS)
        (CGROUPS / "cpu" / self.place.link / "cpu.cfs_quota_us").write_text(str(quota))


def end(table: ProcessTable, slot: Slot) -> None:
    """End the nodes of a slot: kubelets first, so that nothing is started again, then containerd, every container, and the cgroups."""
    names = table.names()
    with ThreadPoolExecutor(8) as pool:
        for prefix in ("kubelet-", "containerd-"):
            list(pool.map(table.stop, (name for name in names if name.startswith(prefix))))
    for place in slot.places:
        _kill_cgroup(place.link)
    table.kill_named("containerd-shim")
    for place in slot.places:
        _remove_cgroup(place.link)
        shutil.rmtree(place.run, ignore_errors=True)


def _make_cgroup(name: str) -> None:
    for hierarchy in HIERARCHIES:
        if not (CGROUPS / hierarchy / "cgroup.procs").exists():
            continue
        folder = CGROUPS / hierarchy / name
        folder.mkdir(exist_ok=True)
        for key in ("cpuset.cpus", "cpuset.mems"):  # a new cpuset is empty: nothing could run in it
            if (folder / key).exists():
                (folder / key).write_text((folder.parent / key).read_text())


def _has_memory() -> bool:
    """Whether images may lie in memory: written three times and removed again, they keep a slow disk busy for a minute."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return found is not None and int(found.group(1)) >= _MEMORY_KIB


def _roots(name: str) -> list[Path]:
    return [CGROUPS / hierarchy / name for hierarchy in (*HIERARCHIES, "unified") if (CGROUPS / hierarchy / name).is_dir()]


def _kill_cgroup(name: str) -> None:
    """SIGKILL whatever runs in it, until nothing does."""
    for _ in range(_KILLS):
        running = {pid for root in _roots(name)[:1] for file in root.rglob("cgroup.procs") for pid in _pids(file)}
        if not running:
            return
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_KILL_POLL_SECONDS)


def _remove_cgroup(name: str) -> None:
    for root in _roots(name):
        for folder, _, _ in os.walk(root, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def _pids(file: Path) -> list[int]:
    try:
        return [int(line) for line in file.read_text().split()]
    except OSError:
        return []


def _containerd_configuration(node: RealNode) -> str:
    text = {
        key: json.dumps(str(value))
        for key, value in {
            "root": node.home / "containerd",
            "state": node.place.run / "state",
            "socket": node.socket,
            "pause": PAUSE_IMAGE,
            "plugins": PLUGINS,
            "cni": node.home / "cni",
            "base": node.home / "container.json",
        }.items()
    }
    return f"""version = 2
root = {text["root"]}
state = {text["state"]}
[grpc]
  address = {text["socket"]}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {text["pause"]}
  # Lowering it needs CAP_SYS_RESOURCE, which root of a container or of a small virtual machine may lack.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {text["plugins"]}
    conf_dir = {text["cni"]}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = {text["base"]}
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def _cni_configuration(node: RealNode) -> dict[str, Any]:
    ranges = [[{"subnet": node.place.pod_network}]]
    addresses = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def _kubelet_configuration(node: RealNode, slot: Slot, authority: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.place.link}",
        "failSwapOn": False,
        "failCgroupV1": False,
        "address": node.place.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "readOnlyPort": 0,
        "containerRuntimeEndpoint": f"unix://{node.socket}",
        "clusterDomain": DOMAIN,
        "clusterDNS": [slot.dns],
        "resolvConf": "",
        "imageGCHighThresholdPercent": 100,
        "imageMinimumGCAge": "240h",
        "evictionHard": {"nodefs.available": "1%", "memory.available": "100Mi"},
        "maxPods": _MAX_PODS,
        "syncFrequency": "10s",
    }


def _base_specification(mounts: Sequence[Mount]) -> dict[str, Any]:
    """What containerd starts every container's specification from: its own default, and our folders."""
    command = ("ctr", "oci", "spec")
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    specification: dict[str, Any] = json.loads(text)
    specification["mounts"] += [
        {"destination": mount.target, "type": "bind", "source": str(mount.source), "options": ["rbind", "ro", "nosuid", "nodev"]}
        for mount in mounts
    ]
    return specification
