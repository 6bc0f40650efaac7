"""Commands in the code blocks of the pages that people follow, and where each of them is run.

A command that a page gains has to enter one of the tables here: `tests/unit/layout/test_commands_run.py` fails until then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = ("try.md", "install.md", *sorted(f"tasks/{page.name}" for page in (ROOT / "docs/tasks").glob("*.md")))
SHELLS: Final = ("sh", "console")
"""Languages of fenced blocks that hold commands; blocks without a language do too."""
NO_COMMANDS: Final = ("now = predicted epoch", "<root>/<key>/manifest.json")
"""How the first line of a block begins that shows no command: a formula, names of files."""

_FENCE: Final = re.compile(r"^\s*(?:```|~~~)(\w*)")


class Run(NamedTuple):
    """A command that a test runs in another form.

    run:  what runs in its place; "" where it runs as written
    code: exit codes that are right
    """

    run: str = ""
    codes: tuple[int, ...] = (0,)


SNAPSHOT: Final = " --snapshot examples/cluster.json"
EVALUATE: Final = "hyperscale evaluate -f examples/cora-gcn.yaml" + SNAPSHOT
FILES: Final[dict[str, dict[str, Run]]] = {
    "tasks/analysis.md": {
        "hyperscale analyze GAT --vertices 65536 --edges 1020660 --features 128 --hidden 64 --heads 4 --classes 16": Run(),
        "hyperscale analyze examples/own-script/train.py": Run(),
    },
    "tasks/approve-and-prefer.md": {
        "hyperscale plan -f job.yaml -o wide": Run("hyperscale plan -f examples/arxiv-sage-s3.yaml -o wide" + SNAPSHOT),
    },
    "tasks/compare-results.md": {
        "hyperscale compare examples/results/metis.json examples/results/refined.json": Run(),
        "hyperscale compare rows.json --by method --metric cut": Run(
            "hyperscale compare examples/results/metis.json examples/results/refined.json --by method --metric cut"
        ),
        "hyperscale compare examples/results/hybrid.json examples/results/metis.json examples/results/refined.json --metric cut": Run(),
        "hyperscale compare examples/results/hybrid.json examples/results/refined.json --factor group --factor case": Run(),
        "hyperscale compare examples/results/mlperf_rgat.csv --regress samples_per_s --on gpus": Run(),
        "hyperscale compare --history sqlite:////var/lib/hyperscale/history.sqlite --group-by planner": Run(
            "hyperscale compare --history sqlite:///history.sqlite --group-by planner"
        ),
        "hyperscale compare --history sqlite:////var/lib/hyperscale/history.sqlite --regress measured_seconds --on workers,vertices": Run(
            "hyperscale compare --history sqlite:///history.sqlite --regress measured_seconds --on workers,vertices"
        ),
    },
    "tasks/fast-networks.md": {
        "hyperscale plan -f examples/infiniband.yaml": Run("hyperscale plan -f examples/infiniband.yaml" + SNAPSHOT),
    },
    "tasks/evaluate.md": {
        "hyperscale evaluate -f examples/arxiv-sage-s3.yaml --snapshot examples/cluster.json --deadline-seconds 120": Run(),
        "hyperscale evaluate -f job.yaml --stage proof --model train.py:Net": Run(EVALUATE + " --stage proof --model train.py:Net"),
        "hyperscale evaluate -f job.yaml --failure-rate 2.3": Run(EVALUATE + " --failure-rate 2.3"),
        "hyperscale evaluate -f job.yaml --failures events.csv": Run(EVALUATE + " --failures events.csv"),
        "hyperscale evaluate -f job.yaml --deadline-seconds 86400 --report report.html": Run(
            EVALUATE + " --deadline-seconds 86400 --report report.html"
        ),
        "hyperscale evaluate -f job.yaml --rewrite better.yaml": Run(EVALUATE + " --rewrite better.yaml"),
        "hyperscale evaluate -f job.yaml --certificate plan.v": Run(EVALUATE + " --certificate plan.v"),
    },
    "tasks/own-data.md": {
        "hyperscale data inspect graphs/cora.npz": Run(),
        "hyperscale partition graphs/cora.npz --shares 2,1,1": Run(),
    },
    "tasks/policy.md": {
        "hyperscale plan -f examples/cora-gcn.yaml --policy examples/policy.yaml": Run(
            "hyperscale plan -f examples/cora-gcn.yaml --policy examples/policy.yaml" + SNAPSHOT
        ),
    },
    "tasks/preflight.md": {
        "hyperscale evaluate -f examples/own-script/job.yaml --script-dir examples --snapshot examples/cluster.json"
        " --stage preflight": Run(),
        "hyperscale evaluate -f examples/arxiv-sage-s3.yaml --snapshot examples/cluster.json --stage preflight -o json": Run(
            EVALUATE + " --stage preflight -o json"
        ),
    },
    "tasks/topology.md": {
        command: Run(command + SNAPSHOT)
        for command in (
            "hyperscale topology",
            "hyperscale topology -o json",
            "hyperscale topology --svg map.svg",
            "hyperscale topology --html map.html",
            "hyperscale topology --graphml cluster.graphml",
        )
    },
    "tasks/upgrade.md": {"hyperscale convert -f jobs.yaml --out converted.yaml": Run()},
}
"""Run on files by tests/unit/cli/test_commands_of_pages.py, in the order of the page; a live cluster is replaced by a snapshot."""

SERVER: Final[dict[str, dict[str, Run]]] = {
    "install.md": {
        "kubectl -n hyperscale-system create secret generic prometheus-ca --from-file=ca.crt": Run(),
        "kubectl -n hyperscale-system create secret generic prometheus-reader --from-file=token": Run(),
        "helm upgrade hyperscale charts/hyperscale --namespace hyperscale-system --reuse-values"
        " --set prometheus.url=https://thanos.monitoring:9091 --set prometheus.tls.caSecret=prometheus-ca"
        " --set prometheus.auth.bearerSecret=prometheus-reader": Run(),
        "kubectl -n hyperscale-system create secret generic hyperscale-agent-token --from-literal=token=$(openssl rand -hex 32)": Run(),
        "kubectl -n hyperscale-system create secret generic hyperscale-preview --from-literal=key=$(openssl rand -hex 32)": Run(),
    },
    "tasks/approve-and-prefer.md": {"hyperscale explain JOB": Run("hyperscale explain own-script")},
    "tasks/evaluate.md": {
        "kubectl get gnntj JOB -o jsonpath='{.status.evaluation}'": Run("kubectl get gnntj own-script -o jsonpath='{.status.evaluation}'"),
        "hyperscale explain JOB": Run("hyperscale explain own-script"),
    },
    "tasks/preflight-in-the-cluster.md": {
        "kubectl get gnntj JOB -o jsonpath='{.status.preflight}'": Run("kubectl get gnntj own-script -o jsonpath='{.status.preflight}'"),
        "hyperscale explain JOB": Run("hyperscale explain own-script"),
        "kubectl annotate --overwrite gnntj JOB hyperscale.dev/preflight-again=$(date +%s)": Run(
            "kubectl annotate --overwrite gnntj own-script hyperscale.dev/preflight-again=$(date +%s)"
        ),
    },
    "tasks/own-script.md": {
        "kubectl create configmap own-script --from-file=examples/own-script/train.py": Run(),
        "kubectl apply -f examples/own-script/job.yaml": Run(),
        "kubectl get gnntj own-script -w": Run("kubectl get gnntj own-script"),
    },
    "tasks/policy.md": {"kubectl apply -f examples/policy.yaml": Run()},
    "tasks/troubleshooting.md": {
        "kubectl get gnntj -A": Run(),
        "hyperscale explain JOB": Run("hyperscale explain own-script"),
        "hyperscale doctor": Run(codes=(0, 3, 4)),
    },
}
"""Run on a real API server by tests/api/test_commands_of_pages.py; nothing trains there, so a watch is one look."""

FORMER: Final[dict[str, Run]] = {
    "hyperscale convert --check": Run(codes=(1,)),
    "kubectl -n hyperscale-system scale deployment hyperscale --replicas=0": Run(),
    "hyperscale convert --live --backup hyperscale-backup": Run(),
    "helm upgrade hyperscale charts/hyperscale --namespace hyperscale-system --reset-values": Run(
        "helm upgrade hyperscale charts/hyperscale --namespace hyperscale-system --reset-values --install --take-ownership"
    ),
}
"""Of tasks/upgrade.md: run on an API server with the former CRDs by tests/api/test_upgrade.py."""

TRY: Final[dict[str, Run]] = {
    "python3.11 -m venv .venv-try": Run("python -m venv --without-pip .venv-try"),
    "alias hyperscale='PYTHONPATH=operator .venv-try/bin/python -W ignore -m hyperscale.cli.main'": Run(),
}
"""Of try.md: run by tests/unit/layout/test_commands_run.py, with the packages of this interpreter."""

_WAITS: Final = "needs a job that waits for a person; tests/api/test_approvals.py and e2e/test_people.py run it"
_DECIDED: Final = "needs decisions in history; tests/unit/cli/test_cli_preferences.py runs it"
NOT_RUN: Final[dict[str, str]] = {
    "hyperscale prefer JOB PLAN --dry-run": _WAITS,
    'hyperscale prefer JOB PLAN --because "cost matters more this week"': _WAITS,
    'hyperscale reject JOB --because "these nodes are for the deadline"': _WAITS,
    "hyperscale history --decisions": _DECIDED,
    "hyperscale preferences -n team-a": _DECIDED,
    "kubectl get gnntj -A -o json | hyperscale preferences -f -": _DECIDED,
    "hyperscale preferences -n team-a --forget ANSWER": _DECIDED,
    "hyperscale preferences -n team-a --recall ANSWER": _DECIDED,
    "hyperscale preferences -n team-a --set time=0.2,cost=0.6,risk=0.2": _DECIDED,
    "hyperscale preferences -n team-a --clear": _DECIDED,
    "hyperscale snapshot -o cluster.json": "it reads a live cluster; tests/fault/test_previews.py runs the command on one",
    "hyperscale learn queue --history postgresql://USER:PASSWORD@HOST/DATABASE --snapshot cluster.json --out new --publish weights": (
        "it trains for minutes; tests/unit/learn runs the command on a file and the lesson for one step"
    ),
    "coqc plan.v": "Coq is no part of an installation; tests/unit/evaluate runs it on certificates where its packages can be had",
    ".venv-try/bin/pip install msgspec==0.22.0 numpy==2.4.6 pyyaml==6.0.3 safetensors==0.8.0": (
        "downloads packages; test_reference_pages.py compares the versions with requirements/dev.lock"
    ),
    "python3.11 -m venv .venv-cli": "as for .venv-try",
    ".venv-cli/bin/pip install '.[cluster]'": "downloads packages; test_extras.py runs what each extra brings",
    "export PATH=$PWD/.venv-cli/bin:$PATH": "only names the folder of the two lines before",
    "docker build -f images/worker/Dockerfile -t REGISTRY/hyperscale/worker:0.1.0-cpu .": (
        "needs a container engine; `make images` builds this Dockerfile with buildah"
    ),
    "kubectl -n hyperscale-system port-forward deploy/hyperscale 8081": (
        "needs a running pod; tests/unit/control/test_topology_page.py reads the page over HTTP"
    ),
    "kubectl -n hyperscale-system exec deploy/hyperscale -- hyperscale preferences": (
        "needs a running pod; test_cli_preferences.py runs the command, and the chart gives the pod its database"
    ),
    "kubectl logs -n NAMESPACE job/JOB-preflight": "needs a running pod; e2e/test_preflights.py reads what such a pod reports",
    "open http://localhost:8081/topology": "opens a browser",
}
"""Each with the reason why no test runs it."""


def commands(text: str) -> list[str]:
    """Return the commands of a page's code blocks in its order, continued lines joined, without prompt and comment."""
    found: list[str] = []
    for language, lines in blocks(text):
        if language not in ("", *SHELLS) or lines[0].startswith(NO_COMMANDS):
            continue
        prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        found += [re.sub(r"\s+#\s.*$", "", line) for line in prompted or lines]
    return found


def blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield language and lines of every code block: fenced, or indented by at least four columns."""
    fence: str | None = None
    gathered: list[str] = []
    for line in [*text.replace("\\\n", " ").splitlines(), "end"]:
        mark = _FENCE.match(line)
        if mark is None and (fence is not None or line.startswith("    ")):
            gathered.append(" ".join(line.split()))
        elif line.strip():
            if gathered := [one for one in gathered if one]:
                yield fence or "", gathered
            gathered = []
            if mark is not None:
                fence = mark.group(1) if fence is None else None


def transcript(text: str, command: str) -> list[str]:
    """Return the lines that a page shows below a command with a prompt; none where it shows no output."""
    for _, lines in blocks(text):
        if f"$ {command}" in lines:
            below = lines[lines.index(f"$ {command}") + 1 :]
            end = next((at for at, line in enumerate(below) if line.startswith("$ ")), len(below))
            return below[:end]
    return []


def of_page(name: str) -> list[str]:
    """Return the commands of one of PAGES."""
    return commands((ROOT / "docs" / name).read_text())
