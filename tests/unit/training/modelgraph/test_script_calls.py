"""The call graph of a training script: who calls whom, and which functions are model, step or collective."""

from __future__ import annotations

import pytest

from hyperscale.training.modelgraph.calls import MODULE, Function, call_graph
from hyperscale.training.modelgraph.draw_graph import calls_svg

SCRIPT = """
import horovod.torch as hvd
import torch
from torch import nn
from torch.nn import functional as F
import torch.distributed as dist

class Base(nn.Module):
    pass

class Net(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def head(self, x):
        return F.relu(x)

    def forward(self, x):
        return self.head(self.layer(x))

class Sampler:
    def step(self):
        return 1

def train(model, batch):
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()

def sync(value):
    return dist.all_reduce(value)

def main():
    global optimizer
    model = Net()
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    sampler = Sampler()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(3):
        sampler.step()
        scheduler.step()
        train(model, torch.zeros(1, 3))
    def inner():
        sync(torch.ones(1))
    inner()
    model(torch.zeros(1, 3))

if __name__ == "__main__":
    main()
"""


def functions(source: str = SCRIPT) -> dict[str, Function]:
    return {one.name: one for one in call_graph(source).functions}


def test_the_script_itself_stands_first_and_calls_main() -> None:
    graph = call_graph(SCRIPT)
    assert graph.functions[0].name == MODULE
    assert graph.functions[0].callees == ("main",)


def test_names_are_followed_through_imports_and_instances() -> None:
    known = functions()
    assert "horovod.torch.broadcast_parameters" in known["main"].callees
    assert "Net.forward" in known["main"].callees
    assert "Sampler.step" in known["main"].callees
    assert known["Net.forward"].callees == ("Net.head", "torch.nn.Linear")
    assert known["Net.head"].callees == ("torch.nn.functional.relu",)


def test_models_steps_and_collectives_are_told_apart() -> None:
    roles = {name: one.roles for name, one in functions().items()}
    assert roles["Net.forward"] == ("model",)
    assert roles["train"] == ("step",)
    assert roles["sync"] == ("collective",)
    assert roles["main"] == ("collective",)
    assert roles["Sampler.step"] == ()


def test_inner_functions_are_functions_of_their_own() -> None:
    known = functions()
    assert known["main.inner"].callees == ("sync", "torch.ones")
    assert "torch.ones" not in known["main"].callees


def test_it_is_a_graph_with_collectives_marked() -> None:
    graph = call_graph(SCRIPT).networkx()
    assert graph.nodes["torch.distributed.all_reduce"]["roles"] == "collective"
    assert graph.has_edge("sync", "torch.distributed.all_reduce")


def test_recursion_and_scripts_without_functions_are_no_fault() -> None:
    assert functions("def f(n):\n    return f(n - 1)\nf(3)\n")["f"].callees == ("f",)
    assert functions("")[MODULE].callees == ()
    assert "<svg" in calls_svg(call_graph("def f(n):\n    return f(n - 1)\nf(3)\n"), "f.py")


def test_a_script_that_is_no_python_is_refused_with_its_line() -> None:
    with pytest.raises(SyntaxError) as caught:
        call_graph("x = 1\ndef f(:\n")
    assert caught.value.lineno == 2


def test_the_picture_has_every_function_and_is_the_same_every_time() -> None:
    graph = call_graph(SCRIPT)
    drawn = calls_svg(graph, "train.py")
    assert drawn == calls_svg(graph, "train.py")
    assert all(name in drawn for name in ("Net.forward", "train", "all_reduce"))
