"""The language check finds what it is for, and leaves code and tables alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.language import figures, rules
from tests.language.__main__ import counts_of, main, modules, pages, risen


def test_a_banned_word_comes_with_what_to_write_instead() -> None:
    (fault,) = rules.markdown("Text.\n\nA job that is planned anew keeps its name.\n")
    assert (fault.rule, fault.line, fault.message) == ("word", 3, '"anew": write again')


def test_code_tables_and_headings_are_no_prose() -> None:
    assert rules.markdown("# anew\n\n    planned anew\n\n| anew | x |\n\n```\nanew\n```\n\n`anew` is banned.\n") == []


def test_a_sentence_of_26_words_is_too_long_and_one_of_25_is_not() -> None:
    words = ["go"] * 25
    assert rules.markdown(" ".join(words) + ".") == []
    assert [fault.rule for fault in rules.markdown(" ".join([*words, "on"]) + ".") if fault.rule == "sentence"] == ["sentence"]


def test_messages_are_read_whole_and_docstrings_are_none_of_them() -> None:
    source = '"""Text."""\n\nNAME = f"the plan {1} is made anew"\n"""Text."""\n'
    assert [(fault.rule, fault.line) for fault in rules.python(source)] == [("word", 3)]
    assert list(figures.of_messages(ast.parse(source))) == [6]
    assert list(figures.of_docstrings(ast.parse(source))) == [1, 1]


def test_names_and_code_are_no_messages() -> None:
    source = "A, B, C = 'GPU memory', 'if told == 1: import os and leave', 'sum by (node) (rate(metric{a=1}))'\n"
    assert list(figures.of_messages(ast.parse(source))) == []


def test_the_length_of_sentences_has_a_mean_and_a_percentile() -> None:
    assert figures.of_words([5] * 19 + [40]) == figures.Lengths(20, 6.75, 5)
    assert figures.of_words([]).is_short
    assert not figures.of_words([26] * 2).is_short
    assert not figures.of_words([17] * 20).is_short


def test_sentences_of_pages_docstrings_and_messages_are_short() -> None:
    lengths = figures.lengths(pages(), modules())
    print("\n".join(figures.table(lengths)))
    assert set(lengths) == set(figures.KINDS)
    assert [kind for kind, each in lengths.items() if not each.is_short or each.sentences < 1000] == []


def test_docstrings_comments_and_identifiers_of_modules_are_read() -> None:
    source = '"""Nobody reads it."""\n\n\ndef count(held: int) -> int:\n    # counted anew\n    found = held\n    return found\n'
    assert sorted((fault.rule, fault.line) for fault in rules.python(source)) == [("name", 4), ("name", 6), ("word", 1), ("word", 5)]


@pytest.mark.parametrize(
    ("subject", "rules_broken"),
    [
        ("Hold requests back while the Lease is late", []),
        ("x" * 73, ["subject", "subject"]),
        ("Added a check", ["subject"]),
        ("Say it plainly.", ["subject"]),
        ("", ["subject"]),
    ],
)
def test_commit_subjects_are_short_imperatives(tmp_path: Path, subject: str, rules_broken: list[str]) -> None:
    assert [fault.rule for fault in rules.subject(subject)] == rules_broken
    file = tmp_path / "message"
    file.write_text(subject + "\n")
    assert main(["--subject", str(file)]) == (1 if rules_broken else 0)


def test_counts_may_fall_but_not_rise_and_a_new_file_starts_at_none() -> None:
    now = counts_of({"a.md": rules.markdown("anew"), "b.md": rules.markdown("anew, anew")})
    assert now == {"a.md": {"word": 1}, "b.md": {"word": 2}}
    assert risen(now, {"a.md": {"word": 2}, "b.md": {"word": 1}}) == [("b.md", "word")]
    assert risen(now, {"b.md": {"word": 2}}) == [("a.md", "word")]


def test_modules_of_a_room_are_counted_together_so_that_one_may_be_split() -> None:
    one = rules.python('"""Nobody."""\n')
    whole = counts_of({"operator/hyperscale/control/a.py": [*one, *one]})
    parts = counts_of({"operator/hyperscale/control/a.py": one, "operator/hyperscale/control/deep/b.py": one})
    assert whole == parts == {"operator/hyperscale/control": {"word": 2}}


def test_the_repository_is_not_above_its_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0, capsys.readouterr().err
