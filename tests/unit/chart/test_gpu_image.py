"""The worker image for GPUs: its compiler, its CUDA toolkit and the check of its Horovod. Compiled by `make images GPU=1`, not here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from e2e import gpuwheel, horovod, images
from tests.builders import ranks

WORKER = horovod.WORKER
DOCKERFILE = (WORKER / "Dockerfile").read_text()
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing (make horovod)")
needs_nccl = pytest.mark.skipif(find_spec("nvidia") is None, reason="PyTorch without its CUDA packages")
CPP_11, CPP_20 = "201103L", "202002L"
# The calls of `nvcc --dryrun -std=c++11` 13.2: preprocessing for the host and for a GPU, compiling for the host, registering kernels.
NVCC = (
    ("-std=c++11", "-D__CUDA_ARCH_LIST__=750", "-D__CUDACC__", "-D__NVCC__"),
    ("-std=c++11", "-D__CUDA_ARCH__=750", "-D__CUDA_ARCH_LIST__=750", "-DCUDA_DOUBLE_MATH_FUNCTIONS", "-D__CUDACC__"),
    ("-std=c++11", "-D__CUDA_ARCH__=750", "-D__CUDA_ARCH_LIST__=750", "-DCUDA_DOUBLE_MATH_FUNCTIONS", "-Wno-psabi"),
    ("-std=c++11", "-D__CUDA_ARCH_LIST__=750", '-DFATBINFILE="a dlink.fatbin.c"', "-D__NV_EXTRA_INITIALIZATION="),
)


def macros(*arguments: str) -> dict[str, str]:
    """What the compiler wrapper defines for C++ with these arguments."""
    command = [str(WORKER / "c++20"), *arguments, "-x", "c++", "-dM", "-E", "/dev/null"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return dict(re.findall(r"^#define (\w+) (.*)$", finished.stdout, re.MULTILINE))


@needs_compiler
@pytest.mark.parametrize("arguments", NVCC, ids=["host", "device", "object", "kernels"])
def test_the_compiler_wrapper_compiles_in_nvccs_own_standard_where_nvcc_calls_it(arguments: tuple[str, ...]) -> None:
    """nvcc's front end reads the same headers in its own standard: C++20's, preprocessed, fail there on char8_t."""
    assert macros(*arguments)["__cplusplus"] == CPP_11


@needs_compiler
@pytest.mark.parametrize("standard", ["-std=c++14", "-std=gnu++17"])
def test_the_compiler_wrapper_compiles_everything_else_in_cpp_20(standard: str) -> None:
    found = macros("-DNAME=two words", standard, '-DQUOTED="text"')
    assert (found["__cplusplus"], found["NAME"], found["QUOTED"]) == (CPP_20, "two words", '"text"')


@needs_compiler
def test_the_compiler_wrapper_makes_no_debug_information() -> None:
    command = [str(WORKER / "c++20"), "-O2", "-g", "-DNDEBUG", "-S", "-x", "c++", "-", "-o", "-"]
    finished = subprocess.run(command, input="int answer() { return 42; }", capture_output=True, text=True, check=True)
    assert "answer" in finished.stdout
    assert ".debug_info" not in finished.stdout


def test_nvcc_is_of_the_release_of_pytorchs_own_cuda() -> None:
    def pins(lock: Path) -> dict[str, str]:
        return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock.read_text(), re.MULTILINE))

    release = pins(horovod.WORKER.parents[1] / "requirements/worker.lock")["nvidia-cuda-runtime"]
    assert pins(WORKER / "cuda.lock") == dict.fromkeys(("nvidia-cuda-crt", "nvidia-cuda-nvcc", "nvidia-nvvm"), release)


@needs_nccl
def test_the_toolkit_has_pytorchs_headers_and_libraries_under_names_that_linkers_look_for(tmp_path: Path) -> None:
    home = tmp_path / "nvidia" / "cu13"
    for name in ("include", "lib"):
        (home / name).mkdir(parents=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["sh", str(WORKER / "cuda.sh"), str(tmp_path)]
    finished = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout.strip()) == (0, str(home)), finished.stderr
    assert (home / "lib64/libnccl.so").resolve() == gpuwheel.nccl().resolve()
    for name in ("lib64/libcudart.so", "lib/libcudart_static.a", "include/nccl.h", "include/cuda_runtime.h"):
        assert (home / name).resolve(strict=True).is_file()


@needs_nccl
@needs_compiler
def test_pytorchs_nccl_defines_every_function_that_horovod_calls() -> None:
    assert set(gpuwheel.CALLS) <= gpuwheel.defined(gpuwheel.nccl())


def test_the_image_and_the_check_build_horovod_with_the_same_options() -> None:
    told = dict(
        re.findall(
            r'\b(\w+)="?([^\s";\\]+)', DOCKERFILE[DOCKERFILE.index("--target /build/cuda") : DOCKERFILE.index("pip install --use-pep517")]
        )
    )
    assert {name: told[name] for name in horovod.TOOLKIT[:2]} == dict.fromkeys(horovod.TOOLKIT[:2], "$CUDA_HOME")
    assert {name: value for name, value in told.items() if "HOME" not in name and name != "CXX"} == {
        name: value for name, value in horovod.GPU.options.items() if name != "HOROVOD_GPU_OPERATIONS"
    }
    assert images.GPU_OPTIONS[1] == f"HOROVOD_GPU_OPERATIONS={horovod.GPU.options['HOROVOD_GPU_OPERATIONS']}"


def test_the_image_takes_its_cuda_compiler_by_hash_from_the_package_index() -> None:
    assert re.search(r"pip install [^\n]* -r /build/cuda\.lock", DOCKERFILE)
    assert not re.search(r"https?://|\bcurl\b|\bwget\b", DOCKERFILE)


@ranks.needs_horovod
def test_the_check_refuses_a_horovod_that_was_built_for_the_processor() -> None:
    folder = next(iter(find_spec("horovod").submodule_search_locations or ()))  # type: ignore[union-attr]
    extension = next(Path(folder).glob("torch/mpi_lib_v2*.so"))
    with pytest.raises(horovod.BuildError, match=r"not linked to libnccl\.so\.2: Horovod was built without HOROVOD_GPU_OPERATIONS=NCCL"):
        gpuwheel.linked(extension)


def test_an_image_without_a_variant_for_gpus_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        images.main(["--gpu", "agent"])
    assert ended.value.code == 2
    assert "no image for GPUs is called agent: write worker" in capsys.readouterr().err
