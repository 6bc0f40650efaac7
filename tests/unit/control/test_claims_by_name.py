"""What is read of a job's claims: objects of the very names that they give, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control.apply import paths
from hyperscale.control.apply.api_answers import TransientError
from hyperscale.control.apply.claims import Claims
from hyperscale.control.apply.client import ApiClient

CLAIM = {"kind": "PersistentVolumeClaim", "metadata": {"name": "state", "namespace": "space"}}


class Answers(ApiClient):
    """Says the same of every path, and notes the paths."""

    def __init__(self, answers: dict[str, dict[str, Any] | None]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def find(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        return self.answers[path]


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "ConfigMap", "metadata": {"name": "state"}},
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "other"}},
        {"kind": "PersistentVolumeClaimList", "metadata": {}, "items": []},
        {},
    ],
    ids=["another kind", "another name", "a list", "nothing"],
)
async def test_an_answer_about_something_else_counts_as_none(wrong: dict[str, Any]) -> None:
    claims = Claims(Answers({paths.claims("space", "state"): wrong}), lambda: 0.0)
    with pytest.raises(TransientError, match="PersistentVolumeClaim"):
        await claims.read(("space", "a"), ("state",))


@pytest.mark.parametrize("spec", [{"volumeName": "../../nodes/a"}, {"volumeName": ".."}, {"storageClassName": "a/b?watch=true"}])
async def test_a_claim_that_names_no_volume_and_no_class_allows_no_node_less(spec: dict[str, str]) -> None:
    client = Answers({paths.claims("space", "state"): {**CLAIM, "spec": spec}})
    volumes = await Claims(client, lambda: 0.0).read(("space", "a"), ("state",))
    assert (volumes.rules, volumes.missing) == ((), ())
    assert client.asked == [paths.claims("space", "state")]
