"""Nodes whose GPUs are MIG slices or shared are reported as the planner judges them, and as nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.doctor.diagnose import diagnose
from hyperscale.doctor.faults import Fault, FindingState
from tests.unit.doctor.doctor_facts import NODES, divided, facts, node

DIVIDED: tuple[tuple[dict[str, Any], Fault, str], ...] = (
    (divided("gpu-3", 14, gpu__product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"), Fault.GPUS_SLICED, "(1g.10gb)"),
    (divided("gpu-3", 0, {"nvidia.com/mig-1g.10gb": "7"}, mig__strategy="mixed"), Fault.GPUS_SLICED, "nvidia.com/mig-1g.10gb"),
    (
        divided("gpu-3", 0, gpu__product="NVIDIA-H100-80GB-HBM3-MIG-INVALID", gpu__memory="0", gpu__count="0", mig__strategy="single"),
        Fault.GPUS_SLICED,
        "all GPUs of the node must be divided alike",
    ),
    (divided("gpu-3", 8, gpu__replicas="4"), Fault.GPUS_SHARED, "4 times"),
    (divided("gpu-3", 8, gpu__count="2"), Fault.GPUS_SHARED, "offers 8 GPUs and has 2"),
    (divided("gpu-3", gpu__sharing_strategy="mps"), Fault.GPUS_SHARED, "mps"),
    (divided("gpu-3", 1, gpu__product="NVIDIA-A10-4Q", vgpu__present="true"), Fault.GPUS_SHARED, "vGPUs of 4 GB"),
)


@pytest.mark.parametrize(("third", "fault", "words"), DIVIDED, ids=[words for *_, words in DIVIDED])
def test_a_node_without_whole_gpus_is_told_alone_with_its_cause(third: dict[str, Any], fault: Fault, words: str) -> None:
    (found,) = diagnose(facts(nodes=(*map(node, NODES[:2]), third)), "https://example").findings
    assert (found.fault, found.state, found.where) == (fault, FindingState.INFO, ("gpu-3",))
    assert words in found.cause


def test_slices_beside_whole_gpus_are_no_finding() -> None:
    mixed = divided("gpu-3", 2, {"nvidia.com/mig-1g.10gb": "7"}, mig__strategy="mixed")
    whole = divided("gpu-2", mig__strategy="single", gpu__sharing_strategy="none", gpu__replicas="1", gpu__count="2")
    assert diagnose(facts(nodes=(node("gpu-1"), whole, mixed)), "https://example").findings == ()


def test_a_cluster_of_slices_and_shared_gpus_alone_has_two_errors() -> None:
    nodes = (DIVIDED[0][0], divided("gpu-1", 8, gpu__replicas="4"), divided("gpu-2", 8, gpu__replicas="2"))
    found = diagnose(facts(nodes=nodes), "https://example").findings
    assert {one.fault: one.state for one in found} == dict.fromkeys((Fault.GPUS_SLICED, Fault.GPUS_SHARED), FindingState.ERROR)
    assert [one.where for one in found if one.fault is Fault.GPUS_SHARED] == [("gpu-1", "gpu-2")]
