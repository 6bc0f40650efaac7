"""Two readings of required node affinity, the planner's and the checker's, and of what a worker takes: they never differ."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.model.planning import NodeRule, PlanRequest, node_rule
from hyperscale.planner.check.check_needs import lacking, unmet_rules
from hyperscale.planner.problem.affinity import meets
from hyperscale.planner.problem.node_checks import LATE_CHECKS
from hyperscale.planner.problem.node_room import with_held
from hyperscale.planner.problem.worker_demand import demand_of
from tests.builders.clusters import gpu_node, training

KEYS = ["disk", "generation", "zone"]
VALUES = ["nvme", "hdd", "5", "-7", "07", " 8", "9999999999999999999999", ""]
REQUIREMENTS = st.fixed_dictionaries(
    {"operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like", ""])},
    optional={"key": st.sampled_from([*KEYS, "metadata.name"]), "values": st.lists(st.sampled_from([*VALUES, "n0"]), max_size=2)},
)
TERMS = st.fixed_dictionaries(
    {}, optional={"matchExpressions": st.lists(REQUIREMENTS, max_size=3), "matchFields": st.lists(REQUIREMENTS, max_size=2)}
)
RULES: st.SearchStrategy[NodeRule] = st.lists(TERMS, max_size=3).map(lambda terms: node_rule({"nodeSelectorTerms": terms}))
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "rdma/hca", "pods"]), st.sampled_from([0.0, 0.1, 1.0, 2.5, 4.0]))


@given(RULES, LABELS)
def test_planner_and_checker_read_a_rule_alike(rule: NodeRule, labels: dict[str, str]) -> None:
    node = gpu_node("n0", labels=labels)
    asked = PlanRequest(job_key="team/a", job=training(), node_rules=(rule,))
    assert meets(node, rule) is not any(unmet_rules(node, asked))


@given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_planner_and_checker_count_alike(
    offered: dict[str, float], requested: dict[str, float], held: dict[str, float], resources: dict[str, Any]
) -> None:
    node = gpu_node(
        "n0",
        allocatable={"ephemeral-storage": 1.0, **offered},
        requested=requested,
        allocatable_cpu_cores=offered.get("cpu"),
        requested_cpu_cores=requested.get("cpu", 0.0),
        allocatable_memory_bytes=int(offered["memory"]) if "memory" in offered else None,
        requested_memory_bytes=int(requested.get("memory", 0.0)),
    )
    whole = {name: float(int(amount)) if name == "memory" else amount for name, amount in resources.items()}
    taken = {name: float(int(amount)) if name == "memory" else amount for name, amount in held.items()}
    asked = PlanRequest(job_key="team/a", job=training(), resources=whole, reserved_amounts={"n0": taken})
    demand = demand_of(replace(asked, reserved_amounts={}))
    refused = any(check(with_held(node, taken), demand) for check in LATE_CHECKS)
    assert refused is any(lacking(node, 1, asked))
