"""``--fix`` and ``--diff``: the fixes of what is found, each shown to mend what it is for before it is kept.

A fix is worked out from one path. So the text with it is analyzed again: what it was for must be gone, and
nothing may have come. One that does not hold that is left out, and the others are tried without it.
"""

from __future__ import annotations

import io
import os
import re
import time
import tokenize
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from streamlint import notebook
from streamlint.files import UnreadableError, decoded, lines_of, read
from streamlint.finding import OF_FIXES, SourceError
from streamlint.fixes import edits
from streamlint.frozen import frozen, replace
from streamlint.output.terminal import save
from streamlint.parsing import parses
from streamlint.run import check
from streamlint.run.warm import Warm
from streamlint.settings.catalog import UNUSED_SUPPRESSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from streamlint.finding import Finding, Fix, Statistics
    from streamlint.output.outcome import Outcome
    from streamlint.source import Span

    Identity: TypeAlias = "tuple[str, str, str, str, str]"

MOST_ROUNDS = 20
"""A fix may bring the next finding to light, and two fixes at one place take two rounds."""
MOST_ALONG = 3
"""Fixes that one after the other mend what the one before has made surer."""
MOST_RUNS = 5
"""Times that all is looked at: a file may be mended because of what was mended in another."""
_GENERATED = re.compile(r"^\s*#.*(@generated\b|\bdo not (edit|modify)\b)", re.IGNORECASE | re.MULTILINE)
_TOP = 2_000
"""Characters at the top of a file in which it says that it is generated."""


@dataclass(slots=True)
class _File:
    """A file before and after."""

    path: str
    before: bytes
    text: str
    encoding: str
    after: str

    @property
    def content(self) -> bytes:
        return self.after.encode(self.encoding)


@frozen()
class Mended:
    """What came of it."""

    outcome: Outcome
    """What is left."""
    errors: tuple[SourceError, ...]
    """Files that have fixes and were not changed."""
    diff: str
    summary: str


