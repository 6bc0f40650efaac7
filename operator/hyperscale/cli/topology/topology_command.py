"""`hyperscale topology`: nodes, domains and links of a snapshot, how well each figure is known; as picture, page and GraphML."""

from __future__ import annotations

import argparse
from typing import Final

from hyperscale.cli import exit_codes
from hyperscale.cli.files import check_writable, replaced
from hyperscale.cli.plan import inputs, known_inputs
from hyperscale.cli.text_tables import print_answer
from hyperscale.cli.topology.topology_summary import summarize
from hyperscale.cli.topology.topology_view import topology_table
from hyperscale.model.api.topology import topology_status
from hyperscale.pictures.page import page
from hyperscale.pictures.svg import svg

PAGE_BYTES: Final = 16_000_000
"""Of the status behind a page: a file is not an object of etcd."""


def run(arguments: argparse.Namespace) -> int:
    """Summarize, print, draw."""
    from hyperscale.pictures.graphml import graphml
    from hyperscale.planner.graph.cluster_graph import build

    for option in ("svg", "html", "graphml"):
        if getattr(arguments, option) is not None:
            check_writable(getattr(arguments, option), f"--{option}")
    sources = known_inputs.find(arguments)
    if arguments.snapshot is None:
        inputs.note(f"figures: {sources.shown}")
    snapshot, graph = sources.snapshot, build(sources.snapshot, sources.policy)
    if arguments.svg is not None:
        _write(svg(topology_status(snapshot, PAGE_BYTES)), arguments.svg, "--svg")
    if arguments.html is not None:
        _write(page(topology_status(snapshot, PAGE_BYTES)), arguments.html, "--html")
    if arguments.graphml is not None:
        _write(graphml(snapshot), arguments.graphml, "--graphml")
    summary = summarize(graph)
    print_answer(summary, topology_table(summary), arguments.output)
    return exit_codes.OK


def _write(text: str, path: str, option: str) -> None:
    with replaced(path, option) as file:
        file.write_text(text, encoding="utf-8")
    inputs.note(f"wrote {path}")
