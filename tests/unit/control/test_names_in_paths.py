"""A name in a path of the API is one segment of that path, whatever its characters are."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.apply import paths

OF_A_NAME: list[Callable[[str], str]] = [
    paths.topologies,
    paths.volumes,
    paths.storage_classes,
    *(
        lambda name, path=path: path("space", name)
        for path in (paths.jobs, paths.mpijobs, paths.pods, paths.claims, paths.config_maps, paths.batch_jobs)
    ),
]
OF_A_NAMESPACE: list[Callable[[str], str]] = [
    paths.jobs,
    paths.mpijobs,
    paths.pods,
    paths.config_maps,
    paths.batch_jobs,
    paths.events,
    paths.leases,
    *(
        lambda space, path=path: path(space, "name")
        for path in (paths.jobs, paths.mpijobs, paths.pods, paths.claims, paths.config_maps, paths.batch_jobs)
    ),
    *(lambda space, index=index: paths.kueue_workloads(space)[index] for index in range(len(paths.kueue_workloads("any")))),
]
ODD = st.text(st.sampled_from("a./?#%&=;\\:@ é\n"), min_size=1).filter(lambda text: text not in (".", ".."))


@given(ODD)
def test_a_name_stays_one_segment(odd: str) -> None:
    for path in (*OF_A_NAME, *OF_A_NAMESPACE):
        plain, made = path("plain").split("/"), urlsplit(path(odd))
        assert (made.query, made.fragment) == ("", "")
        assert [unquote(segment) for segment in made.path.split("/")] == [odd if segment == "plain" else segment for segment in plain]


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_leave_its_segment_makes_no_path(name: str) -> None:
    for path in OF_A_NAME:
        with pytest.raises(ValueError, match="no name"):
            path(name)


@pytest.mark.parametrize("namespace", [".", ".."])
def test_a_namespace_that_would_leave_its_segment_makes_no_path(namespace: str) -> None:
    for path in OF_A_NAMESPACE:
        with pytest.raises(ValueError, match="no name"):
            path(namespace)
