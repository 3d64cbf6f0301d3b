"""One analysis: files in, findings out. What needs no analyzer is done without loading it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.finding import Report, Statistics
from streamlint.run.results import FileResult, Settings
from streamlint.run.stop import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from streamlint.run.memory import Memory
    from streamlint.run.parallel import Results
    from streamlint.run.searches import Search
    from streamlint.run.tree import Tree
    from streamlint.run.warm import Warm

__all__ = ["FileResult", "Settings", "analyze"]


def analyze(  # noqa: PLR0913
    root: Path,
    files: Sequence[Path],
    settings: Settings,
    focus: Sequence[Path] | None = None,
    overlay: Mapping[Path, bytes] | None = None,
    progress: Callable[[int, int], None] | None = None,
    cache: Path | None = None,
    *,
    warm: Warm | None = None,
) -> Report:
    """Analyzes ``focus`` (all ``files`` if None), resolving imports among ``files``.

    Files that cannot be read or parsed become errors of the report. With a focus, a finding is
    kept if its primary or a related place is in a focused file. ``progress`` is told how many files are
    done, and of how many. What is found is kept in the folder ``cache``, if one is given, and is not
    looked for again where nothing has changed that it rests on. ``warm`` is what this process
    keeps of one run for the next.

    Raises ``Stopped``, with what was found so far, on a signal that ends the run.
    """
    wanted = list(dict.fromkeys(focus if focus is not None else files))
    from streamlint.run.tree import Tree

    tree = None
    if len(wanted) == 1:
        from streamlint.run.plain import of_plain_file

        # One file without GPU code is looked at sooner than what is known of it.
        tree = Tree(root, tuple(files), overlay or {}, settings.max_file_bytes, warm)
        plain = of_plain_file(tree, wanted[0])
        if plain is not None:
            return _report(tree, wanted, {wanted[0]: plain})
    memory = None
    if cache is not None and not settings.evidence:
        from streamlint.run.memory import Memory

        memory = Memory(cache, root, files, settings, overlay, warm)
        report = memory.report(wanted, root)
        if report is not None:
            return report
    if tree is None:
        tree = Tree(root, tuple(files), overlay or {}, settings.max_file_bytes, warm)
    return _Analysis(tree, settings, wanted, progress, memory).report()


@dataclass(slots=True)
class _Analysis:
    """What is wanted, and what of it is done."""

    tree: Tree
    settings: Settings
    wanted: Sequence[Path]
    progress: Callable[[int, int], None] | None
    memory: Memory | None
    known: Mapping[Path, FileResult] = field(default_factory=dict)
    done: dict[Path, FileResult] = field(default_factory=dict)

    def report(self) -> Report:
        try:
            if self.memory is not None:
                self.known = self.memory.results(self.tree, self.wanted)
            self._analyze()
            return self._report(complete=True)
        except KeyboardInterrupt as signal:
            done = frozenset({*self.known, *self.done})
            raise Stopped(self._report(complete=False), done, signal) from signal

    def _analyze(self) -> None:
        left = [path for path in self.wanted if path not in self.known]
        found = self.memory.searches if self.memory is not None else {}
        with closing(_results(self.tree, self.settings, left, found)) as results:
            for path, result in results:
                self.done[path] = result
                if self.progress is not None:
                    self.progress(len(self.known) + len(self.done), len(self.wanted))

    def _report(self, *, complete: bool) -> Report:
        report = _report(self.tree, self.wanted, {**self.known, **self.done})
        if self.memory is not None:
            self.memory.keep(self.tree, self.wanted, self.done, report if complete else None)
        return report


def _report(tree: Tree, wanted: Sequence[Path], done: Mapping[Path, FileResult]) -> Report:
    """All that was found, in the order asked for, whatever order it came in."""
    results = [done[path] for path in wanted if path in done]
    found = tuple(finding for result in results for finding in result.findings)
    if found:
        from streamlint.judging.merging import merge

        found = merge(found, tree.statement)
    shown = {tree.relative(path) for path in wanted}
    errors = {error.path: error for result in results for error in result.errors}
    return Report(
        findings=tuple(
            f for f in found if f.primary.path in shown or any(r.span.path in shown for r in f.related)
        ),
        errors=tuple(errors[path] for path in sorted(errors)),
        files=len(wanted),
        analyzed=sum(result.analyzed for result in results),
        statistics=sum((result.statistics for result in results), Statistics()),
        marked=frozenset(tree.relative(path) for path in wanted if path in done and done[path].marked),
    )


def _results(
    tree: Tree, settings: Settings, wanted: Sequence[Path], found: Mapping[Search, tuple[str, ...]]
) -> Results:
    """What each file gives, as it comes. What no other process could be had for is done in this one.

    ``found`` answers searches.
    """
    done: set[Path] = set()
    if settings.executor and not tree.overlay:
        from streamlint.run import fleet

        for path, result in fleet.from_executor(tree, settings, wanted, found):
            done.add(path)
            yield path, result
    elif settings.jobs != 1 and len(wanted) > 1 and not tree.overlay:
        from streamlint.run import parallel, pool

        jobs = pool.count(settings.jobs, len(wanted))
        if jobs > 1 and parallel.is_worth_a_pool(tree, wanted):
            for path, result in parallel.from_workers(tree, settings, wanted, jobs, found):
                done.add(path)
                yield path, result
    yield from _here(tree, settings, [path for path in wanted if path not in done], found)


def _here(
    tree: Tree, settings: Settings, wanted: Sequence[Path], found: Mapping[Search, tuple[str, ...]]
) -> Results:
    """In this process; the analyzer is loaded for the first file that needs it."""
    from streamlint.run import collector
    from streamlint.run.plain import of_plain_file

    waiting = list(reversed(wanted))
    with collector.by_hand():
        while waiting and (plain := of_plain_file(tree, waiting[-1])) is not None:
            yield waiting.pop(), plain
        if not waiting:
            return
        from streamlint.run.session import Session, collected

        collector.start()  # again: what was loaded by now is no garbage of a file
        session = Session(tree.root, tuple(tree.files), settings, tree.overlay, found, tree)
        while waiting:
            path = waiting.pop()
            yield path, collected(session, path)
