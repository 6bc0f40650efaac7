"""`python -m e2e.cluster up|down|status`: the local cluster from the command line.

Exit codes: 0 done (status: healthy), 1 it cannot be done (status: not healthy), 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from e2e.cluster import cluster, providers
from e2e.cluster.api import ApiError
from e2e.cluster.binaries import BuildError
from e2e.cluster.control_plane import NotReadyError
from e2e.cluster.pki import PkiError
from e2e.cluster.processes import ProcessError
from e2e.cluster.prometheus import PrometheusMissingError
from e2e.cluster.real import machines
from e2e.cluster.topology import DEFAULT_FILE, Topology, TopologyError, generate, load, with_real

EXPECTED: Final = (
    ApiError,
    BuildError,
    NotReadyError,
    PkiError,
    ProcessError,
    PrometheusMissingError,
    TopologyError,
    cluster.ClusterError,
    *machines.EXPECTED,
    providers.ProviderError,
)
"""Errors that are reported in one line."""


def _up(arguments: argparse.Namespace) -> int:
    started = time.monotonic()
    found = cluster.up(arguments.directory, arguments.provider, arguments.only or "all", _topology(arguments))
    cluster.say(f"ready after {time.monotonic() - started:.1f} s; `make cluster-down` or `python -m e2e.cluster down` ends it")
    print(found.kubeconfig)
    return 0


def _topology(arguments: argparse.Namespace) -> Topology | None:
    """The asked-for nodes; None for whatever runs there."""
    if arguments.size is not None:
        found: Topology | None = generate(arguments.size)
    else:
        found = None if arguments.nodes is None else load(arguments.nodes)
    return with_real(found or load(DEFAULT_FILE)) if arguments.real else found


def _down(arguments: argparse.Namespace) -> int:
    cluster.say("stopped and removed" if cluster.down(arguments.directory) else "nothing runs there")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    found = cluster.find(arguments.directory)
    if found is None:
        print(f"no cluster in {arguments.directory}")
        return 1
    print(f"kubeconfig  {found.kubeconfig}\nprovider    {found.state.provider}\nnodes       {found.state.nodes}")
    if found.state.parts == "all":
        print(f"prometheus  {found.prometheus_url}\nexporter    {found.exporter_url}")
    for name in found.processes.names():
        running = found.processes.identity(name)
        print(f"{name:<24}{f'pid {running.pid}' if running else 'ended'}")
    wrong = found.faults()
    print("\n".join(wrong) if wrong else "healthy")
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description="A real control plane with simulated GPU nodes.")
    commands = parser.add_subparsers(required=True, metavar="up|down|status")
    for name, action, text in (
        ("up", _up, "start it, or find it running; prints the path of its kubeconfig"),
        ("down", _down, "end it and leave nothing"),
        ("status", _status, "what runs"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(action=action)
        command.add_argument("--directory", type=Path, default=cluster.DEFAULT_DIRECTORY, help="where it lives (%(default)s)")
        if name == "up":
            command.add_argument("--provider", choices=providers.NAMES, default="auto")
            command.add_argument("--only", choices=("control-plane",), help="etcd and kube-apiserver, nothing else")
            command.add_argument("--real", action="store_true", help="three nodes that run containers as well (root, cgroup v1)")
            nodes = command.add_mutually_exclusive_group()
            nodes.add_argument("--nodes", type=Path, metavar="FILE", help="topology file (12 nodes without it)")
            nodes.add_argument("--size", type=int, metavar="N", help="generate N nodes, at most 5000")
    return parser


def main(given: Sequence[str] | None = None) -> int:
    """Run one command."""
    arguments = _parser().parse_args(given)
    action: Callable[[argparse.Namespace], int] = arguments.action
    cluster.interrupted_cleanly()
    try:
        return action(arguments)
    except EXPECTED as error:
        cluster.say(f"error: {error}")
    except KeyboardInterrupt:
        cluster.say("interrupted: `up` again starts over, `down` cleans up")
    return 1


if __name__ == "__main__":
    sys.exit(main())
