"""What a measured placement table says of itself."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.suites.permutations import host_types, looked_up, noise_floor
from hyperscale.model.history.step_curves import Step


def test_a_row_is_looked_up_by_its_other_permutations_at_the_same_batch() -> None:
    rows = [Step((4, 3, 1), 8.0, 1.0), Step((4, 1, 3), 8.0, 4.0), Step((1, 4, 3), 8.0, 9.0), Step((4, 1, 3), 16.0, 100.0)]
    positions, seconds = looked_up(rows)
    assert positions == [0, 1, 2]
    assert seconds == pytest.approx([6.0, 3.0, 2.0])


def test_the_floor_is_the_mean_error_of_that_and_unknown_without_permutations() -> None:
    assert noise_floor([Step((2, 1), 8.0, 1.0), Step((1, 2), 8.0, 2.0)]) == pytest.approx((1.0 + 0.5) / 2)
    assert math.isnan(noise_floor([Step((2, 1), 8.0, 1.0), Step((2, 2), 8.0, 2.0)]))


def test_each_host_type_is_held_out_with_all_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("placement,local_bsz,step_time_s,host_type\n1,8,1,t4\n2,8,2,t4\n1,8,3,v100\n")
    held_out = {name: (len(known), len(asked)) for name, known, asked in host_types(file)}
    assert held_out == {"t4": (1, 2), "v100": (2, 1)}


def test_a_row_without_a_host_type_is_named(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("placement,local_bsz,step_time_s,host_type\n1,8,1,t4\n2,8,2,\n")
    with pytest.raises(ValueError, match=r"table\.csv, line 3: no host_type"):
        host_types(file)


def test_a_table_of_one_host_type_holds_none_out(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("placement,local_bsz,step_time_s\n1,8,1\n")
    assert host_types(file) == []
