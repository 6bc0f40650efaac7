"""Names as a picture can show them: whatever a file or a cluster calls its nodes is text to draw, never markup. Touches no global state."""

from __future__ import annotations

from functools import lru_cache

from matplotlib.font_manager import FontProperties, findfont, get_font


def plain(text: str) -> str:
    """`text` with `?` for what does not print or has no glyph, and dollar signs that matplotlib takes for themselves, not for formulas."""
    glyphs = _letters()
    return "".join(letter if letter.isprintable() and ord(letter) in glyphs else "?" for letter in text).replace("$", r"\$")


def ending(text: str, most: int) -> str:
    """Return the last letters of a name, at most `most`: names that start alike differ at the end."""
    return plain(text if len(text) <= most else "…" + text[1 - most :])


def beginning(text: str, most: int) -> str:
    """Return the first letters of a name, at most `most`: products start differently."""
    return plain(text if len(text) <= most else text[: most - 1] + "…")


@lru_cache(maxsize=1)
def _letters() -> frozenset[int]:
    """Code points that the default font has, plain and bold; of others it would draw boxes, and warn."""
    fonts = (get_font(findfont(FontProperties(weight=weight))) for weight in ("normal", "bold"))
    plain_letters, bold_letters = (frozenset(font.get_charmap()) for font in fonts)
    return plain_letters & bold_letters
