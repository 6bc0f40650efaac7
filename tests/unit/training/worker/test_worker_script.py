"""A user's own script that imports nothing of this package finds the contract in its environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.cluster.ports import free_ports
from hyperscale.control.render.commands import UNKNOWN_IMAGE_PROGRAM
from hyperscale.training.data import part_store
from hyperscale.training.worker import prepare, script
from tests.builders import ranks

SCRIPT = (sys.executable, "-m", "hyperscale.training.worker.script")
# Open MPI may join what ranks print at once (a line of one within a line of the other), so each rank writes its own file.
MEETING = """
import pathlib, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
told = f"{dist.get_rank()} of {dist.get_world_size()} sees {total.item():.0f}"
pathlib.Path(__file__).with_name(f"rank-{dist.get_rank()}").write_text(told)
dist.destroy_process_group()
"""
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "HYPERSCALE_PLAN_FILE", "PARTITION_PATH", "CHECKPOINT_DIR", "HYPERSCALE_CHECKPOINT_DIR")
TELLING = f"""
import json, os, sys
told = {{name: os.environ.get(name) for name in {NAMES}}} | {{"modules": sorted(sys.modules), "argv": sys.argv}}
with open(__file__ + "." + os.environ["RANK"], "w") as file:
    json.dump(told, file)
