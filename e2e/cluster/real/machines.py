"""All real nodes of one cluster, with what they share: cluster DNS, device plugins, volumes; started together and ended without a trace."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path
from typing import Final

from e2e.cluster import nodes
from e2e.cluster.api import Api, Object
from e2e.cluster.control_plane import kubeconfig_path, wait_until
from e2e.cluster.pki import Client
from e2e.cluster.processes import ProcessTable
from e2e.cluster.real import buildah, delay, ground, images, network, node, slots
from e2e.cluster.real.gpus import UNHEALTHY_FILE
from e2e.cluster.real.images import NodeImage
from e2e.cluster.real.node import Mount, RealNode
from e2e.cluster.real.slots import DOMAIN, Slot
from e2e.cluster.topology import LinkTable, Machine, Topology

REAL_LABEL: Final = "hyperscale.dev/real"
"""On nodes that run containers."""
DRIVER_PATH: Final = "/opt/hyperscale/driver"
"""Where containers find the folder `RealNode.driver`: a test plays NVIDIA's container runtime by putting a library there."""
VOLUMES: Final = 24
_USER: Final = 1000
_READY_SECONDS: Final = 60.0
_DELAYS_FILE: Final = "delays.json"
_DEVICES: Final = Path("/sys/class/net")
_DEVICE_SECONDS: Final = 10.0
_REPOSITORY: Final = Path(__file__).resolve().parents[3]

EXPECTED: Final = (ground.GroundError, buildah.ImageError, network.NetworkError, slots.SlotError)
"""Errors that are reported in one line."""


def clients(topology: Topology) -> dict[str, Client]:
    """Users of the API server for kubelets and CoreDNS."""
    kubelets = {kubelet_user(one.name): Client(f"system:node:{one.name}", ("system:nodes",)) for one in topology.real}
    return {**kubelets, "coredns": Client("coredns", ("system:masters",))}


def kubelet_user(name: str) -> str:
    """File stem of a kubelet's kubeconfig."""
    return f"kubelet-{name}"


def mounts() -> list[Mount]:
    """What stands in for the Python half of the worker image."""
    packages = Path(sys.executable).parents[1] / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    return [Mount(packages, images.PACKAGES_PATH), Mount(_REPOSITORY / "operator", images.OPERATOR_PATH)]


def real_nodes(directory: Path, slot: Slot, machines: Sequence[Machine]) -> list[RealNode]:
    """In the order of the topology."""
    return [RealNode(machine.name, slot.place(number), directory) for number, machine in enumerate(machines)]


def lay_network(slot: Slot, topology: Topology) -> None:
    """Addresses and cables, before the API server starts."""
    network.lay(slot, [slot.place(number) for number in range(len(topology.real))])


def start(
    directory: Path, slot: Slot, api: Api, topology: Topology, binaries: Mapping[str, Path], node_images: Sequence[NodeImage]
) -> None:
    """Start every real node of the topology and wait until all are Ready with their GPUs.

    Raises one of EXPECTED, ProcessError or NotReadyError.
    """
    table = ProcessTable(directory)
    wanted_images = [*node_images, *([images.AGENT_RUNTIME] if topology.links.real else [])]
    archives = [images.ensure_pause(binaries["pause"]), *images.ensure(*wanted_images)]
    made = real_nodes(directory, slot, topology.real)
    _start_dns(table, directory, slot, binaries["coredns"])
    shared = mounts()

    def begin(one: RealNode, machine: Machine) -> None:
        one.driver.mkdir(parents=True)
        one.prepare(slot, directory / "pki" / "ca.crt", [*shared, Mount(one.driver, DRIVER_PATH)])
        labels = {**nodes.labels(topology, machine), REAL_LABEL: "true"}
        given = {key: value for key, value in labels.items() if key not in nodes.KUBELET_OWN_LABELS}
        one.start(table, binaries["kubelet"], kubeconfig_path(directory, kubelet_user(one.name)), archives, given)

    with ThreadPoolExecutor(len(made)) as pool:
        list(pool.map(begin, made, topology.real))
    _start_plugins(table, topology, made, binaries["deviceplugin.proto"])
    _shape_all(topology, made)
    if topology.links.real:
        _delay_all(table, directory, slot, topology, made)
    _create_volumes(api, directory)
    wanted = {machine.name: str(topology.gpus_of(machine)) for machine in topology.real}
    wait_until(lambda: _ready(api, wanted), _READY_SECONDS, f"not all real nodes are Ready with their GPUs: see {directory / 'logs'}")


def stop(directory: Path) -> None:
    """End and remove all that `start` made on this machine; fine when it made nothing."""
    slot = slots.held(directory)
    if slot is None:
        return
    node.end(ProcessTable(directory), slot)
    network.remove(slot)
    slots.free(slot)


