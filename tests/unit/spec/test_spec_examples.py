"""Every file in examples/ is understood by the parser."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.spec.crd import REPOSITORY
from hyperscale.spec.parse import parse_job, parse_policy

EXAMPLES = sorted((REPOSITORY / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_parsed(path: Path) -> None:
    resource = yaml.safe_load(path.read_text(encoding="utf-8"))
    if resource["kind"] == "PlannerPolicy":
        assert isinstance(parse_policy(resource), PolicySpec)
    else:
        assert isinstance(parse_job(resource), JobSpec)


def test_the_examples_that_the_documents_name_are_there() -> None:
    names = {path.name for path in EXAMPLES}
    assert names >= {"cora-gcn.yaml", "cora-gat-manual.yaml", "arxiv-sage-s3.yaml", "suspended-queue.yaml", "plan-only.yaml", "policy.yaml"}
