"""Writes suppression comments: ``--add-ignore REASON``."""

from __future__ import annotations

import io
import tokenize
from typing import TYPE_CHECKING

from streamlint import notebook
from streamlint.errors import UserError
from streamlint.files import UnreadableError, decoded, lines_of, read, with_one_end
from streamlint.settings.suppress import IGNORE, Comment, scanned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from streamlint.finding import Finding


def checked(reason: str) -> str:
    """Return a reason without white space around it. Raises UserError: behind a line end it would be code."""
    stripped = reason.strip()
    if not stripped:
        raise UserError("--add-ignore needs a reason: who reads the comment wants to know why")
    if not stripped.isprintable():
        raise UserError("--add-ignore: a reason is one line of text")
    return stripped


def with_comments(path: Path, findings: Iterable[Finding], reason: str, known: Mapping[str, str]) -> bytes:
    """Return a file's text with a comment for each statement that a finding is about; its encoding stays.

    Raises UnreadableError.
    """
    if path.suffix == notebook.SUFFIX:
        raise UnreadableError("no comments are written into a notebook")
    content = read(path)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    try:
        return commented(decoded(content), findings, reason, known).encode(encoding)
    except UnicodeEncodeError as error:
        raise UnreadableError(f"the reason cannot be written in {encoding}") from error


def commented(text: str, findings: Iterable[Finding], reason: str, known: Mapping[str, str]) -> str:
    """Return a text with a comment for each statement that a finding is about; its line ends stay.

    The comment stands alone above the statement, where no formatter has to break the line; a comment that is
    there takes the codes in.
    """
    lines = lines_of(text, keepends=True)
    end = lines[0][len(lines[0].rstrip("\r\n")) :] if lines else ""
    comments, extents = scanned("", with_one_end(text), known)
    wanted: dict[tuple[int, int], set[str]] = {}
    for finding in findings:
        line = finding.primary.line
        extent = next((each for each in extents if each[0] <= line <= each[1]), (line, line))
        wanted.setdefault(extent, set()).add(finding.code)
    for extent, codes in sorted(wanted.items(), reverse=True):
        there = next((each for each in comments if each.codes and each.statement == extent), None)
        if there is not None:
            row = there.span.line - 1
            lines[row] = _joined(lines[row], there, codes)
        else:
            lines.insert(extent[0] - 1, _above(lines[extent[0] - 1], codes, reason, end or "\n"))
    return "".join(lines)


def _above(line: str, codes: set[str], reason: str, end: str) -> str:
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    return f"{indent}# streamlint: ignore[{', '.join(sorted(codes))}] {reason}{end}"


def _joined(line: str, comment: Comment, codes: set[str]) -> str:
    ignore = IGNORE.match(comment.directive)
    assert ignore is not None, "a comment with codes has brackets"
    more = sorted(codes - set(comment.codes))
    return line.replace(ignore[0], f"ignore[{', '.join([ignore['codes'].strip(), *more])}]", 1)
