"""How long sentences are: mean and 95th percentile over pages, docstrings and messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

from tests.language import rules

GOAL_MEAN_WORDS: Final = 16
GOAL_PERCENTILE_WORDS: Final = rules.MAX_SENTENCE_WORDS
PERCENTILE: Final = 0.95
MIN_MESSAGE_WORDS: Final = 3
"""Words in lower case; a literal with fewer is a name, a key or a unit."""
KINDS: Final = ("pages", "docstrings", "messages")

_CODE: Final = re.compile(r"[{}\\^$]|\bself\.|\bimport \w|==|&&|\|\|")
_PARTS: Final = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*] |[\w, ]+: ))")
"""Paragraphs, list entries, and lines that describe one argument."""


class Lengths(NamedTuple):
    """Words of the sentences of one kind."""

    sentences: int
    mean: float
    percentile: int

    @property
    def is_short(self) -> bool:
        """Whether both goals are met."""
        return self.mean <= GOAL_MEAN_WORDS and self.percentile <= GOAL_PERCENTILE_WORDS


def of_words(words: Iterable[int]) -> Lengths:
    """Return count, mean and 95th percentile of sentence lengths; all 0 without sentences."""
    ordered = sorted(words)
    if not ordered:
        return Lengths(0, 0.0, 0)
    return Lengths(len(ordered), fmean(ordered), ordered[int(PERCENTILE * (len(ordered) - 1))])


def lengths(pages: Iterable[Path], modules: Iterable[Path]) -> Mapping[str, Lengths]:
    """Return the lengths of each of KINDS."""
    words: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for page in pages:
        words["pages"] += of_page(page.read_text())
    for module in modules:
        tree = ast.parse(module.read_text())
        words["docstrings"] += of_docstrings(tree)
        words["messages"] += of_messages(tree)
    return {kind: of_words(each) for kind, each in words.items()}


def of_page(text: str) -> Iterator[int]:
    """Words of every sentence of a page's prose."""
    for _, paragraph in rules.paragraphs(text):
        yield from map(rules.word_count, rules.sentences(rules.without_code(paragraph)))


def of_docstrings(tree: ast.Module) -> Iterator[int]:
    """Words of every sentence of a module's docstrings."""
    for text in rules.docstrings(tree):
        for part in _PARTS.split(text.value):
            yield from map(rules.word_count, rules.sentences(part))


def of_messages(tree: ast.Module) -> Iterator[int]:
    """Words of every sentence of a module's messages: literals of at least MIN_MESSAGE_WORDS words; a filled-in value is one word."""
    for text in rules.literals(tree):
        if len(re.findall(r"\b[a-z]{2,}\b", text.value)) >= MIN_MESSAGE_WORDS and not _CODE.search(text.value):
            yield from map(rules.word_count, rules.sentences(text.value))


def table(by_kind: Mapping[str, Lengths]) -> list[str]:
    """Return one line a kind, with the goals in the header."""
    lines = [
        f"{'SENTENCES OF':<14}{'COUNT':>6}  {f'MEAN WORDS (<= {GOAL_MEAN_WORDS})':>18}  {f'95 % UP TO (<= {GOAL_PERCENTILE_WORDS})':>18}"
    ]
    lines += [f"{kind:<14}{each.sentences:>6}  {each.mean:>18.1f}  {each.percentile:>18}" for kind, each in by_kind.items()]
    return lines
