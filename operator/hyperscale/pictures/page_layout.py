"""Where domains and nodes stand on the page of a cluster: boxes on an ellipse, so that a line between any two is seen. Pure geometry."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from hyperscale.model.api.topology import TopologyNode, TopologyStatus

SQUARE: Final = 14.0
SMALL_SQUARE: Final = 8.0
MANY_NODES: Final = 800
"""Above this number of nodes squares are small: the whole cluster should be in sight."""
GAP_SHARE: Final = 0.2
"""Distance between squares in parts of one."""
PADDING: Final = 10.0
HEAD: Final = 32.0
"""Two lines of text."""
LETTER: Final = 7.0
"""Width of a letter of 11 pixels, generously."""
LEAST_WIDTH: Final = 1200.0
"""Width of the picture at least: the legend's."""
SPACE: Final = 70.0
"""Between the picture's rim and boxes; boxes are at least half as far apart."""
FLATNESS: Final = 1.6
"""Width of the ellipse divided by its height: screens are wide."""
GROWTH: Final = 1.04
MAX_BOXES: Final = 24


class Place(NamedTuple):
    """A point of the picture, in pixels from its upper left corner."""

    x: float
    y: float


class PageBox(NamedTuple):
    """A domain: its nodes in a grid."""

    name: str
    nodes: tuple[TopologyNode, ...]
    columns: int
    square: float
    """Side of a node's square."""

    @property
    def titles(self) -> tuple[str, str]:
        """What stands above its squares."""
        free, every = sum(node.free_gpus for node in self.nodes), sum(node.gpus for node in self.nodes)
        return (self.name if len(self.name) <= 40 else f"…{self.name[-39:]}", f"{free} of {every} GPUs free")

    @property
    def step(self) -> float:
        """From one square to the next."""
        return self.square * (1 + GAP_SHARE)

    @property
    def width(self) -> float:
        """Of squares or text, whichever is wider."""
        return max(self.columns * self.step, LETTER * max(map(len, self.titles))) + 2 * PADDING

    @property
    def height(self) -> float:
        """Of text and squares."""
        return math.ceil(len(self.nodes) / self.columns) * self.step + HEAD + 2 * PADDING


def boxes_of(status: TopologyStatus) -> list[PageBox]:
    """Domains of the narrowest level that has at most MAX_BOXES of them; the names of wider levels come first."""
    keys: list[tuple[str, ...]] = [("cluster",)] * len(status.nodes)
    for level in range(1, len(status.levels) + 1):
        named = [tuple(domain or "(no label)" for domain in (*node.domains, *[""] * level)[:level]) for node in status.nodes]
        if len(set(named)) > MAX_BOXES:
            break
        keys = named
    racks: dict[tuple[str, ...], list[TopologyNode]] = {}
    for key, node in zip(keys, status.nodes, strict=True):
        racks.setdefault(key, []).append(node)
    square = SQUARE if len(status.nodes) <= MANY_NODES else SMALL_SQUARE
    return [
        PageBox(" / ".join(key), _in_order(nodes), max(4, math.ceil(math.sqrt(1.6 * len(nodes)))), square)
        for key, nodes in sorted(racks.items())
    ]


def _in_order(nodes: Sequence[TopologyNode]) -> tuple[TopologyNode, ...]:
    return tuple(sorted(nodes, key=lambda node: (node.domains, node.name)))


def arranged(boxes: Sequence[PageBox]) -> tuple[list[Place], Place]:
    """Upper left corners on the smallest ellipse on which no boxes meet, the first on top, clockwise; and the size of the picture."""
    corners = _on_ellipse(boxes, 0.0) if len(boxes) < 2 else _apart(boxes)
    left = min((corner.x for corner in corners), default=0.0)
    top = min((corner.y for corner in corners), default=0.0)
    right = max((corner.x + box.width for corner, box in zip(corners, boxes, strict=True)), default=0.0)
    bottom = max((corner.y + box.height for corner, box in zip(corners, boxes, strict=True)), default=0.0)
    width = max(LEAST_WIDTH, right - left + SPACE)
    shift = (width - (right - left)) / 2
    moved = [Place(corner.x - left + shift, corner.y - top + SPACE / 2) for corner in corners]
    return moved, Place(width, bottom - top + SPACE * 1.5)


def _apart(boxes: Sequence[PageBox]) -> list[Place]:
    radius = 50.0
    while True:
        corners = _on_ellipse(boxes, radius)
        placed = list(zip(boxes, corners, strict=True))
        if not any(_meet(first, second) for first, second in combinations(placed, 2)):
            return corners
        radius *= GROWTH


def _on_ellipse(boxes: Sequence[PageBox], radius: float) -> list[Place]:
    """Corners of boxes whose centres stand on an ellipse; two of them side by side."""
    first = math.pi if len(boxes) == 2 else math.pi / 2
    turns = [first - 2 * math.pi * at / max(1, len(boxes)) for at in range(len(boxes))]
    return [
        Place(FLATNESS * radius * math.cos(turn) - box.width / 2, -radius * math.sin(turn) - box.height / 2)
        for box, turn in zip(boxes, turns, strict=True)
    ]


def _meet(first: tuple[PageBox, Place], second: tuple[PageBox, Place]) -> bool:
    """Whether two boxes come nearer to each other than half of SPACE."""
    (box, corner), (other, there) = first, second
    beside = corner.x + box.width + SPACE / 2 <= there.x or there.x + other.width + SPACE / 2 <= corner.x
    above = corner.y + box.height + SPACE / 2 <= there.y or there.y + other.height + SPACE / 2 <= corner.y
    return not (beside or above)


def squares(boxes: Sequence[PageBox], corners: Sequence[Place]) -> Iterator[tuple[str, Place]]:
    """Name of every node and the centre of its square."""
    for box, corner in zip(boxes, corners, strict=True):
        for at, node in enumerate(box.nodes):
            column, line = at % box.columns, at // box.columns
            x = corner.x + PADDING + column * box.step + box.square / 2
            yield node.name, Place(x, corner.y + HEAD + PADDING + line * box.step + box.square / 2)
