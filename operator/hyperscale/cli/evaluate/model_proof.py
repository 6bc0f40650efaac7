"""The model's part of the proof: it is tried on a small graph of the job's widths, in this process; the operator never does that."""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from hyperscale.cli import spinner
from hyperscale.cli.documents import display_name
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import read_bounded
from hyperscale.evaluate.verify.model_checks import ModelSample, check_model, check_operations
from hyperscale.model.api.datasets import dataset_size
from hyperscale.model.api.job import Architecture, JobSpec
from hyperscale.util.extras import install

MAX_SCRIPT_BYTES: Final = 4 * 2**20
MAX_WEIGHTS: Final = 50_000_000
"""Of a network that is tried: 800 MB with gradients and what a pass keeps."""
TRIED: Final = "The model was tried on a small graph: shapes, types, labels, gradients and the loss over uneven parts are in order."


class ModelProof(NamedTuple):
    """What is known of the model."""

    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def model_proof(spec: JobSpec, arguments: argparse.Namespace) -> ModelProof:
    """Return why the model does not train; nothing where the stage `proof` was not asked for by its name, nor a model."""
    if arguments.model is None and "proof" not in (arguments.stage or ()):
        return ModelProof()
    size = dataset_size(spec)
    spinner.say("trying the model")
    if arguments.model is None and spec.model.architecture is Architecture.CUSTOM:
        return ModelProof(notes=("The model is not checked: architecture Custom is the job's own; name it with --model FILE.py:NAME.",))
    try:
        with _quiet():
            faults = _stock(spec) if arguments.model is None else _own(arguments.model, size.feature_size, size.classes)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hyperscale"):
            raise
        return ModelProof(notes=(f"The model is not checked: it needs {error.name}; {install('worker')}.",))
    except _TooLargeError as error:
        return ModelProof(notes=(f"The model is not checked: {error} are more than the {MAX_WEIGHTS} that are tried.",))
    return ModelProof(faults, () if faults else (TRIED,))


class _TooLargeError(Exception):
    """The message says how many weights there are."""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What a user's file and the libraries print is no part of the answer."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        yield


def _stock(spec: JobSpec) -> tuple[str, ...]:
    """Faults of the network as the workers build it."""
    model, size = spec.model, dataset_size(spec)
    width = model.hidden_size * (model.heads if model.architecture is Architecture.GAT else 1)
    weights = 2 * (size.feature_size * width + max(0, model.layers - 2) * width * width + width * size.classes)
    if weights > MAX_WEIGHTS:
        raise _TooLargeError(f"up to {weights} weights")
    from hyperscale.training.runtime.published_settings import PUBLISHED, resolve
    from hyperscale.training.sampling.trial_network import global_loss, summed_loss, trial_network

    hyper = resolve(PUBLISHED[model.architecture], model.hyperparameters, "{}")
    trial = trial_network(model, hyper, size.feature_size, size.classes)
    sample = ModelSample(trial.blocks, trial.features, trial.labels, trial.train, size.classes)
    return check_model(trial.network, sample, summed_loss, global_loss)


def _own(target: str, features: int, classes: int) -> tuple[str, ...]:
    """Faults of a module of the job's own, as `hyperscale analyze` loads it."""
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise InputError(f"--model: {target[:80]!r} names no model; write FILE.py:NAME")
    try:
        too_large = len(read_bounded(Path(file), MAX_SCRIPT_BYTES)) > MAX_SCRIPT_BYTES
    except OSError as error:
        raise InputError(f"--model: {display_name(file)}: {error.strerror}; write FILE.py:NAME") from None
    if too_large:
        raise InputError(f"--model: {display_name(file)} is larger than {MAX_SCRIPT_BYTES >> 20} MiB; write the name of a script")
    from hyperscale.training.modelgraph.analyze import AnalysisError, sample_graph
    from hyperscale.training.modelgraph.load_model import load
    from hyperscale.training.sampling.trial_network import VERTICES, mean_loss, own_module_sample

    try:
        model = load(file, name)
        graph = sample_graph()
        sample = ModelSample(graph, *own_module_sample(features, classes), classes)
        faults = check_model(model, sample, mean_loss)
        return faults or check_operations(model, features, classes, VERTICES, graph.num_edges())
    except AnalysisError as error:
        raise InputError(f"--model: {error}") from None
    except SystemExit as leaving:
        raise InputError(f"--model: the model ends the process when it runs ({leaving}); let forward return a tensor") from None
