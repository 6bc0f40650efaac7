"""What can be written on the command line; nothing heavy is imported, so that `--help` answers at once."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from hyperscale import __version__
from hyperscale.cli.exit_codes import InputError

MAX_SEED: Final = 2**31 - 1
MAX_WORKERS: Final = 1000
"""The bound of spec.workers; model/api/job.py says why. Not imported: `--help` must stay fast."""

LESSONS: Final = ("constructor", "classes", "streams", "queue", "ppo", "dqn", "allreduce")
"""Modules of hyperscale.learn; cli/training/learn_command.py says which."""
MAX_WIDTH: Final = 10**6
"""The bound of spec.dataset.featureSize and spec.dataset.classes."""
MAX_STEPS: Final = 10_000_000
MAX_RUNS: Final = 100_000
SOURCES: Final = ("operator", "api")
"""Ways to the figures of a live cluster; cli/plan/known_inputs.py."""
SPREADS: Final = ("tensors", "numbers")
"""hyperscale.training.allreduce.parameter_table.Spread."""

EXIT_CODES: Final = "exit codes: 0 done, 1 no plan exists (the reason is printed), 2 bad input (one line says what to write instead)"


class Parser(argparse.ArgumentParser):
    """Raises InputError instead of printing the usage and leaving."""

    def error(self, message: str) -> NoReturn:
        """The parser's message with the way to more help."""
        raise InputError(f"{message}; see `{self.prog} --help`")


def build_parser(prog: str) -> Parser:
    """The whole command line of `prog` (`hyperscale`, or `kubectl gnn` as a plugin)."""
    # They build on this module.
    from hyperscale.cli.arguments import cluster_arguments, compare_arguments, decision_arguments, evaluation_arguments, training_arguments

    parser = Parser(
        prog=prog,
        description="Plan where the ranks of a GNN training job run, see why, and look at the cluster as the planner sees it.",
        epilog=f"{EXIT_CODES}\n\nexample: {prog} plan -f examples/cora-gcn.yaml",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hyperscale {__version__}", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _add_plan(commands, prog)
    evaluation_arguments.add(commands, prog)
    decision_arguments.add(commands, prog)
    _add_explain(commands, prog)
    _add_snapshot(commands, prog)
    _add_topology(commands, prog)
    cluster_arguments.add(commands, prog)
    _add_allreduce(commands, prog)
    _add_history(commands, prog)
    compare_arguments.add(commands, prog)
    training_arguments.add(commands, prog)
    _add_learn(commands, prog)
    _add_output(_command(commands, "version", "print the version", f"{prog} version"), ("table", "json"))
    return parser


def _command(commands: argparse._SubParsersAction[Parser], name: str, summary: str, example: str, exit_codes: str = EXIT_CODES) -> Parser:
    return commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"{exit_codes}\n\nexample:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_plan(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = (
        f"{prog} plan -f job.yaml --snapshot cluster.json --seed 7 -o json\n  kubectl get gnntj cora -o yaml | {prog} plan -f -\n"
        f"  {prog} plan -f job.yaml --snapshot cluster.json --history history.sqlite"
    )
    command = _command(commands, "plan", "plan a job without creating anything", example)
    command.add_argument(
        "-f",
        "--filename",
        required=True,
        action="append",
        metavar="JOB.yaml",
        help="GNNTrainingJob as YAML or JSON; - reads standard input; may be given several times",
    )
    command.add_argument(
        "--policy", metavar="FILE", help="PlannerPolicy as YAML or JSON; without it the cluster's, or built-in figures offline"
    )
    command.add_argument("--planner", metavar="NAME", help="planner to ask instead of the job's spec.planner, or Auto")
    command.add_argument("--seed", type=_Whole(0, MAX_SEED), metavar="N", help="seed of the planners; the same seed gives the same plan")
    command.add_argument("--workers", type=_Whole(1, MAX_WORKERS), metavar="N", help="plan exactly N workers")
    command.add_argument("--deadline", type=_positive_seconds, metavar="SECONDS", help="longest time to plan (default: the policy's, 5)")
    command.add_argument("-n", "--namespace", metavar="NAME", help="namespace of the job where the file names none (default: default)")
    command.add_argument(
        "--history", metavar="FILE_OR_URL", help="database of finished runs that correct the plan instead of what the operator has learned"
    )
    _add_min_runs(command, "with --history: ")
    _add_snapshot_source(command, (*SOURCES, "job"))
    _add_output(command, ("table", "json", "yaml", "wide"))


