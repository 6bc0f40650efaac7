"""The sweep of settings: it is the planner's own count, for a million settings at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.evaluate.preflight.setting_sweep import axes_of, fits, full_graph_bytes, sweep
from hyperscale.model.api.job import Architecture, JobSpec
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import training

BUILTIN = (Architecture.GCN, Architecture.GRAPH_SAGE, Architecture.GAT)


def sampled(architecture: Architecture = Architecture.GRAPH_SAGE, **changes: Any) -> JobSpec:
    job = training()
    fields: dict[str, Any] = {"architecture": architecture, "batch_size": 1024, "fanouts": (10, 10, 10), "heads": 4}
    return replace(job, model=replace(job.model, **(fields | changes)))


SWEEPS = {architecture: sweep(sampled(architecture), axes_of(sampled(architecture)), 0.25, 4) for architecture in BUILTIN}


@settings(max_examples=60)
@given(st.sampled_from(BUILTIN), st.data())
def test_every_setting_costs_what_the_planner_says(architecture: Architecture, data: st.DataObject) -> None:
    found = SWEEPS[architecture]
    hidden, batch, fanout = (data.draw(st.integers(0, size - 1)) for size in found.bytes.shape)
    model = {
        "hidden_size": int(found.axes.hidden_sizes[hidden]),
        "batch_size": int(found.axes.batch_sizes[batch]),
        "fanouts": (int(found.axes.fanouts[fanout]),) * 3,
    }
    assert found.bytes[hidden, batch, fanout] == pytest.approx(profile(sampled(architecture, **model)).gpu_bytes(0.25, 4, 1), rel=1e-12)


def test_more_than_a_million_settings_are_swept() -> None:
    assert all(found.axes.settings >= 1_000_000 for found in SWEEPS.values())


def test_more_of_anything_never_takes_less_memory_where_layers_only_grow() -> None:
    found = SWEEPS[Architecture.GCN].bytes
    assert (np.diff(found, axis=1) >= -1e-6 * found[:, 1:]).all()
    assert (np.diff(found, axis=2) >= -1e-6 * found[:, :, 1:]).all()


def test_a_larger_gpu_fits_no_less_and_one_that_holds_nothing_says_so() -> None:
    small, large, none = fits(sampled(), {"a-small": 6e9, "b-large": 60e9, "c-none": 1e6}, 0.25, 4)
    assert small.batch_size is not None
    assert large.batch_size is not None
    assert small.batch_size <= large.batch_size
    assert 0 < small.fitting <= large.fitting <= large.settings
    assert (none.fitting, none.batch_size, none.hidden_size, none.fanout) == (0, None, None, None)


def test_the_largest_batch_fits_and_the_next_one_does_not() -> None:
    found = SWEEPS[Architecture.GRAPH_SAGE]
    fit = fits(sampled(), {"gpu": 6e9}, 0.25, 4)[0]
    assert fit.batch_size is not None
    row = int(np.searchsorted(found.axes.batch_sizes, fit.batch_size))
    own = (int(np.searchsorted(found.axes.hidden_sizes, 256)), int(np.searchsorted(found.axes.fanouts, 10)))
    assert found.bytes[own[0], row, own[1]] <= 6e9 < found.bytes[own[0], row + 1, own[1]]


def test_a_job_on_the_whole_graph_has_its_own_largest_width() -> None:
    job = training()
    fit = fits(job, {"gpu": 20e9}, 0.25, 4)[0]
    assert fit.full_graph_hidden_size is not None
    need = full_graph_bytes(job, np.array([fit.full_graph_hidden_size, fit.full_graph_hidden_size + 16]), 0.25, 4)
    assert need[0] <= 20e9 < need[1]


def test_own_models_are_not_swept() -> None:
    job = sampled(Architecture.CUSTOM, parameters=10)
    with pytest.raises(ValueError, match="Custom"):
        sweep(job, axes_of(job), 1.0, 1)
