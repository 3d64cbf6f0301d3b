"""Suppression comments: ``# streamlint: ignore[SL101] reason``, or with the name: ``ignore[unordered-read]``.

A comment holds for findings of its codes whose primary place covers the comment's line, or lies in
the statement that the comment opens, closes, or stands alone above::

    # streamlint: ignore[SL201] the stream is idle here
    total = host.sum()

``# streamlint: skip-file`` before the first statement silences the file.
"""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from streamlint import notebook
from streamlint.files import UnreadableError, text_of
from streamlint.finding import Confidence, Edit, Finding, Fix
from streamlint.frozen import frozen, replace
from streamlint.prefilter import may_hold_comments
from streamlint.settings.catalog import (
    INVALID_SUPPRESSION,
    UNUSED_SUPPRESSION,
    CommentRule,
    nearest_rule,
    suggestion,
)
from streamlint.source import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

MARK = re.compile(r"#\s*streamlint:\s*(?P<directive>.*)")
OTHER = re.compile(r"\s#(?!\d)")
"""Where the next comment begins in the same line: ``# noqa``; ``#12`` is a part of the reason."""
IGNORE = re.compile(r"ignore\s*\[(?P<codes>[^\]]*)\]")
WORD = re.compile(r"[\w-]*")
DIRECTIVES = ("ignore", "skip-file")
MOST_CODES = 100
"""A comment with more is none: there are not that many rules."""
CORRECT_FORM = "write `# streamlint: ignore[SL101] reason`, with the code or the name that is reported"
_LAYOUT = frozenset({tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER})


@frozen()
class Comment:
    """A ``# streamlint:`` comment as it stands in the text."""

    span: Span
    text: str
    directive: str
    """What follows ``streamlint:``."""
    statement: tuple[int, int]
    """First and last line of the code it belongs to."""
    at_top: bool
    """Whether only comments and a docstring stand before it."""
    before: str
    """What stands before it in its line."""
    codes: tuple[str, ...]
    """The codes that it names, by code or by the name of the rule; what means no rule is as written."""

    def covers(self, finding: Finding) -> bool:
        place = finding.primary
        first, last = self.statement
        return place.line <= self.span.line <= place.end_line or first <= place.line <= last


@frozen()
class FileComments:
    """The comments of one file, and what is wrong with them."""

    comments: tuple[Comment, ...] = ()
    invalid: tuple[Finding, ...] = ()
    skip_file: bool = False


def read_comments(path: str, content: bytes, known: Mapping[str, str]) -> FileComments:
    """Find the comments of a file; ``known`` has the code for each code and name there is.

    Text that is not Python has none.
    """
    if not may_hold_comments(content):
        return FileComments()
    try:
        comments, _ = scanned(path, text_of(content), known)
    except (
        UnreadableError,
        tokenize.TokenError,
        SyntaxError,
        ValueError,
    ):  # a NUL, on some Pythons
        return FileComments()
    seen: Counter[str] = Counter()
    invalid = [
        _about(INVALID_SUPPRESSION, comment, *problem, seen)
        for comment in comments
        for problem in _problems(comment, known)
    ]
    skip_file = any(each.at_top and _word(each) == "skip-file" for each in comments)
    return FileComments(comments, tuple(invalid), skip_file)


def apply(
    findings: Iterable[Finding],
    files: Mapping[str, FileComments],
    analyzed: AbstractSet[str],
    active: Callable[[str], AbstractSet[str]],
) -> list[Finding]:
    """Drop what comments suppress, and add what is to be said about the comments themselves.

    ``files`` maps a path to its comments. Only comments in ``analyzed`` files are judged, and only
    their codes that are ``active`` for the path: a rule that is off finds nothing to suppress.
    """
    kept: list[Finding] = []
    used: set[tuple[Comment, str]] = set()
    for finding in findings:
        here = files.get(finding.primary.path, FileComments())
        hits = {
            (comment, finding.code)
            for comment in here.comments
            if finding.code in comment.codes and comment.covers(finding)
        }
        used |= hits
        if not hits and not here.skip_file:
            kept.append(finding)
    for path, here in files.items():
        if path in analyzed and not here.skip_file:
            kept += here.invalid
            kept += _unused(here.comments, used, active(path))
    return kept


def _unused(
    comments: Iterable[Comment], used: AbstractSet[tuple[Comment, str]], active: AbstractSet[str]
) -> Iterator[Finding]:
    seen: Counter[str] = Counter()
    for comment in comments:
        if UNUSED_SUPPRESSION.code in comment.codes:
            continue
        for code in comment.codes:
            if code not in active or (comment, code) in used:
                continue
            advice = "remove the comment" if len(comment.codes) == 1 else f"remove {code} from the comment"
            message = f"the comment suppresses {code}, which is not reported here"
            found = _about(UNUSED_SUPPRESSION, comment, message, advice, seen)
            fixes = () if comment.span.path.endswith(notebook.SUFFIX) else _without(comment, code, advice)
            yield replace(found, fixes=fixes)


