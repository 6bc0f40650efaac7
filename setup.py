"""Compiled modules; everything else about the package is in pyproject.toml.

Each has a numpy twin that answers where it is missing, so that a machine without a C compiler still gets a working package.
"""

import fcntl
import os
import shutil
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

MODULES = (
    "hyperscale.training.data._kernels",
    "hyperscale.planner.search.kernels._kernel",
    "hyperscale.planner.search.kernels._branch",
    "hyperscale.planner.search.kernels._beam",
    "hyperscale.planner.search.kernels._segment",
    "hyperscale.planner.queue._roll",
    "hyperscale.planner.together._together",
    "hyperscale.planner.assign._assign",
    "hyperscale.learn.streams._streams",
    "hyperscale.training.partition._halos",
    "hyperscale.training.partition._independent",
    "hyperscale.training.rankmap._quadratic",
    "hyperscale.training.partition._refine",
    "hyperscale.training.modelgraph._sparse",
    "hyperscale.observe.series._follow",
    "hyperscale.training.molecules._molecules",
    "hyperscale.evaluate.twin._futures",
)
BENCHMARKS = ("benchmarks.peers.placement._anneal",)
"""Compiled beside their sources too; no part of the package."""


def sources() -> list[Path]:
    """Everything that decides what a compiled module does; modules share declarations and headers."""
    return [Path("setup.py"), *(path for ending in ("pyx", "pxd", "h") for path in Path("operator/hyperscale").rglob(f"*.{ending}"))]


def newer(source: Path, compiled: Path) -> bool:
    """Whether a source changed after it was compiled."""
    return source.stat().st_mtime > compiled.stat().st_mtime


# No -ffast-math and no fused multiply-add: a plan must have the same bytes on every machine.
# No debug information: Python's own flags ask for it, and it takes a third of the time.
FLAGS = ["-O3", "-g0", "-ffp-contract=off", "-fno-math-errno"]

BUILD = Path("build")
CORES = len(os.sched_getaffinity(0))


class Build(build_ext):
    """Puts finished modules beside their sources at once: who imports meanwhile gets a whole old or a whole new one, never half a file.

    Processes that have an old one mapped keep it. The modules share structures, so that all are copied first and then renamed together.
    """

    def finalize_options(self) -> None:
        """One compiler a core: the modules are compiled one by one otherwise, before anything else of a first run."""
        super().finalize_options()
        self.parallel = self.parallel or CORES

    def build_extension(self, ext: Extension) -> None:
        """For a wheel take a module that was compiled beside its sources and is newer than these: compiling takes two minutes."""
        name = Path(self.get_ext_filename(ext.name))
        compiled = Path("operator") / name
        if self.inplace or self.editable_mode or not compiled.exists() or any(newer(source, compiled) for source in sources()):
            super().build_extension(ext)
            return
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(compiled, target)

    def copy_extensions_to_source(self) -> None:
        """All, or none where one cannot be copied."""
        self._fresh: list[tuple[str, str]] = []
        self.get_finalized_command("build_py").package_dir["benchmarks"] = "benchmarks"
        super().copy_extensions_to_source()
        for fresh, final in self._fresh:
            os.replace(fresh, final)

    def copy_file(self, infile: str, outfile: str, *args: object, **kwargs: object) -> tuple[str, bool]:
        """To a name beside it that nobody imports."""
        fresh = f"{outfile.removesuffix('.so')}.{os.getpid()}.so"
        self._fresh.append((fresh, outfile))
        copied: tuple[str, bool] = super().copy_file(infile, fresh, *args, **kwargs)
        return copied


# Two builds at once would link from each other's half-written files; the lock is this process's and ends with it.
BUILD.mkdir(exist_ok=True)
LOCK = (BUILD / ".lock").open("w")
fcntl.lockf(LOCK, fcntl.LOCK_EX)


def extension(name: str, folder: str) -> Extension:
    """One module below a folder."""
    return Extension(name, [f"{folder}{name.replace('.', '/')}.pyx"], extra_compile_args=FLAGS, optional=True)


extensions = [extension(name, "operator/") for name in MODULES]
if "bdist_wheel" not in sys.argv and Path("benchmarks").is_dir():
    extensions += [extension(name, "") for name in BENCHMARKS]

setup(
    cmdclass={"build_ext": Build},
    ext_modules=cythonize(
        extensions,
        include_path=["operator"],
        build_dir=str(BUILD),
        nthreads=CORES,
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
        },
    ),
)
