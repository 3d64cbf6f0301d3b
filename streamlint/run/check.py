"""One run of ``streamlint check``: find the files, analyze, apply comments, selection and baseline."""

from __future__ import annotations

import os
import time
from dataclasses import field
from typing import TYPE_CHECKING

from streamlint.files import SourceFiles, absolute, is_file, relative
from streamlint.finding import Confidence, Report, SourceError, leading
from streamlint.frozen import frozen, replace
from streamlint.output.outcome import Outcome, Stop
from streamlint.patterns import Patterns
from streamlint.run import engine
from streamlint.run.discover import discover
from streamlint.run.results import Settings
from streamlint.run.stop import Stopped, signal_of
from streamlint.settings import suppress
from streamlint.settings.baseline import Baseline
from streamlint.settings.catalog import Selection, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from streamlint.finding import Finding
    from streamlint.run.changed import Changed
    from streamlint.run.warm import Warm
    from streamlint.settings.catalog import RuleInfo
    from streamlint.settings.config import Config


@frozen()
class Texts:
    """Texts that are read in the place of files: standard input, or what an editor has not saved yet."""

    overlay: Mapping[Path, bytes] = field(default_factory=dict)
    wanted: tuple[Path, ...] = ()
    """Those of them that are to be analyzed themselves, whether there is such a file or not."""


@frozen()
class Request:
    """What the user asked for, with the configuration already applied."""

    root: Path
    is_project: bool
    """Whether the root is marked as one; only then all of it is read to resolve imports."""
    paths: tuple[Path, ...]
    config: Config
    rules: Sequence[RuleInfo]
    selection: Selection
    min_confidence: Confidence
    jobs: int
    executor: str = ""
    """Where the work is done instead of in processes here: see ``fleet``."""
    known: Baseline = field(default_factory=Baseline)
    changed: Changed | None = None
    """If given, only findings with a place in a changed line are shown."""
    texts: Texts = field(default_factory=Texts)
    cache: Path | None = None
    """The folder in which what is found is kept; None to keep nothing, and to look all up anew."""
    warm: Warm | None = None
    """What a process that is asked again and again keeps between questions."""
    fixing: bool = False
    """Whether what is found is to be mended: then findings that are only possible get fixes too, if shown."""


def run(request: Request, progress: Callable[[int, int], None] | None = None) -> Outcome:
    """Analyze what was asked for. Bad files and missing paths become errors of the outcome.

    A signal that stops the analysis is told in the outcome, which holds what was found until then.
    """
    start = time.perf_counter()
    report, focus, stop = analyzed(request, progress)
    found = outcome(request, report, focus, time.perf_counter() - start, request.texts.overlay)
    return replace(found, stop=stop)


def analyzed(
    request: Request, progress: Callable[[int, int], None] | None = None
) -> tuple[Report, tuple[Path, ...], Stop | None]:
    """All that is found, the files that it was looked for in, and why that is not all, if it is not."""
    overlay = request.texts.overlay
    focus: tuple[Path, ...] = ()
    stop = None
    try:
        named = discover(request.paths, request.root, request.config.exclude)
        focus = tuple(dict.fromkeys((*named.files, *request.texts.wanted)))
        report = _analyze(request, files_around(request, focus), focus, overlay, progress)
        missing = tuple(
            SourceError(relative(absolute(path), request.root), 0, _reason(path)) for path in named.missing
        )
        faults = tuple(
            SourceError(relative(fault.path, request.root), 0, fault.reason) for fault in named.faults
        )
        report = replace(report, errors=(*missing, *faults, *report.errors), files=len(focus))
    except KeyboardInterrupt as signal:
        report, done = _until(signal)
        number = signal_of(signal)
        stop = Stop(number.name, number.value, len(done), len(focus))
        focus = done
    return report, focus, stop


def with_evidence(request: Request, found: Outcome) -> Outcome:
    """Return an outcome whose findings have the traces that show them.

    They are large, and kept of no run: the files that have findings are analyzed once more.
    """
    paths = {request.root / finding.primary.path for finding in found.findings}
    if not paths:
        return found
    focus = tuple(sorted(paths))
    settings = Settings(default_stream=request.config.default_stream)
    report = engine.analyze(
        request.root, files_around(request, focus), settings, focus, request.texts.overlay
    )
    evidence = {finding.pair: finding.evidence for finding in report.findings}
    return replace(
        found,
        findings=tuple(replace(each, evidence=evidence.get(each.pair)) for each in found.findings),
    )


def _until(stop: KeyboardInterrupt) -> tuple[Report, tuple[Path, ...]]:
    """What was found before a run was stopped, and the files that it was done with."""
    if isinstance(stop, Stopped):
        return stop.report, tuple(sorted(stop.done))
    return Report((), (), 0, 0), ()


