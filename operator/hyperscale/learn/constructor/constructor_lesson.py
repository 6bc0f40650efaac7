"""`hyperscale learn constructor`: train the constructor, and judge it before it replaces the one in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import safetensors.numpy
from msgspec import json
from msgspec.structs import replace

from hyperscale.learn.constructor.train_constructor import ConstructorConfig, train_weights, weights_of
from hyperscale.learn.constructor.validate import Validation, validate
from hyperscale.learn.lesson import Assignment, LessonError, LessonProgress, LessonVerdict
from hyperscale.learn.publish import replace_file
from hyperscale.planner.learned.learned_network import ConstructorNetwork
from hyperscale.planner.learned.learned_weights import NAME, WeightsError, load, manifest_of

NEAREST_LIMIT: Final = 0.99
"""Over greedy from the node with the nearest partners: weights that gain less are not worth their time."""
LOSES: Final = 1.002
"""Over the weights in use; less is noise of the validation's clusters."""


def train(assignment: Assignment, report: Callable[[LessonProgress], None]) -> tuple[Path, ...]:
    """Learn, and write weights and manifest. Raises LessonError where the folder holds no checkpoint to continue from."""
    config = ConstructorConfig(seed=assignment.seed)
    if assignment.steps is not None:
        config = replace(config, steps=assignment.steps)
    resumed = assignment.folder if assignment.resume else None
    weights = weights_of(train_weights(config, assignment.folder, report, resumed))
    judged = validate(ConstructorNetwork(weights), assignment.seed)
    files = (assignment.folder / f"{NAME}.safetensors", assignment.folder / f"{NAME}.json")
    packed = safetensors.numpy.save(weights)
    command = f"hyperscale learn constructor --seed {config.seed} --steps {config.steps}"
    manifest = manifest_of(packed, command, config.seed, _figures(judged))
    replace_file(files[0], packed)
    replace_file(files[1], json.format(json.encode(manifest), indent=2) + b"\n")
    return files


def judge(candidate: Path, in_use: Path | None, seed: int) -> LessonVerdict:
    """Accept weights that beat greedy and do not lose to those in use. Raises LessonError where the candidate cannot be read."""
    try:
        ours = validate(load(candidate), seed)
    except WeightsError as error:
        raise LessonError(f"cannot judge {candidate}: {error}; train first") from None
    figures = _figures(ours)
    if not ours.over_nearest <= NEAREST_LIMIT:
        return LessonVerdict(
            False, f"costs {ours.over_nearest:.3f} of greedy from the nearest neighbourhood, above {NEAREST_LIMIT}", figures
        )
    theirs = _in_use(in_use, seed)
    if theirs is None:
        return LessonVerdict(
            True, f"costs {ours.over_nearest:.3f} of greedy from the nearest neighbourhood; nothing to compare with", figures
        )
    beside = float(np.exp(np.mean(np.log(ours.costs / theirs.costs))))
    figures["over_in_use"] = beside
    said = f"costs {beside:.4f} of the weights in use on {ours.cases} clusters and {ours.over_nearest:.3f} of greedy"
    return LessonVerdict(beside <= LOSES, said, figures)


def _in_use(folder: Path | None, seed: int) -> Validation | None:
    """How the weights in use do on the same clusters; None where there are none that can be used."""
    if folder is None:
        return None
    try:
        network: ConstructorNetwork = load(folder)
    except WeightsError:
        return None
    return validate(network, seed)


def _figures(judged: Validation) -> dict[str, float]:
    return {
        "over_greedy_fastest": judged.over_fastest,
        "over_greedy_nearest": judged.over_nearest,
        "over_greedy_every": judged.over_every,
        "cases": float(judged.cases),
    }
