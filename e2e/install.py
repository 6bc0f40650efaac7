"""`python -m e2e.install`: docs/install.md on a bare local cluster, command by command, with operator, agents and MPI Operator as pods.

The complete images of operator and agent are built from their Dockerfiles and imported into the nodes. One job trains; then the release is
upgraded and uninstalled, and job and result must be left. What cannot run as the page has it is substituted, and printed as such.
Needs what nodes that run containers need (docs/development/local-cluster.md). Takes everything away at the end.
Exit codes: 0 every command did what the page says, 1 one did not.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from e2e import images, installpage, release, training
from e2e.cluster import cluster
from e2e.cluster.__main__ import EXPECTED
from e2e.cluster.api import Object
from e2e.cluster.control_plane import NotReadyError, wait_until
from e2e.cluster.operator import NAMESPACE
from e2e.cluster.real import ground
from e2e.cluster.real.buildah import BUILT, Buildah
from e2e.cluster.real.images import WORKER
from e2e.cluster.topology import load, with_agents
from e2e.demo_job import Demo
from e2e.installpage import REGISTRY, ROOT, Command
from e2e.jobs import state_of

TOPOLOGY: Final = Path(__file__).parent / "cluster" / "topologies" / "real.yaml"
UPGRADE: Final = f"helm upgrade hyperscale charts/hyperscale --namespace {NAMESPACE} --reuse-values --set settings.resyncSeconds=61"
OURS: Final = re.compile(r"-m hyperscale(\.agent|\.training\S*)?( |$)|/mpi-operator( |$)|^mpirun ")
"""Of a command line: what the page runs as pods."""
_GONE_SECONDS: Final = 60.0
_MEBI: Final = 1_000_000
_WARNINGS: Final = 3
"""The doctor's exit code where it found warnings and no error."""


class InstallError(Exception):
    """A step did not do what the page says; the message says what was seen."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: what ran, how long, and the image's size where one was made."""

    what: str
    seconds: float
    megabytes: float | None = None


@dataclass
class Installation:
    """One run on one cluster.

    archives: folder with operator.tar and agent.tar, which `build` writes where they are missing
    """

    here: cluster.Cluster
    scratch: Path
    archives: Path
    rows: list[Row] = field(default_factory=list)
    _buildah: Buildah | None = None

    def run(self, command: Command) -> None:
        """One command of the page; raises InstallError, CommandError or one of EXPECTED."""
        print(f"\n$ {command.written}", flush=True)
        if command.rule.why:
            print(f"  substituted: {command.rule.why}", flush=True)
        started, size = time.monotonic(), None
        if command.rule.action:
            size = ACTIONS[command.rule.action](self, command)
        else:
            self.shell(command.run)
        self.rows.append(Row(f"{command.step}. {command.written[:60]}", time.monotonic() - started, size))

    def shell(self, line: str, accepted: Sequence[int] = (0,)) -> None:
        """Run a command of the page and show what it prints; raises CommandError."""
        print(release.shell(self.here, line, accepted), end="", flush=True)

    def job(self) -> Demo:
        """The job that trains."""
        return Demo(self.here.api(), yaml.safe_load((ROOT / "examples" / f"{installpage.JOB}.yaml").read_text()))

    def mpi_operator(self, _: Command) -> float:
        """The pinned release's own manifest; its image is the program that the cluster ran as a process until now."""
        return release.install_mpi_operator(self.here).stat().st_size / _MEBI

    def build(self, command: Command) -> float:
        """The complete image of a Dockerfile, as an archive for the nodes."""
        dockerfile, name = command.run.split()[3], command.run.split()[5]
        archive = self._archive(name)
        if not archive.exists():
            if self._buildah is None:
                self._buildah = Buildah(self.scratch, "overlay", images.SECONDS)
                self._buildah.base(images.PACKAGES, images.UNMARKED)
            self._buildah.build(ROOT / dockerfile, ROOT, slim=True)
            self._buildah.run("push", "--disable-compression", BUILT, f"oci-archive:{archive}:{name}")
        return archive.stat().st_size / _MEBI

    def worker(self, command: Command) -> None:
        """The worker image that the nodes have already, under the name that the chart gives it."""
        for node in self.here.real_nodes.values():
            node.name_image(WORKER.reference, command.run.split()[-2])

    def push(self, _: Command) -> None:
        """Every node gets the images that were built."""
        for archive in sorted(self.archives.glob("*.tar")):
            self._import(archive)

    def helm(self, command: Command) -> None:
        """As on the page, with the address of this cluster's Prometheus."""
        kept, _, _ = command.run.rpartition("prometheus.url=")
        self.shell(f"{kept}prometheus.url={self.here.prometheus_url}")

    def doctor(self, command: Command) -> None:
        """Warnings are shown; an error ends the run."""
        self.shell(command.run, (0, _WARNINGS))

    def measured(self, command: Command) -> None:
        """As on the page, once the agents have measured what it waits for."""
        release.wait_measured(self.here)
        self.shell(command.run)

    def apply_job(self, _: Command) -> None:
        """The job and its claim."""
        job = self.job()
        training.fresh_claim(self.here, job.namespace, job.claim)
        self.shell(f"kubectl apply -f examples/{installpage.JOB}.yaml")

    def watch(self, command: Command) -> None:
        """Until the job has ended; raises InstallError where it did not succeed."""
        job = self.job()
        try:
            wait_until(lambda: state_of(job.status()) in training.ENDED, training.FINISHED_SECONDS, "the training does not end")
        except NotReadyError as error:
            raise InstallError(f"{error}: {job.status()}\n{release.pods(self.here)}") from error
        if state_of(job.status()) != "Succeeded":
            raise InstallError(f"the training failed: {job.status()}\n{training.launcher_log(self.here, job.namespace, job.name)}")
        print("\n".join(training.summary(job.status())))
        self.shell(command.run.removesuffix(" -w"))
        if found := programs_of_ours_on_the_host():
            raise InstallError(f"not only pods ran the job: {found}")
        print("processes of ours outside pods: 0")

    def leave(self, page: str) -> None:
        """Upgrade and uninstall; job and result must be left. Raises InstallError."""
        before = self._result()
        self._timed("helm upgrade", lambda: self.shell(f"{UPGRADE} && kubectl -n {NAMESPACE} rollout status deployment/hyperscale"))
        self._expect(before, "helm upgrade")
        for command in installpage.commands(page, installpage.UNINSTALL):
            self.run(command)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        wait_until(lambda: not self.here.api().items(path), _GONE_SECONDS, "the release's pods do not go")
        self._expect(before, "helm uninstall")

    def _timed(self, what: str, work: Callable[[], object]) -> None:
        print(f"\n$ {what}", flush=True)
        started = time.monotonic()
        work()
        self.rows.append(Row(what, time.monotonic() - started))

    def _result(self) -> Object:
        status = self.job().status()
        return {"state": state_of(status), "accuracy": (status.get("measured") or {}).get("accuracy")}

    def _expect(self, before: Object, after: str) -> None:
        if (found := self._result()) != before:
            raise InstallError(f"{after} changed the job's result from {before} to {found}")

    def _archive(self, name: str) -> Path:
        return self.archives / f"{name.rpartition('/')[2].partition(':')[0]}.tar"

    def _import(self, archive: Path) -> None:
        for node in self.here.real_nodes.values():
            node.import_image(archive)

    def clean(self) -> None:
        """Take away what was built."""
        if self._buildah is not None:
            self._buildah.remove()


