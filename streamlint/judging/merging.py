"""Findings of many paths and files: one for each rule and pair of places, and the one to show first."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from streamlint.finding import standing_alone
from streamlint.frozen import replace
from streamlint.rules import RULES
from streamlint.rules.base import About

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streamlint.finding import Finding, Pair
    from streamlint.source import Span


def merge(found: Iterable[Finding], statement: Callable[[Span], str]) -> tuple[Finding, ...]:
    """One finding per rule and pair of places, the most certain one, with fingerprints, sorted."""
    best: dict[Pair, Finding] = {}
    for finding in found:
        known = best.get(finding.pair)
        if known is None:
            best[finding.pair] = finding
            continue
        # What is less sure on another path may follow there from what is surer.
        surest = max(known.confidence.rank, finding.confidence.rank)
        alike = [one for one in (known, finding) if one.confidence.rank == surest]
        causes = dict.fromkeys(cause for one in alike for cause in one.follows)
        best[finding.pair] = replace(alike[0], follows=tuple(causes))
    best = {
        pair: replace(one, follows=tuple(cause for cause in one.follows if cause != pair))
        for pair, one in best.items()
    }
    _follow_causes(best)
    _follow_alike(best, _of_callers)
    _follow_alone(best, lambda finding: finding.edge)
    _follow_alone(best, lambda finding: finding.fork)
    _follow_alone(best, _words)
    counted: dict[str, int] = {}
    out: list[Finding] = []
    for finding in sorted(best.values(), key=lambda f: (f.sort_key, f.pair[2] or f.primary)):
        other = statement(finding.earlier) if finding.earlier is not None else ""
        text = (finding.code, finding.primary.path, finding.function, statement(finding.primary), other)
        base = "\0".join(text)
        ordinal = counted.get(base, 0)
        counted[base] = ordinal + 1
        out.append(
            replace(
                finding,
                fingerprint=hashlib.sha256(
                    f"{base}\0{ordinal}".encode("utf-8", "surrogateescape")
                ).hexdigest()[:20],
            )
        )
    return tuple(out)


_CAUSES = frozenset(rule.code for rule in RULES if rule.about is About.CAUSE)
_SYMPTOMS = frozenset(rule.code for rule in RULES if rule.about is About.RACE)


def _follow_causes(found: dict[Pair, Finding]) -> None:
    """Makes a race follow the finding that explains it on another path.

    With ``if on_gpu: event.wait()`` before a host read, the path without the branch shows SL201 and the
    path with it SL204, at the same two places: one mistake.
    """
    causes: dict[tuple[Span, Span | None], Pair] = {
        (primary, other): (code, primary, other) for code, primary, other in found if code in _CAUSES
    }
    for (code, primary, other), finding in found.items():
        cause = causes.get((primary, other)) if code in _SYMPTOMS else None
        if cause is not None and cause not in finding.follows:
            found[code, primary, other] = replace(finding, follows=(*finding.follows, cause))


def _follow_alike(found: dict[Pair, Finding], of: Callable[[Finding], object]) -> None:
    """Makes the findings that have something in common follow the surest of them.

    ``offload()`` uses a tensor too early that may be pending when it is called; so does ``offload_all()``,
    which calls it.
    """
    groups: dict[object, list[Finding]] = {}
    for finding in found.values():
        key = of(finding)
        if key is not None:
            groups.setdefault(key, []).append(finding)
    for group in groups.values():
        # They are merged for each file and then for all files: the order that they come in must not decide.
        first, *rest = sorted(group, key=_surest)
        pairs = {finding.pair for finding in group}
        for finding in rest:
            causes = (*(cause for cause in finding.follows if cause not in pairs), first.pair)
            found[finding.pair] = replace(finding, follows=causes)
        causes = tuple(cause for cause in first.follows if cause not in pairs)
        found[first.pair] = replace(first, follows=causes)


def _follow_alone(found: dict[Pair, Finding], of: Callable[[Finding], str]) -> None:
    """The same of the findings that stand for themselves, by the order that they miss.

    A helper reads on a stream of its own what two callers write: one missing wait. What follows from another
    finding is mended where that one is, by the same wait, but elsewhere.
    """
    alone = standing_alone(tuple(found.values()))
    _follow_alike(found, lambda finding: of(finding) or None if finding.pair in alone else None)


def mended_alike(found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings; in a function those follow the surest that the same lines at one place would mend.

    A method fills eight buffers on one stream, and another launches three graphs that read them on a second
    one: one wait at the end of the first. Two functions that read too early are told of both: it may be they
    that should wait. So are a read by the host and memory that is given back, though one wait would do.
    """
    by_pair = {finding.pair: finding for finding in found}
    _follow_alone(by_pair, _insertion)
    return tuple(by_pair[finding.pair] for finding in found)


def _insertion(finding: Finding) -> str:
    edits = finding.fixes[0].edits if finding.fixes else ()
    if not edits or not all(edit.is_insertion for edit in edits):
        return ""
    return repr((finding.code, finding.function, edits))


def _words(finding: Finding) -> str:
    """What a reader is told, and where, if that is no order: by two callers of a method, memory goes at two
    places that one name would keep.
    """
    return "" if finding.edge else repr((finding.code, finding.primary, finding.message, finding.help))


def _of_callers(finding: Finding) -> object:
    """What findings share that differ only in the function that outside code calls."""
    return (finding.code, finding.primary) if finding.at_call else None


def _surest(finding: Finding) -> tuple[int, tuple[str, int, int, str, str], Span]:
    return -finding.confidence.rank, finding.sort_key, finding.earlier or finding.primary
