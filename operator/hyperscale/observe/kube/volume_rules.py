"""From which nodes a claim's volume can be reached: rules for placement from raw PersistentVolume and StorageClass objects. Pure.

Sources: kube-scheduler's plugins VolumeBinding (node affinity of a bound volume, allowedTopologies of the class of an unbound claim) and
VolumeZone (zone and region labels of a volume).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hyperscale.model.api.job import is_object_name
from hyperscale.model.planning import NodeExpression, NodeRule, NodeTerm, node_rule

REASON: Final = "Volume"
ZONE_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
ZONE_SEPARATOR: Final = "__"
"""Between the zones of a regional volume, in its label."""


def volume_name(claim: Mapping[str, Any]) -> str:
    """The volume that a claim is, or is to be, bound to; "" while it has none, or asks for what is no name."""
    return _name(_mapping(claim.get("spec")).get("volumeName"))


def class_name(claim: Mapping[str, Any]) -> str:
    """The storage class that will make the claim's volume; "" where none will."""
    return _name(_mapping(claim.get("spec")).get("storageClassName"))


def volume_rules(volume: Mapping[str, Any], claim: str) -> tuple[NodeRule, ...]:
    """Nodes from which a PersistentVolume can be reached; `claim` names the claim in messages."""
    about = {"reason": REASON, "source": _source(claim)}
    required = _mapping(_mapping(_mapping(volume.get("spec")).get("nodeAffinity")).get("required"))
    labels = _mapping(_mapping(volume.get("metadata")).get("labels"))
    zones = tuple(NodeExpression(key, "In", tuple(str(labels[key]).split(ZONE_SEPARATOR))) for key in ZONE_LABELS if labels.get(key))
    rules = [node_rule(required, **about)] if required else []
    return (*rules, *([NodeRule((NodeTerm(labels=zones),), **about)] if zones else []))


def class_rules(storage_class: Mapping[str, Any], claim: str) -> tuple[NodeRule, ...]:
    """Nodes that a StorageClass may make a volume for."""
    allowed = storage_class.get("allowedTopologies")
    terms = tuple(
        NodeTerm(labels=tuple(_in(entry) for entry in _mapping(topology).get("matchLabelExpressions") or ()))
        for topology in (allowed if isinstance(allowed, list) else ())
    )
    return (NodeRule(terms, reason=REASON, source=_source(claim)),) if terms else ()


def _name(value: object) -> str:
    """A name of an object, "" for anything else: users who may create claims write both fields."""
    return value if isinstance(value, str) and is_object_name(value) else ""


def _in(entry: object) -> NodeExpression:
    wanted = _mapping(entry)
    return NodeExpression(str(wanted.get("key") or ""), "In", tuple(str(value) for value in wanted.get("values") or ()))


def _source(claim: str) -> str:
    return f'PersistentVolumeClaim "{claim}"'


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
