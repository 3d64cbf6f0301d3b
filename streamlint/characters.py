"""Characters of texts that are somebody else's: how wide they are, and which must not be written out."""

from __future__ import annotations

import unicodedata


def width(char: str) -> int:
    """Return the columns that a printable character takes in a terminal."""
    if unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def visible(char: str) -> str:
    """Return the character, or a stand-in if it moves the cursor, colours the text or turns it around."""
    category = unicodedata.category(char)
    if category == "Cc":
        code = ord(char)
        return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"
    return "\ufffd" if category in {"Cf", "Cs", "Zl", "Zp"} else char


def plain(text: str) -> str:
    """Make text from outside (a path, a message) safe to print on one line."""
    return "".join(map(visible, text))


def for_xml(text: str) -> str:
    """Leave out what XML 1.0 cannot hold (https://www.w3.org/TR/xml/#charsets); lines stay lines."""
    shown = (char if char == "\n" else visible(char) for char in text)
    return "".join("\ufffd" if char in "\ufffe\uffff" else char for char in shown)
