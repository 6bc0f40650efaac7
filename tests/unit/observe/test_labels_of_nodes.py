from __future__ import annotations

import pytest

from hyperscale.observe.kube.node_labels import detect_levels, domains, gpu_memory_bytes, gpu_product, has_gpu_labels

REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("label", "product"),
    [
        ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB"),
        ("NVIDIA-A100-SXM4-80GB-SHARED", "NVIDIA-A100-SXM4-80GB"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me", "NVIDIA-H100-80GB-HBM3"),
        ("Tesla-T4", "Tesla-T4"),
        ("", None),
    ],
)
def test_sharing_suffixes_do_not_change_the_silicon(label: str, product: str | None) -> None:
    assert gpu_product({"nvidia.com/gpu.product": label}) == product


@pytest.mark.parametrize(
    ("text", "size"), [("81920", 80 * 2**30), ("0", None), ("", None), ("80GB", None), ("-1", None), ("٣", None), ("9" * 40, None)]
)
def test_memory_is_mebibytes_or_unknown(text: str, size: int | None) -> None:
    assert gpu_memory_bytes({"nvidia.com/gpu.memory": text}) == size


@pytest.mark.parametrize(
    ("labels", "has"),
    [
        ({"nvidia.com/gpu.present": "true"}, True),
        ({"nvidia.com/gpu.count": "8"}, True),
        ({"nvidia.com/gpu.product": "Tesla-T4"}, True),
        ({"nvidia.com/gpu.count": "0"}, False),
        ({"nvidia.com/gpu.present": "false"}, False),
        ({}, False),
    ],
)
def test_feature_discovery_marks_nodes_with_gpus(labels: dict[str, str], has: bool) -> None:
    assert has_gpu_labels(labels) is has


@pytest.mark.parametrize(
    ("keys", "levels"),
    [
        pytest.param([], (), id="none"),
        pytest.param(["kubernetes.io/hostname", "example.com/rack"], (), id="hostname and strangers are no levels"),
        pytest.param([ZONE, REGION], (REGION, ZONE), id="region is wider than zone"),
        pytest.param(
            ["fabric.topograph.run/tier-0", "fabric.topograph.run/tier-10", "fabric.topograph.run/tier-2", ZONE],
            (ZONE, "fabric.topograph.run/tier-10", "fabric.topograph.run/tier-2", "fabric.topograph.run/tier-0"),
            id="topograph counts from the node outwards",
        ),
        pytest.param(
            ["network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/core"],
            ("network.topology.nvidia.com/core", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf"),
            id="topograph's old names",
        ),
        pytest.param(
            [
                "network.topology.nvidia.com/leaf",
                "network.topology.nvidia.com/accelerator",
                "fabric.topograph.run/tier-0",
                "accelerator.topograph.run/domain",
            ],
            ("fabric.topograph.run/tier-0", "accelerator.topograph.run/domain"),
            id="in the middle of the renaming each switch counts once",
        ),
        pytest.param(
            ["topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-1", "topology.k8s.aws/network-node-layer-2"],
            ("topology.k8s.aws/network-node-layer-1", "topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-3"),
            id="AWS counts from the spine downwards",
        ),
        pytest.param(
            ["cloud.provider.com/topology-rack", "cloud.provider.com/topology-block", "nvidia.com/gpu.clique", REGION],
            (REGION, "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack", "nvidia.com/gpu.clique"),
            id="racks, and NVLink cliques inside them",
        ),
    ],
)
def test_levels_are_found_widest_first(keys: list[str], levels: tuple[str, ...]) -> None:
    assert detect_levels([dict.fromkeys(keys, "a"), dict.fromkeys(reversed(keys), "b")]) == levels


def test_of_an_old_and_a_new_region_label_the_one_on_more_nodes_is_taken() -> None:
    old = "failure-domain.beta.kubernetes.io/region"
    assert detect_levels([{old: "a"}, {old: "b"}, {REGION: "a"}]) == (old,)
    assert detect_levels([{old: "a", REGION: "a"}]) == (REGION,)


def test_rack_numbers_that_repeat_in_every_zone_are_different_domains() -> None:
    levels = (REGION, ZONE, "rack")
    first, second = ({REGION: "eu", ZONE: zone, "rack": "r1"} for zone in ("eu-a", "eu-b"))
    assert domains(first, levels) == ("eu", "eu/eu-a", "eu/eu-a/r1")
    assert domains(second, levels) == ("eu", "eu/eu-b", "eu/eu-b/r1")


def test_a_missing_label_leaves_its_own_level_empty_only() -> None:
    assert domains({REGION: "eu", "rack": "r1"}, (REGION, ZONE, "rack")) == ("eu", "", "eu//r1")