ACTIONS: Final[dict[str, Callable[[Installation, Command], float | None]]] = {
    "mpi-operator": Installation.mpi_operator,
    "build": Installation.build,
    "worker": Installation.worker,
    "push": Installation.push,
    "helm": Installation.helm,
    "doctor": Installation.doctor,
    "measured": Installation.measured,
    "job": Installation.apply_job,
    "watch": Installation.watch,
}


def programs_of_ours_on_the_host() -> list[str]:
    """Command lines of operator, agent, MPI Operator and training program in this machine's own PID namespace; pods have their own."""
    here, found = os.stat("/proc/self/ns/pid").st_ino, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            own = os.stat(folder / "ns" / "pid").st_ino == here
        except OSError:  # it has ended
            continue
        if own and OURS.search(line):
            found.append(line[:200])
    return found


def table(rows: Sequence[Row]) -> list[str]:
    """One line a command."""
    lines = [f"{'COMMAND':<64}{'MINUTES':>8}{'MB':>8}"]
    lines += [f"{row.what:<64}{row.seconds / 60:>8.1f}{'' if row.megabytes is None else format(row.megabytes, '.0f'):>8}" for row in rows]
    return [*lines, f"{'all':<64}{sum(row.seconds for row in rows) / 60:>8.1f}"]


def install(directory: Path, scratch: Path, archives: Path) -> None:
    """The whole page; raises InstallError, PageError, CommandError or one of EXPECTED."""
    page = installpage.PAGE.read_text()
    steps = installpage.commands(page)
    installation = Installation(cluster.up(directory, topology=with_agents(load(TOPOLOGY))), scratch, archives)
    try:
        for command in steps:
            installation.run(command)
        installation.leave(page)
    finally:
        installation.clean()
        print("", *table(installation.rows), sep="\n", flush=True)


def main(given: Sequence[str] | None = None) -> int:
    """Install, train, upgrade, uninstall; one line for what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m e2e.install", description="Follow docs/install.md on a bare local cluster.")
    parser.add_argument(
        "--archives", type=Path, help="folder of operator.tar and agent.tar; those that are there are not built (default: none)"
    )
    parser.add_argument("--scratch", type=Path, help="where to build, with 10 GB free (default: as for any temporary file)")
    arguments = parser.parse_args(given)
    cluster.interrupted_cleanly()
    try:
        ground.ensure()
        with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="hyperscale-install-") as scratch:
            folder = Path(scratch)
            archives = (arguments.archives or folder / "archives").resolve()
            archives.mkdir(exist_ok=True)
            try:
                install(folder / "cluster", folder, archives)
            finally:
                cluster.down(folder / "cluster")
    except (InstallError, installpage.PageError, release.CommandError, *EXPECTED) as error:
        print(f"install: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("install: interrupted", file=sys.stderr)
        return 1
    print(f"\nThe page's commands did what they say; images were named {REGISTRY}/… and came from no registry.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
