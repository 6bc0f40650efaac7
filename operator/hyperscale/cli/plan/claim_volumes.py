"""The volumes of a job's workers, as the operator reads them (control/apply/claims.py): which are missing, which nodes others allow."""

from __future__ import annotations

from typing import Any, Final

from hyperscale.cli.live import ApiRefusedError, LiveCluster
from hyperscale.cli.plan.inputs import JobInput
from hyperscale.control.apply import paths
from hyperscale.control.apply.claims import FORBIDDEN, MAX_CLAIMS
from hyperscale.control.specs.plan_question import worker_asks
from hyperscale.model.api.job import JobSpec
from hyperscale.model.planning import NodeRule, Volumes
from hyperscale.observe.kube.volume_rules import class_name, class_rules, volume_name, volume_rules

UNREAD: Final = "from which nodes the volumes of the job can be reached, which you may not read"


def look(cluster: LiveCluster, job: JobInput, spec: JobSpec) -> tuple[Volumes, bool]:
    """What is known of the claims that the workers mount, and whether nothing was withheld.

    Raises render.template.RenderError for a template that cannot be used.
    """
    rules: list[NodeRule] = []
    missing: list[str] = []
    whole = True
    for claim in worker_asks(spec).claims[:MAX_CLAIMS]:
        claim_object = _find(cluster, paths.claims(job.namespace, claim))
        if claim_object is None:
            missing.append(claim)
            continue
        if volume := volume_name(claim_object):
            read = _find(cluster, paths.volumes(volume))
            rules += volume_rules(read or {}, claim)
        elif storage_class := class_name(claim_object):
            read = _find(cluster, paths.storage_classes(storage_class))
            rules += class_rules(read or {}, claim)
        else:
            read = claim_object
        whole = whole and read != {}
    return Volumes(tuple(rules), tuple(missing)), whole


def _find(cluster: LiveCluster, path: str) -> dict[str, Any] | None:
    """The object; None where there is none, empty where it must not be read."""
    try:
        return cluster.find(path)
    except ApiRefusedError as error:
        if error.status == FORBIDDEN:
            return {}
        raise
