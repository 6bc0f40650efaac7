"""Nodes that run containers: addresses that never meet, images and discovery as their readers expect them, obstacles told."""

from __future__ import annotations

import io
import ipaddress
import json
import tarfile
from itertools import combinations
from pathlib import Path

import pytest

from e2e.cluster import cluster, providers
from e2e.cluster.api import Object
from e2e.cluster.real import ground, images, machines, slots
from e2e.cluster.real.gpus import Plugin, compile_interface
from e2e.cluster.real.slots import MAX_NODES, SLOTS, Slot
from e2e.cluster.targets import Targets
from e2e.cluster.topology import DEFAULT_FILE, REAL_FILE, LinkTable, load, with_real

INTERFACE_NAME_MAX = 15


EVERY_SLOT = [Slot(number) for number in range(SLOTS)]
EVERY_PLACE = [place for slot in EVERY_SLOT for place in slot.places]


def test_no_two_slots_share_an_address() -> None:
    networks = [ipaddress.ip_network(text) for place in EVERY_PLACE for text in (place.node_network, place.pod_network)]
    networks += [ipaddress.ip_network(slot.services) for slot in EVERY_SLOT]
    assert not any(one.overlaps(other) for one, other in combinations(networks, 2))


def test_the_networks_of_a_place_are_within_those_of_its_slot() -> None:
    for slot in EVERY_SLOT:
        cables, pods = map(ipaddress.IPv4Network, slot.networks)
        for place in slot.places:
            assert ipaddress.IPv4Network(place.node_network).subnet_of(cables)
            assert ipaddress.IPv4Network(place.pod_network).subnet_of(pods)


def test_no_two_slots_share_a_device_or_a_chain() -> None:
    assert len({place.link for place in EVERY_PLACE}) == SLOTS * MAX_NODES
    assert max(len(place.link) for place in EVERY_PLACE) <= INTERFACE_NAME_MAX
    assert len({slot.chain for slot in EVERY_SLOT}) == SLOTS


def test_the_server_and_the_names_have_addresses_among_the_services() -> None:
    slot = Slot(3)
    services = ipaddress.ip_network(slot.services)
    assert ipaddress.ip_address(slot.server) == services[1], "the service `kubernetes` has the first address"
    assert ipaddress.ip_address(slot.dns) in services


def test_a_slot_is_kept_by_its_cluster_and_given_to_another_when_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "RUN", tmp_path / "run")
    monkeypatch.setattr(slots, "_addresses", lambda: "10.96.0.1 10.87.5.1")
    first = slots.take(tmp_path / "one")
    assert first.number == 2, "of slots 0 and 1 addresses are in use"
    assert slots.take(tmp_path / "one") == first
    assert slots.take(tmp_path / "two").number == 3
    assert slots.held(tmp_path / "three") is None
    slots.free(first)
    assert slots.take(tmp_path / "three") == first


def test_what_a_cluster_left_whose_directory_was_deleted_is_taken_away_before_a_new_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, done = (tmp_path / "cluster").resolve(), list[str]()
    monkeypatch.setattr(slots, "RUN", tmp_path / "run")
    monkeypatch.setattr(slots, "_addresses", lambda: "")
    slots.take(directory)
    monkeypatch.setattr(machines, "stop", lambda left: done.append(f"stop {left.name}"))
    monkeypatch.setattr(providers, "choose", lambda *_: "local")
    monkeypatch.setattr(cluster, "_start", lambda *_: done.append("start"))
    cluster.up(directory, parts="control-plane")
    assert done == ["stop cluster", "start"]


def test_real_nodes_stand_beside_the_simulated_ones_with_links_of_their_own() -> None:
    both = with_real(load(DEFAULT_FILE))
    assert [machine.name for machine in both.real] == ["node-a", "node-b", "node-c"]
    assert len(both.nodes) == len(load(DEFAULT_FILE).nodes) + len(load(REAL_FILE).nodes)
    assert LinkTable(both).figures("node-a", "node-b").bandwidth_gbit_per_second == 1


def test_the_pause_archive_names_its_image_and_holds_its_program() -> None:
    archive = images._archive(b"program", "docker.io/test/pause:1", "pause")
    with tarfile.open(fileobj=io.BytesIO(archive)) as outer:
        files = {name: outer.extractfile(name).read() for name in outer.getnames()}  # type: ignore[union-attr]
    entry = json.loads(files["index.json"])["manifests"][0]
    assert entry["annotations"]["io.containerd.image.name"] == "docker.io/test/pause:1"
    manifest = json.loads(files[f"blobs/sha256/{entry['digest'][7:]}"])
    layer = files[f"blobs/sha256/{manifest['layers'][0]['digest'][7:]}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as inner:
        assert inner.getnames() == ["pause"]
        assert inner.getmember("pause").mode == 0o755
    for path, content in files.items():
        if path.startswith("blobs/"):
            assert images._digest(content)[7:] == path.rpartition("/")[2]


def test_prometheus_is_told_of_running_pods_on_real_nodes_that_ask_for_it() -> None:
    targets = Targets(["node-a"])
    pod: Object = {
        "metadata": {
            "uid": "1",
            "namespace": "default",
            "name": "worker",
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9464"},
        },
        "spec": {"nodeName": "node-a"},
        "status": {"phase": "Running", "podIP": "10.88.0.2"},
    }
    simulated = {**pod, "metadata": {**pod["metadata"], "uid": "2"}, "spec": {"nodeName": "eu-h100-0"}}
    silent = {**pod, "metadata": {"uid": "3", "namespace": "default", "name": "silent"}}
    targets.replace([pod, simulated, silent])
    (found,) = json.loads(targets.render())
    assert found["targets"] == ["10.88.0.2:9464"]
    assert found["labels"]["pod"] == "worker"
    targets.changed({**pod, "status": {"phase": "Succeeded", "podIP": "10.88.0.2"}})
    assert targets.render() == "[]"


def test_a_machine_without_the_means_says_which(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "root" in (ground.obstacle() or "")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(ground, "CGROUPS", tmp_path)
    assert "cgroup v1" in (ground.obstacle() or "")
    with pytest.raises(ground.GroundError, match="cgroup v1"):
        ground.ensure()


PROTO = """syntax = "proto3";
package v1beta1;
service DevicePlugin { rpc Allocate(AllocateRequest) returns (AllocateResponse) {} }
message AllocateRequest { repeated ContainerAllocateRequest container_requests = 1; }
message ContainerAllocateRequest { repeated string devices_ids = 1; }
message AllocateResponse { repeated ContainerAllocateResponse container_responses = 1; }
message ContainerAllocateResponse { map<string, string> envs = 1; }
"""


def test_a_container_is_told_its_devices(tmp_path: Path) -> None:
    (tmp_path / "api.proto").write_text(PROTO)
    messages, _ = compile_interface(tmp_path / "api.proto", tmp_path)
    plugin = Plugin(messages, tmp_path, "node-a", 2)
    request = messages.AllocateRequest(container_requests=[messages.ContainerAllocateRequest(devices_ids=["GPU-b", "GPU-a"])])
    (answer,) = plugin.Allocate(request, None).container_responses
    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b"}
