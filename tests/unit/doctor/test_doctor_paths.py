"""How the GPUs of a node reach each other: asked once a node and kind, judged among nodes that should be alike."""

from __future__ import annotations

import math
from typing import get_args

import pytest

from hyperscale.agent.gpus.gpu_reading import PathKind
from hyperscale.cli.doctor.doctor_metrics import EACH_WAY, QueryAsked
from hyperscale.doctor.checks.gpu_interconnect import KINDS, gpu_paths
from hyperscale.doctor.facts import Metrics, Ways
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import Finding
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.metrics_reading import Series
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.prometheus.reader import QueryError
from tests.unit.doctor.doctor_facts import NODES, facts, metrics, node

Kinds = dict[str, Ways]
WHOLE: Kinds = {"NVLink": Ways(56, 1008)}
UNLINKED: Kinds = {"PcieSwitch": Ways(8, 8), "System": Ways(48, 48)}
BRIDGED: Kinds = {"NVLink": Ways(4, 16), "System": Ways(8, 8)}
ALIKE = dict.fromkeys(NODES, WHOLE)


def found(ways: dict[str, Kinds], **changes: object) -> list[Finding]:
    return [one for one in gpu_paths(facts(metrics=metrics(ways=ways), **changes)) if one is not None]


def test_the_kinds_are_the_agents_best_first() -> None:
    assert get_args(PathKind) == KINDS


@pytest.mark.parametrize(
    "ways",
    [
        {},
        ALIKE,
        dict.fromkeys(NODES, UNLINKED),
        ALIKE | {"gone": {"NVLink": Ways(42, 700), "System": Ways(14, 14)}},
        ALIKE | {"gpu-3": {"NVLink": Ways(42, 756)}},
        {"gpu-1": {"PcieSwitch": Ways(2, 2)}, "gpu-2": {"PcieSwitch": Ways(2, 2)}, "gpu-3": {"NVLink": Ways(2, 8)}},
        {"gpu-1": WHOLE, "gpu-2": {"NVLink": Ways(56, 1000)}},
    ],
    ids=["nothing told", "alike", "no NVLink", "a node that is gone", "a GPU that cannot be read", "one is better", "one of two"],
)
def test_where_nothing_says_that_links_are_missing_nothing_is_found(ways: dict[str, Kinds]) -> None:
    assert found(ways) == []


@pytest.mark.parametrize(
    ("ways", "shown"),
    [
        ({"NVLink": Ways(42, 756), "System": Ways(14, 14)}, "gpu-3 (NVLink 42, System 14, links: 756)"),
        ({"NVLink": Ways(56, 994)}, "gpu-3 (NVLink 56, links: 994)"),
        ({"Unheard": Ways(6, 6), "System": Ways(50, 50)}, "gpu-3 (System 50, Unheard 6)"),
    ],
)
def test_a_node_joined_worse_than_most_is_named_with_its_ways_and_theirs(ways: Kinds, shown: str) -> None:
    (one,) = found(ALIKE | {"gpu-3": ways})
    assert (one.fault, one.state, one.where) == (Fault.GPU_PATHS_WORSE, FindingState.WARNING, ("gpu-3",))
    assert f"1 node of 8 × NVIDIA-H100-80GB-HBM3 are joined worse than on most of these nodes: {shown}; most: NVLink 56, links: 1,008" in (
        one.message
    )


def test_bridges_that_join_some_gpus_are_a_note_for_all_nodes_that_have_them() -> None:
    (one,) = found(dict.fromkeys(NODES, BRIDGED))
    assert (one.fault, one.state, one.where) == (Fault.GPU_PATHS_MIXED, FindingState.INFO, NODES)
    assert "3 nodes of 4 × NVIDIA-H100-80GB-HBM3" in one.message
    assert "gpu-1 (NVLink 4, System 8, links: 16)" in one.message


def test_products_are_not_compared_with_one_another() -> None:
    nodes = (*map(node, NODES[:2]), node("gpu-3", gpu_product="NVIDIA-L40S"))
    assert found(ALIKE | {"gpu-3": {"NVLink": Ways(56, 56)}}, nodes=nodes) == []


def asked(answers: dict[str, list[Series]]) -> Metrics:
    def ask(query: str) -> list[Series]:
        if query == "vector(time())":
            return [Series({}, 1000.0, 1000.0)]
        if query not in answers:
            raise QueryError("PrometheusRefused", "not asked here")
        return answers[query]

    return QueryAsked(ask, PolicySpec(), NodeIndex([]), frozenset(), lambda _: None).metrics("http://p:9090", "directly")


def test_prometheus_counts_and_sums_the_ways_and_what_is_no_number_is_not_known() -> None:
    def answer(*values: float) -> list[Series]:
        keys = [("gpu-2", "System"), ("gpu-1", "NVLink"), ("gpu-2", "NVLink")]
        return [Series({"node": name, "kind": kind}, value, 1000.0) for (name, kind), value in zip(keys, values, strict=True)]

    counted, summed = f"count by (node, kind) {EACH_WAY}", f"sum by (node, kind) {EACH_WAY}"
    answers = {counted: answer(8.0, 2.0, 4.0), summed: answer(8.0, math.nan, 16.0)}
    assert asked(answers).ways == {"gpu-2": BRIDGED}
    assert asked({counted: answers[counted]}).ways == {}
    assert asked({}).ways == {}
