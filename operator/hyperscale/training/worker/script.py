"""`mpirun … python3 -m hyperscale.training.worker.script train.py`: runs a user's own script, to which the contract is plain variables.

The script takes this process over, so that it runs as `python3 train.py` would and needs nothing of this package.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hyperscale.model.runplan import RUN_PLAN_FILE
from hyperscale.training.runtime.contract import EXIT_WRONG_INPUT

PLACES: Final = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "0"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "1"),
}
"""Where a rank learns its place, and what that is where mpirun started nothing."""
MASTER_ADDRESS: Final = "HYPERSCALE_MASTER_ADDR"
"""Set by the operator: the name of rank 0's pod as the others' resolvers know it."""
MASTER_PORT: Final = "29500"
"""Of torch.distributed's store on rank 0; the pods of a job may talk on any port, as Open MPI does."""


def main(arguments: Sequence[str]) -> int:
    """Does not return where the script starts; 2 where there is none."""
    if arguments and Path(arguments[0]).is_file():
        os.environ.update(variables(os.environ))
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - an argument list, no shell
    place = f"no file {arguments[0]} below {os.getcwd()}" if arguments else "no script"
    sys.stderr.write(f"spec.model.script: {place}; write its path in the image, or mount it there in launcher and workers\n")
    return EXIT_WRONG_INPUT


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What a script finds besides the variables of the job; names that are in `environment` already are not in it."""
    overrides = {name: environment.get(theirs) or alone for name, (theirs, alone) in PLACES.items()}
    overrides["MASTER_ADDR"] = environment.get(MASTER_ADDRESS) or "127.0.0.1"
    overrides["MASTER_PORT"] = MASTER_PORT
    # Open MPI waits by spinning, which takes from training the processor time that a pod's limit or a neighbour leaves it.
    overrides["OMPI_MCA_mpi_yield_when_idle"] = "1"
    if Path(RUN_PLAN_FILE).is_file():
        overrides["HYPERSCALE_PLAN_FILE"] = RUN_PLAN_FILE
    if environment.get("CHECKPOINT_DIR"):
        overrides["HYPERSCALE_CHECKPOINT_DIR"] = environment["CHECKPOINT_DIR"]
    paths = partition_paths(environment)
    if paths:
        overrides["PARTITION_PATH"] = os.pathsep.join(map(str, paths))
    return {name: value for name, value in overrides.items() if name not in environment}


def partition_paths(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The stored parts of this rank, several in a row where there are more than ranks; none where the graph is cut in memory."""
    if not environment.get("HYPERSCALE_PARTITION_DIR"):
        return ()
    from hyperscale.training.data import part_store  # its libraries take a moment, and most runs have no store

    root = Path(environment["HYPERSCALE_PARTITION_DIR"])
    key = part_store.find(root, part_store.request(environment))
    if key is None:
        return ()
    rank, size = (int(environment.get(theirs) or alone) for theirs, alone in (PLACES["RANK"], PLACES["WORLD_SIZE"]))
    each, rest = divmod(len(part_store.manifest(root, key).parts), size)
    return () if rest else tuple(part_store.part_file(root, key, part) for part in range(rank * each, (rank + 1) * each))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