def outcome(
    request: Request,
    report: Report,
    focus: Sequence[Path],
    seconds: float,
    overlay: Mapping[Path, bytes] | None = None,
) -> Outcome:
    """Apply comments, selection and baseline to what was found in the files of ``focus``."""
    sources = SourceFiles(
        request.root, {relative(path, request.root): content for path, content in (overlay or {}).items()}
    )
    focused = frozenset(relative(path, request.root) for path in focus)
    active = _ActiveCodes(request)
    found = _after_comments(request, report, focused, sources, active)
    shown = leading(
        [
            finding
            for finding in found
            if finding.code in active(finding.primary.path)
            and finding.confidence.rank >= request.min_confidence.rank
        ]
    )
    new = [finding for finding in shown if finding.fingerprint not in request.known]
    fresh = [finding for finding in new if request.changed is None or request.changed.touches(finding)]
    return Outcome(
        findings=tuple(sorted(fresh, key=lambda finding: finding.sort_key)),
        errors=report.errors,
        files=report.files,
        analyzed=report.analyzed,
        seconds=seconds,
        sources=sources,
        rules=request.rules,
        statistics=report.statistics,
        known=len(shown) - len(new),
        unchanged=len(new) - len(fresh),
        stale=tuple(_stale(request, shown, focused, active)),
    )


def _stale(
    request: Request, shown: Iterable[Finding], focused: frozenset[str], active: _ActiveCodes
) -> Iterator[str]:
    """Yield what the baseline knows, and this run would have found if it were there still."""
    for fingerprint in request.known.unmatched(finding.fingerprint for finding in shown):
        entry = request.known.entries[fingerprint]
        path, code = str(entry.get("path")), entry.get("code")
        if not is_file(request.root / path) or (path in focused and code in active(path)):
            yield fingerprint


def _reason(path: Path) -> str:
    # os.path, because Path.exists raises on a name that is too long
    there = os.path.exists(path)  # noqa: PTH110
    return "neither a regular file nor a folder" if there else "no such file or folder"


def files_around(request: Request, focus: Sequence[Path]) -> tuple[Path, ...]:
    """Return all files that imports may lead to.

    Below a project's root that is everything. Without one (a lone script in a home folder, say) it
    is what lies beside the named files.
    """
    if request.is_project:
        around = _all_files(request)
    else:
        folders = {path.parent for path in focus}
        around = tuple(path for folder in sorted(folders) for path in folder.glob("*.py") if is_file(path))
        excluded = Patterns.of(request.config.exclude)
        around = tuple(sorted(path for path in around if not excluded.cover(relative(path, request.root))))
    # An editor's questions are about the same files again and again.
    return around if set(around).issuperset(focus) else tuple(sorted({*around, *focus}))


def _all_files(request: Request) -> tuple[Path, ...]:
    known = request.warm.around if request.warm is not None else {}
    key = request.root, request.config.exclude
    if key not in known:
        known[key] = discover([request.root], request.root, request.config.exclude).files
    return known[key]


def _analyze(
    request: Request,
    index: tuple[Path, ...],
    focus: tuple[Path, ...],
    overlay: Mapping[Path, bytes],
    progress: Callable[[int, int], None] | None,
) -> Report:
    everything = len(focus) == len(index)
    wanted = None if everything and not overlay else focus
    settings = settings_of(request)
    return engine.analyze(
        request.root, index, settings, wanted, overlay, progress, request.cache, warm=request.warm
    )


def settings_of(request: Request) -> Settings:
    """Return what the analysis has to know of a request."""
    return Settings(
        default_stream=request.config.default_stream,
        jobs=request.jobs,
        executor=request.executor,
        evidence=False,
        fix_possible=request.fixing and request.min_confidence is Confidence.POSSIBLE,
    )


def _after_comments(
    request: Request, report: Report, focused: frozenset[str], sources: SourceFiles, active: _ActiveCodes
) -> list[Finding]:
    known = vocabulary(request.rules)
    marked = focused if report.marked is None else focused & report.marked
    paths = marked | {finding.primary.path for finding in report.findings} - focused
    contents = {path: sources.content(path) for path in sorted(paths)}
    comments = {
        path: suppress.read_comments(path, content, known)
        for path, content in contents.items()
        if content is not None
    }
    broken = {error.path for error in report.errors}
    return suppress.apply(report.findings, comments, focused - broken, active)


class _ActiveCodes:
    """The codes that are reported for a path: the selection, less ``per-file-ignores``."""

    def __init__(self, request: Request) -> None:
        self._rules = request.rules
        self._selected = request.selection.codes(request.rules)
        self._ignores = [
            (Patterns.of([glob]), Selection(ignore=codes)) for glob, codes in request.config.per_file_ignores
        ]

    def __call__(self, path: str) -> frozenset[str]:
        active = self._selected
        for patterns, ignored in self._ignores:
            if patterns.cover(path):
                active -= {code for code in active if ignored.ignores(code)}
        return active
