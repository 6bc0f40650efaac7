"""`hyperscale convert`: files here, clusters in `convert_live`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import yaml

from hyperscale.cli import exit_codes
from hyperscale.cli.documents import STDIN, read_objects
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import check_writable, replaced
from hyperscale.cli.plan.inputs import note
from hyperscale.cli.yaml_scalars import TO_QUOTE
from hyperscale.model import constants
from hyperscale.spec.convert import ConvertError, convert
from hyperscale.spec.parse import SpecError, parse_job, parse_policy

PARSERS = {constants.JOB_KIND: parse_job, constants.POLICY_KIND: parse_policy}


class _Dumper(yaml.SafeDumper):
    """Lists stand below their key; texts with line breaks are blocks; what kubectl would read as a number is quoted."""

    yaml_implicit_resolvers = TO_QUOTE

    def ignore_aliases(self, data: object) -> bool:
        """Repeated parts are written out."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def run(arguments: argparse.Namespace) -> int:
    """Convert what was named; the exit code."""
    if arguments.backup and not arguments.live:
        raise InputError("--backup: belongs to --live; leave it out")
    if arguments.file is None:
        from hyperscale.cli.convert import convert_live

        if arguments.out != STDIN:
            raise InputError("--out: belongs to -f; leave it out")
        return convert_live.run(arguments)
    if arguments.out != STDIN:
        check_writable(arguments.out, "--out")
    text = _text_of(_converted(arguments.file), as_json=arguments.output == "json")
    if arguments.out == STDIN:
        sys.stdout.write(text)
        return exit_codes.OK
    with replaced(arguments.out, "--out") as path:
        path.write_text(text, encoding="utf-8")
    return exit_codes.OK


def _text_of(objects: list[dict[str, Any]], *, as_json: bool) -> str:
    """Documents of YAML, or one List as JSON."""
    if as_json:
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2, ensure_ascii=False) + "\n"
    return "---\n".join(yaml.dump(one, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120) for one in objects)


def _converted(file: str) -> list[dict[str, Any]]:
    """Every object of a file but ClusterTopologies, checked as the API server will check it; raises InputError."""
    kept = []
    for shown, resource in read_objects(file):
        if resource.get("kind") == constants.TOPOLOGY_KIND:
            note(f"{shown}: left out; the operator writes a {constants.TOPOLOGY_KIND} itself")
            continue
        try:
            done = convert(resource)
            if (parse := PARSERS.get(str(resource.get("kind")))) is not None:
                parse(done.resource)
        except (ConvertError, SpecError) as error:
            raise InputError(f"{shown}: {error}") from None
        for line in done.notes:
            note(f"{shown}: {line}")
        kept.append(done.resource)
    return kept