def find(directory: Path, topology: Topology) -> dict[str, RealNode]:
    """The real nodes of a running cluster by name."""
    slot = slots.held(directory)
    return {} if slot is None else {one.name: one for one in real_nodes(directory, slot, topology.real)}


def shape_one_way(source: RealNode, destination: RealNode, bits_per_second: float) -> None:
    """Limit what one node sends to another."""
    network.shape(source.place, destination.place, bits_per_second)


def delay_links(directory: Path, topology: Topology, altered: Mapping[tuple[str, str], float]) -> None:
    """Latencies of a topology with real links, as they are to be from now on: the topology's, but for those in `altered`, in seconds."""
    made, links = find(directory, topology), LinkTable(topology)
    delay.write(
        directory / _DELAYS_FILE,
        {
            (made[a].place.pod_network, made[b].place.pod_network): altered.get((a, b), links.figures(a, b).latency_seconds)
            for a, b in permutations(made, 2)
        },
    )


def shape(source: RealNode, destination: RealNode, bits_per_second: float) -> None:
    """Limit the bandwidth between two nodes, both ways."""
    network.shape(source.place, destination.place, bits_per_second)
    network.shape(destination.place, source.place, bits_per_second)


def break_gpus(one: RealNode, numbers: Sequence[int]) -> None:
    """Report these GPUs of a node as Unhealthy; none of them fixes all."""
    (one.place.run / UNHEALTHY_FILE).write_text("\n".join(f"GPU-{one.name}-{number}" for number in numbers))


def _start_dns(table: ProcessTable, directory: Path, slot: Slot, binary: Path) -> None:
    corefile = directory / "Corefile"
    corefile.write_text(f"""{DOMAIN} in-addr.arpa {{
    bind {slot.dns}
    errors
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {kubeconfig_path(directory, "coredns")} hyperscale
        pods insecure
        ttl 1
    }}
}}
. {{
    bind {slot.dns}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
""")
    table.start("coredns", [str(binary), "-conf", str(corefile)])


def _start_plugins(table: ProcessTable, topology: Topology, made: Sequence[RealNode], proto: Path) -> None:
    gpus = {machine.name: topology.gpus_of(machine) for machine in topology.real}
    given = [f"{one.name}={gpus[one.name]}={one.place.run}" for one in made]
    command = [sys.executable, "-m", "e2e.cluster.real.gpus", "--proto", str(proto), *given]
    table.start("device-plugins", command, {"PYTHONPATH": str(_REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"})


def _shape_all(topology: Topology, made: Sequence[RealNode]) -> None:
    """Every pair of real nodes gets the bandwidth that the exporter reports for it."""
    links = LinkTable(topology)
    for source in made:
        for destination in made:
            if source is not destination:
                bandwidth = links.figures(source.name, destination.name).bandwidth_gbit_per_second * 1e9
                network.shape(source.place, destination.place, bandwidth)


def _delay_all(table: ProcessTable, directory: Path, slot: Slot, topology: Topology, made: Sequence[RealNode]) -> None:
    """Every pair of real nodes gets the latency of the topology."""
    delay_links(directory, topology, {})
    command = [sys.executable, "-m", "e2e.cluster.real.delay", "--device", slot.detour, "--delays", str(directory / _DELAYS_FILE)]
    table.start("delay", command, {"PYTHONPATH": str(_REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"})

    def there() -> bool:
        table.require("delay")
        return (_DEVICES / slot.detour).exists()

    wait_until(there, _DEVICE_SECONDS, f"the detour {slot.detour} does not come: see {table.log('delay')}")
    network.detour(slot, [(a.place, b.place) for a, b in permutations(made, 2)])


def _create_volumes(api: Api, directory: Path) -> None:
    """Folders that any pod on any real node may write, for whatever claims come: all nodes are this one machine."""
    for number in range(VOLUMES):
        folder = directory / "volumes" / f"local-{number}"
        folder.mkdir(parents=True)
        os.chown(folder, _USER, _USER)
        volume: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": folder.name},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": str(folder), "type": "Directory"},
            },
        }
        api.create("/api/v1/persistentvolumes", volume)


def recycle(directory: Path, api: Api) -> None:
    """Empty the folders of volumes whose claim is gone, and let other claims have them."""
    for volume in api.items("/api/v1/persistentvolumes"):
        name = volume["metadata"]["name"]
        folder = directory / "volumes" / name
        if volume.get("status", {}).get("phase") == "Released" and folder.is_dir():
            for entry in folder.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
            api.patch(f"/api/v1/persistentvolumes/{name}", {"spec": {"claimRef": None}})


def _ready(api: Api, wanted: Mapping[str, str]) -> bool:
    found = {one["metadata"]["name"]: one for one in api.items("/api/v1/nodes", labelSelector=REAL_LABEL)}
    return all(
        name in found and nodes.is_ready(found[name]) and found[name]["status"].get("allocatable", {}).get(nodes.GPU) == gpus
        for name, gpus in wanted.items()
    )
