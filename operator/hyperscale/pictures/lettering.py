"""Names as a picture can show them: whatever a file or a cluster calls its nodes is text to draw, never markup. Touches no global state."""

from __future__ import annotations

from functools import lru_cache

from matplotlib.font_manager import FontProperties, findfont, get_font


def plain(text: str) -> str:
    """`text` with `?` for what does not print or has no glyph, and dollar signs that matplotlib takes for themselves, not for formulas."""
    known = _letters()
    return "".join(letter if letter.isprintable() and ord(letter) in known else "?" for letter in text).replace("$", r"\$")


def ending(text: str, most: int) -> str:
    """At most so many letters: the end tells names apart, so the start goes."""
    return plain(text if len(text) <= most else "…" + text[1 - most :])


def beginning(text: str, most: int) -> str:
    """At most so many letters, the first ones: those of products say what they are."""
    return plain(text if len(text) <= most else text[: most - 1] + "…")


@lru_cache(maxsize=1)
def _letters() -> frozenset[int]:
    """Code points that the default font has, plain and bold; of others it would draw boxes, and warn."""
    fonts = (get_font(findfont(FontProperties(weight=weight))) for weight in ("normal", "bold"))
    plain_letters, bold_letters = (frozenset(font.get_charmap()) for font in fonts)
    return plain_letters & bold_letters
