"""One analysis: files in, findings out."""

from __future__ import annotations

import os
import re
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from streamlint import ir
from streamlint.files import MAX_BYTES
from streamlint.finding import Confidence, Finding, LeftOut, Report, SourceError, Statistics
from streamlint.interp.entries import starts
from streamlint.interp.entries.runs import run_entry
from streamlint.interp.facts import relevance, text_order, touching
from streamlint.interp.state.budgets import Budgets, FileCut
from streamlint.interp.state.project import Project
from streamlint.judging.call_ends import Ends, Facts, TwoStreams
from streamlint.judging.judge import Conditional, findings_of, merge
from streamlint.lower import may_touch_gpu
from streamlint.models import vocabulary
from streamlint.run import collector, frames, pool
from streamlint.run.stop import Stopped
from streamlint.run.tree import Tree
from streamlint.trace import StreamKind, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from streamlint.source import Span
    from streamlint.trace import Event

Results: TypeAlias = "Generator[tuple[Path, FileResult], None, None]"
"""What files give, in the order in which they are done."""

WORTH_A_POOL = 150_000
"""Less text than this is analyzed in this process: that takes two seconds, and to start another takes one."""
MERE_TEXT = 0.01
"""How much a byte of a file without GPU code counts for that: it is only parsed."""


MOST_INDEXED = 4_000_000
"""Characters of source that are kept indexed from file to file."""


@dataclass(frozen=True, slots=True)
class Settings:
    default_stream: str = "legacy"
    max_file_bytes: int = MAX_BYTES
    jobs: int = 1
    """Processes, no more than cores and files; 0 is one for each core."""
    evidence: bool = True
    """Whether findings keep the trace of their path, which is large: `confirm` and `graph` use it."""

    @property
    def default_kind(self) -> StreamKind:
        return StreamKind.PER_THREAD if self.default_stream == "per-thread" else StreamKind.LEGACY


@dataclass(frozen=True, slots=True)
class FileResult:
    """What one file gave."""

    findings: tuple[Finding, ...] = ()
    errors: tuple[SourceError, ...] = ()
    analyzed: bool = False
    statistics: Statistics = field(default_factory=Statistics)


