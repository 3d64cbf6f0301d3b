"""The parsers of Python and of JSON, kept from text that would hold them up or fill the memory."""

from __future__ import annotations

import ast
import json
import re
import sys
import warnings

MAX_BYTES = 2_000_000
"""Larger Python files are generated or data: not analyzed, and said so."""
MOST_WORK = 20_000_000_000
"""Braces times characters: 15,000 in 1.3 MB. The most of 17,115 real files is 3,066,157,376."""
MOST_PARTS = 1_000_000
"""Objects and lists, in JSON: 16 million of them fit into 50 MB, and need gigabytes when they are read."""
_WITH_FIELDS = re.compile(r"""\b(?:[ft]r?|r[ft])['"]""", re.IGNORECASE)


class UnparsableError(Exception):
    """Text that cannot be parsed, or that would take minutes; no file is named. ``line`` may be 0."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


def parse(text: str) -> ast.Module:
    """Parse a module. Raises UnparsableError.

    For each field of an f-string the parser goes through what stands before it in the string (Python 3.11)
    or behind it in the file (from 3.12 on), which nothing can interrupt: ``f"{a}{a}{a}..."`` of 2 MB takes
    minutes. Where strings start and end only the parser knows, so all braces count; text without f-strings, a
    table of 100,000 dictionaries, costs them nothing.
    """
    if text.count("{") * len(text) > MOST_WORK and _WITH_FIELDS.search(text):
        raise _slow(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid escape sequence" is the business of others
            return ast.parse(text)
    except SyntaxError as error:
        version = ".".join(map(str, sys.version_info[:2]))
        raise UnparsableError(
            f"syntax error: {error.msg} (read as Python {version})", error.lineno or 1
        ) from None
    except ValueError as error:  # "source code string cannot contain null bytes"
        raise UnparsableError(f"not Python source: {error}", 1) from None
    except (RecursionError, MemoryError):
        raise UnparsableError("nested too deeply to be parsed", 1) from None


def expression_of(text: str) -> ast.expr:
    """Parse an expression that is known to be one."""
    return ast.parse(text, mode="eval").body


def json_of(content: bytes) -> object:
    """Read JSON. Raises UnparsableError."""
    parts = content.count(b"{") + content.count(b"[")
    if parts > MOST_PARTS:
        raise UnparsableError(f"too large ({parts} objects and lists, the limit is {MOST_PARTS})")
    try:
        return json.loads(content.decode("utf-8-sig"))
    except RecursionError:
        raise UnparsableError("nested too deeply") from None
    except UnicodeDecodeError as error:
        raise UnparsableError("not UTF-8", content.count(b"\n", 0, error.start) + 1) from None
    except json.JSONDecodeError as error:
        raise UnparsableError(error.msg, error.lineno) from None
    except ValueError as error:  # a number of thousands of digits
        raise UnparsableError(str(error)) from None


def json_line(content: bytes, *way: str | int) -> int:
    """Return the line of a part of a document: ``"cells", 3, "source"``; of the last that is there."""
    text = content.decode("utf-8-sig")
    skip = re.compile(r"[\s,:]*").match
    decode = json.JSONDecoder().raw_decode

    def after(at: int) -> int:
        found = skip(text, at)
        return found.end() if found else at

    at = after(0)
    for step in way:
        if text[at] not in "[{":
            break
        inside, number = after(at + 1), 0
        while text[inside : inside + 1] not in ("", "]", "}"):
            value = inside
            if text[at] == "{":
                key, end = decode(text, inside)
                value = after(end)
            else:
                key = number
            if key == step:
                at = value
                break
            inside, number = after(decode(text, value)[1]), number + 1
        else:
            break
    return text.count("\n", 0, at) + 1


def _slow(text: str) -> UnparsableError:
    counts = [line.count("{") for line in text.split("\n")]
    return UnparsableError(
        f"too many braces beside f-strings to be parsed ({sum(counts)} in {len(text)} characters)",
        counts.index(max(counts)) + 1,
    )


def parses(text: str) -> bool:
    """Whether the parser takes the text as it is."""
    try:
        parse(text)
    except UnparsableError:
        return False
    return True
