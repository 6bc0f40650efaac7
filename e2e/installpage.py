"""The commands of docs/install.md's numbered steps, and how each of them runs on the local cluster. Pure: text in, commands out.

Every command of the steps needs a rule here, so that a changed page cannot pass without being run; `commands` raises where one has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "install.md"
STEPS: Final = "From nothing to the first job"
UNINSTALL: Final = "Uninstall"
REGISTRY: Final = "registry.example"
"""What the page calls REGISTRY. Nothing is pulled from it: the nodes have the images before."""
JOB: Final = "cora-train"
_PAGE_JOB: Final = "cora-gcn"
_STEP: Final = re.compile(r"^(\d+)\. ")


class PageError(Exception):
    """The page and the rules do not fit; the message names the command."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What runs for the commands that a pattern matches as a whole.

    action: a name that the runner knows; "" runs the command as the page has it
    why:    what is different here, "" where nothing is
    """

    pattern: str
    action: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the page.

    step:    its number in the list; 0 outside the list
    written: as on the page
    run:     with REGISTRY and the job's name filled in
    """

    step: int
    written: str
    run: str
    rule: Rule


RULES: Final = (
    Rule(
        r"kubectl apply --server-side -f https://raw\.githubusercontent\.com/kubeflow/mpi-operator/v0\.8\.2/deploy/v2beta1/mpi-operator\.yaml",
        "mpi-operator",
        "the same file from the pinned Go module v0.8.2, and the image from the program built of it",
    ),
    Rule(
        r"docker build -f images/(?:operator|agent)/Dockerfile -t REGISTRY/hyperscale/(?:operator|agent):[\d.]+ \.",
        "build",
        "buildah on a Debian made here in place of docker and a registry's Python image",
    ),
    Rule(
        r"docker build -f images/worker/Dockerfile .+ -t REGISTRY/hyperscale/worker:[\d.]+ \.",
        "worker",
        "the local cluster's own worker image: Python packages and code are mounted from this machine, read-only; no GPU",
    ),
    Rule(
        r"for name in operator agent worker; do docker push REGISTRY/\S+; done", "push", "imported into each node's containerd: no registry"
    ),
    Rule(r"kubectl create namespace \S+"),
    Rule(r"kubectl label namespace \S+ \S+"),
    Rule(r"helm install .+ --set prometheus\.url=\S+", "helm", "prometheus.url is that of the local cluster's Prometheus"),
    Rule(r"helm uninstall .+"),
    Rule(r"kubectl -n \S+ rollout status \S+"),
    Rule(r"hyperscale doctor", "doctor", "its warnings are shown and end nothing"),
    Rule(r"kubectl get clustertopology default", "measured", "waits for every link between nodes with agents instead of looking again"),
    Rule(
        r"kubectl apply -f examples/cora-gcn\.yaml",
        "job",
        "examples/cora-train.yaml with its volume claim: it fits nodes that share two cores",
    ),
    Rule(r"kubectl get gnntj \S+ -w", "watch", "waits for the job's end instead of watching it"),
    Rule(r"hyperscale explain \S+"),
)


def commands(page: str, title: str = STEPS) -> tuple[Command, ...]:
    """The commands of a section in the page's order; raises PageError for a section without any and for one without a rule."""
    found = tuple(Command(step, text, _filled(text), _rule(text)) for step, text in _written(_section(page, title)))
    if not found:
        raise PageError(f"docs/install.md: no commands below '## {title}'")
    return found


def _section(page: str, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    if found is None:
        raise PageError(f"docs/install.md: no section '## {title}'")
    return found.group(1)


def _written(section: str) -> Iterator[tuple[int, str]]:
    """(step, command) pairs; code is indented by four, in a numbered step by eight, and a backslash continues a line."""
    step, unfinished = 0, ""
    for line in section.splitlines():
        if number := _STEP.match(line):
            step = int(number.group(1))
        elif line.startswith(" " * (8 if step else 4)):
            text = unfinished + line.strip()
            unfinished = text.removesuffix("\\") if text.endswith("\\") else ""
            if not unfinished:
                yield step, text


def _rule(text: str) -> Rule:
    rule = next((rule for rule in RULES if re.fullmatch(rule.pattern, text)), None)
    if rule is None:
        raise PageError(f"docs/install.md: no rule in e2e/installpage.py for: {text}")
    return rule


def _filled(text: str) -> str:
    return text.replace("REGISTRY", REGISTRY).replace(_PAGE_JOB, JOB)
