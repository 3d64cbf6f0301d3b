"""Text for people (``full``) and for editors and scripts (``concise``)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from streamlint.characters import plain
from streamlint.finding import OF_FIXES, Confidence, Seen
from streamlint.output.frame import Mark, frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.finding import Finding
    from streamlint.output.outcome import Outcome
    from streamlint.output.style import Style


def concise(outcome: Outcome, style: Style) -> str:
    """Return one line a finding: ``path:line:col: CODE [confidence] message``."""
    return "".join(
        f"{style.strong(plain(finding.primary.path))}:{finding.primary.line}:{finding.primary.col + 1}: "
        f"{headline(finding, style)}\n"
        for finding in outcome.findings
    )


def full(outcome: Outcome, style: Style) -> str:
    """Return each finding with its source and its help."""
    return "".join("\n".join(_block(finding, outcome, style)) + "\n\n" for finding in outcome.findings)


def headline(finding: Finding, style: Style) -> str:
    """``SL101 [certain] ...``."""
    code = style.severity(finding.code, finding.severity)
    confidence = style.faint(f"[{finding.confidence.value}]")
    seen = "" if finding.seen is Seen.PREDICTED else style.faint(f" ({finding.seen.value})")
    return f"{code} {confidence} {style.strong(plain(finding.message))}{seen}"


def _block(finding: Finding, outcome: Outcome, style: Style) -> Iterator[str]:
    yield headline(finding, style)
    marks = [Mark(finding.primary, finding.label, finding.severity)]
    marks += [Mark(related.span, related.message, None) for related in finding.elsewhere]
    by_file: dict[str, list[Mark]] = {}
    for mark in marks:
        by_file.setdefault(mark.span.path, []).append(mark)
    gutter = len(str(max(mark.span.end_line + 1 for mark in marks)))
    bar = style.gutter(f"{'':{gutter}} |")
    arrow = "-->"
    for path, here in by_file.items():
        if arrow == ":::":
            yield bar
        yield f"{'':{gutter}}{style.gutter(arrow)} {plain(str(here[0].span))}"
        yield from frame(here, outcome.sources.lines(path), gutter, style)
        arrow = ":::"
    if finding.advice:
        first, *more = finding.advice.splitlines()
        yield bar
        yield f"{style.gutter(f'{chr(32):{gutter}} =')} {style.help('help:')} {plain(first)}"
        yield from (f"{'':{gutter}}         {plain(line)}" for line in more)


def told(finding: Finding) -> list[str]:
    """Return a finding without its source, in lines: the message, the other places, the help."""
    lines = [f"{finding.message} [{finding.confidence.value}]"]
    lines += [f"{related.span}: {related.message}" for related in finding.elsewhere]
    return [*lines, f"help: {finding.advice}"] if finding.advice else lines


def summary(outcome: Outcome, style: Style) -> str:
    """Return the closing lines: how much was found, in how much code."""
    files = counted(outcome.files if outcome.stop is None else outcome.stop.done, "file")
    looked = f"{files}, {outcome.analyzed} with GPU streams, in {outcome.seconds:.2f} s"
    if outcome.findings:
        levels = Counter(finding.confidence for finding in outcome.findings)
        parts = [f"{levels[level]} {level.value}" for level in reversed(Confidence) if levels[level]]
        found = counted(len(outcome.findings), "finding")
        lines = [f"{style.strong(f'Found {found}')} ({', '.join(parts)}) in {looked}."]
        codes = sorted({finding.code for finding in outcome.findings})
        rule = f"`streamlint explain {codes[0]}` tells more about a rule"
        lines.append(f"{rule}, `streamlint explain FILE:LINE` about a finding.")
        fixable = sum(any(fix.safe for fix in finding.fixes) for finding in outcome.findings)
        if fixable:
            lines.append(f"{fixable} of them can be mended by `--fix`; `--diff` shows how.")
    else:
        lines = [f"{style.strong('No findings')} in {looked}."]
    if outcome.known:
        lines.append(f"{counted(outcome.known, 'known finding')} hidden by the baseline.")
    if outcome.stale:
        known = "1 entry" if len(outcome.stale) == 1 else f"{len(outcome.stale)} entries"
        lines.append(f"{known} of the baseline found no more; `--prune-baseline` drops what is gone.")
    if outcome.unchanged:
        lines.append(
            f"{counted(outcome.unchanged, 'finding')} hidden: no place of them is in a changed line."
        )
    if entries := outcome.statistics.cut + outcome.statistics.skipped:
        names = _left_out(outcome)
        cut = max(entries, len(names))  # one that is run may come by several that are left
        were = "function was" if cut == 1 else "functions were"
        lines.append(
            f"{cut} {were} too large, too deep or too widely called to follow to the end{_first(names)}."
        )
    if outcome.errors:
        lines.append(f"{counted(len(outcome.errors), 'file')} could not be analyzed; see above.")
    if outcome.stop is not None:
        lines.append(f"This is not all: {outcome.stop.message}.")
    return "\n".join(lines) + "\n"


def observation(outcome: Outcome, events: int, blind: str, style: Style, processes: int = 1) -> str:
    """Return the closing lines of an observed run. ``blind``: why only some libraries were seen."""
    unseen = f"\nOnly PyTorch and cuda-python were seen: {plain(blind)}." if blind else ""
    if not events:
        why = "" if blind else ": the program used no GPU"
        return f"Nothing was observed{why}.{unseen}"
    found = counted(len(outcome.findings), "finding") if outcome.findings else "No findings"
    only = sum(finding.seen is Seen.OBSERVED for finding in outcome.findings)
    aside = f", {only} of them seen only at run time," if only else ""
    where = f" of {processes} processes" if processes > 1 else ""
    return f"{style.strong(found)}{aside} in {counted(events, 'observed event')}{where}.{unseen}"


def statistics(outcome: Outcome) -> str:
    """Return the number of findings of each rule, and how exactly the code could be followed."""
    counts = Counter((finding.code, finding.name) for finding in outcome.findings)
    most_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows = [f"{count:>6}  {code}  {name}" for (code, name), count in most_first]
    part = outcome.statistics
    rows.append(
        f"Functions with GPU streams: {part.exact} followed exactly, "
        f"{part.cut} cut at a budget, {part.skipped} skipped."
    )
    kinds: dict[tuple[str, str], list[str]] = {}
    for left in part.left_out:
        times = f" ({left.count} times)" if left.count > 1 else ""
        kinds.setdefault((left.path, left.function), []).append(f"{left.what}{times}")
    rows += [
        f"  {plain(path)}: {plain(name)}: {', '.join(what)} left out" for (path, name), what in kinds.items()
    ]
    return "\n".join(rows) + "\n"


def _left_out(outcome: Outcome) -> list[str]:
    """The functions that were cut."""
    return list(
        dict.fromkeys(
            f"{left.function} in {left.path}" for left in outcome.statistics.left_out if left.what != OF_FIXES
        )
    )


def _first(names: list[str]) -> str:
    """``--statistics`` names all of them."""
    first = ", ".join(plain(name) for name in names[:3])
    return f" ({first}{', ...' if len(names) > 3 else ''})" if first else ""


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
