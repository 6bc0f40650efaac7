"""What a machine can hold of plain English: banned words, long sentences and lines, private identifiers, commit subjects."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_SENTENCE_WORDS: Final = 25
MAX_LINE_CHARACTERS: Final = 120
"""Of prose in Markdown; tables, code and links are longer."""
MAX_SUBJECT_CHARACTERS: Final = 72

BANNED_WORDS: Final = {
    "anew": "again",
    "as ever": "(leave it out)",
    "by itself": "automatically, alone",
    "everybody": "name who",
    "goes on": "continues, resumes",
    "is told": "says, reports",
    "are told": "says, reports",
    "was told": "said, reported",
    "mend": "fix",
    "mends": "fixes",
    "mended": "fixed",
    "nobody": "name who",
    "of it": "of the …",
    "passed over": "reconciled, skipped",
    "so many": "a number",
    "somebody": "name who",
    "whoever": "name who",
}
"""Each with what to write instead."""
BANNED_NAMES: Final = frozenset({"found", "held", "known", "made", "seen", "told"})
"""Identifiers that say that there is a value, not which."""

_BANNED: Final = re.compile(r"\b(" + "|".join(sorted(map(re.escape, BANNED_WORDS), key=len, reverse=True)) + r")\b", re.IGNORECASE)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"(\[*])")
_FENCE: Final = re.compile(r"^(```|~~~)")


class Fault(NamedTuple):
    """One place that breaks a rule."""

    rule: str
    line: int
    message: str


def banned_words(text: str, first_line: int = 1) -> Iterator[Fault]:
    """Words of the ban list in prose."""
    for number, line in enumerate(text.splitlines(), first_line):
        for match in _BANNED.finditer(line):
            yield Fault("word", number, f'"{match.group(0)}": write {BANNED_WORDS[match.group(0).lower()]}')


def sentences(text: str) -> list[str]:
    """Return the sentences of a text that have a word, each on one line."""
    return [sentence for sentence in _SENTENCE_END.split(" ".join(text.split())) if word_count(sentence)]


def word_count(sentence: str) -> int:
    """Return how many words a sentence has; a dash or a sign alone is none."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def long_sentences(text: str, first_line: int = 1) -> Iterator[Fault]:
    """Sentences of more than MAX_SENTENCE_WORDS words."""
    for sentence in sentences(text):
        if (words := word_count(sentence)) > MAX_SENTENCE_WORDS:
            yield Fault("sentence", first_line, f'{words} words, at most {MAX_SENTENCE_WORDS}: "{sentence[:60]}…"')


def markdown(text: str) -> list[Fault]:
    """Faults of a page: prose only, without code, tables and headings' links."""
    faults: list[Fault] = []
    for first, paragraph in paragraphs(text):
        lines = paragraph.splitlines()
        faults += [
            Fault("line", first + at, f"{len(line)} characters, at most {MAX_LINE_CHARACTERS}")
            for at, line in enumerate(lines)
            if len(line) > MAX_LINE_CHARACTERS and " " in line.strip()
        ]
        prose = without_code(paragraph)
        faults += [*banned_words(prose, first), *long_sentences(prose, first)]
    return faults


def without_code(paragraph: str) -> str:
    """Return prose with one letter for each piece of code and each link's target."""
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "x", paragraph)


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """First line and text of every paragraph or list entry of prose."""
    fenced, first, gathered = False, 1, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if _FENCE.match(line):
            fenced = not fenced
        code = fenced or line.startswith("    ") or line.lstrip().startswith(("|", "#", "<", "```", "~~~"))
        starts = not line.strip() or code or re.match(r"\s*([-*]|\d+\.) ", line)
        if starts and gathered:
            yield first, "\n".join(gathered)
            gathered = []
        if line.strip() and not code:
            first = number if not gathered else first
            gathered.append(line)


def python(source: str) -> list[Fault]:
    """Faults of a module: docstrings, messages, comments and identifiers."""
    tree = ast.parse(source)
    faults: list[Fault] = []
    for text in docstrings(tree):
        faults += [*banned_words(text.value, text.line), *long_sentences(_first_paragraph(text.value), text.line)]
    for text in literals(tree):
        faults += banned_words(text.value, text.line)
    for node in ast.walk(tree):
        faults += [Fault("name", line, f'"{name}": say which value it is') for name, line in _bound(node) if name in BANNED_NAMES]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            faults += banned_words(token.string, token.start[0])
    return faults


class Text(NamedTuple):
    """A piece of text in a module."""

    value: str
    line: int


def docstrings(tree: ast.Module) -> list[Text]:
    """Return docstrings of modules, classes and functions, and those below constants and fields."""
    return [Text(str(constant.value), constant.lineno) for constant in _docstring_constants(tree)]


def literals(tree: ast.Module) -> list[Text]:
    """Return all other literal texts; an f-string is one text, with one letter for each value that is filled in."""
    apart = {id(constant) for constant in _docstring_constants(tree)}
    apart |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    texts: list[Text] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
            texts.append(Text("".join(parts), node.lineno))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
            texts.append(Text(node.value, node.lineno))
    return texts


def _docstring_constants(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def _first_paragraph(text: str) -> str:
    return text.split("\n\n", 1)[0]


def _bound(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that a node binds, with their line."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id, node.lineno
    elif isinstance(node, ast.arg):
        yield node.arg, node.lineno
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name, node.lineno


def subject(text: str) -> list[Fault]:
    """Faults of a commit message's first line."""
    first = text.splitlines()[0] if text.strip() else ""
    faults = (
        [Fault("subject", 1, f"{len(first)} characters, at most {MAX_SUBJECT_CHARACTERS}")] if len(first) > MAX_SUBJECT_CHARACTERS else []
    )
    if not first:
        faults.append(Fault("subject", 1, "empty; say what the commit does"))
    elif re.match(r"[A-Za-z]+(ed|ing)\b", first) or first.endswith(".") or not first[0].isupper():
        faults.append(
            Fault("subject", 1, 'write an imperative with a capital and no full stop, e.g. "Hold requests back while the Lease is late"')
        )
    return [*faults, *banned_words(first)]
