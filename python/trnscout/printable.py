"""Text of unknown origin on a terminal: nothing in it moves the cursor, turns or hides letters."""

from __future__ import annotations

import re
import unicodedata

# Letters that most fonts draw as nothing, though Unicode does not call them format characters.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
# Controls, formats (bidi, zero width), surrogates, private use, unassigned, line separators.
_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_PLAIN = re.compile(r"[ -~]*")


def printable(text: str, *, keep: str = "") -> str:
    r"""Spell `text` for a terminal: what cannot be seen stands as \x1b, \u202e and the like.

    `keep` are characters that stay, for example a newline. The data itself is never changed.
    """
    if _PLAIN.fullmatch(text):
        return text
    return "".join(c if c in keep or not _is_hidden(c) else _escape(c) for c in text)


def _is_hidden(c: str) -> bool:
    return unicodedata.category(c) in _ESCAPED or c in _UNSEEN or _is_variation_selector(c)


def _is_variation_selector(c: str) -> bool:
    return "\ufe00" <= c <= "\ufe0f" or "\U000e0100" <= c <= "\U000e01ef"


def _escape(c: str) -> str:
    code = ord(c)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