@dataclass(slots=True)
class _Fixing:
    """What is mended so far."""

    request: check.Request
    unsafe: bool
    begun: int
    outcome: Outcome
    warm: Warm = field(default_factory=Warm)
    """What one look keeps for the next, as long as no file is written."""
    files: dict[str, _File] = field(default_factory=dict)
    mended: Counter[str] = field(default_factory=Counter)
    """Findings by rule."""
    unmended: Counter[Identity] = field(init=False)
    """What was shown at first, less what is mended of it."""
    behind: int = 0
    """Those of the mended that were not shown at first: others hid them, or made them surer."""
    refused: set[Identity] = field(default_factory=set)
    """Findings whose fix did not hold what it promised."""
    left_out: Counter[str] = field(default_factory=Counter)
    """By file: findings for which no fix was looked for, when it was last looked at."""
    again: int = 0
    """Findings that could still be mended when the rounds were over."""
    errors: list[SourceError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.unmended = _shown(self)

    def is_mended(self, finding: Finding, which: Identity) -> None:
        self.mended[finding.code] += 1
        self.behind += not self.unmended[which]
        self.unmended -= Counter([which])


def run(
    request: check.Request,
    *,
    unsafe: bool,
    only_diff: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Mended:
    """Looks for problems and mends those that have a fix; with ``only_diff`` no file is changed.

    What is found is kept at least for as long as this takes: what was found in a text with fixes is not
    looked for again when it is saved, nor is what rests on no file that was changed.

    Raises UserError if a file cannot be written.
    """
    if request.cache is None:
        with TemporaryDirectory(prefix="streamlint-") as folder:
            kept = replace(request, cache=Path(folder))
            return _run(kept, unsafe=unsafe, only_diff=only_diff, progress=progress)
    return _run(request, unsafe=unsafe, only_diff=only_diff, progress=progress)


def _run(
    request: check.Request,
    *,
    unsafe: bool,
    only_diff: bool,
    progress: Callable[[int, int], None] | None,
) -> Mended:
    request = replace(request, fixing=True)
    fixing = _Fixing(request, unsafe, time.time_ns(), check.run(request, progress))
    first = _shown(fixing)
    for _ in range(MOST_RUNS):
        changed = _mended(fixing)
        if only_diff:
            patch = "".join(edits.diff(file.path, file.text, file.after) for file in changed)
            return Mended(fixing.outcome, tuple(fixing.errors), patch, _summary(fixing, "Would fix"))
        if not _saved(fixing, changed):
            break
        # What stands in other files may be shown only now.
        fixing.files.clear()
        fixing.warm = Warm()
        fixing.begun, fixing.outcome = time.time_ns(), check.run(request)
    come = sum((_shown(fixing) - first).values())
    return Mended(_without_refused(fixing), tuple(fixing.errors), "", _summary(fixing, "Fixed", come))


def _mended(fixing: _Fixing) -> list[_File]:
    """Mends the files in which something is found that has a fix; those that are not as they were."""
    fixing.left_out, fixing.again = _without_fixes(fixing.outcome.statistics), 0
    fixing.errors.clear()
    if fixing.outcome.stop is None:
        todo = [each for each in fixing.outcome.findings if _identity(fixing, each) not in fixing.refused]
        for path in sorted({where for each in todo for where in _edited(fixing, each)}):
            _mend(fixing, path)
    return [file for _, file in sorted(fixing.files.items()) if file.after != file.text]


def _saved(fixing: _Fixing, changed: Sequence[_File]) -> bool:
    """Writes the files, and tells whether there were any."""
    for file in changed:
        if _is_unchanged(fixing.request.root, file):
            save(fixing.request.root / file.path, file.content)
        else:
            fixing.errors.append(SourceError(file.path, 0, "not fixed: it was changed in the meantime"))
    return bool(changed)


def _shown(fixing: _Fixing) -> Counter[Identity]:
    return Counter(_identity(fixing, finding) for finding in fixing.outcome.findings)


def _without_refused(fixing: _Fixing) -> Outcome:
    """What is left, without fixes of which it is known that they do not hold: nobody is to try them again."""
    left = (
        replace(each, fixes=()) if _identity(fixing, each) in fixing.refused else each
        for each in fixing.outcome.findings
    )
    return replace(fixing.outcome, findings=tuple(left))


def _summary(fixing: _Fixing, verb: str, come: int = 0) -> str:
    """``come``: findings that were not shown before."""
    count = sum(fixing.mended.values())
    which = ", ".join(f"{code} {number}" for code, number in sorted(fixing.mended.items()))
    behind = f": {count - fixing.behind} shown, {fixing.behind} behind them" if fixing.behind else ""
    said = f"{verb} {count} finding{'' if count == 1 else 's'}{f' ({which})' if which else ''}{behind}."
    others = sum(
        any(not fix.safe for fix in each.fixes) and not any(fix.safe for fix in each.fixes)
        for each in fixing.outcome.findings
    )
    more = f" {others} more with `--unsafe-fixes`." if others and not fixing.unsafe else ""
    refused = sum(_identity(fixing, each) in fixing.refused for each in fixing.outcome.findings)
    kept = f" {refused} left alone: their fix would not have held." if refused else ""
    left = sum(fixing.left_out.values())
    cut = f" For {left} no fix was looked for: there is too much in one file." if left else ""
    new = f" {come} came to light that the others had hidden." if come else ""
    again = f" {fixing.again} more if it is run again." if fixing.again else ""
    return f"{said}{new}{more}{kept}{again}{cut}\n"


def _without_fixes(numbers: Statistics) -> Counter[str]:
    """By file: findings for which no fix was looked for."""
    found: Counter[str] = Counter()
    for each in numbers.left_out:
        if each.what == OF_FIXES:
            found[each.path] += each.count
    return found


def _fix(fixing: _Fixing, finding: Finding) -> Fix | None:
    return next((fix for fix in finding.fixes if fix.safe or fixing.unsafe), None)


def _edited(fixing: _Fixing, finding: Finding) -> set[str]:
    fix = _fix(fixing, finding)
    return {edit.span.path for edit in fix.edits} if fix is not None else set()


def _mend(fixing: _Fixing, path: str) -> None:
    """Applies the fixes that change one file, round by round."""
    file = _opened(fixing, path)
    if file is None:
        return
    fixing.files[path] = file
    findings: Sequence[Finding] = fixing.outcome.findings
    known = _looked_at(fixing, findings, path)
    singly = False
    for _ in range(MOST_ROUNDS):
        todo = _chosen(fixing, known.shown, path)
        if not todo:
            return
        if singly:
            todo = todo[:1]
        before = file.after
        after = _tried(fixing, file, todo, known)
        if after is not None:
            known, singly = after, False
            fixing.left_out[path] = after.left_out[path]
            continue
        file.after = before
        if len(todo) == 1:
            fixing.refused.add(known.identity(todo[0][0]))
        singly = len(todo) > 1
    fixing.again += len(_chosen(fixing, known.shown, path))


def _tried(fixing: _Fixing, file: _File, todo: Sequence[tuple[Finding, Fix]], known: _Known) -> _Known | None:
    """What is found with some fixes, and those of what they make worse; None if they do not hold.

    Where ``y + 1`` waits for ``side``, this was to be in order: a wait missing before it is likely then.
    """
    before, mended = known, [(finding, known.identity(finding)) for finding, _ in todo]
    for _ in range(MOST_ALONG):
        file.after = edits.applied(file.after, [fix for _, fix in todo])
        after = _looked_at(fixing, [finding for finding, _ in todo], file.path)
        gone = parses(file.after) and _are_gone([finding for finding, _ in todo], before, after)
        if not gone or after.errors > known.errors:
            return None
        come = [each for each in after.shown if _has_come(each, known, after)]
        if not come:
            for finding, which in mended:
                fixing.is_mended(finding, which)
            return after
        todo = _chosen(fixing, come, file.path)
        if len(todo) < len(come):
            return None
        before, mended = after, [*mended, *((finding, after.identity(finding)) for finding, _ in todo)]
    return None


def _chosen(fixing: _Fixing, findings: Sequence[Finding], path: str) -> list[tuple[Finding, Fix]]:
    with_fix = [
        (finding, fix)
        for finding in findings
        if (fix := _fix(fixing, finding)) is not None
        and _edited(fixing, finding) == {path}
        and _identity(fixing, finding) not in fixing.refused
    ]
    together = edits.compatible(fix for _, fix in with_fix)
    return [(finding, fix) for finding, fix in with_fix if any(fix is each for each in together)]


# ----------------------------------------------------------------------------- before and after


@frozen()
class _Known:
    """What is found in some files, with the texts as they are now."""

    shown: tuple[Finding, ...]
    identities: dict[int, Identity]
    all: Counter[Identity]
    """All that was found, shown or not."""
    sure: Counter[Identity]
    """Those that are as sure as what is shown, whether others hide them or not."""
    errors: int
    left_out: Counter[str]
    """By file: findings for which no fix was looked for."""

    def identity(self, finding: Finding) -> Identity:
        return self.identities[id(finding)]


def _looked_at(fixing: _Fixing, findings: Iterable[Finding], path: str) -> _Known:
    """Analyzes the file, and those in which findings are that are mended there."""
    paths = {path} | {each.primary.path for each in findings if path in _edited(fixing, each)}
    root = fixing.request.root
    overlay = {root / each: file.content for each, file in fixing.files.items()}
    request = replace(
        fixing.request,
        paths=tuple(root / each for each in sorted(paths)),
        texts=check.Texts({**fixing.request.texts.overlay, **overlay}),
        warm=fixing.warm,
    )
    report, focus, stop = check.analyzed(request)
    if stop is not None:
        raise KeyboardInterrupt
    shown = check.outcome(request, report, focus, 0.0, request.texts.overlay).findings
    every = {id(finding): _identity(fixing, finding) for finding in (*report.findings, *shown)}
    least = request.min_confidence.rank
    sure = {id(each) for each in (*report.findings, *shown) if each.confidence.rank >= least}
    return _Known(
        shown,
        every,
        Counter(every.values()),
        Counter(every[each] for each in sure),
        len(report.errors),
        _without_fixes(report.statistics),
    )


def _identity(fixing: _Fixing, finding: Finding) -> Identity:
    """What a finding is about, wherever its lines are now."""
    if finding.code == UNUSED_SUPPRESSION.code:
        # The comment itself is changed: what it says of one code stays the same.
        return finding.code, finding.primary.path, "", finding.message, ""
    one, other = _text_at(fixing, finding.primary), _text_at(fixing, finding.earlier)
    return finding.code, finding.primary.path, finding.function, one, other


def _text_at(fixing: _Fixing, span: Span | None) -> str:
    if span is None:
        return ""
    file = fixing.files.get(span.path)
    lines = fixing.outcome.sources.lines(span.path) if file is None else lines_of(file.after)
    return " ".join(lines[span.line - 1 : span.end_line]).strip()


def _are_gone(mended: Sequence[Finding], before: _Known, after: _Known) -> bool:
    """Whether all that was to be mended is gone."""
    return all(after.all[each] < before.all[each] for each in map(before.identity, mended))


def _has_come(finding: Finding, before: _Known, after: _Known) -> bool:
    """Whether a finding is shown that was not found before, or was not as sure."""
    which = after.identity(finding)
    shown = Counter(after.identity(each) for each in after.shown)
    return shown[which] > before.sure[which]


# ----------------------------------------------------------------------------- files


def _opened(fixing: _Fixing, path: str) -> _File | None:
    """A file that may be changed; what is in the way is noted as an error."""
    place = fixing.request.root / path
    try:
        if place.suffix == notebook.SUFFIX:
            raise UnreadableError("notebooks are not changed")
        if os.stat(place).st_mtime_ns >= fixing.begun:  # noqa: PTH116
            raise UnreadableError("not fixed: it was changed while it was analyzed")
        content = read(place)
        text = decoded(content)
        if _GENERATED.search(text[:_TOP]):
            raise UnreadableError("not fixed: it says that it is generated")
        if not os.access(place, os.W_OK):
            raise UnreadableError("not fixed: it cannot be written")
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    except UnreadableError as error:
        fixing.errors.append(SourceError(path, 0, str(error)))
        return None
    except OSError as error:
        fixing.errors.append(SourceError(path, 0, f"not fixed: {error.strerror or error}"))
        return None
    return _File(path, content, text, encoding, text)


def _is_unchanged(root: Path, file: _File) -> bool:
    """Whether a file still holds what was analyzed."""
    try:
        return read(root / file.path) == file.before
    except UnreadableError:
        return False
