"""What is found in the function that is being edited, before all of its file is analyzed again.

A large file takes seconds, most of them for functions that nobody has touched. Here only entries are run that
came by the edited one, and the other findings are those of the last time, at their lines of now. The
whole file is analyzed after it, and what that gives takes the place of this.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.files import decoded, lines_of
from streamlint.finding import Report
from streamlint.frozen import frozen, replace
from streamlint.judging.merging import merge
from streamlint.run import check, collector
from streamlint.run.session import Session, collected
from streamlint.run.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from streamlint.finding import Finding, Pair
    from streamlint.run.warm import Ran
    from streamlint.source import Span

SECONDS = 0.1
"""What the entries took the last time that are run again; a helper may lead to all entries of a file."""


@frozen()
class Whole:
    """What a whole file gave when it was analyzed last, before comments and the selection of rules."""

    text: bytes
    findings: tuple[Finding, ...]
    ran: tuple[Ran, ...]


@frozen()
class _Edit:
    """The lines in which two texts differ: those behind ``top`` and before the last ``below``."""

    top: int
    below: int
    before: int
    after: int
    """How many lines the texts have."""

    @staticmethod
    def between(old: Sequence[str], new: Sequence[str]) -> _Edit:
        shorter = min(len(old), len(new))
        top = next((row for row in range(shorter) if old[row] != new[row]), shorter)
        below = next((row for row in range(shorter - top) if old[-1 - row] != new[-1 - row]), shorter - top)
        return _Edit(top, below, len(old), len(new))

    def is_in(self, function: ir.FunctionDecl) -> bool:
        return function.span.end_line <= self.top and self.after - self.below <= function.end_line

    def moved(self, span: Span, path: str) -> Span | None:
        """Where a place of the old text is in the new one; None in the lines that were edited."""
        if span.path != path or span.end_line <= self.top:
            return span
        if span.line <= self.before - self.below:
            return None
        lines = self.after - self.before
        return replace(span, line=span.line + lines, end_line=span.end_line + lines)


def first(request: check.Request, path: Path, last: Whole) -> Report | None:
    """What is found by now; None where the edit is not within one function that can be read."""
    files, overlay = check.files_around(request, (path,)), request.texts.overlay
    tree = Tree(request.root, files, overlay, warm=request.warm)
    session = Session(request.root, files, check.settings_of(request), overlay, tree=tree)
    module, text = session.module(path), tree.text(path)
    if module is None or text is None:
        return None
    edit = _Edit.between(lines_of(decoded(last.text)), lines_of(text))
    edited = [decl for decl in ir.all_functions(module) if edit.is_in(decl)]
    if len(edited) != 1:
        return None
    again = _closest(last.ran, module.name, edited[0].qualname)
    with collector.by_hand():
        result = collected(session, path, again)
    stay = {pair for each in last.ran if each.label not in again for pair in each.pairs}
    found = (*result.findings, *_moved(last.findings, stay, edit, module.path))
    unique = {finding.pair: finding for finding in reversed(found)}
    return Report(merge(unique.values(), tree.statement), result.errors, 1, 1)


def _closest(ran: Sequence[Ran], module: str, function: str) -> frozenset[str]:
    """The entries that came by a function, those first that came by few others, as long as they are quick."""
    name = f"{module}:{function}"
    by_it = sorted((each for each in ran if name in each.covered), key=lambda each: len(each.covered))
    spent = accumulate(each.seconds for each in by_it)
    quick = (each for each, until in zip(by_it, spent, strict=True) if until <= SECONDS or each is by_it[0])
    return frozenset({function, *(each.label for each in quick)})


def _moved(findings: Sequence[Finding], stay: set[Pair], edit: _Edit, path: str) -> Iterator[Finding]:
    """The findings of entries that were not run again, without their fixes, which tell other lines."""
    for finding in findings:
        primary = edit.moved(finding.primary, path)
        earlier = finding.earlier and edit.moved(finding.earlier, path)
        places = [edit.moved(each.span, path) for each in finding.related]
        lost = primary is None or (earlier is None) != (finding.earlier is None)
        if finding.pair not in stay or lost or primary is None:
            continue
        yield replace(
            finding,
            primary=primary,
            earlier=earlier,
            related=tuple(
                replace(each, span=place)
                for each, place in zip(finding.related, places, strict=True)
                if place is not None
            ),
            follows=(),
            edge="",
            fork="",
            fixes=(),
        )
