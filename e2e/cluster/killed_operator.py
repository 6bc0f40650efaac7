"""The operator, but it kills itself with SIGKILL at the milestone that the variable KILL_OPERATOR_AT names.

Only fault and end-to-end tests run this entry point; `python -m hyperscale` has no such switch.
"""

from __future__ import annotations

import os
import signal
import sys

from hyperscale.__main__ import main
from hyperscale.control.milestones import Milestone

if __name__ == "__main__":
    last = Milestone(os.environ["KILL_OPERATOR_AT"])

    def kill(milestone: Milestone) -> None:
        """Kill this process at the last milestone."""
        if milestone is last:
            os.write(sys.stderr.fileno(), f"killed at milestone {milestone}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    sys.exit(main(kill))
