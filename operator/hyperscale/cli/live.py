"""A live cluster for the command line: nodes, pods, jobs, events, policies; what cannot be read is bad input, in one line."""

from __future__ import annotations

import sys
import time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from hyperscale.cli.exit_codes import InputError, one_line
from hyperscale.cli.kube_client import (
    EndlessListError,
    KubeClient,
    KubeError,
    NoAnswerError,
    RefusalError,
)
from hyperscale.model import constants
from hyperscale.model.pods import PodView

if TYPE_CHECKING:
    from hyperscale.control.cache.intake import Intake
    from hyperscale.observe.kube.fabric import Fabric

MAX_EVENTS: Final = 500

Json = dict[str, Any]

BOUND_AND_LIVE: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Pods that hold devices; the others are not sent at all."""

HINTS: Final = {
    401: "log in again",
    403: "ask for read access to nodes, pods, events and gnntrainingjobs",
    404: "is the HyperScale API installed in this cluster?",
}


class ApiRefusedError(InputError, RefusalError):
    """The API server, or what it is a proxy for, refused a request."""

    def __init__(self, status: int, message: str, line: str) -> None:
        """status: of HTTP; message: the server's own; line: the whole line for a person."""
        RefusalError.__init__(self, status, message)
        self.args = (line,)


class LiveCluster(KubeClient):
    """The API server of a kubeconfig; what fails is InputError, or ApiRefusedError."""

    def nodes(self) -> list[Json]:
        """All v1 Nodes that can be read; the others are named on stderr, as the operator names them in its log."""
        intake = _intake()
        return [node for node in self.items("/api/v1/nodes") if intake.node(node) is not None]

    def pods(self) -> list[PodView]:
        """Pods that hold resources on some node; one that cannot be read is named on stderr and closes its node."""
        intake = _intake()
        return [intake.pod(pod) for pod in self.items("/api/v1/pods", {"fieldSelector": BOUND_AND_LIVE})]

    def fabric(self) -> Fabric:
        """Topology that other operators describe; none where their CRDs are not installed, or not for this user to read."""
        from hyperscale.control.apply import paths

        return _intake().fabric(self._optional(paths.HYPERNODES), self._optional(paths.KUEUE_TOPOLOGIES))

    def _optional(self, choices: tuple[str, ...]) -> list[Json]:
        for path in choices:
            try:
                return list(self.items(path))
            except InputError:
                continue
        return []

    def policy(self, name: str) -> Json | None:
        """A PlannerPolicy; None when it, or its kind, does not exist."""
        return self.find(f"/apis/{constants.API_VERSION}/{constants.POLICY_PLURAL}/{name}")

    def job(self, namespace: str, name: str) -> Json | None:
        """A GNNTrainingJob; None when it does not exist."""
        return self.find(f"/apis/{constants.API_VERSION}/namespaces/{namespace}/{constants.JOB_PLURAL}/{name}")

    def events(self, namespace: str, name: str) -> list[Json]:
        """Events about a GNNTrainingJob of that name, at most MAX_EVENTS."""
        selector = {"fieldSelector": f"involvedObject.kind={constants.JOB_KIND},involvedObject.name={name}"}
        return list(islice(self.items(f"/api/v1/namespaces/{namespace}/events", selector), MAX_EVENTS))

    def failed(self, error: KubeError, method: str, path: str) -> InputError:
        """A failed request in one line, with what to do."""
        host = self.host
        if isinstance(error, NoAnswerError):
            return InputError(f"{host}: no answer ({error.message}); check KUBECONFIG{self.instead}")
        if isinstance(error, RefusalError):
            hint, why = HINTS.get(error.status, "try again"), error.message or "no reason given"
            return ApiRefusedError(error.status, why, f"{host}: {method} {path} was refused with {error.status}: {why}; {hint}")
        if isinstance(error, EndlessListError):
            return InputError(f"{host}: {path} {error.message}; is this the right cluster?")
        return InputError(f"{host}: the answer to {path} {error.message}")


def _intake() -> Intake:
    """Reads objects as the operator does."""
    from hyperscale.control.cache.intake import Intake, Refused

    def tell(refused: Refused) -> None:
        sys.stderr.write(one_line(f"note: {refused.kind} {refused.key} cannot be used as it is: {refused.message}") + "\n")

    return Intake(tell, time.time)
