"""A certificate of one plan: source text that a proof assistant accepts exactly where the plan is consistent.

Coq: the proved checker with the plan as data, and its theorem applied: all constraints hold.
Lean 4: self-contained, with the constraints of `lean_certificate` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import resources
from typing import Final

from hyperscale.evaluate.verify.lean_certificate import lean_source
from hyperscale.evaluate.verify.normal_form import NodeLimits, PlacedWorker, PlanFacts, PlanLimits
from hyperscale.evaluate.verify.plan_constraints import facts_of, limits_of, planned_part
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest

PROOF_PACKAGE: Final = "hyperscale.evaluate.verify.proof"
PROOF_SOURCE: Final = "PlanChecker.v"


def certificate(plan: Plan, request: PlanRequest, snapshot: ClusterSnapshot, language: str, quota_gpus: int | None = None) -> str:
    """Return the source of a certificate in `coq` (8.16) or `lean` (4).

    The certificate names the planned nodes only: the others have no workers. Raises ValueError for another language.
    """
    if language not in LANGUAGES:
        raise ValueError(f"language: {language!r} is not supported; write one of {', '.join(sorted(LANGUAGES))}")
    part = planned_part(plan, request, snapshot)
    return LANGUAGES[language](limits_of(request, part, quota_gpus), facts_of(plan, request, part))


def coq_source(limits: PlanLimits, facts: PlanFacts) -> str:
    """Return the proved checker, the plan as data, and the theorem that the plan is consistent."""
    checker = resources.files(PROOF_PACKAGE).joinpath(PROOF_SOURCE).read_text()
    proved = "\n".join(line for line in checker.splitlines() if not line.startswith("Print Assumptions"))
    return "\n".join(
        (
            proved,
            f"Definition the_limits : Limits := {_coq_limits(limits)}.",
            f"Definition the_plan : Facts := {_coq_facts(facts)}.",
            "Lemma accepted : check the_limits the_plan = true.",
            "Proof. vm_compute. reflexivity. Qed.",
            "Theorem the_plan_is_consistent : Consistent the_limits the_plan.",
            "Proof. apply check_correct. exact accepted. Qed.",
            "Print Assumptions the_plan_is_consistent.",
            "",
        )
    )


def _record(**fields: object) -> str:
    return "{| " + "; ".join(f"{name} := {text}" for name, text in fields.items()) + " |}"


def _list(entries: Iterable[object]) -> str:
    return "[" + "; ".join(map(str, entries)) + "]"


def _pairs(pairs: Iterable[tuple[int, int]]) -> str:
    return _list(f"({first}, {second})" for first, second in pairs)


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _coq_node(position: int, node: NodeLimits) -> str:
    return _record(
        n_id=position,
        n_takes=_bool(node.takes_workers),
        n_gpus=node.gpus,
        n_bytes=node.gpu_memory_bytes,
        n_domain=node.domain,
        n_amounts=_list(node.amounts),
    )


def _coq_limits(limits: PlanLimits) -> str:
    return _record(
        nodes=_list(_coq_node(position, node) for position, node in enumerate(limits.nodes)),
        gpus_each=limits.gpus_each,
        bytes_each=limits.memory_each_bytes,
        amounts_each=_list(limits.amounts_each),
        workers_min=limits.workers_min,
        workers_max=limits.workers_max,
        apart=_bool(limits.apart),
        one_domain=_bool(limits.one_domain),
        pins=_pairs(limits.pins),
        dead=_pairs(limits.dead),
        unreachable=_pairs(limits.unreachable),
        partitions_asked=limits.partitions_asked,
        tensors=limits.tensors,
        quota="None" if limits.quota_gpus is None else f"Some {limits.quota_gpus}",
    )


def _coq_worker(worker: PlacedWorker) -> str:
    return _record(
        w_index=worker.index,
        w_node=worker.node,
        w_ranks=_list(worker.ranks),
        w_gpus=worker.gpus,
        w_share=worker.share,
        w_bytes=worker.rank_bytes,
    )


def _coq_facts(facts: PlanFacts) -> str:
    return _record(
        workers=_list(map(_coq_worker, facts.workers)),
        ring=_list(facts.ring),
        partitions=facts.partitions,
        parts_by_rank=_list(map(_list, facts.parts_by_rank)),
        schedule=_list(facts.schedule),
        ranks_by_node=_pairs(facts.ranks_by_node),
    )


LANGUAGES: Final[dict[str, Callable[[PlanLimits, PlanFacts], str]]] = {"coq": coq_source, "lean": lean_source}
