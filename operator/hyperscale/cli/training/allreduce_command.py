"""`hyperscale allreduce`: which gradients of a model go together on a given network, and what other rules would take."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import msgspec

from hyperscale.cli import exit_codes
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import read_bounded
from hyperscale.cli.text_tables import bytes_text, counted, pairs, print_answer, printable, seconds_text, table
from hyperscale.model.runplan import AllreduceCost
from hyperscale.training.allreduce import horovod, simulate, variants
from hyperscale.training.allreduce.parameter_table import Layers, Spread, parse, ready_times
from hyperscale.training.allreduce.schedule import Groups, LowerBounds, Schedule, ScheduleError, finish, lower_bounds, schedule

MOST_FILE_BYTES: Final = 16 * 2**20
WIDTH: Final = 56
"""Of the timeline, in characters."""
MOST_LINES: Final = 40
"""Of the timeline; what comes after is counted only."""
OURS: Final = "schedule"
LEAST_SHOWN: Final = 1e-9


class AllreduceRule(msgspec.Struct, frozen=True, rename="camel"):
    """What one rule makes of the gradients."""

    rule: str
    messages: int
    finish_seconds: float
    ratio: float
    """To the schedule's; 1 is as fast."""


class ScheduleAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What `-o json` prints."""

    gradients: int
    bytes: float
    backward_seconds: float
    latency_seconds: float
    seconds_per_byte: float
    finish_seconds: float
    bounds: LowerBounds
    rules: tuple[AllreduceRule, ...]
    messages: tuple[simulate.Message, ...]
    groups: list[list[str]]
    environment: dict[str, str]
    two_levels: bool = False
    """Predicted to pay by 3 % at least, and so taken; likewise `half`."""
    half: bool = False
    plain_seconds: float | None = None
    """When the last message would end without them."""


def run(arguments: argparse.Namespace) -> int:
    """Read, schedule, compare, print."""
    layers, ready = _read(arguments)
    try:
        answer = _answer(arguments, layers, ready)
    except ScheduleError as error:
        raise InputError(f"{arguments.layers}: {error}") from None
    print_answer(answer, _lines(answer, layers), arguments.output)
    return exit_codes.OK


def _read(arguments: argparse.Namespace) -> tuple[Layers, tuple[float, ...]]:
    file = Path(arguments.layers)
    try:
        raw = read_bounded(file, MOST_FILE_BYTES)
        if len(raw) > MOST_FILE_BYTES:
            raise InputError(f"{file}: is larger than {bytes_text(MOST_FILE_BYTES)}; give a table with one line for each gradient")
        layers = parse(raw.decode("utf-8-sig"))
        if layers.ready_seconds is None and arguments.backward_seconds is None:
            raise InputError(f"{file}: nothing says when gradients are ready; give a column ready_seconds, or --backward-seconds")
        return layers, ready_times(layers, arguments.backward_seconds, Spread(arguments.spread))
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}; name a CSV file") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: is no text in UTF-8; name a CSV file") from None
    except ScheduleError as error:
        raise InputError(f"{file}: {error}") from None


def _answer(arguments: argparse.Namespace, layers: Layers, ready: tuple[float, ...]) -> ScheduleAnswer:
    plain = AllreduceCost(arguments.alpha, arguments.beta)
    levels = AllreduceCost(*arguments.two_levels) if arguments.two_levels is not None else None
    chosen = variants.choose(ready, layers.sizes_bytes, plain, two_levels=levels, cast_seconds_per_byte=arguments.cast)
    cost, best = (chosen.cost.latency_seconds, chosen.cost.seconds_per_byte), chosen.schedule
    if chosen.half:  # what travels from here on
        ready, sent = variants.halved(ready, layers.sizes_bytes, arguments.cast)
        layers = msgspec.structs.replace(layers, sizes_bytes=sent)
        best = schedule(ready, sent, *cost)
    sizes = layers.sizes_bytes
    groups, environment = horovod.options(best, layers.names, sizes)
    return ScheduleAnswer(
        len(sizes),
        sum(sizes),
        max(ready),
        *cost,
        best.finish_seconds,
        lower_bounds(ready, sizes, *cost),
        _rules(layers, ready, cost, best),
        tuple(simulate.sequence(best.groups, ready, sizes, *cost)),
        groups,
        {**environment, **chosen.environment()},
        chosen.hierarchical,
        chosen.half,
        chosen.plain_seconds if chosen.hierarchical or chosen.half else None,
    )


def _rules(layers: Layers, ready: tuple[float, ...], cost: tuple[float, float], best: Schedule) -> tuple[AllreduceRule, ...]:
    sizes = layers.sizes_bytes
    engine = simulate.horovod(ready, sizes, *cost)
    tuned = simulate.Engine(cycle_seconds=horovod.cycle_seconds(best.finish_seconds), threshold_bytes=float("inf"))
    emitted = simulate.horovod(ready, sizes, *cost, tuned, best.groups)
    plain: tuple[tuple[str, Groups], ...] = (
        ("DDP buckets of 25 MiB", simulate.buckets(ready, sizes)),
        ("MG-WFBP, as released", simulate.greedy(ready, sizes, *cost)),
        ("one message each", simulate.each_alone(ready, sizes)),
        ("one message", simulate.all_in_one(ready, sizes)),
    )
    figures = [
        (OURS, len(best.groups), best.finish_seconds),
        ("schedule, with Horovod's cycle", len(emitted), emitted[-1].end_seconds),
        ("Horovod, default settings", len(engine), engine[-1].end_seconds),
        *((name, len(groups), finish(groups, ready, sizes, *cost)) for name, groups in plain),
    ]
    least = max(best.finish_seconds, LEAST_SHOWN)
    return tuple(AllreduceRule(name, messages, seconds, seconds / least) for name, messages, seconds in figures)


def _lines(answer: ScheduleAnswer, layers: Layers) -> list[str]:
    bounds = answer.bounds
    head = pairs(
        (
            (
                "Gradients",
                f"{counted(answer.gradients, 'tensor')}, {bytes_text(answer.bytes)}, ready after {seconds_text(answer.backward_seconds)}",
            ),
            ("Network", f"{seconds_text(answer.latency_seconds)} + {answer.seconds_per_byte * 1e9:.4g} ns a byte for each message"),
            ("Last message", f"ends after {seconds_text(answer.finish_seconds)}, in {counted(len(answer.messages), 'message')}"),
            (
                "Lower bound",
                f"{seconds_text(bounds.best_seconds)} ({bounds.best_seconds / max(answer.finish_seconds, LEAST_SHOWN):.1%} of that end)",
            ),
            ("Variant", _variant(answer)),
        )
    )
    rows = [(rule.rule, str(rule.messages), seconds_text(rule.finish_seconds), f"{rule.ratio:.4f}") for rule in answer.rules]
    settings = [f"  {name}={value}" for name, value in sorted(answer.environment.items())]
    return [
        *head,
        "",
        *table(("RULE", "MESSAGES", "ENDS AFTER", "RATIO"), rows, frozenset((1, 2, 3))),
        "",
        *_timeline(answer, layers),
        "",
        "Horovod",
        *settings,
    ]


def _variant(answer: ScheduleAnswer) -> str:
    taken = [name for name, used in (("two levels", answer.two_levels), ("half precision", answer.half)) if used]
    return f"{' and '.join(taken)}; the plain schedule would end after {seconds_text(answer.plain_seconds)}" if taken else ""


def _timeline(answer: ScheduleAnswer, layers: Layers) -> list[str]:
    """One line a message: `.` its gradients are being computed, `-` it waits, `#` it is sent."""
    scale = WIDTH / max(answer.finish_seconds, LEAST_SHOWN)
    rows, begun = [], 0.0
    for number, message in enumerate(answer.messages[:MOST_LINES], start=1):
        computed, ready, start, end = (
            round(at * scale) for at in (begun, message.ready_seconds, message.start_seconds, message.end_seconds)
        )
        drawn = " " * computed + "." * (ready - computed) + "-" * (start - ready) + "#" * max(end - start, 1)
        names = [layers.names[at] for at in message.members]
        shown = printable(names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}")
        rows.append((str(number), str(len(names)), bytes_text(message.bytes), f"|{drawn[:WIDTH]:<{WIDTH}}|", shown))
        begun = message.ready_seconds
    left = len(answer.messages) - len(rows)
    return [
        *table(
            ("MESSAGE", "TENSORS", "SIZE", f"0 {'':-<{WIDTH - 10}} {seconds_text(answer.finish_seconds)}", "GRADIENTS"),
            rows,
            frozenset((0, 1, 2)),
        ),
        *([f"and {counted(left, 'message')} more"] if left > 0 else []),
    ]
