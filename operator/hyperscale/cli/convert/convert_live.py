"""`hyperscale convert --check` and `--live`: the stored objects of a cluster, before the chart of this version replaces the CRDs.

Every step can be cut off and run again: what has a backup keeps it, what is converted is left alone.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from hyperscale.cli import exit_codes
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import read_bounded, replaced
from hyperscale.cli.kube_client import KubeClient, KubeError
from hyperscale.cli.plan.inputs import note
from hyperscale.model import constants
from hyperscale.spec.convert import Converted, ConvertError, convert

Json = dict[str, Any]

KINDS: Final = {constants.JOB_KIND: constants.JOB_PLURAL, constants.POLICY_KIND: constants.POLICY_PLURAL}
GROUP: Final = f"/apis/{constants.GROUP}/{constants.VERSION}"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LEASES: Final = "/apis/coordination.k8s.io/v1/leases"
OPEN: Final[Json] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
PROBE: Final = "hyperscale-convert-probe"
MAX_OBJECT_BYTES: Final = 4 << 20
OPENING_SECONDS: Final = 60.0
WRITES: Final = 20
"""Tries of one object: another API server may know the open schema some seconds later."""
DEFAULT_LEASE_SECONDS: Final = 15


class Stored(NamedTuple):
    """One object with what it becomes."""

    path: str
    shown: str
    resource: Json
    converted: Converted


def run(arguments: argparse.Namespace) -> int:
    """Check or convert; the exit code."""
    if arguments.live and not arguments.backup:
        raise InputError("--live: needs --backup DIR; name a folder for the objects as they are")
    client = KubeClient.of_kubeconfig(arguments.kubeconfig, arguments.context, instead=", or read a file with -f")
    try:
        former = [one for one in _stored(client) if one.converted.resource != one.resource]
        if arguments.check:
            return _report(former, as_json=arguments.output == "json")
        _refuse_while_the_operator_runs(client)
        _convert_all(client, former, Path(arguments.backup))
    except KubeError as error:
        raise InputError(f"{client.host}: {error.message or 'no answer'} (status {error.status}); nothing was lost, run it again") from None
    if arguments.output == "json":
        print(_listing(former))
    else:
        done = (
            "converted. Now upgrade the release: its CRDs close the schemas again." if former else "of the former API; nothing was written."
        )
        print(f"{len(former)} objects {done}")
    return exit_codes.OK


def _stored(client: KubeClient) -> Iterator[Stored]:
    """Every job and policy of the cluster; a kind that is not served has none."""
    for kind, plural in KINDS.items():
        try:
            items = list(client.items(f"{GROUP}/{plural}"))
        except KubeError as error:
            if error.status == 404:
                continue
            raise
        for item in items:
            yield _one(kind, plural, item)


def _one(kind: str, plural: str, item: Json) -> Stored:
    resource = {**item, "apiVersion": constants.API_VERSION, "kind": kind}
    metadata = resource["metadata"]
    namespace, name = metadata.get("namespace"), metadata["name"]
    path = f"{GROUP}/namespaces/{namespace}/{plural}/{name}" if namespace else f"{GROUP}/{plural}/{name}"
    shown = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
    try:
        return Stored(path, shown, resource, convert(resource))
    except ConvertError as error:
        raise InputError(f"{shown}: {error}; edit the object, then run this again") from None


def _listing(former: list[Stored]) -> str:
    """The objects as JSON, each with its former fields and what was rounded."""
    return json.dumps([{"object": one.shown, "fields": one.converted.changed, "notes": one.converted.notes} for one in former], indent=2)


def _report(former: list[Stored], *, as_json: bool) -> int:
    if as_json:
        print(_listing(former))
        return exit_codes.INFEASIBLE if former else exit_codes.OK
    for one in former:
        print(f"{one.shown}: {', '.join(one.converted.changed)}")
    if former:
        note(f"{len(former)} objects have fields of the former API; scale the operator to 0, then: hyperscale convert --live --backup DIR")
    else:
        print("No object has fields of the former API.")
    return exit_codes.INFEASIBLE if former else exit_codes.OK


def _refuse_while_the_operator_runs(client: KubeClient) -> None:
    """An operator of the former version would write statuses by the former names meanwhile."""
    for lease in client.items(LEASES, {"fieldSelector": f"metadata.name={constants.LEASE_NAME}"}):
        spec = lease.get("spec") or {}
        renewed = _time(spec.get("renewTime"))
        seconds = spec.get("leaseDurationSeconds") or DEFAULT_LEASE_SECONDS
        if spec.get("holderIdentity") and renewed is not None and datetime.now(UTC) < renewed + timedelta(seconds=seconds):
            namespace = lease["metadata"]["namespace"]
            raise InputError(
                f"an operator runs in {namespace}: kubectl -n {namespace} scale deployment hyperscale --replicas=0, and wait {seconds} s"
            )


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None


def _convert_all(client: KubeClient, former: list[Stored], folder: Path) -> None:
    """Every backup before the first write."""
    for one in former:
        _back_up(one, folder)
    if former:
        note(f"{len(former)} objects are in {folder}")
    for kind, plural in KINDS.items():
        if any(one.resource["kind"] == kind for one in former):
            _open_schema(client, kind, plural)
    for number, one in enumerate(former, 1):
        for line in one.converted.notes:
            note(f"{one.shown}: {line}")
        _write(client, one, folder)
        note(f"{number} of {len(former)}: {one.shown}")


def _file(one: Stored, folder: Path) -> Path:
    metadata = one.resource["metadata"]
    return folder / f"{one.resource['kind']}.{metadata.get('namespace', '')}.{metadata['name']}.json"


def _back_up(one: Stored, folder: Path) -> None:
    """The object as it is; a file from an earlier run of this command holds what was there first, and stays."""
    file = _file(one, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--backup: {str(folder)!r} cannot be made: {error.strerror}; name another folder") from None
    if _backup(file).get("metadata", {}).get("uid") == one.resource["metadata"].get("uid"):
        return
    if file.exists():
        raise InputError(f"--backup: {str(file)!r} is of another object; name an empty folder")
    with replaced(str(file), "--backup") as path:
        path.write_text(json.dumps(one.resource, indent=2) + "\n", encoding="utf-8")


def _backup(file: Path) -> Json:
    """What the file holds; empty where there is none, or where it cannot be read."""
    try:
        content = json.loads(read_bounded(file, MAX_OBJECT_BYTES))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _open_schema(client: KubeClient, kind: str, plural: str) -> None:
    """Let spec and status keep every field, and wait until the API server does.

    The rules go too: those on immutable fields would compare with an object that has lost its former ones.
    """
    path = f"{DEFINITIONS}/{plural}.{constants.GROUP}"
    definition = client.object(path)
    for version in definition["spec"]["versions"]:
        root = version["schema"]["openAPIV3Schema"]
        root.pop("x-kubernetes-validations", None)
        root["properties"] = {**root["properties"], "spec": OPEN, "status": OPEN}
    client.request(path, method="PUT", body=definition)
    metadata = {"name": PROBE, **({"namespace": "default"} if kind == constants.JOB_KIND else {})}
    probe = {"apiVersion": constants.API_VERSION, "kind": kind, "metadata": metadata, "spec": {"probe": {"kept": True}}}
    create = f"{GROUP}/namespaces/default/{plural}" if kind == constants.JOB_KIND else f"{GROUP}/{plural}"
    until = time.monotonic() + OPENING_SECONDS
    while True:
        try:
            answer = client.object(create, {"dryRun": "All"}, method="POST", body=probe)
            if answer.get("spec") == probe["spec"]:
                return
        except KubeError as error:
            if error.status != 422 or time.monotonic() > until:
                raise
        if time.monotonic() > until:
            raise InputError(f"{kind}: the API server does not keep new fields after {OPENING_SECONDS:g} s; run this again")
        time.sleep(0.2)


def _write(client: KubeClient, one: Stored, folder: Path) -> None:
    """Replace the object, then its status; raises KubeError where another client wrote it meanwhile."""
    wanted = one.converted.resource
    answer = one.resource
    if wanted.get("spec") != one.resource.get("spec"):
        body = {key: value for key, value in wanted.items() if key != "status"}
        answer = _until_kept(client, one.path, body, "spec", one.resource)
    status = copy.deepcopy(wanted.get("status"))
    if not isinstance(status, dict):
        return
    generation = _backup(_file(one, folder)).get("metadata", {}).get("generation")
    for holder in (status, *(status.get("conditions") or ())):
        if holder.get("observedGeneration") == generation:  # the write above is no change that the operator has yet to see
            holder["observedGeneration"] = answer["metadata"]["generation"]
    if status != one.resource.get("status"):
        body = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": answer["metadata"]["resourceVersion"]}, "status": status}
        _until_kept(client, f"{one.path}/status", body, "status", answer)


def _until_kept(client: KubeClient, path: str, body: Json, part: str, before: Json) -> Json:
    """Write until the answer holds the part whole; an API server that does not know the open schema yet drops fields."""
    version = before["metadata"]["resourceVersion"]
    for _ in range(WRITES):
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        answer = client.object(path, method="PUT", body=body)
        if answer.get(part) == body[part]:
            return answer
        version = answer["metadata"]["resourceVersion"]
        time.sleep(1.0)
    raise InputError(f"{path}: the API server drops fields of {part}; the backup has them, run this again")
