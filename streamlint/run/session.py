"""The analysis of one file after the other. Who may get by without it does not import this: it loads all."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from streamlint import ir, notebook
from streamlint.finding import OF_FIXES, Confidence, Finding, LeftOut, SourceError, Statistics
from streamlint.frozen import replace
from streamlint.interp.entries import methods, starts
from streamlint.interp.facts import passed_on, text_order, touching
from streamlint.interp.state.budgets import Budgets, FileCut, OutOfResources
from streamlint.interp.state.project import Project
from streamlint.judging import words
from streamlint.judging.call_ends import Ends, Fact, Facts, OpenEnd, Unawaited
from streamlint.judging.judge import Conditional, findings_of
from streamlint.judging.merging import mended_alike, merge
from streamlint.judging.program import Program
from streamlint.models import vocabulary
from streamlint.prefilter import may_hold_comments
from streamlint.run import collector, frames, searches
from streamlint.run.elsewhere import Elsewhere
from streamlint.run.plain import of_plain_file
from streamlint.run.results import FileResult, Reads, Settings
from streamlint.run.searches import Kind
from streamlint.run.tree import Tree
from streamlint.run.warm import Ran

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from streamlint.fixes.plans import Plans
    from streamlint.interp.entries.runs import Run
    from streamlint.run.searches import Search
    from streamlint.run.warm import Called
    from streamlint.source import Span
    from streamlint.trace import Event

MOST_INDEXED = 8_000_000
"""Characters of source that are kept indexed from file to file ..."""
STAYS_INDEXED = 7 / 8
"""... and how much of it stays when there are more: what is dropped is mostly wanted again."""
CALLERS_OF_CALLERS = 3
"""How far what a function was given is looked for in those that hand it on: ``self.inner.begin(x)``."""


def collected(session: Session, path: Path, only: frozenset[str] | None = None) -> FileResult:
    """Analyzes one file, and collects the garbage that it leaves."""
    result = frames.with_room(lambda: session.file(path, only))
    if session.forget():
        collector.release()
    collector.collect()
    if session.settings.evidence:
        return result
    return replace(result, findings=tuple(replace(finding, evidence=None) for finding in result.findings))


class Session:
    """What the files of one run share: the tree and the modules indexed so far.

    What a result rests on beside the text of its own file is looked up by ``_load`` and ``_matching``: they
    note it, and nothing else looks at other files.
    """

    def __init__(
        self,
        root: Path,
        files: tuple[Path, ...],
        settings: Settings,
        overlay: Mapping[Path, bytes],
        found: Mapping[Search, tuple[str, ...]] | None = None,
        tree: Tree | None = None,
    ) -> None:
        self.settings = settings
        self.tree = tree or Tree(root, files, overlay, settings.max_file_bytes)
        self.names = self.tree.named.of_files
        self._modules: dict[str, ir.Module | None] = {}
        self._found = dict(found or {})
        """Answers of searches, as far as they are known."""
        self._called: Called | None = None
        self._looked_up: set[str] = set()
        self._searched: dict[Search, tuple[str, ...]] = {}
        self._matches: dict[Search, tuple[str, ...]] = {}
        """Modules whose files match: a function may have thousands of findings about one event."""
        self._recorded: dict[tuple[str, str], bool] = {}
        """Whether files other than one record an event of a name; asked of this file's project."""
        self.project = self._new_project()

    def _new_project(self) -> Project:
        """One for each file: what it remembers was looked up for this file, and that is noted."""
        self._looked_up, self._searched, self._recorded = set(), {}, {}
        project = Project(self._load, self._assigning, self._calling, self._storing, self._hazards)
        self._elsewhere = Elsewhere(self.tree, project, self._matching)
        return project

    def _load(self, name: str) -> ir.Module | None:
        self._looked_up.add(name)
        if name not in self._modules:
            loaded = self.tree.load(name)
            # Under another name than its own it is the same module.
            self._modules[name] = loaded if loaded is None else self._modules.setdefault(loaded.name, loaded)
        return self._modules[name]

    def forget(self) -> bool:
        """Where much is indexed, drops what no file has looked at for longest; who needs it indexes it again.

        Else all modules of a large tree stay in memory to the end. What nearly every file imports stays.
        What is found does not depend on it.
        """
        for name in [name for name in self._modules if name in self._looked_up]:
            self._modules[name] = self._modules.pop(name)
        if sum(self.tree.indexed.values()) < MOST_INDEXED:
            return False
        kept: dict[str, ir.Module | None] = {}
        own: set[str] = set()
        room = STAYS_INDEXED * MOST_INDEXED
        for name, module in reversed(self._modules.items()):
            if module is not None and module.name not in own:
                room -= self.tree.indexed[module.name]
                if room < 0:
                    break
                own.add(module.name)
            kept[name] = module
        self._modules = dict(reversed(kept.items()))
        self.tree.forget(own)
        self.project = self._new_project()
        return True

    def file(self, path: Path, only: frozenset[str] | None = None) -> FileResult:
        """Analyzes one file; never raises.

        ``only`` has the labels of wanted entries. What rests on what the others show is not found then.
        """
        self.project = self._new_project()
        try:
            result = self._file(path, only)
            return replace(result, marked=may_hold_comments(self.tree.data(path) or b""))
        except Exception as error:
            what = f"internal error: {type(error).__name__}: {error}; please report this file"
            return FileResult(errors=(SourceError(self.tree.relative(path), 0, what),))

    def _file(self, path: Path, only: frozenset[str] | None) -> FileResult:
        plain = of_plain_file(self.tree, path, parsed=self.names.get(path) in self._modules)
        if plain is not None:
            return plain
        module = self.module(path)
        if module is None:
            return FileResult(errors=self.tree.errors_of(path), reads=self._reads())
        if not starts.mentions_streams(self.project, module):
            return FileResult(reads=self._reads())
        return self._analyzed(path, module, only)

    def _reads(self) -> Reads:
        return Reads(frozenset(self._looked_up), self._searched)

    def module(self, path: Path) -> ir.Module | None:
        name = self.names.get(path)
        if name is None:
            return self.tree.index(path, path.stem, is_package=path.name == "__init__.py")
        return self.project.module(name)

    def _analyzed(self, path: Path, module: ir.Module, only: frozenset[str] | None) -> FileResult:
        found: list[Conditional] = []
        facts = Facts()
        ran: list[Ran] = []
        at_fault: list[Run] = []
        text = text_order.Text(module)
        program, begun = Program(partial(self._elsewhere.is_named, module)), time.process_time()
        approximate: set[str] = set()
        covered: set[str] = set()
        left_out: Counter[tuple[str, str]] = Counter()
        budgets = self.project.budgets = Budgets()
        cut: FileCut | None = None
        try:
            for run in starts.module_runs(self.project, module, self.settings.default_kind, only):
                judged = list(findings_of(run, program))
                found += judged
                at_fault += [run] if judged else []
                facts.add(run)
                ran.append(_note(run, judged, time.process_time() - begun))
                begun = time.process_time()
                covered |= run.covered
                left_out.update((run.entry.label.partition(methods.THEN)[0], what) for what in run.left_out)
                if run.cut or any(trace.cut for trace in run.traces):
                    approximate.add(run.entry.label)
        except FileCut as reason:
            cut = reason
        left_out.update(budgets.never_run)
        if only is not None:
            found = [item for item in found if item.unless_recorded is None and not item.on_every_path]
        elif self.tree.warm is not None:
            self.tree.warm.ran[path] = tuple(ran)
        findings = (
            self._unless_seen(module, item, self._as_sure_as(item, facts.ends, text))
            for item in found
            if not (cut and item.on_every_path) and self._holds(module, item, facts)
        )
        merged = merge((_less_sure(f) for f in findings) if cut else findings, self.statement)
        merged = tuple(words.of_source(finding, self._text) for finding in merged)
        plans = None if cut else self._plans(merged, at_fault)
        if plans is not None:
            merged = mended_alike(
                tuple(replace(each, fixes=plans.fixes.get(each.pair, ())) for each in merged)
            )
            left_out.update((each.function, OF_FIXES) for each in plans.left_out)
        return FileResult(
            merged,
            _stopped(module, budgets, cut) if cut else (),
            analyzed=True,
            statistics=replace(
                _statistics(self.project, module, covered, approximate),
                left_out=tuple(LeftOut(module.path, *key, count) for key, count in sorted(left_out.items())),
            ),
            reads=None if isinstance(cut, OutOfResources) or (plans and not plans.whole) else self._reads(),
        )

    def _plans(self, findings: tuple[Finding, ...], runs: Sequence[Run]) -> Plans | None:
        """What would mend the findings; None where there are none that could be."""
        wanted = [
            finding
            for finding in findings
            if (finding.confidence is not Confidence.POSSIBLE or self.settings.fix_possible)
            and not finding.primary.path.endswith(notebook.SUFFIX)
        ]
        if not wanted:
            return None
        from streamlint.fixes.plans import Plans, fixes_of

        try:
            return fixes_of(wanted, runs, self.project, self.settings.default_kind, self._text)
        except (FileCut, RecursionError):  # time ran out, or the text is nested too deep
            return Plans({}, tuple(wanted), whole=False)

    def _holds(self, module: ir.Module, item: Conditional, facts: Facts) -> bool:
        """Whether what the entries of a module show together leaves a finding."""
        if item.on_every_path and item.finding.primary in facts.needed:
            return False
        if item.only_if is not None and not self._shows(module, facts.ends, item.only_if):
            return False
        event = item.unless_recorded
        return event is None or not (
            event.span in facts.recorded
            or any(
                self._may_record(one, event, item.finding, facts.records)
                for one in self._about(module, event)
            )
        )

    def _shows(self, module: ir.Module, ends: Ends, fact: Fact) -> bool:
        """Whether the entries of a module show it together, with what other code may wait for."""
        return ends.show(fact, partial(self._elsewhere.may_be_awaited, module))

    def _as_sure_as(self, item: Conditional, ends: Ends, text: text_order.Text) -> Finding:
        """The finding, surer where neither a path nor the text supplies the order that it misses."""
        if item.surer is None or not self._shows(text.module, ends, item.surer[0]):
            return item.finding
        end, surer = item.surer
        if isinstance(end, Unawaited) and end.name:
            # self.state.stream: other code may wait for the stream itself. That an event is recorded on it
            # behind the work, a path has shown.
            joins = text.joins(end.name, end.work)
            return surer if all(ends.was_judged(end, place) for place, _ in joins) else item.finding
        if not isinstance(end, OpenEnd):
            return surer
        in_text = text.joins if end.returned else text.forks
        for place, function in in_text(end.name, end.stream):
            inside = function == end.function
            if not end.returned or not (place in ends.ran if inside else ends.was_judged(end, place)):
                return item.finding
        names = text.attributes(end.name)
        return item.finding if any(self._is_named_elsewhere(text.module, name) for name in names) else surer

    def _about(self, module: ir.Module, event: Event) -> Iterator[ir.Module]:
        """The module whose entries wait for an event, and the one that makes it: its methods record it."""
        yield module
        home = self.tree.named.of_places.get(event.span.path) if event.span is not None else None
        made_in = self.project.module(home) if home is not None and home != module.name else None
        if made_in is not None:
            yield made_in

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
        name = self._name_of(event)
        if text_order.takes_others(module, name, event.function):
            return True
        if event.earlier:
            return text_order.may_be_recorded(module, name) or self._is_named_elsewhere(module, name)
        if event.function == finding.function:
            return False
        owner = event.function.rpartition(".")[0]
        return text_order.recorded_by_others(module, name, owner) or any(
            name in decl.names and not vocabulary.RECORDS.isdisjoint(decl.names)
            for decl in ir.all_functions(module)
            if decl.qualname.startswith(f"{owner}.")
            # What the waiting function itself records was seen: self.events[0], and not self.events[1]. So is
            # what the one records that makes the event.
            and (
                decl.qualname not in (finding.function, event.function) or not _record_calls(decl) <= reached
            )
            # done = torch.cuda.Event(); done.record(): not the event that another method has made.
            and (decl.qualname == event.function or text_order.may_record(decl, name))
        )

    def _name_of(self, event: Event) -> str:
        """The attribute that has an event, by the text that makes it, or else a path."""
        home = self.tree.named.of_places.get(event.span.path) if event.span is not None else None
        made_in = self.project.module(home) if home is not None else None
        kept = None
        if event.span is not None and made_in is not None:
            kept = text_order.kept_as(made_in, event.function, event.span)
        return kept or event.name.partition("[")[0].rpartition(".")[2]

    def _unless_seen(self, module: ir.Module, item: Conditional, finding: Finding) -> Finding:
        """The finding, only ``possible`` where another file shows what this one takes for granted."""
        seen = self._may_be_recorded_elsewhere(item) or (
            finding.confidence is not Confidence.POSSIBLE
            and bool(item.pending_at)
            and self._is_called_elsewhere(module, item.pending_at)
        )
        return replace(finding, confidence=Confidence.POSSIBLE) if seen else finding

    def _may_be_recorded_elsewhere(self, item: Conditional) -> bool:
        """``for table in self.tables: table.consumed.record(stream)``, in the file of who has the tables."""
        event = item.unless_recorded
        if event is None or event.span is None or "." not in event.function:
            return False
        name = self._name_of(event)
        question = (event.span.path, name)
        if question not in self._recorded:
            home = self.tree.named.of_places.get(event.span.path)
            made_in = self.project.module(home) if home is not None else None
            self._recorded[question] = any(self._records(*question, made_in))
        return self._recorded[question]

    def _is_called_elsewhere(self, module: ir.Module, name: str, depth: int = CALLERS_OF_CALLERS) -> bool:
        """Whether another file that works with streams calls a function of this name: it is judged there.

        ``ready.synchronize(); scorer.add(batch)``: the batch is complete. A file that names no stream is not
        looked at by itself.
        """
        return any(
            self._shows_arguments(other, name, depth)
            for other in self.project.others(self._calling(name), module.path)
            if starts.mentions_streams(self.project, other)
        )

    def _shows_arguments(self, module: ir.Module, name: str, depth: int) -> bool:
        """Whether a module calls a function of this name, and has not got itself what it passes to it."""
        if not text_order.calls(self.project, module, name):
            return False
        through = passed_on.handing_on(self.project, module, name)
        if through is None or not depth:
            return True
        return any(
            self._shows_arguments(module, each, depth - 1)
            or self._is_called_elsewhere(module, each, depth - 1)
            for each in through
        )

    def _records(self, where: str, name: str, made_in: ir.Module | None) -> Iterator[bool]:
        """Whether files other than ``where`` record an event of this name."""
        for other in self.project.others(self._matching(searches.records(name)), where):
            if text_order.recorded_by_others(other, name, ""):
                yield made_in is None or self._elsewhere.may_meet(made_in, other)

    def _is_named_elsewhere(self, module: ir.Module, thing: str) -> bool:
        """Whether another file that names the module gets at a stream or event: ``loader.copy_stream``."""
        search = searches.reaches(module.name.rpartition(".")[2], thing)
        return any(name != module.name for name in self._matching(search))

    def _assigning(self, attribute: str) -> tuple[str, ...]:
        """Modules whose text assigns an attribute of this name, that of a stream, on something."""
        return self._matching(searches.assigns(attribute))

    def _calling(self, name: str) -> tuple[str, ...]:
        """Modules whose text has a call of this name."""
        return self._matching(searches.calls(name))

    def _storing(self, name: str | None) -> tuple[str, ...]:
        """Modules whose text gives something to attributes of this name, or of a computed one."""
        return self._matching(searches.stores_any() if name is None else searches.stores(name))

    def _hazards(self) -> tuple[str, ...]:
        """Modules whose text is a hazard to waits that are put in."""
        return self._matching(searches.hazards())

    def _matching(self, search: Search) -> tuple[str, ...]:
        """The modules whose files match a search."""
        if search not in self._found:
            self._found[search] = tuple(sorted(map(self.tree.relative, self._paths(search))))
        found = self._searched[search] = self._found[search]
        if search not in self._matches:
            self._matches[search] = tuple(sorted(self.tree.named.of_places[where] for where in found))
        return self._matches[search]

    def _paths(self, search: Search) -> Sequence[Path]:
        """The files that match; what they call is gathered once: thousands of functions are asked about."""
        if search.kind is not Kind.CALLS:
            return self._that_match(search)
        if self._called is None:
            self._called = self._by_call()
        return self._called.get(search.words[0].encode("utf-8", "surrogatepass"), ())

    def _that_match(self, search: Search) -> list[Path]:
        """Those on the disk are read once for the questions of an editor."""

        def among(paths: Iterable[Path]) -> list[Path]:
            return [path for path in paths if search.matches(self.tree.data(path))]

        opened, warm = self.tree.overlay, self.tree.warm
        if warm is None:
            return among(self.names)
        shut = (path for path in self.names if path not in opened)
        there = warm.searched((self.tree.files, frozenset(opened)), search, lambda: among(shut))
        return [*there, *among(path for path in self.names if path in opened)]

    def _by_call(self) -> Called:
        """Files by what they call; those on the disk are read once for the questions of an editor."""
        opened, warm = self.tree.overlay, self.tree.warm
        shut = (path for path in self.names if path not in opened)
        if warm is None:
            return self._calls_in(self.names)
        there = warm.called((self.tree.files, frozenset(opened)), lambda: self._calls_in(shut))
        called = dict(there)
        for name, paths in self._calls_in(path for path in self.names if path in opened).items():
            called[name] = [*paths, *called.get(name, ())]
        return called

    def _calls_in(self, paths: Iterable[Path]) -> dict[bytes, list[Path]]:
        called: dict[bytes, list[Path]] = {}
        for path in paths:
            for name in searches.called_in(self.tree.data(path) or b""):
                called.setdefault(name, []).append(path)
        return called

    def _text(self, path: str) -> str | None:
        return self.tree.text(self.tree.root / path)

    def statement(self, span: Span) -> str:
        return self.tree.statement(span)


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


def _note(run: Run, judged: Sequence[Conditional], seconds: float) -> Ran:
    pairs = frozenset(item.finding.pair for item in judged)
    return Ran(run.entry.label, frozenset(run.covered), pairs, seconds)


def _statistics(project: Project, module: ir.Module, covered: set[str], approximate: set[str]) -> Statistics:
    """Counts the module's functions that touch streams by how far they were analyzed."""
    exact = cut = skipped = 0
    for decl in ir.all_functions(module):
        if not touching.touches(project, decl):
            continue
        if f"{module.name}:{decl.qualname}" not in covered:
            skipped += 1
        elif any(decl.qualname in label for label in approximate):
            cut += 1
        else:
            exact += 1
    return Statistics(exact=exact, cut=cut, skipped=skipped)
