"""The table of what people decided: a row for each job, kind of decision and plan, the latest; and one for each change of weights.

What is taken back is another row.
"""

from __future__ import annotations

import enum
import hashlib
from typing import Final

import msgspec
import sqlalchemy as sql

from hyperscale.control.history.runs_table import METADATA
from hyperscale.model.offers.plan_offers import PlanAlternative

ID_DIGITS: Final = 16


class DecisionKind(enum.StrEnum):
    """What was decided."""

    APPROVED = "Approved"
    REJECTED = "Rejected"
    PREFERRED = "Preferred"
    WEIGHTS_SET = "WeightsSet"
    """An administrator fixed the weights of a namespace; `offers` holds them."""
    WEIGHTS_CLEARED = "WeightsCleared"
    """The weights of a namespace are those that answers reveal again."""
    FORGOTTEN = "Forgotten"
    """An answer does not count; `plan_id` holds its identifier."""
    RECALLED = "Recalled"
    """A forgotten answer counts again."""


class PersonDecision(msgspec.Struct, frozen=True, rename="camel"):
    """One decision of a person."""

    identifier: str
    at: float
    """Unix seconds, when the operator or the command line noted it."""
    namespace: str
    job: str
    """Its name; "" for a decision about a namespace."""
    uid: str
    """Of the GNNTrainingJob; "" for a decision about a namespace."""
    kind: str
    """One of DecisionKind."""
    plan_id: str
    because: str
    """As the person wrote it: one line."""
    manager: str
    """Field manager of the annotation, such as kubectl-annotate; it is no proof of who it was."""
    outcome: str
    """The operator's reason after it."""
    offers: str
    """JSON of the plans that were on offer, without their placements; of WeightsSet three weights."""


DECISIONS: Final = sql.Table(
    "hyperscale_decisions",
    METADATA,
    *(
        sql.Column(name, sql.Double if name == "at" else sql.Text, primary_key=name == "identifier", nullable=False)
        for name in PersonDecision.__struct_fields__
    ),
)
sql.Index("hyperscale_decisions_by_job", DECISIONS.c.uid, DECISIONS.c.kind, DECISIONS.c.at)


def decision(at: float, namespace: str, kind: DecisionKind, plan_id: str = "", **fields: str) -> PersonDecision:
    """Return a decision with its identifier, 16 hex digits of what it holds; `fields` are others of PersonDecision."""
    whole = {"job": "", "uid": "", "because": "", "manager": "", "outcome": "", "offers": "", **fields}
    text = "\0".join((f"{at:.6f}", namespace, kind, plan_id, whole["uid"], whole["because"], whole["offers"]))
    identifier = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:ID_DIGITS]
    return PersonDecision(identifier=identifier, at=at, namespace=namespace, kind=str(kind), plan_id=plan_id, **whole)


def offers_text(offers: tuple[PlanAlternative, ...]) -> str:
    """Return the JSON of what was on offer, without the placements."""
    return msgspec.json.encode([msgspec.structs.replace(offer, plan=None) for offer in offers]).decode() if offers else ""


def offers_of(text: str) -> tuple[PlanAlternative, ...]:
    """Return what was on offer; nothing where the text cannot be read."""
    try:
        return msgspec.json.decode(text, type=tuple[PlanAlternative, ...]) if text else ()
    except msgspec.DecodeError:
        return ()