def analyze(
    root: Path,
    files: Sequence[Path],
    settings: Settings,
    focus: Sequence[Path] | None = None,
    overlay: Mapping[Path, bytes] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Analyzes ``focus`` (all ``files`` if None), resolving imports among ``files``.

    Files that cannot be read or parsed become errors of the report. With a focus, a finding is
    kept if its primary or a related place is in a focused file. ``progress`` is told how many files are
    done, and of how many.

    Raises ``Stopped``, with what was found so far, on a signal that ends the run.
    """
    wanted = list(dict.fromkeys(focus if focus is not None else files))
    session = Session(root, tuple(files), settings, overlay or {})
    done: dict[Path, FileResult] = {}
    try:
        with closing(_results(session, wanted)) as results:
            for path, result in results:
                done[path] = result
                if progress is not None:
                    progress(len(done), len(wanted))
    except KeyboardInterrupt as signal:
        raise Stopped(_report(session, wanted, done), frozenset(done), signal) from signal
    return _report(session, wanted, done)


def _report(session: Session, wanted: Sequence[Path], done: Mapping[Path, FileResult]) -> Report:
    """All that was found, in the order asked for, whatever order it came in."""
    results = [done[path] for path in wanted if path in done]
    found = merge((finding for result in results for finding in result.findings), session.statement)
    shown = {session.tree.relative(path) for path in wanted}
    errors = {error.path: error for result in results for error in result.errors}
    return Report(
        findings=tuple(
            f for f in found if f.primary.path in shown or any(r.span.path in shown for r in f.related)
        ),
        errors=tuple(errors[path] for path in sorted(errors)),
        files=len(wanted),
        analyzed=sum(result.analyzed for result in results),
        statistics=sum((result.statistics for result in results), Statistics()),
    )


def _results(session: Session, wanted: Sequence[Path]) -> Results:
    """What each file gives, as it comes. What no other process could be had for is done in this one."""
    done: set[Path] = set()
    jobs = pool.count(session.settings.jobs, len(wanted))
    if jobs > 1 and not session.tree.overlay and _is_worth_a_pool(session.tree, wanted):
        for path, result in _from_workers(session, wanted, jobs):
            done.add(path)
            yield path, result
    with collector.by_hand():
        for path in wanted:
            if path not in done:
                yield path, _collected(session, path)


def _is_worth_a_pool(tree: Tree, wanted: Sequence[Path]) -> bool:
    work = 0.0
    for path in wanted:
        data = tree.data(path) or b""
        work += len(data) * (1 if may_touch_gpu(data) else MERE_TEXT)
        if work >= WORTH_A_POOL:
            return True
    return False


def _collected(session: Session, path: Path) -> FileResult:
    """Analyzes one file, and collects the garbage that it leaves."""
    result = frames.with_room(lambda: session.file(path))
    if session.forget():
        collector.release()
    collector.collect()
    if session.settings.evidence:
        return result
    return replace(result, findings=tuple(replace(finding, evidence=None) for finding in result.findings))


class Session:
    """What the files of one run share: the tree and the modules indexed so far."""

    def __init__(
        self, root: Path, files: tuple[Path, ...], settings: Settings, overlay: Mapping[Path, bytes]
    ) -> None:
        self.root = root
        self.files = files
        self.settings = settings
        self.tree = Tree(root, files, overlay, settings.max_file_bytes)
        self.names = self.tree.names()
        self._assigned: dict[str, tuple[str, ...]] | None = None
        self._named: dict[tuple[str, str], bool] = {}
        """Whether other files get at a thing of a module, and ..."""
        self._recorded: dict[tuple[str, str], bool] = {}
        """... whether they record an event of a name: a function may have thousands of findings about one."""
        self.project = self._new_project()

    def _new_project(self) -> Project:
        return Project(self.tree.load, self._assigning, self._calling)

    def forget(self) -> bool:
        """Drops what was indexed, if it is much: the next file indexes what it needs again.

        Else all modules of a large tree stay in memory to the end. What is found does not depend on it.
        """
        if self.tree.indexed < MOST_INDEXED:
            return False
        self.tree.forget()
        self.project = self._new_project()
        return True

    def file(
        self, path: Path, only: Callable[[str], bool] | None = None, others: Facts | None = None
    ) -> FileResult:
        """Analyzes one file; never raises.

        ``only`` chooses entries by their labels; ``others`` is what those that are left out show.
        """
        try:
            return self._file(path, only, others if others is not None else Facts())
        except Exception as error:
            what = f"internal error: {type(error).__name__}: {error}; please report this file"
            return FileResult(errors=(SourceError(self.tree.relative(path), 0, what),))

    def _file(self, path: Path, only: Callable[[str], bool] | None, others: Facts) -> FileResult:
        data = self.tree.data(path)
        where = self.tree.relative(path)
        if data is None:
            return FileResult(errors=self._error(where))
        if not may_touch_gpu(data):
            if self.names.get(path) not in self.project.modules:
                self.tree.check(path)
            return FileResult(errors=self._error(where))
        module = self._module(path)
        if module is None:
            return FileResult(errors=self._error(where))
        if not starts.mentions_streams(self.project, module):
            return FileResult()
        return self._analyzed(module, only, others)

    def _module(self, path: Path) -> ir.Module | None:
        name = self.names.get(path)
        if name is None:
            return self.tree.index(path, path.stem, is_package=path.name == "__init__.py")
        return self.project.module(name)

    def _error(self, where: str) -> tuple[SourceError, ...]:
        error = self.tree.errors.get(where)
        return (error,) if error is not None else ()

    def _analyzed(self, module: ir.Module, only: Callable[[str], bool] | None, facts: Facts) -> FileResult:
        found: list[Conditional] = []
        text = text_order.Text(module)
        approximate: set[str] = set()
        covered: set[str] = set()
        left_out: list[LeftOut] = []
        budgets = self.project.budgets = Budgets()
        cut: FileCut | None = None
        try:
            for run in starts.module_runs(self.project, module, self.settings.default_kind, only):
                found.extend(findings_of(run))
                facts.add(run)
                covered |= run.covered
                left_out += [LeftOut(module.path, run.entry.label, what) for what in sorted(run.left_out)]
                if run.cut or any(trace.cut for trace in run.traces):
                    approximate.add(run.entry.label)
        except FileCut as reason:
            cut = reason
        left_out += [LeftOut(module.path, name, what) for name, what in sorted(budgets.never_run)]
        findings = (
            self._unless_seen(item, self._as_sure_as(item, facts.ends, text))
            for item in found
            if not (item.on_every_path and (cut or item.finding.primary in facts.needed))
            and (
                item.unless_recorded is None
                or not (
                    item.unless_recorded.span in facts.recorded
                    or self._may_record(module, item.unless_recorded, item.finding, facts.records)
                )
            )
        )
        return FileResult(
            tuple(merge((_less_sure(f) for f in findings) if cut else findings, self.statement)),
            _stopped(module, budgets, cut) if cut else (),
            analyzed=True,
            statistics=replace(
                _statistics(self.project, module, covered, approximate),
                left_out=tuple(dict.fromkeys(left_out)),
            ),
        )

    def _as_sure_as(self, item: Conditional, ends: Ends, text: text_order.Text) -> Finding:
        """The finding, surer where neither a path nor the text supplies the order that it misses."""
        if item.surer is None or not ends.show(item.surer[0]):
            return item.finding
        end, surer = item.surer
        if isinstance(end, TwoStreams):
            return surer
        in_text = text.joins if end.returned else text.forks
        for place, function in in_text(end.name, end.stream):
            if not end.returned or (function != end.function and not ends.was_judged(end, place)):
                return item.finding
        names = text.attributes(end.name)
        return item.finding if any(self._is_named_elsewhere(text.module, name) for name in names) else surer

    def _may_record(self, module: ir.Module, event: Event, finding: Finding, reached: set[Span]) -> bool:
        """Whether code that no path came by may record the event.

        It may run in a thread, or take the slot from a queue. The event of an object or a module may
        have been recorded in any earlier call: all code that mentions it must be harmless. Of the
        function that waits the calls in question are those that no path ``reached``.
        """
        name = event.name.partition("[")[0]
        if event.earlier and ":" in name:
            # An argument: whoever passes it has another name for it.
            return True
        name = name.rpartition(".")[2]  # self.done, where no path has set it
        if event.earlier:
            return text_order.may_be_recorded(module, name) or self._is_named_elsewhere(module, name)
        if event.function == finding.function:
            return False
        owner = event.function.rpartition(".")[0]
        return text_order.recorded_by_others(module, name, owner) or any(
            name in decl.names and not vocabulary.RECORDS.isdisjoint(decl.names)
            for decl in relevance.all_functions(module)
            if decl.qualname.startswith(f"{owner}.")
            # What the waiting function itself records was seen: self.events[0], and not self.events[1]. So is
            # what the one records that makes the event.
            and (
                decl.qualname not in (finding.function, event.function) or not _record_calls(decl) <= reached
            )
            # done = torch.cuda.Event(); done.record(): not the event that another method has made.
            and (decl.qualname == event.function or text_order.may_record(decl, name))
        )

    def _unless_seen(self, item: Conditional, finding: Finding) -> Finding:
        """The finding, only ``possible`` where another file may record the event of an object of this one.

        ``for table in self.tables: table.consumed.record(stream)``, in the file of whoever has the tables.
        """
        event = item.unless_recorded
        if event is None or event.span is None or "." not in event.function:
            return finding
        name = event.name.partition("[")[0].rpartition(".")[2]
        question = (event.span.path, name)
        if question not in self._recorded:
            self._recorded[question] = any(self._records(*question))
        return replace(finding, confidence=Confidence.POSSIBLE) if self._recorded[question] else finding

    def _records(self, where: str, name: str) -> Iterator[bool]:
        """Whether files other than ``where`` record an event of this name."""
        text = b"." + name.encode("utf-8", "surrogatepass")
        for path, other in self.names.items():
            data = self.tree.data(path)
            if data is None or text not in data or not _RECORDS.search(data):
                continue
            module = self.project.module(other) if self.tree.relative(path) != where else None
            yield module is not None and text_order.recorded_by_others(module, name, "")

    def _is_named_elsewhere(self, module: ir.Module, thing: str) -> bool:
        """Whether another file that names the module gets at a stream or event: ``loader.copy_stream``."""
        question = (module.name, thing)
        if question not in self._named:
            self._named[question] = any(self._gets_at(module, thing))
        return self._named[question]

    def _gets_at(self, module: ir.Module, thing: str) -> Iterator[bool]:
        stem = os.fsencode(module.name.rpartition(".")[2])  # a file's name may be any bytes
        name = re.escape(thing).encode("utf-8", "surrogatepass")
        for path, other in self.names.items():
            data = self.tree.data(path) if other != module.name else None
            if data is None or stem not in data or not _WAITS.search(data):
                continue
            if re.search(rb"self\.%s\s*=|def %s\(" % (name, name), data):
                # A class there has its own.
                data = re.sub(rb"\bself\.%s\b" % name, b"", data)
            yield re.search(rb"\.%s\b(?!\()" % name, data) is not None

    def _assigning(self, attribute: str) -> tuple[str, ...]:
        """Modules whose text assigns an attribute of this name, that of a stream, on something."""
        if self._assigned is None:
            found: dict[str, set[str]] = {}
            for path, name in self.names.items():
                for assigned in _ASSIGNS_STREAM.findall(self.tree.data(path) or b""):
                    found.setdefault(assigned.decode(), set()).add(name)
            self._assigned = {assigned: tuple(sorted(names)) for assigned, names in found.items()}
        return self._assigned.get(attribute, ())

    def _calling(self, name: str) -> tuple[str, ...]:
        """Modules whose text has a call of this name."""
        text = f"{name}(".encode()
        return tuple(module for path, module in self.names.items() if text in (self.tree.data(path) or b""))

    def statement(self, span: Span) -> str:
        return self.tree.line(span.path, span.line, span.end_line)


_WAITS = re.compile("|".join(sorted(vocabulary.ORDERS | vocabulary.RECORDS)).encode())
_RECORDS = re.compile("|".join(sorted(vocabulary.RECORDS)).encode())
_ASSIGNS_STREAM = re.compile(rb"\.(\w*stream\w*)\s*=(?!=)")


def _record_calls(decl: ir.FunctionDecl) -> set[Span]:
    """Where a function's text records events."""
    try:
        body = decl.load().body
    except ir.LoweringError:
        return set()
    return {
        node.span
        for node in ir.walk(body)
        if isinstance(node, ir.Call)
        and isinstance(node.func, ir.Attr)
        and node.func.name in vocabulary.RECORDS
    }


def _stopped(module: ir.Module, budgets: Budgets, cut: FileCut) -> tuple[SourceError, ...]:
    """Names the file and the function at which its analysis was given up."""
    message = f"analyzed in part: {cut}; stopped at `{budgets.entry}`, what comes after it was left out"
    return (SourceError(module.path, 0, message),)


def _less_sure(finding: Finding) -> Finding:
    """What was left out of a file may hold the order that a finding misses."""
    sure = finding.confidence is Confidence.CERTAIN
    return replace(finding, confidence=Confidence.LIKELY) if sure else finding


def _statistics(project: Project, module: ir.Module, covered: set[str], approximate: set[str]) -> Statistics:
    """Counts the module's functions that touch streams by how far they were analyzed."""
    exact = cut = skipped = 0
    for decl in relevance.all_functions(module):
        if not touching.touches(project, decl):
            continue
        if f"{module.name}:{decl.qualname}" not in covered:
            skipped += 1
        elif any(decl.qualname in label for label in approximate):
            cut += 1
        else:
            exact += 1
    return Statistics(exact=exact, cut=cut, skipped=skipped)


def traces_of(root: Path, file: Path, function: str, settings: Settings | None = None) -> list[Trace]:
    """All traces of one function (or ``Class.method``) of a file.

    Raises ``ir.LoweringError`` if the file cannot be used, ``LookupError`` for an unknown name.
    """
    session = Session(root, (file,), settings or Settings(), {})
    module = session._module(file)
    if module is None:
        error = next(iter(session.tree.errors.values()))
        raise ir.LoweringError(error.path, error.line, error.message)
    head, _, rest = function.partition(".")
    if head in module.functions:
        entry = starts.function_entry(session.project, module, module.functions[head])
        return run_entry(session.project, entry, session.settings.default_kind).traces
    cls = module.classes.get(head)
    if cls is None or rest not in cls.methods:
        raise LookupError(function)
    runs = starts.module_runs(session.project, module, session.settings.default_kind)
    return [trace for run in runs if run.entry.label == function for trace in run.traces]


# ----------------------------------------------------------------------------- processes


@dataclass(slots=True)
class _Work:
    """What a worker process does: it has a session of its own."""

    root: Path
    files: tuple[Path, ...]
    settings: Settings
    session: Session | None = None

    def start(self) -> None:
        collector.start()
        self.session = Session(self.root, self.files, replace(self.settings, evidence=False), {})

    def do(self, path: Path) -> FileResult:
        assert self.session is not None
        return _collected(self.session, path)


def _from_workers(session: Session, wanted: Sequence[Path], jobs: int) -> Results:
    """Largest files first. A file that no worker gets through is an error; the others are kept."""
    work = _Work(session.root, session.files, session.settings)
    order = sorted(wanted, key=_size, reverse=True)
    with closing(pool.answers(order, work, session.root, jobs)) as answers:
        for path, answer in answers:
            if isinstance(answer, pool.Lost):
                yield path, FileResult(errors=(SourceError(session.tree.relative(path), 0, answer.reason),))
            else:
                yield path, cast("FileResult", answer)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
