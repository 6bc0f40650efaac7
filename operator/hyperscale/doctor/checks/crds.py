"""The CustomResourceDefinitions of this project. Pure."""

from __future__ import annotations

from hyperscale.doctor.checks.schema import OUR_CRDS, expected_fields
from hyperscale.doctor.common import helm, operators
from hyperscale.doctor.facts import Crd, Facts, or_empty
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import CheckResult, Finding, alike, finding, plural
from hyperscale.model import constants

APPLY = "kubectl apply --server-side --force-conflicts -f crds/"


def crds(facts: Facts) -> CheckResult:
    """Present, established, served, and with every field that this release knows."""
    by_name = {crd.name: crd for crd in or_empty(facts.crds)}
    findings = [_judge(facts, name, by_name.get(name)) for name in OUR_CRDS]
    good = sum(finding is None or finding.state is FindingState.INFO for finding in findings)
    return (
        f"{good} of {len(OUR_CRDS)} kinds served as {constants.API_VERSION} with all fields",
        alike(one for one in findings if one is not None),
    )


def _judge(facts: Facts, name: str, crd: Crd | None) -> Finding | None:
    by_helm = any(one.labels.get("app.kubernetes.io/managed-by") == "Helm" for one in operators(facts))
    fix = helm(facts, "crds.enabled=true") if by_helm else APPLY
    state = FindingState.WARNING if name.startswith(constants.TOPOLOGY_PLURAL) else FindingState.ERROR
    if crd is None:
        return finding(
            Fault.CRD_MISSING, f"{name} is not installed", "crds.enabled was false, or it was deleted", fix, (name,), state=state
        )
    if not crd.established or constants.VERSION not in crd.served:
        why = crd.complaint or f"it serves {', '.join(crd.served) or 'no version'}, not {constants.VERSION}"
        return finding(Fault.CRD_NOT_SERVED, f"{name} is not served", why, fix, (name,), state=state)
    return _older(name, crd, fix) or _newer(name, crd)


def _older(name: str, crd: Crd, fix: str) -> Finding | None:
    """A CRD that lacks fields of this release."""
    missing = expected_fields(name) - crd.fields
    if not missing:
        return None
    shown = sorted(path for path in missing if path.rpartition(".")[0] not in missing)
    return finding(
        Fault.CRD_OLD,
        f"{name} lacks {plural(len(missing), 'field')}: {', '.join(shown[:4])}{' …' if len(shown) > 4 else ''}",
        "the CRD is older than this release; the API server drops or refuses what it does not know",
        fix,
        tuple(shown[:10]),
    )


def _newer(name: str, crd: Crd) -> Finding | None:
    """A CRD with fields that this release does not have."""
    more = crd.fields - expected_fields(name)
    if not more:
        return None
    message = f"{name} has {plural(len(more), 'field')} that this command does not know, e.g. {min(more)}"
    fix = "use the `hyperscale` command of the installed release"
    return finding(Fault.CRD_NEWER, message, "the CRD is newer than this command", fix, (name,))
