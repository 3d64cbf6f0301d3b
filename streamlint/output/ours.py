"""Tells our reports and pictures from other files: ``--output pyproject.toml`` would leave no project."""

from __future__ import annotations

import re
import struct
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

HEAD: Final = 4096
"""Bytes at the beginning of a file that tell what it is."""
_COLOR: Final = rb"(?:\x1b\[[0-9;]*m)*"
_BEGINNINGS: Final = (
    rb"\s*\Z",
    rb"[^\n]*SL\d{3}%b %b\[(?:certain|likely|possible)\]" % (_COLOR, _COLOR),  # full, concise
    rb"(?: +\d+  SL\d{3}  [^\n]*\n)*Functions with GPU streams: ",  # --statistics
    rb"::(?:error|warning|notice) title=(?:SL\d{3} |not analyzed|stopped)",  # github
    rb'\{\s*"version": 1,\s*"findings": \[(?:\s*\{\s*"code"|\],\s*"errors")',  # a baseline begins otherwise
    rb'\{\s*"version": 1,\s*"pictures": \[',
    rb'\{\s*"\$schema": "[^"]*sarif[^"]*",\s*"version": "2\.1\.0",\s*"runs": \[\s*'
    rb'\{\s*"tool": \{\s*"driver": \{\s*"name": "streamlint"',
    rb'\[\s*\{\s*"check_name": "(?:SL\d{3}|not-analyzed|stopped)"',
    rb"\[\]\s*\Z",
    rb"<\?xml[^>]*>\s*<testsuites name=\"streamlint\"",
    rb"<!DOCTYPE html>\s*<html[^>]*>\s*<head>\s*<meta name=\"generator\" content=\"streamlint\">",
    rb'<svg xmlns="[^"]*" class="picture" role="img"',
    rb"flowchart TD\n  subgraph lane0\[",
    rb"[^\n]+\n[^\n]+ in [^\n]+\.(?:py|pyi|pyw|ipynb)\n\n",  # a picture as text
)
_OURS: Final = re.compile(rb"(?:%b)" % b"|".join(_BEGINNINGS))
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_HEADER: Final = len(_PNG) + 25
"""The signature of a PNG, and its first chunk."""
_SAID: Final = b"Software\0streamlint"


def is_ours(path: Path) -> bool:
    """Tell whether nothing is lost when a file is written over: it is empty, or one that we wrote.

    Raises OSError.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
    if head.startswith(_PNG):
        return head.startswith(_note(), _HEADER)
    return _OURS.match(head) is not None


def signed(png: bytes) -> bytes:
    """Return a PNG that says who made it."""
    return png[:_HEADER] + _note() + png[_HEADER:]


def _note() -> bytes:
    chunk = b"tEXt" + _SAID
    return struct.pack(">I", len(_SAID)) + chunk + struct.pack(">I", zlib.crc32(chunk))
