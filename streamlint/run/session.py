"""The analysis of one file after the other. Who may get by without it does not import this: it loads all."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING

from streamlint import ir, notebook
from streamlint.finding import OF_FIXES, Confidence, Finding, LeftOut, SourceError, Statistics
from streamlint.frozen import replace
from streamlint.interp.entries import methods, starts
from streamlint.interp.facts import text_order, touching
from streamlint.interp.state.budgets import Budgets, FileCut, OutOfResources
from streamlint.interp.state.project import Project
from streamlint.judging import words
from streamlint.judging.call_ends import Facts
from streamlint.judging.judge import Conditional, findings_of
from streamlint.judging.merging import mended_alike, merge
from streamlint.judging.program import Program
from streamlint.prefilter import may_hold_comments
from streamlint.run import collector, frames, searches
from streamlint.run.elsewhere import Elsewhere
from streamlint.run.matching import Matching
from streamlint.run.outlines import outline
from streamlint.run.plain import of_plain_file
from streamlint.run.results import FileResult, Part, Reads, Settings
from streamlint.run.together import Together
from streamlint.run.tree import Tree
from streamlint.run.warm import Ran

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from streamlint.fixes.plans import Plans
    from streamlint.interp.entries.runs import Run
    from streamlint.run.searches import Search
    from streamlint.source import Span

MOST_INDEXED = 8_000_000
"""Characters of source that are kept indexed from file to file ..."""
STAYS_INDEXED = 7 / 8
"""... and how much of it stays when there are more: what is dropped is mostly wanted again."""


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

    What a result rests on beside the text of its own file is looked up by ``_load`` and ``Matching.modules``,
    by what they lead to (``Tree.looked``), and by ``_text`` and ``statement``: they note it, and nothing else
    looks at other files.
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
        self._looked_up: set[str] = set()
        self._texts: set[str] = set()
        self._outlines: dict[str, bytes] = {}
        self._matching = Matching(self.tree, found)
        self.project = self._new_project()

    def _new_project(self) -> Project:
        """One for each file: what it remembers was looked up for this file, and that is noted."""
        self._looked_up, self._texts, self._matching.asked = set(), set(), {}
        self.tree.looked.clear()
        project = Project(
            self._load, self._assigning, self._calling, self._storing, self._hazards, self._beside
        )
        self._elsewhere = Elsewhere(self.tree, project, self._matching.modules)
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
        if starts.worth_running(self.project, module) is None:
            return FileResult(reads=self._reads())
        return self._analyzed(path, module, only)

    def _reads(self) -> Reads:
        return Reads(frozenset(self._looked_up), self._matching.asked, self._parts())

    def _parts(self) -> dict[str, Part]:
        """What was looked at of each module whose text was not."""
        bodies: defaultdict[str, set[bytes]] = defaultdict(set)
        for name, body in self.tree.looked:
            bodies[name].add(body)
        loaded = (self._modules[name] for name in self._looked_up & self._modules.keys())
        modules = {each.name: each for each in loaded if each is not None and each.path not in self._texts}
        return {
            name: Part(self._outline(module), frozenset(bodies[name])) for name, module in modules.items()
        }

    def _outline(self, module: ir.Module) -> bytes:
        if module.name not in self._outlines:
            self._outlines[module.name] = outline(module)
        return self._outlines[module.name]

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
        together = Together(module, facts, text_order.Text(module), self._elsewhere)
        findings = [
            together.finding(item)
            for item in found
            if not (cut and item.on_every_path) and together.holds(item)
        ]
        if only is None and not cut:
            findings += together.of_unrecorded(found)
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

    def _beside(self, path: str, module: str) -> str:
        """The module that an import in a file means, which rests on whether there is one beside it."""
        if "." in module or self.tree.named.place(module) is None:
            return module
        self._looked_up.add(self.tree.named.beside(path, module))
        return self.tree.named.meant(path, module)

    def _assigning(self, attribute: str) -> tuple[str, ...]:
        """Modules whose text assigns an attribute of this name, that of a stream, on something."""
        return self._matching.modules(searches.assigns(attribute))

    def _calling(self, name: str) -> tuple[str, ...]:
        """Modules whose text has a call of this name."""
        return self._matching.modules(searches.calls(name))

    def _storing(self, name: str | None) -> tuple[str, ...]:
        """Modules whose text gives something to attributes of this name, or of a computed one."""
        return self._matching.modules(searches.stores_any() if name is None else searches.stores(name))

    def _hazards(self) -> tuple[str, ...]:
        """Modules whose text is a hazard to waits that are put in."""
        return self._matching.modules(searches.hazards())

    def _text(self, path: str) -> str | None:
        self._texts.add(path)
        return self.tree.text(self.tree.root / path)

    def statement(self, span: Span) -> str:
        self._texts.add(span.path)
        return self.tree.statement(span)


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
