"""The least that a kopf operator can do: one handler that creates one fixed MPIJob for every GNNTrainingJob. It plans nothing.

Run as `kopf run --standalone --namespace NAMESPACE benchmarks/peers/bare_kopf.py`; $BARE_MPIJOB is a file with the MPIJob.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import kopf
from kubernetes import client, config

SPEC: dict[str, Any] = json.loads(Path(os.environ["BARE_MPIJOB"]).read_text())


@kopf.on.startup()
def connect(**_: Any) -> None:  # noqa: ANN401 - kopf passes many kinds of things
    """Credentials for the client used below."""
    config.load_kube_config()  # type: ignore[no-untyped-call] # the client ships no types here


@kopf.on.create("hyperscale.dev", "v1alpha1", "gnntrainingjobs")
def create(name: str, namespace: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: ANN401 - kopf passes many kinds of things
    """The one MPIJob, owned by the job."""
    manifest: dict[str, Any] = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name}, "spec": SPEC}
    kopf.adopt(manifest, owner=body)
    client.CustomObjectsApi().create_namespaced_custom_object("kubeflow.org", "v2beta1", namespace or "default", "mpijobs", manifest)
