"""Memory that a process may use, by the limits of its control groups."""

from __future__ import annotations

from pathlib import Path

from hyperscale.training.data.available_memory import limit_bytes


def test_the_lowest_memory_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    groups = tmp_path / "self"
    groups.write_text("0::/pods/one/container\n")
    root = tmp_path / "fs"
    (root / "pods/one/container").mkdir(parents=True)
    (root / "pods/one/container/memory.max").write_text("max\n")
    (root / "pods/one/memory.max").write_text("123456\n")
    assert limit_bytes(root, groups) == 123456
    groups.write_text("5:memory:/pod\n")
    (root / "memory/pod").mkdir(parents=True)
    (root / "memory/pod/memory.limit_in_bytes").write_text("9223372036854771712\n")
    (root / "memory/memory.limit_in_bytes").write_text("65536\n")
    assert limit_bytes(root, groups) == 65536