def _without(comment: Comment, code: str, advice: str) -> tuple[Fix, ...]:
    """Return the comment without a code, or nothing of it if that was the only one; others behind it stay."""
    here = comment.span
    title = advice[0].upper() + advice[1:]
    if len(comment.codes) == 1:
        other = OTHER.search(comment.text)
        if other is not None:
            place = Span(here.path, here.line, here.col, here.line, here.col + other.start() + 1)
            return (Fix(title, (Edit(place, ""),), safe=True),)
        alone = not comment.before.strip()
        start = 0 if alone else len(comment.before.rstrip())
        end = (here.line + 1, 0) if alone else (here.end_line, here.end_col)
        return (Fix(title, (Edit(Span(here.path, here.line, start, *end), ""),), safe=True),)
    ignore = IGNORE.search(comment.text)
    if ignore is None:
        return ()
    named = ignore["codes"].split(",")
    if len(named) != len(comment.codes):  # one is there twice: by its code and by its name
        return ()
    left = ", ".join(each.strip() for each, known in zip(named, comment.codes, strict=True) if known != code)
    first = here.col + ignore.start("codes")
    place = Span(here.path, here.line, first, here.line, first + len(ignore["codes"]))
    return (Fix(title, (Edit(place, left),), safe=True),)


def _problems(comment: Comment, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield a message and its help for all that is wrong with a comment."""
    word = _word(comment)
    if word == "skip-file":
        if not comment.at_top:
            yield "`skip-file` has no effect after the first statement", "move it to the top of the file"
    elif word != "ignore":
        said = f"`{word}`" if word else "nothing"
        yield f"a suppression comment that says {said}{suggestion(word, DIRECTIVES)}", CORRECT_FORM
    elif IGNORE.match(comment.directive) is None:
        missing = "`]`" if "[" in comment.directive else "its codes"
        yield f"a suppression comment without {missing} has no effect", CORRECT_FORM
    elif comment.directive.count(",") >= MOST_CODES:
        yield f"a suppression comment of more than {MOST_CODES} codes has no effect", CORRECT_FORM
    elif not comment.codes:
        yield "a suppression comment without codes has no effect", CORRECT_FORM
    else:
        for code in comment.codes:
            if code not in known:
                yield f"there is no rule `{code}`{nearest_rule(code, known)}", CORRECT_FORM


def _word(comment: Comment) -> str:
    match = WORD.match(comment.directive)
    return match[0] if match else ""


def _about(rule: CommentRule, comment: Comment, message: str, fix: str, seen: Counter[str]) -> Finding:
    """Make a finding; ``seen`` counts equal ones in the file, to tell their fingerprints apart."""
    import hashlib

    same = "\0".join((rule.code, comment.span.path, comment.text, message))
    identity = f"{same}\0{seen[same]}"
    seen[same] += 1
    return Finding(
        code=rule.code,
        name=rule.name,
        message=message,
        help=fix,
        confidence=Confidence.CERTAIN,
        severity=rule.severity,
        primary=comment.span,
        label="",
        function="",
        fingerprint=hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16],
    )


@frozen()
class _Place:
    """Where a marked comment stands."""

    token: tokenize.TokenInfo
    statement: int
    """Index of the statement it is in, or else of the next one."""
    inside: bool
    at_top: bool


@frozen()
class _Layout:
    """Where the statements of a text are, and its marked comments."""

    places: tuple[_Place, ...]
    statements: tuple[tuple[int, int], ...]
    """First and last line of each."""
    code_rows: tuple[int, ...]


def scanned(
    path: str, text: str, known: Mapping[str, str]
) -> tuple[tuple[Comment, ...], tuple[tuple[int, int], ...]]:
    """Return the comments, and the first and last line of each statement; of a compound one, of its header.

    Raises what ``tokenize`` raises on text that is not Python.
    """
    layout = _layout(text)
    comments = (_comment(path, place, _belongs_to(place, layout), known) for place in layout.places)
    return tuple(comments), layout.statements


def _layout(text: str) -> _Layout:
    """Read a text. tokenize tells strings from comments: an example in a docstring is no suppression."""
    places: list[_Place] = []
    found: list[tuple[int, int]] = []
    code_rows: list[int] = []
    first: int | None = None  # first line of the statement being read
    at_top = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row = token.start[0]
        if token.type == tokenize.COMMENT:
            if MARK.search(token.string):
                places.append(_Place(token, len(found), first is not None, at_top))
        elif token.type == tokenize.NEWLINE and first is not None:
            found.append((first, row))
            first = None
        elif token.type not in _LAYOUT:
            first = row if first is None else first
            code_rows.append(row)
            at_top = at_top and token.type == tokenize.STRING
    return _Layout(tuple(places), tuple(found), tuple(code_rows))


def _belongs_to(place: _Place, layout: _Layout) -> tuple[int, int]:
    row, col = place.token.start
    alone = not place.token.line[:col].strip()
    if alone and place.inside:  # inside brackets it stands above a line, not above a statement
        index = bisect_right(layout.code_rows, row)
        below = layout.code_rows[index] if index < len(layout.code_rows) else row
        return below, below
    if place.statement < len(layout.statements):
        statement = layout.statements[place.statement]
        if alone or row in statement:
            return statement
    return row, row


def _comment(path: str, place: _Place, statement: tuple[int, int], known: Mapping[str, str]) -> Comment:
    token = place.token
    mark = MARK.search(token.string)
    assert mark is not None, "only marked comments are collected"
    start = token.start[1] + mark.start()
    span = Span(path, token.start[0], start, token.end[0], token.end[1])
    directive = mark["directive"].strip()
    codes = tuple(dict.fromkeys(known.get(word, word) for word in _named(directive)))
    before = token.line[:start]
    return Comment(span, mark[0].rstrip(), directive, statement, place.at_top, before, codes)


def _named(directive: str) -> Iterator[str]:
    ignore = IGNORE.match(directive)
    if ignore is not None and ignore["codes"].count(",") < MOST_CODES:
        yield from filter(None, map(str.strip, ignore["codes"].split(",")))
