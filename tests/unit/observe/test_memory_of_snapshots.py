"""What a snapshot leaves for the next is bounded by the cluster of now."""

from __future__ import annotations

from hyperscale.model.pods import PodView
from hyperscale.observe.memory import Memory
from tests.unit.observe.objects import raw_node


def test_nodes_that_are_gone_leave_nothing_behind() -> None:
    memory = Memory()
    for number in range(50):
        memory.see([raw_node(f"spot-{number}")], [PodView("default", f"pod-{number}", node=f"spot-{number}", phase="Running", gpus=1)])
    assert memory._held.keys() == memory._pods_on.keys() == {"spot-49"}
    memory.see([], [])
    assert not memory._held
    assert not memory._pods_on
