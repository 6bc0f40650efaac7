"""What changed since the launcher's variables were written: an MPIJob's templates never change, its plan does.

The launcher is a new pod after every failure, and has the plan in force from its first moment; workers that stayed may see an older file
for a minute. So the launcher tells all ranks, through the variables that mpirun hands down, and starts as many as the plan has.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hyperscale.model.runplan import RUN_PLAN_FILE
from hyperscale.training.runtime.contract import ContractError, read_plan

PROCESSES: Final = "-np"
"""Of mpirun."""


def plan_overrides(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that the plan file says otherwise than `environment`; none where it says the same, or cannot be read."""
    try:
        plan = read_plan(Path(environment.get("HYPERSCALE_PLAN_FILE", RUN_PLAN_FILE)))
    except ContractError as error:
        sys.stderr.write(f"hyperscale.training.worker.launch: {error}; going by the environment\n")
        return {}
    if plan is None or not environment.get("HYPERSCALE_WORKERS"):
        return {}
    planned = {
        "HYPERSCALE_PLAN_ID": plan.plan_id,
        "HYPERSCALE_SEED": str(plan.seed),
        "HYPERSCALE_WORKERS": str(len(plan.workers)),
        "HYPERSCALE_PARTITIONS": str(plan.partitions),
        # As control/render/environment.py writes it: the same text finds the same partitions.
        "HYPERSCALE_SHARES": ",".join(repr(worker.share) for worker in plan.workers),
    }
    return {name: value for name, value in planned.items() if environment.get(name) != value}


def with_ranks(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The command with as many processes as `environment` has GPUs of workers; as it is where it does not state a number of processes."""
    ranked = list(command)
    workers, gpus = environment.get("HYPERSCALE_WORKERS", ""), environment.get("HYPERSCALE_GPUS_PER_WORKER", "1")
    if PROCESSES in ranked[:-1] and workers.isdecimal() and gpus.isdecimal():
        ranked[ranked.index(PROCESSES) + 1] = str(int(workers) * int(gpus))
    return ranked
