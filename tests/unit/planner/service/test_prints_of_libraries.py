"""What a library prints in the planner process never reaches the pipe of its answers."""

from __future__ import annotations

import subprocess
import sys

PRINTS = """
import ctypes
import os
from hyperscale.util.child_process import begin
sink = begin(0, 0)
library = ctypes.CDLL(None)
library.puts(b"HighsMipSolverData::transform printed in C")
library.fflush(None)
os.system("echo printed by a program")
print("printed in Python", flush=True)
sink.write(b"answer")
sink.flush()
"""


def test_lines_printed_in_c_in_python_or_by_a_program_go_to_the_log() -> None:
    done = subprocess.run([sys.executable, "-c", PRINTS], capture_output=True, check=True)
    assert done.stdout == b"answer"
    for line in (b"transform printed in C", b"printed by a program", b"printed in Python"):
        assert line in done.stderr
