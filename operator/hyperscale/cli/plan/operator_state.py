"""Reads what the operator's next plan depends on, through the API server's proxy of its Service (docs/rbac.md says with which rights)."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from hyperscale import __version__
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.live import ApiRefusedError, LiveCluster
from hyperscale.cli.plan.inputs import note
from hyperscale.cli.plan.known_inputs import UnavailableError
from hyperscale.control.apply import paths
from hyperscale.model import constants
from hyperscale.model.api.topology import TopologyPreview
from hyperscale.model.preview import AGE_HEADER, KEY_HEADER, PATH, POLICY_QUERY, PreviewError, PreviewState, from_lines

DEFAULT_PLACE: Final = TopologyPreview("hyperscale-system", "hyperscale-preview", "hyperscale-preview")
"""Of a release `hyperscale` in its usual namespace, for those who may not read the ClusterTopology."""
MAX_BYTES: Final = 256 << 20
MAX_KEY_LENGTH: Final = 1024


def read_state(cluster: LiveCluster, policy: str) -> tuple[str, float, PreviewState]:
    """The operator's namespace/service, seconds since it made the document, and its state for a policy, "" for the default one.

    Raises UnavailableError, or InputError where the policy is not there.
    """
    place = _place(cluster)
    where = f"{place.namespace}/{place.service_name}"
    key = _key(cluster, place)
    path = f"/api/v1/namespaces/{place.namespace}/services/http:{place.service_name}:preview/proxy{PATH}"
    try:
        answer = cluster.request(path, {POLICY_QUERY: policy} if policy else {}, headers={KEY_HEADER: key}, max_bytes=MAX_BYTES)
    except ApiRefusedError as error:
        if error.status == 404 and "PlannerPolicy" in error.message:
            raise InputError(f"spec.policyRef.name: {error.message}") from None
        raise UnavailableError(_why(error, where)) from None
    except InputError as error:
        raise UnavailableError(str(error)) from None
    try:
        state = from_lines(answer.body.splitlines())
    except PreviewError as error:
        raise UnavailableError(f"the answer of {where} cannot be read: {error}") from None
    if state.operator_version != __version__:
        note(f"the operator is version {state.operator_version}, this program {__version__}: their plans may differ")
    age = answer.headers.get(AGE_HEADER, "0")
    return where, float(age) if age.isascii() and age.isdigit() and len(age) < 8 else 0.0, state


def _place(cluster: LiveCluster) -> TopologyPreview:
    """Where the ClusterTopology says that previews are; the usual place where it cannot be read."""
    try:
        topology = cluster.object(paths.topologies(constants.TOPOLOGY_NAME))
    except ApiRefusedError as error:
        if error.status == 403:
            return DEFAULT_PLACE
        raise UnavailableError("there is no ClusterTopology: has the operator run?" if error.status == 404 else str(error)) from None
    preview = (topology.get("status") or {}).get("preview")
    try:
        return msgspec.convert(preview, TopologyPreview)
    except msgspec.ValidationError:
        raise UnavailableError("this operator serves none (preview.enabled is false, or it is of an earlier version)") from None


def _key(cluster: LiveCluster, place: TopologyPreview) -> str:
    try:
        secret = cluster.object(f"/api/v1/namespaces/{place.namespace}/secrets/{place.secret_name}")
        key = base64.b64decode(str((secret.get("data") or {})["key"]), validate=True).decode("ascii").strip()
    except ApiRefusedError as error:
        raise UnavailableError(_why(error, f"{place.namespace}/{place.secret_name}")) from None
    except InputError as error:
        raise UnavailableError(str(error)) from None
    except (KeyError, AttributeError, binascii.Error, UnicodeDecodeError):
        raise UnavailableError(f"the Secret {place.namespace}/{place.secret_name} holds no key under `key`") from None
    if not key.isprintable() or not 0 < len(key) <= MAX_KEY_LENGTH:
        raise UnavailableError(f"the Secret {place.namespace}/{place.secret_name} holds no key that a header can carry")
    return key


def _why(error: ApiRefusedError, what: str) -> str:
    if error.status == 403:
        return f"{what}: {error.message}; ask for the Role hyperscale-preview-reader (docs/rbac.md)"
    if error.status == 404:
        return f"{what} is not there; see docs/install.md, Previews"
    return f"{what}: {error.message}"
