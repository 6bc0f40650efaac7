"""What the cluster tool reads and writes: kubeconfigs, certificates' subjects, manifests, the audit log, ports, providers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import binaries, cluster, providers
from e2e.cluster.api import ApiError, access_from
from e2e.cluster.audit import entries, position, writes
from e2e.cluster.operator import kind_of, split_manifests
from e2e.cluster.pki import Client, kubeconfig_text, subject
from e2e.cluster.ports import free_ports
from e2e.cluster.prometheus import scrape_seconds


def _event(verb: str, resource: str, user: str = "alice", stage: str = "ResponseComplete", **more: Any) -> str:
    about = {"resource": resource, "namespace": "team", "name": "x", **more}
    return json.dumps({"stage": stage, "verb": verb, "user": {"username": user}, "objectRef": about, "responseStatus": {"code": 200}})


def test_the_audit_log_counts_finished_writes_by_user(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    lines = [
        _event("create", "pods"),
        _event("get", "pods"),
        _event("watch", "pods", stage="ResponseStarted"),
        _event("patch", "pods", subresource="status"),
        _event("create", "pods", user="bob"),
    ]
    log.write_text("\n".join(lines) + "\n" + _event("create", "pods")[:40])
    assert writes(log, "alice") == {("alice", "create", "pods"): 1, ("alice", "patch", "pods/status"): 1}
    assert sum(writes(log).values()) == 3
    assert [entry.code for entry in entries(log)] == [200] * 4


def test_counting_can_start_where_the_log_ended_before(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(_event("create", "pods") + "\n")
    start = position(log)
    with log.open("a") as file:
        file.write(_event("delete", "pods") + "\n")
    assert writes(log, offset=start) == {("alice", "delete", "pods"): 1}


def test_a_subject_names_user_and_groups() -> None:
    assert subject(Client("admin", ("system:masters",))) == "/O=system:masters/CN=admin"
    assert subject(Client("mpi-operator")) == "/CN=mpi-operator"


def test_a_kubeconfig_with_a_token_is_read_back(tmp_path: Path) -> None:
    config = yaml.safe_load(kubeconfig_text("http://127.0.0.1:8001", b"", {"token": "secret"}))
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    access = access_from(path)
    assert (access.host, access.port, access.headers) == ("127.0.0.1", 8001, {"Authorization": "Bearer secret"})


def test_a_kubeconfig_with_a_plugin_says_what_to_write_instead(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    text = kubeconfig_text("https://127.0.0.1", b"", {})
    path.write_text(text.replace("user: {}", "user: {exec: {command: aws}}"))
    with pytest.raises(ApiError, match="credential plugin"):
        access_from(path)


def test_manifests_are_split_without_being_parsed() -> None:
    stream = "---\n# Source: a\napiVersion: v1\nkind: ServiceAccount\n---\n# nothing\n---\nkind: Role\nrules: []\n"
    assert [kind_of(part) for part in split_manifests(stream)] == ["ServiceAccount", "Role"]


def test_free_ports_differ_and_stay_outside_the_kernels_range() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(20000 <= port < 32000 for port in ports)


@pytest.mark.parametrize(("lines", "seconds"), [(0, 2), (10_000, 2), (10_001, 4), (250_000, 50)])
def test_larger_expositions_are_scraped_less_often(lines: int, seconds: int) -> None:
    assert scrape_seconds(lines) == seconds


def test_an_existing_cluster_is_taken_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert providers.choose("auto", {"KUBECONFIG": "/somewhere"}) == "local"
    assert providers.choose("auto", {providers.EXISTING_VARIABLE: "/somewhere"}) == "existing"
    assert providers.choose("local", {providers.EXISTING_VARIABLE: "/somewhere"}) == "local"


def test_a_directory_with_other_files_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(cluster.ClusterError, match="holds other files"):
        cluster.down(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_down_of_nothing_is_fine(tmp_path: Path) -> None:
    assert cluster.down(tmp_path / "absent") is False
    assert not (tmp_path / "absent").exists()


def test_a_half_written_directory_is_removed(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    (directory / "run").mkdir(parents=True)
    (directory / "run" / "etcd.json").write_text("{")
    assert cluster.down(directory) is True
    assert not directory.exists()


def test_every_tool_has_its_pin() -> None:
    assert len({binaries.pin_of(tool) for tool in binaries.TOOLS}) == len(binaries.TOOLS)
