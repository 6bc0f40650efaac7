"""One process that runs workloads in the simulator of Sia and prints a line of JSON a run; benchmarks/sia.py starts it.

Run: python -m benchmarks.peers.sia_bridge SIMULATOR POLICY WORKLOAD...
Set OMP_NUM_THREADS and OPENBLAS_NUM_THREADS to 1: the calls of numpy are tiny here, and threads only spin.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from pathlib import Path

from benchmarks.peers import sia_simulator

POLICIES = {"ours": ("sia", True), "ours-free": ("sia", False), "sia": ("sia", True), "sia-free": ("sia", False), "gavel": ("gavel", True)}
"""Policy of the simulator, and whether batch sizes are fixed."""


def main() -> int:
    """Run the workloads one after the other, each in a process of its own; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("simulator", type=Path)
    parser.add_argument("policy", choices=sorted(POLICIES))
    parser.add_argument("workloads", type=Path, nargs="+")
    parser.add_argument("--settings", type=json.loads, default={}, help="settings of our policy, for tuning")
    given = parser.parse_args()
    workloads = [workload.resolve() for workload in given.workloads]
    sia_simulator.load(given.simulator.resolve())
    for workload in workloads:
        if (child := os.fork()) == 0:
            _run(given.policy, workload, given.settings)
        if os.waitpid(child, 0)[1] != 0:
            return 1
    return 0


def _run(policy: str, workload: Path, settings: dict[str, float]) -> None:
    """Run one workload, print its figures and end the process."""
    output = sys.stdout
    kind, fixed = POLICIES[policy]
    try:
        policy_class = None
        if policy.startswith("ours"):
            from benchmarks.peers.sia_rounds import policy_class as build  # needs what the other policies do not

            policy_class = build(settings)
        figures = sia_simulator.simulate(workload, kind, fixed_batch=fixed, policy_class=policy_class)
    except Exception:  # the simulator is foreign code: whatever it raises ends this process with its traceback and code 1
        traceback.print_exc()
        os._exit(1)
    print(json.dumps({"workload": str(workload), "policy": policy, "figures": figures}), file=output, flush=True)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
