"""Pictures of the pages, drawn by the commands that people would use."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from tests.reference.transcripts import ROOT, printed

_OPTIONS: Final = "--snapshot examples/cluster.json --failure-rate 400 --deadline-seconds 108000"
_NAMESPACE: Final = '<svg xmlns="http://www.w3.org/2000/svg" '


def end_of_job() -> str:
    """Return the curve of end times of a job of about a day, as an SVG document."""
    return _pictures()[0]


def use_of_time() -> str:
    """Return what that job's time goes to."""
    return _pictures()[1]


@cache
def _pictures() -> tuple[str, ...]:
    """The pictures of one report."""
    job = yaml.safe_load((ROOT / "examples/arxiv-sage-s3.yaml").read_text())
    job["spec"]["model"]["epochs"] = 24_000
    job["spec"]["checkpoint"]["everyEpochs"] = 2_400
    with tempfile.TemporaryDirectory() as folder:
        file, report = Path(folder) / "job.yaml", Path(folder) / "report.html"
        file.write_text(yaml.safe_dump(job))
        printed(f"hyperscale evaluate -f {file} {_OPTIONS} --report {report}")
        parts = report.read_text().split("<svg ")[1:]
    return tuple(f"{_NAMESPACE}{part.partition('</svg>')[0]}</svg>\n" for part in parts)
