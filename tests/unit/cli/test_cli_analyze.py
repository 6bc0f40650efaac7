"""`hyperscale analyze`: networks by name, models of a file, call graphs, and one line for everything that cannot be analyzed."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # escape sequences in the source of DGL 1.1
    import dgl  # noqa: F401

from tests.unit.cli.cli_samples import run

SCRIPT = """
from torch import nn

def make():
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))

class Needs(nn.Module):
    def __init__(self, width):
        super().__init__()

NUMBER = 3

if __name__ == "__main__":
    raise SystemExit("this must not run")
"""


@pytest.fixture(name="script")
def script_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_network_by_name_is_a_table_of_weights_that_torch_confirms() -> None:
    ran = run("analyze", "GAT", "--hidden", "64")
    assert (ran.code, ran.err) == (0, "")
    assert "torch counts the same" in ran.out
    assert "layers_0  GATConv" in ran.out
    assert "attention" in ran.out


def test_json_has_operations_edges_and_rules() -> None:
    document = json.loads(run("analyze", "sage", "-o", "json", "--vertices", "1000", "--edges", "5000").out)
    assert document["name"] == "GraphSAGE"
    assert document["denseFlopsOnSample"] == document["torchFlopsOnSample"]
    assert document["weight"] == sum(one["weight"] for one in document["operations"])
    assert {edge["source"] for edge in document["edges"]} <= {one["name"] for one in document["operations"]}
    assert document["fusion"][0]["rule"] == "normalise+aggregate"


def test_a_model_of_a_file_is_made_without_running_its_main(script: Path) -> None:
    ran = run("analyze", f"{script}:make", "--features", "5")
    assert (ran.code, ran.err) == (0, "")
    assert "linear+activation" in ran.out


@pytest.mark.parametrize("form", ["svg", "graphml", "json"])
def test_a_script_is_read_and_drawn_in_every_form(script: Path, form: str) -> None:
    ran = run("analyze", str(script), "-o", form)
    assert (ran.code, ran.err) == (0, "")
    assert "make" in ran.out


def test_graphml_and_svg_of_a_model() -> None:
    assert "<graphml" in run("analyze", "GCN", "-o", "graphml").out
    assert "GraphConv layers.0" in run("analyze", "GCN", "-o", "svg").out


def test_what_cannot_be_analyzed_is_one_line_and_exit_code_2(script: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "failing.py").write_text("raise RuntimeError('no\\nGPU')\n")
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    cases = {
        str(tmp_path / "absent.py"): "No such file",
        str(tmp_path / "broken.py"): "line 1",
        f"{tmp_path / 'broken.py'}:Net": "line 1",
        f"{tmp_path / 'failing.py'}:Net": "no GPU",
        str(tmp_path / "binary.py"): "UTF-8",
        f"{script}:Nothing": "has no 'Nothing'",
        f"{script}:Needs": "cannot be made without arguments",
        f"{script}:NUMBER": "neither a torch module",
        f"{script}:make": "write --features",
        "GAT --hidden 10": "write for example 8",
        "GCN --edges 3": "--edges",
        "GCN --layers 0": "whole number",
    }
    for written, expected in cases.items():
        ran = run("analyze", *written.split(" "))
        assert ran.code == 2, written
        assert ran.out == ""
        assert expected in ran.err
        assert ran.err.count("\n") == 1


MODEL = """
import sys
import torch
from torch import nn

print("from the file")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, graph, x):
        print("from forward")
        {then}
"""


def test_what_a_users_model_prints_is_no_part_of_the_answer(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL.format(then="return self.linear(x)"))
    ran = run("analyze", f"{tmp_path}/net.py:Net", "--features", "8", "-o", "json")
    assert ran.code == 0
    assert json.loads(ran.out)["name"] == "Net"
    assert "from the file" in ran.err
    assert "from forward" in ran.err


def test_a_model_that_leaves_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL.format(then="sys.exit(3)").replace("print", "str"))
    ran = run("analyze", f"{tmp_path}/net.py:Net", "--features", "8")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "the model ends the process when it runs (3)" in ran.err


def test_weights_beyond_this_machines_memory_are_refused_before_they_are_made() -> None:
    ran = run("analyze", "GCN", "--features", "1000000", "--hidden", "1000000")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "--hidden: the weights need 16 TB, this machine has" in ran.err


def test_pictures_take_any_name(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    file = tmp_path / r"a$\frac$b 日本 <b>.py"
    file.write_text("def f(): pass\nf()\n", encoding="utf-8")
    ran = run("analyze", str(file), "-o", "svg")
    assert (ran.code, ran.err) == (0, "")
    ElementTree.fromstring(ran.out)  # noqa: S314 - our own
    (tmp_path / "net.py").write_text(
        MODEL.format(then="return self.linear(x)").replace("print", "str") + 'Net.__name__ = r"$\\frac$ <b>" + chr(27)\n'
    )
    ran = run("analyze", f"{tmp_path}/net.py:Net", "--features", "8", "-o", "svg")
    assert ran.code == 0
    ElementTree.fromstring(ran.out)  # noqa: S314 - our own


def test_analyzing_a_stock_network_does_not_load_the_compiler_of_torch() -> None:
    script = (
        "import sys; from hyperscale.cli.main import main; code = main(['analyze', 'GCN']);"
        "print(code, 'torch._dynamo' in sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr == "0 False\n"
