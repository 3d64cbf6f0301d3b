"""Python's own parser, kept from text that would hold it up."""

from __future__ import annotations

import ast
import re
import warnings

MOST_WORK = 20_000_000_000
"""Braces times characters: 15,000 in 1.3 MB. The most of 17,115 real files is 3,066,157,376."""
_WITH_FIELDS = re.compile(r"""\b(?:[ft]r?|r[ft])['"]""", re.IGNORECASE)


class SlowTextError(Exception):
    """Text that is not parsed, since that would take minutes; ``line`` is the one with the most braces."""

    def __init__(self, text: str) -> None:
        counts = [line.count("{") for line in text.split("\n")]
        self.line = counts.index(max(counts)) + 1
        super().__init__(
            f"too many braces beside f-strings to be parsed ({sum(counts)} in {len(text)} characters)"
        )


def parse(text: str) -> ast.Module:
    """Parse a module. Raises SlowTextError, and what ``ast.parse`` raises.

    For each field of an f-string the parser goes through what stands before it in the string (Python 3.11)
    or behind it in the file (from 3.12 on), which nothing can interrupt: ``f"{a}{a}{a}..."`` of 2 MB takes
    minutes. Where strings start and end only the parser knows, so all braces count; text without f-strings, a
    table of 100,000 dictionaries, costs them nothing.
    """
    if text.count("{") * len(text) > MOST_WORK and _WITH_FIELDS.search(text):
        raise SlowTextError(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence" is the business of others
        return ast.parse(text)


def parses(text: str) -> bool:
    """Whether the parser takes the text as it is."""
    try:
        parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, SlowTextError):
        return False
    return True