"""


@pytest.fixture
def stored(tmp_path: Path) -> dict[str, str]:
    """Variables of a job of two ranks whose partition Job has run."""
    told = {
        "HYPERSCALE_MODEL": '{"architecture": "GCN"}',
        "HYPERSCALE_DATASET_SOURCE": "generated",
        "HYPERSCALE_DATASET_PATH": "SBM?vertices=60&edges=240&featureSize=4&classes=2",
        "HYPERSCALE_WORKERS": "2",
        "HYPERSCALE_PARTITIONS": "4",
        "HYPERSCALE_PARTITIONING_METHOD": "Random",
        "HYPERSCALE_PARTITION_DIR": str(tmp_path / "store"),
    }
    assert prepare.main(told) == 0
    return told


def part_files(stored: dict[str, str]) -> list[Path]:
    root = Path(stored["HYPERSCALE_PARTITION_DIR"])
    key = part_store.find(root, part_store.request(stored))
    assert key is not None
    return [part_store.part_file(root, key, part) for part in range(4)]


ANY_IMAGE = (sys.executable, "-c", UNKNOWN_IMAGE_PROGRAM)


@ranks.needs_mpirun
@pytest.mark.parametrize("start", [SCRIPT, ANY_IMAGE], ids=["our image", "theirs, made from ours"])
def test_every_rank_of_a_script_finds_its_place_its_parts_and_its_folders(
    stored: dict[str, str], tmp_path: Path, start: tuple[str, ...]
) -> None:
    (tmp_path / "tell.py").write_text(TELLING)
    job = {
        "HYPERSCALE_PLAN_FILE": "/plans/mine.json",
        "CHECKPOINT_DIR": "/checkpoints",
        "HYPERSCALE_TERMINATION_LOG": str(tmp_path / "log"),
    }
    ended = ranks.start(2, [*start, str(tmp_path / "tell.py"), "--fast"], {**ranks.without_a_job(os.environ), **stored, **job})
    assert ended.returncode == 0, ended.stderr
    files = [str(file) for file in part_files(stored)]
    for rank in range(2):
        told = json.loads((tmp_path / f"tell.py.{rank}").read_text())
        assert [told[name] for name in NAMES] == [
            str(rank),
            "2",
            str(rank),
            "/plans/mine.json",
            os.pathsep.join(files[2 * rank : 2 * rank + 2]),
            "/checkpoints",
            "/checkpoints",
        ]
        assert told["argv"] == [str(tmp_path / "tell.py"), "--fast"]
        assert not [name for name in told["modules"] if name.partition(".")[0] == "hyperscale"], "the process is the script's alone"


@pytest.mark.parametrize("own", [{}, {"RANK": "7", "HYPERSCALE_CHECKPOINT_DIR": "/mine"}], ids=["nothing set", "some set"])
def test_a_script_in_an_image_without_this_package_finds_all_but_its_parts(tmp_path: Path, own: dict[str, str]) -> None:
    (tmp_path / "tell.py").write_text(TELLING)
    placed = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3", "CHECKPOINT_DIR": "/checkpoints"}
    command = [sys.executable, *ANY_IMAGE[1:], str(tmp_path / "tell.py"), "--fast"]
    subprocess.run(command, env=placed | own, cwd=tmp_path, timeout=60, check=True)
    told = json.loads((tmp_path / f"tell.py.{own.get('RANK', '1')}").read_text())
    assert [told[name] for name in NAMES] == [
        own.get("RANK", "1"),
        "3",
        "0",
        None,
        None,
        "/checkpoints",
        own.get("HYPERSCALE_CHECKPOINT_DIR", "/checkpoints"),
    ]
    assert told["argv"] == [str(tmp_path / "tell.py"), "--fast"]


def test_a_script_without_mpirun_and_without_a_job_is_the_only_rank() -> None:
    assert script.variables({}) == {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }


def test_what_the_user_set_stays() -> None:
    own = {"RANK": "7", "HYPERSCALE_PLAN_FILE": "/mine", "PARTITION_PATH": "", "CHECKPOINT_DIR": "/a", "HYPERSCALE_CHECKPOINT_DIR": "/b"}
    own |= {"OMPI_MCA_mpi_yield_when_idle": "0", "MASTER_ADDR": "mine", "MASTER_PORT": "1234"}
    placed = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    assert script.variables({**own, **placed}) == {"LOCAL_RANK": "1", "WORLD_SIZE": "2"}


def test_there_is_a_plan_file_where_the_operator_mounts_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plan.json").write_text("{}")
    monkeypatch.setattr(script, "RUN_PLAN_FILE", str(tmp_path / "plan.json"))
    assert script.variables({})["HYPERSCALE_PLAN_FILE"] == str(tmp_path / "plan.json")


def test_a_partition_path_is_told_only_where_the_store_has_parts_for_all_ranks(stored: dict[str, str], tmp_path: Path) -> None:
    placed = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}
    assert script.variables({**stored, **placed})["PARTITION_PATH"] == str(part_files(stored)[3])
    assert "PARTITION_PATH" not in script.variables({**stored, "OMPI_COMM_WORLD_SIZE": "3"})
    assert "PARTITION_PATH" not in script.variables({**stored, "HYPERSCALE_PARTITION_DIR": str(tmp_path / "empty")})


@pytest.mark.parametrize(
    ("arguments", "words"), [((), "spec.model.script: no script; write"), (("away.py",), "spec.model.script: no file away.py below")]
)
def test_a_script_that_is_not_there_ends_with_code_2_and_one_line(arguments: tuple[str, ...], words: str) -> None:
    ended = subprocess.run([*SCRIPT, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert words in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@ranks.needs_mpirun
@pytest.mark.parametrize("start", [SCRIPT, ANY_IMAGE], ids=["our image", "theirs"])
def test_two_ranks_of_a_script_meet_by_torch_distributed(tmp_path: Path, start: tuple[str, ...]) -> None:
    port = str(free_ports(1)[0])
    (tmp_path / "meet.py").write_text(MEETING)
    job = {"MASTER_PORT": port, "OMP_NUM_THREADS": "1", "HYPERSCALE_TERMINATION_LOG": str(tmp_path / "log")}
    ended = ranks.start(2, [*start, str(tmp_path / "meet.py")], {**ranks.without_a_job(os.environ), **job})
    assert ended.returncode == 0, ended.stderr
    assert [(tmp_path / f"rank-{rank}").read_text() for rank in range(2)] == ["0 of 2 sees 3", "1 of 2 sees 3"]


def test_ranks_in_pods_meet_at_the_first_workers_name() -> None:
    told = script.variables({"HYPERSCALE_MASTER_ADDR": "cora-worker-0.cora.team.svc"})
    assert (told["MASTER_ADDR"], told["MASTER_PORT"]) == ("cora-worker-0.cora.team.svc", "29500")
    assert "MASTER_ADDR" not in script.variables({"MASTER_ADDR": "mine", "HYPERSCALE_MASTER_ADDR": "x"})
