"""Compiled modules; everything else about the package is in pyproject.toml.

Each has a numpy twin that answers where it is missing, so that a machine without a C compiler still gets a working package.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

MODULES = (
    "hyperscale.plan._kernel",
    "hyperscale.plan._branch",
    "hyperscale.plan._anneal",
    "hyperscale.plan.tasks._assign",
    "hyperscale.learn.streams._streams",
)

# No -ffast-math and no fused multiply-add: a plan must have the same bytes on every machine.
FLAGS = ["-O3", "-ffp-contract=off", "-fno-math-errno"]

setup(
    ext_modules=cythonize(
        [Extension(name, [f"operator/{name.replace('.', '/')}.pyx"], extra_compile_args=FLAGS, optional=True) for name in MODULES],
        build_dir="build",
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
        },
    ),
)
