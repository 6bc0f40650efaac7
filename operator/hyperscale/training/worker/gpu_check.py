"""Whether the GPU of this rank and its image fit together: found out before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch

from hyperscale.training.runtime.contract import ContractError, Run

DEVICE_FILE: Final = Path("/dev/nvidiactl")
"""In every container that NVIDIA's runtime gives a GPU to."""


def host_staging(run: Run, device_file: Path = DEVICE_FILE) -> bool:
    """Return whether ranks on GPUs send everything through host memory, which the job has accepted.

    Raises ContractError where it has not, and where there is a GPU that PyTorch cannot use. Without a GPU ranks train on the processor.
    """
    if not torch.cuda.is_available():
        if device_file.exists():
            raise ContractError(
                f"spec.workers.template: the pod has an NVIDIA device ({device_file}) that PyTorch {torch.__version__}, built for CUDA "
                f"{torch.version.cuda}, cannot use; update the node's driver, or name an image whose CUDA it supports (see nvidia-smi)"
            )
        return False
    if run.size == 1 or _horovod_knows_gpus():
        return False
    if run.host_staging:
        return True
    raise ContractError(
        "spec.workers.template: the image's Horovod was built without CUDA and NCCL: ranks would copy every message to host memory and "
        "send it over TCP; name a worker image built with --build-arg HOROVOD_GPU_OPERATIONS=NCCL (docs/install.md, Images), or write "
        "spec.allreduce.hostStaging: true to accept the copies"
    )


def own_device(run: Run) -> torch.device:
    """Return the device of this rank: GPU i of its pod for local rank i, the processor where there is no GPU."""
    return torch.device("cuda", run.local_rank % torch.cuda.device_count()) if torch.cuda.is_available() else torch.device("cpu")


def _horovod_knows_gpus() -> bool:
    import horovod.torch as hvd  # one rank alone needs no Horovod

    return bool(hvd.cuda_built())
