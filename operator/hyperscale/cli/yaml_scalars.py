"""Which plain scalars of YAML are no text, for kubectl: numbers are read as it does, and texts that it would misread are quoted."""

from __future__ import annotations

import re
from typing import Final

import yaml

TAG_PREFIX: Final = "tag:yaml.org,2002:"
NUMBERS: Final = {
    f"{TAG_PREFIX}int": re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$"),
    f"{TAG_PREFIX}float": re.compile(
        r"(?:[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*\.[0-9_]*|[0-9][0-9_]*(?=[eE]))(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
}
"""Numbers as kubectl reads them (go-yaml 2): 1e-2 is one, and 3:20 is text, where PyYAML has it the other way round."""

TO_QUOTE: Final = {
    first: [
        *yaml.SafeDumper.yaml_implicit_resolvers.get(first, []),
        *NUMBERS.items(),
        (f"{TAG_PREFIX}bool", re.compile("[yYnN]$")),
        (f"{TAG_PREFIX}int", re.compile("[-+]?0o?[0-9_]+$")),
    ]
    for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *"0123456789+-."}
}
"""Resolvers of a dumper: texts that PyYAML or any go-yaml reads as something else get quotes."""
