"""`hyperscale learn`: train a learned planner, judge it on cases no training has seen, publish it if it does not lose."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hyperscale.cli import exit_codes, spinner
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.training.past_runs import past_runs
from hyperscale.util.extras import install

if TYPE_CHECKING:
    from hyperscale.learn.lesson import Lesson, LessonProgress, LessonVerdict
    from hyperscale.model.cluster import ClusterSnapshot

MODULES: Final = {
    "constructor": "hyperscale.learn.constructor.constructor_lesson",
    "classes": "hyperscale.learn.constructor.classes_lesson",
    "streams": "hyperscale.learn.streams.stream_lesson",
    "queue": "hyperscale.learn.streams.queue_lesson",
    "ppo": "hyperscale.learn.agents.ppo",
    "dqn": "hyperscale.learn.agents.dqn",
    "allreduce": "hyperscale.learn.agents.allreduce_dqn",
}
"""Module of each lesson; it has `train` and `judge` as hyperscale.learn.lesson.Lesson says."""
WEIGHTS: Final = {
    "constructor": "constructor",
    "classes": "classes",
    "streams": "stream",
    "queue": "stream",
    "ppo": "stream",
    "dqn": "dqn",
    "allreduce": "allreduce-dqn",
}
"""Name of the files that a lesson writes, without suffix."""
GATED: Final = ("constructor", "classes", "streams", "queue", "ppo")
"""Lessons whose weights planners use; the others are for comparison and have no manifest."""
CHECKPOINTS: Final = {
    "constructor": "checkpoint.safetensors",
    "streams": "checkpoint.safetensors",
    "queue": "checkpoint.safetensors",
    "ppo": "ppo-checkpoint.safetensors",
}
"""File that --resume continues from."""
SIMULATOR: Final = "hyperscale.learn.streams._streams"
REPORT_SECONDS: Final = 2.0
"""Progress is printed at most so often."""


def run(arguments: argparse.Namespace) -> int:
    """Train unless told not to, judge, publish where asked to; exit code 1 where the gate refuses."""
    _check(arguments)
    lesson = _lesson(arguments.lesson)
    in_use = _baseline(arguments)
    _check_places(arguments, in_use)
    from hyperscale.learn.lesson import LessonError

    try:
        files = _train(lesson, arguments)
        verdict = lesson.judge(Path(arguments.out), in_use, arguments.seed)
        published = _publish(arguments, verdict) if arguments.publish and verdict.accepted else []
    except LessonError as error:
        raise InputError(str(error)) from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*_kept(arguments)) from None
    _print(arguments, verdict, [*files, *published])
    return exit_codes.OK if verdict.accepted else exit_codes.INFEASIBLE


def _lesson(name: str) -> Lesson:
    try:
        module: Lesson = importlib.import_module(MODULES[name])
    except ModuleNotFoundError as error:
        if error.name == SIMULATOR:
            raise InputError("the simulator of streams is compiled and missing here; run `make kernel`, which needs a C compiler") from None
        if (error.name or "").startswith("hyperscale"):
            raise
        raise InputError(f"learning needs {error.name}; {install('learn')}") from None
    return module


def _train(lesson: Lesson, arguments: argparse.Namespace) -> list[Path]:
    from hyperscale.learn.lesson import Assignment

    if arguments.evaluate_only:
        return []
    from safetensors import SafetensorError

    folder = Path(arguments.out)
    checkpoint = folder / CHECKPOINTS.get(arguments.lesson, "")
    assignment = Assignment(
        folder,
        seed=arguments.seed,
        steps=arguments.steps,
        resume=arguments.resume,
        start=Path(arguments.start) if arguments.start else None,
        history=past_runs(arguments.history) if arguments.lesson == "queue" and arguments.history else (),
        snapshot=_snapshot(arguments.snapshot),
    )
    try:
        if checkpoint.is_file() and not arguments.resume:
            raise InputError(f"--out: {checkpoint} is of a training that stopped or ended; add --resume to go on, or name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        return list(lesson.train(assignment, _Reporter()))
    except (OSError, SafetensorError) as error:
        raise InputError(f"--out: cannot write to {arguments.out!r}: {getattr(error, 'strerror', None) or error}; name another") from None


def _check(arguments: argparse.Namespace) -> None:
    """Refuse arguments that would say nothing."""
    if arguments.snapshot and arguments.lesson != "queue":
        raise InputError(f"--snapshot is for `learn queue`; leave it out for `learn {arguments.lesson}`")
    if arguments.history and arguments.lesson != "queue":
        raise InputError(f"--history is for `learn queue`; leave it out for `learn {arguments.lesson}`, or write `learn queue`")
    if arguments.start and arguments.lesson not in {"streams", "queue"}:
        raise InputError(f"--start is for `learn streams` and `learn queue`; leave it out for `learn {arguments.lesson}`")
    if arguments.evaluate_only and (arguments.snapshot or (arguments.lesson == "queue" and arguments.history)):
        name = "--snapshot" if arguments.snapshot else "--history"
        raise InputError(f"--evaluate-only judges by what the training kept in --out; leave {name} out, or train again")


def _check_places(arguments: argparse.Namespace, in_use: Path | None) -> None:
    """Find what would end the command after hours of training: weights in use that cannot be read, a place that cannot be written."""
    if in_use is not None and WEIGHTS[arguments.lesson] == "stream":
        from hyperscale.planner.queue.queue_agent import AgentUnavailableError, load_agent

        try:
            load_agent(in_use)
        except AgentUnavailableError as error:
            option = "--baseline" if arguments.baseline is not None else "--publish"
            raise InputError(f"{option}: cannot read the weights in {str(in_use)!r}: {error}; name another folder") from None
    if arguments.publish:
        target = Path(arguments.publish).absolute()
        there = next(folder for folder in (target, *target.parents) if folder.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise InputError(f"--publish: cannot write to {arguments.publish!r}; name a folder that can be written")


def _kept(arguments: argparse.Namespace) -> list[str]:
    """What an interrupted training leaves, in words; nothing where it has no checkpoint."""
    checkpoint = Path(arguments.out) / CHECKPOINTS.get(arguments.lesson, "")
    if arguments.evaluate_only or not checkpoint.is_file():
        return []
    return [f"{checkpoint} keeps what was learned up to that checkpoint; add --resume to the same command to go on"]


def _snapshot(file: str | None) -> ClusterSnapshot | None:
    if not file:
        return None
    from hyperscale.observe.files.bounded import SnapshotError
    from hyperscale.observe.files.snapshot_files import read_snapshot

    try:
        return read_snapshot(file)
    except SnapshotError as error:
        raise InputError(f"--snapshot: {error}; make one with `hyperscale snapshot -o FILE`") from None


def _baseline(arguments: argparse.Namespace) -> Path | None:
    """Folder of the weights to beat; None where there are none yet."""
    manifest = f"{WEIGHTS[arguments.lesson]}.json"
    if arguments.baseline is not None and arguments.lesson in GATED and not (Path(arguments.baseline) / manifest).is_file():
        raise InputError(f"--baseline: {arguments.baseline!r} has no {manifest}; name the folder that the planners read, or leave it out")
    shipped = Path(str(resources.files("hyperscale.planner.learned") / "weights"))
    agents = WEIGHTS[arguments.lesson] == "stream"
    for folder in (arguments.baseline, arguments.publish, shipped):
        if (
            folder is not None
            and (Path(folder) / manifest).is_file()
            and (folder is arguments.baseline or not (agents and _outdated(Path(folder))))
        ):
            return Path(folder)
    return None


def _outdated(folder: Path) -> bool:
    """Whether the operator cannot use the agent's weights there any more, so that new ones may take their place.

    Weights that know the rule of another release do not decide: `queue_policies.other_rule`.
    """
    from hyperscale.model.api.policy import QueuePolicy
    from hyperscale.planner.queue.queue_agent import AgentUnavailableError, OutdatedAgentError, load_agent
    from hyperscale.planner.queue.queue_policies import other_rule, settings_of

    try:
        agent = load_agent(folder)
    except AgentUnavailableError as error:
        return isinstance(error, OutdatedAgentError)
    return bool(other_rule(agent.manifest, settings_of(QueuePolicy())))


def _publish(arguments: argparse.Namespace, verdict: LessonVerdict) -> list[Path]:
    from hyperscale.learn.publish import publish

    if WEIGHTS[arguments.lesson] == "stream" and _outdated(Path(arguments.out)):
        raise InputError(f"--publish: the weights in {arguments.out} were made under another release's rule or bounds; train again")
    try:
        return list(publish(WEIGHTS[arguments.lesson], Path(arguments.out), Path(arguments.publish), verdict))
    except OSError as error:
        raise InputError(f"--publish: cannot write to {arguments.publish!r}: {error.strerror}; name a folder that can be written") from None


def _print(arguments: argparse.Namespace, verdict: LessonVerdict, files: list[Path]) -> None:
    if arguments.output == "json":
        answer = {
            "accepted": verdict.accepted,
            "reason": verdict.reason,
            "figures": verdict.figures,
            "files": [str(file) for file in files],
        }
        print(json.dumps(answer, indent=2))
        return
    for file in files:
        print(f"wrote {file}")
    for name, figure in verdict.figures.items():
        print(f"{name:<40} {figure:.4g}")
    print(f"{'accepted' if verdict.accepted else 'refused'}: {verdict.reason}")


class _Reporter:
    """Shows on a terminal how far training is; elsewhere a line on standard error, not too often: hours go into a log."""

    def __init__(self) -> None:
        self._printed_at = -REPORT_SECONDS

    def __call__(self, reached: LessonProgress) -> None:
        figures = "  ".join(f"{name} {figure:.4g}" for name, figure in reached.figures.items())
        spinner.say(f"{reached.step}/{reached.steps}  {figures}")
        if sys.stderr.isatty() or (time.monotonic() - self._printed_at < REPORT_SECONDS and reached.step < reached.steps):
            return
        self._printed_at = time.monotonic()
        print(f"{reached.step}/{reached.steps}  {reached.elapsed_seconds:.0f} s  {figures}", file=sys.stderr)