def _add_explain(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = f"{prog} explain cora -n team-a\n  kubectl get gnntj cora -o yaml | {prog} explain -f -"
    command = _command(commands, "explain", "say what a job is doing, why, and what it waits for", example)
    command.add_argument("job", nargs="?", metavar="JOB", help="name of the GNNTrainingJob")
    command.add_argument("-f", "--filename", metavar="FILE", help="read the job with its status from a file; - reads standard input")
    command.add_argument("-n", "--namespace", metavar="NAME", help="namespace of the job (default: that of the kubeconfig context)")
    _add_cluster(command, prometheus=False)
    _add_output(command, ("table", "json"))


def _add_snapshot(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    command = _command(commands, "snapshot", "write the cluster as the planner sees it to a file", f"{prog} snapshot -o cluster.json")
    command.add_argument("-o", "--output", required=True, metavar="FILE", help="file to write; - writes to standard output")
    command.add_argument("--format", choices=("json",), default="json", help="form of the file (default: %(default)s)")
    command.add_argument("--policy", metavar="FILE", help="PlannerPolicy with queries and limits; without it the cluster's")
    _add_source(command)
    _add_cluster(command)


def _add_topology(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = f"{prog} topology --snapshot cluster.json --svg cluster.svg"
    command = _command(commands, "topology", "show nodes, links and how well they are known", example)
    command.add_argument("--svg", metavar="FILE", help="draw the cluster into this file as well")
    command.add_argument("--html", metavar="FILE", help="write a page with a map of the cluster: no scripts, details on hover")
    command.add_argument("--graphml", metavar="FILE", help="write nodes and links as GraphML, e.g. for Gephi or networkx")
    command.add_argument("--policy", metavar="FILE", help="PlannerPolicy; without it the cluster's, or built-in figures offline")
    _add_snapshot_source(command)
    _add_output(command, ("table", "json"))


def _add_allreduce(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = f"{prog} allreduce layers.csv --alpha 5.2e-4 --beta 8.6e-10 --backward-seconds 0.1"
    command = _command(commands, "allreduce", "find the fastest way to put gradients into allreduces", example)
    command.add_argument("layers", metavar="LAYERS.csv", help="one line a gradient: name, bytes or numel, ready_seconds or forward_order")
    command.add_argument("--alpha", type=_cost, required=True, metavar="SECONDS", help="what every message takes, however small")
    command.add_argument("--beta", type=_cost, required=True, metavar="SECONDS", help="what every byte of a message adds")
    command.add_argument(
        "--two-levels", type=_cost, nargs=2, metavar=("ALPHA", "BETA"), help="the same of an allreduce inside nodes, then between"
    )
    command.add_argument("--cast", type=_cost, metavar="SECONDS", help="what casting a byte to half precision takes, and as long back")
    command.add_argument("--backward-seconds", type=_positive_seconds, metavar="SECONDS", help="how long the backward pass takes")
    command.add_argument(
        "--spread", choices=SPREADS, default=SPREADS[0], help="what shares it among gradients without ready times (default: %(default)s)"
    )
    _add_output(command, ("table", "json"))


def _add_history(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = f"{prog} history --url sqlite:////var/lib/hyperscale/history.sqlite\n  {prog} history --placements measured.csv -o json"
    command = _command(commands, "history", "show finished runs, predicted beside measured, and what predictions are corrected by", example)
    source = command.add_mutually_exclusive_group()
    source.add_argument("--url", metavar="URL", help="database (default: $HYPERSCALE_HISTORY_URL)")
    source.add_argument(
        "--placements",
        type=Path,
        metavar="FILE",
        help="instead: fit the step time curve to half of a CSV table with placement, local_bsz and step_time_s, judge it on the rest",
    )
    command.add_argument(
        "--seed", type=_Whole(0, MAX_SEED), default=0, metavar="NUMBER", help="which half of --placements is fitted (default: %(default)s)"
    )
    command.add_argument("--decisions", action="store_true", help="instead: what people approved, rejected and preferred, and why")
    command.add_argument("--architecture", metavar="NAME", help="only runs of this architecture, e.g. GCN")
    command.add_argument("--limit", type=_run_count, default=20, metavar="COUNT", help="newest runs shown (default: %(default)s)")
    _add_min_runs(command)
    _add_output(command, ("table", "json"))


def _add_min_runs(command: Parser, when: str = "") -> None:
    explained = f"{when}runs that a correction needs, as the operator's own setting (default: %(default)s)"
    command.add_argument("--min-runs", type=_run_count, default=5, metavar="COUNT", help=explained)


def _run_count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_RUNS:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of runs; write a whole number from 1 to {MAX_RUNS}")
    return int(text)


def _add_learn(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = (
        f"{prog} learn streams --out runs/streams --seed 1\n  {prog} learn streams --out runs/streams --evaluate-only --publish weights\n"
        f"  {prog} learn queue --history runs.csv --snapshot cluster.json --out runs/queue"
    )
    summary = "train a learned planner, judge it on unseen cases, publish it if it does not lose"
    command = _command(commands, "learn", summary, example, EXIT_CODES.replace("no plan exists (the reason is printed)", "weights refused"))
    command.add_argument("lesson", choices=LESSONS, metavar="LESSON", help=f"what to learn: {', '.join(LESSONS)}")
    command.add_argument("--out", required=True, metavar="FOLDER", help="folder for checkpoints, learning curves (TensorBoard) and weights")
    command.add_argument("--seed", type=_Whole(0, MAX_SEED), default=0, metavar="N", help="seed of the training (default: %(default)s)")
    command.add_argument("--steps", type=_Whole(1, MAX_STEPS), metavar="N", help="steps of training (default: the lesson's own)")
    command.add_argument("--resume", action="store_true", help="go on from the checkpoint in the folder")
    command.add_argument("--evaluate-only", action="store_true", help="do not train: evaluate the weights in the folder")
    command.add_argument("--start", metavar="FOLDER", help="streams, queue: train these weights further (queue: default the shipped ones)")
    command.add_argument(
        "--history", metavar="URL", help="queue: the cluster's finished runs, as history.url has it, or a CSV of arrival, seconds, workers"
    )
    command.add_argument(
        "--snapshot", metavar="FILE", help="queue: a file of `snapshot`: learn on this cluster's nodes and links instead of generated ones"
    )
    command.add_argument("--publish", metavar="FOLDER", help="copy the weights there, unless they lose to those in use")
    command.add_argument(
        "--baseline", metavar="FOLDER", help="weights to compare with (default: those of --publish, else the shipped ones)"
    )
    _add_output(command, ("table", "json"))


def _add_snapshot_source(command: Parser, sources: tuple[str, ...] = SOURCES) -> None:
    command.add_argument(
        "--snapshot",
        metavar="FILE",
        help="work offline on a file of `snapshot`, a folder with Hulk's CSV pair, or a matrix (.npz, .json); without it: the live cluster",
    )
    _add_source(command, sources)
    _add_cluster(command)


def _add_source(command: Parser, sources: tuple[str, ...] = SOURCES) -> None:
    ways = "operator: its own figures; api: the API server's objects, with --prometheus or the ClusterTopology"
    asks = "; job: ask the operator with a temporary job (startPolicy: Never)" if "job" in sources else ""
    command.add_argument("--from", dest="source", choices=sources, help=f"{ways}{asks} (default: the first of these that works)")


def _add_cluster(command: Parser, prometheus: bool = True) -> None:
    command.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig of the live cluster (default: $KUBECONFIG, ~/.kube/config)")
    command.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: the current one)")
    if prometheus:
        command.add_argument("--prometheus", metavar="URL", help="Prometheus of the live cluster (default: $HYPERSCALE_PROMETHEUS_URL)")
        _add_access(command)


def _add_access(command: Parser) -> None:
    """Fields of hyperscale.observe.prometheus.credentials.Access."""
    summary = "as the chart's prometheus.tls, auth and tenant; default: $HYPERSCALE_PROMETHEUS_CA_FILE and so on"
    group = command.add_argument_group("access to Prometheus", summary)
    for name, metavar, text in (
        ("ca-file", "FILE", "PEM certificates of the authorities that may sign the server's"),
        ("token-file", "FILE", "bearer token"),
        ("username-file", "FILE", "name of basic authentication"),
        ("password-file", "FILE", "password of basic authentication"),
        ("tenant", "NAME", "tenant whose series are read"),
        ("tenant-header", "NAME", "header of the tenant, X-Scope-OrgID unless given"),
    ):
        group.add_argument(f"--prometheus-{name}", metavar=metavar, help=text)


def _add_output(command: Parser, forms: tuple[str, ...]) -> None:
    command.add_argument("-o", "--output", choices=forms, default=forms[0], help="form of the answer (default: %(default)s)")


class _Whole:
    """A whole number within bounds, as an argparse type."""

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most

    def __call__(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = self.least - 1
        if not self.least <= value <= self.most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no whole number from {self.least} to {self.most}; write for example {self.least}"
            )
        return value


def _seconds(example: str, *, zero: bool) -> Callable[[str], float]:
    """An argparse type for a time of at most 600 s; zero: whether that may be given."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (0 < value <= 600 or (zero and value == 0)):  # NaN fails as well
            bounds = "from 0" if zero else "above 0, up"
            raise argparse.ArgumentTypeError(f"{text!r} is no time {bounds} to 600 seconds; write for example {example}")
        return value

    return parse


_positive_seconds = _seconds("5", zero=False)
_cost = _seconds("5e-4", zero=True)


def program_name(argv0: str) -> str:
    """`kubectl gnn` when started by kubectl as a plugin, else `hyperscale`."""
    return "kubectl gnn" if Path(argv0).name.startswith(("kubectl-gnn", "kubectl_gnn")) else "hyperscale"
