"""`hyperscale evaluate --stage preflight`: run the job's own code here, in a sandbox, and say what its GPUs would hold."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from hyperscale.cli import spinner
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.plan.inputs import JobInput
from hyperscale.cli.text_tables import bytes_text, table
from hyperscale.evaluate.pipeline.evaluation_question import TriedJob
from hyperscale.evaluate.preflight import memory_forecast, setting_sweep
from hyperscale.evaluate.preflight.job_trial import Surroundings, TrialInputError
from hyperscale.evaluate.preflight.sandboxes import SandboxError, choose
from hyperscale.evaluate.preflight.trial_types import Limits
from hyperscale.evaluate.preflight.trials import TrialError
from hyperscale.evaluate.preflight.try_job import preflight
from hyperscale.model.api.job import Architecture, JobSpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.evaluation import ProductFit
from hyperscale.model.plan import Plan
from hyperscale.training.data.available_memory import limit_bytes
from hyperscale.util.extras import install
from hyperscale.util.quantity import parse_bytes

COLUMNS = ("PRODUCT", "MEMORY", "BATCH", "HIDDEN", "FAN-OUT", "WHOLE GRAPH", "FIT", "OF SETTINGS")


def tried_job(job: JobInput, spec: JobSpec, plan: Plan, snapshot: ClusterSnapshot, arguments: argparse.Namespace) -> TriedJob:
    """Return what the first steps did, and what fits the cluster's GPUs. Raises InputError."""
    if arguments.data is not None and not Path(arguments.data).is_dir():
        raise InputError(f"--data: {arguments.data[:200]!r} is no folder; name the one that holds the dataset")
    if find_spec("torch") is None:
        raise InputError(f"--stage preflight: the package torch is missing; {install('worker')}")
    spinner.say("trying the job's first steps")
    seed = 0 if arguments.seed is None else arguments.seed
    try:
        around = Surroundings(choose(arguments.sandbox), arguments.script_dir, arguments.data)
        tried = preflight(job.key, spec, _limits(spec, arguments.preflight_seconds), around, seed=seed)
    except SandboxError as error:
        raise InputError(f"--sandbox: {error}") from None
    except TrialInputError as error:
        raise InputError(f"{job.shown}: {error}") from None
    except TrialError as error:
        raise InputError(f"--stage preflight: {error}") from None
    small = memory_forecast.too_small(spec, plan, snapshot, tried.peaks)
    return TriedJob(tried.report, small, _fits(spec, plan, snapshot))


def _limits(spec: JobSpec, seconds: float) -> Limits:
    """As much memory as one rank of the job gets, where the job says so, and never more than there is here."""
    here = limit_bytes()
    limit = spec.workers.resources.limits.get("memory")
    if limit is None:
        return Limits(seconds=seconds, memory_bytes=min(Limits().memory_bytes, here))
    return Limits(seconds=seconds, memory_bytes=min(parse_bytes(limit) // spec.workers.gpus_per_worker, here))


def _fits(spec: JobSpec, plan: Plan, snapshot: ClusterSnapshot) -> tuple[ProductFit, ...]:
    """Of the GPU that holds most; none for own scripts, whose tensors are not counted."""
    if spec.model.architecture is Architecture.CUSTOM or spec.model.script is not None:
        return ()
    share = max(worker.share / worker.gpus for worker in plan.workers)
    return setting_sweep.fits(spec, memory_forecast.memory_by_product(snapshot), share, plan.ranks)


def fits_table(fits: tuple[ProductFit, ...]) -> list[str]:
    """Return the lines of the sweep; none without one."""
    if not fits:
        return []
    rows = [
        (
            fit.product,
            bytes_text(fit.usable_bytes),
            *("none" if size is None else str(size) for size in (fit.batch_size, fit.hidden_size, fit.fanout)),
            "" if fit.full_graph_hidden_size is None else f"hidden {fit.full_graph_hidden_size}",
            str(fit.fitting),
            str(fit.settings),
        )
        for fit in fits
    ]
    return [
        "",
        "Largest that fit, each with the job's other settings (predicted, not executed)",
        *table(COLUMNS, rows, right=frozenset({2, 3, 4, 6, 7})),
    ]
