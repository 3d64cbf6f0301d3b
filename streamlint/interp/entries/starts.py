"""Where analysis starts.

Entries are module bodies, functions that nothing in the module calls, and the public methods of
classes (``methods`` has the orders in which they are called). Helpers are judged through their callers; a
function that touches streams and was reached by nobody is run by itself at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.entries import (
    closures,
    differentiable,
    handed,
    hooked,
    methods,
    repetition,
    saved,
    trained,
)
from streamlint.interp.entries.construction import Construction
from streamlint.interp.entries.progress import Told
from streamlint.interp.entries.runs import Entry, Run, run_entry
from streamlint.interp.facts import brought, joins, touching
from streamlint.interp.facts.relevance import (
    callers_first,
    is_relevant,
    mentioned_in,
    relevant,
    users_first,
    with_those_called,
)
from streamlint.interp.python import registries, stmt, unseen_caller
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import FuncV

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.facts.relevance import Relevant
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project
    from streamlint.trace import StreamKind


def module_runs(
    project: Project,
    module: ir.Module,
    default_stream: StreamKind,
    only: frozenset[str] | None = None,
) -> Iterator[Run]:
    """Runs what of a module is worth it, callers before helpers; with ``only``, entries with these labels."""
    worth = worth_running(project, module) or relevant(project, module)
    told = Told()

    def run_all(entries: Iterator[Entry]) -> Iterator[Run]:
        for entry in entries:
            if (only is not None and entry.label not in only) or told.ends_early(entry):
                continue
            wanted = (
                replace(entry, of_others=True) if worth.of_others else _leading(project, module, entry, told)
            )
            run = run_entry(project, wanted, default_stream)
            told.note(run)
            yield run
            told.note_judged(run)
            names = frozenset(run.closures - told.covered)
            if names:
                hooks = run_entry(project, closures.entry_of(entry, names), default_stream)
                told.covered.update(hooks.covered)
                yield hooks

    yield from run_all(_body_entry(module, worth))
    yield from run_all(_functions(project, module, worth, told, called=False))
    if not worth.of_others:
        yield from run_all(differentiable.steps(project, module, worth, told))
    for cls in ir.all_classes(module):
        project.budgets.never_run.update((cls.qualname, why) for why in cls.unread)
    constructions = [
        Construction(cls)
        for cls in users_first(module)
        if (only is None or _is_among(cls.qualname, only)) and methods.is_worth_calling(project, cls, worth)
    ]
    for construction in constructions:
        yield from run_all(methods.alone_and_in_pairs(project, module, construction, worth, told))
        if not worth.of_others and (only is None or any(methods.THEN in label for label in only)):
            # A class that a method prepares shows as well how those are called that it uses, which come next.
            yield from run_all(methods.prepared(project, module, construction, told))
    yield from run_all(_functions(project, module, worth, told, called=True))
    for construction in constructions:
        yield from run_all(methods.left(project, module, construction, told))
        if worth.of_others:
            continue
        if only is None or any(methods.THEN in label for label in only):
            yield from run_all(methods.replaced(project, module, construction, told))
            yield from run_all(methods.dropping(project, module, construction, told))
            yield from run_all(methods.met_again(project, module, construction, told))
            yield from run_all(methods.taking(project, module, construction, told))
            yield from run_all(methods.walked(project, module, construction, told))
            yield from run_all(hooked.of_class(project, module, construction))
            yield from run_all(trained.of_class(project, module, construction, told))
            yield from run_all(saved.of_class(project, module, construction))
            yield from run_all(saved.given_back(project, module, construction, told))
        yield from run_all(methods.waiting(project, module, construction, told))


def _leading(project: Project, module: ir.Module, entry: Entry, told: Told) -> Entry:
    """The entry with the functions that it is to come by: see ``Entry.leads_to``."""
    if entry.prepared:
        return entry
    cls = next((one for one in ir.all_classes(module) if one.qualname == entry.owner), None)
    owners = project.ancestors(cls)[0] if cls is not None else []
    bodies = dict(module.functions)
    for owner in reversed([one for one in owners if one.module == module.name]):
        bodies |= owner.methods
    names = entry.outside_calls or (entry.label.rpartition(".")[2],)
    led = (decl for decl in with_those_called(frozenset(names), bodies) if touching.touches(project, decl))
    return replace(entry, leads_to=frozenset(f"{module.name}:{decl.qualname}" for decl in led) - told.covered)


def _is_among(cls: str, labels: frozenset[str]) -> bool:
    return any(label.startswith(f"{cls}.") for label in labels)


def worth_running(project: Project, module: ir.Module) -> Relevant | None:
    """What of a module is worth running; None where that is nothing.

    Either its code names streams or asynchronous copies unmistakably, or it uses code of others that does.
    """
    return project.once(_WORTH, module.name, lambda: _worth_running(project, module))


def _worth_running(project: Project, module: ir.Module) -> Relevant | None:
    if mentions_streams(project, module):
        return relevant(project, module)
    return brought.brought(project, module)


_WORTH: Kept[str, Relevant | None] = Kept()


def mentions_streams(project: Project, module: ir.Module) -> bool:
    """Whether any code of the module names streams or asynchronous copies unmistakably."""
    return any(touching.surely(project, module, names) for names in touching.used_by(module))


def _body_entry(module: ir.Module, worth: Relevant) -> Iterator[Entry]:
    def body(m: Machine) -> None:
        env = m.frame.env
        m.frame.function = module.name
        line = 0
        for statement in module.load_body():
            registries.decorated_before(m, module, line, statement.span.line)
            line = statement.span.line
            stmt.run(m, statement)
            for name, value in env.names.items():
                m.globals[module.name, name] = value

    interesting = [
        s for s in module.load_body() if not isinstance(s, (ir.Declare, ir.Import)) and not _is_constant(s)
    ]
    if interesting and not (worth.of_others and worth.names.isdisjoint(module.body_names)):
        lines = interesting[-1].span.end_line - interesting[0].span.line + 1
        yield Entry(module.name, module.name, body, interesting[0].span, lines=lines)


def _is_constant(statement: ir.Stmt) -> bool:
    """``NAME = <literal>`` and docstrings: nothing to run."""
    match statement:
        case (
            ir.Assign(value=ir.Const() | ir.Seq() | ir.DictDisplay() | ir.Name() | ir.Attr())
            | ir.Eval(value=ir.Const())
        ):
            return True
        case _:
            return False


def _functions(
    project: Project, module: ir.Module, among: Relevant, told: Told, *, called: bool
) -> Iterator[Entry]:
    """Functions by themselves: first those that nothing calls, then those that nobody reached."""
    mentions: dict[str, int] = {}
    for decl in ir.all_functions(module):
        for name in decl.names & module.functions.keys():
            if name != decl.name:
                mentions[name] = mentions.get(name, 0) + 1
    waiting = [decl for decl in module.functions.values() if bool(mentions.get(decl.name)) == called]
    for decl in callers_first([decl for decl in waiting if not told.is_covered(module, decl)]):
        if told.is_covered(module, decl):
            continue
        if not is_relevant(project, decl, among):
            continue
        entry = replace(
            function_entry(project, module, decl), callers_cut=mentioned_in(module, decl, told.cut)
        )
        yield entry
        yield from handed.of_function(project, module, entry, decl, told)
        if hooked.registers(decl.called):
            yield hooked.behind(entry)


def function_entry(project: Project, module: ir.Module, decl: ir.FunctionDecl) -> Entry:
    def call(m: Machine, number: int) -> None:
        unseen_caller.call_outside(m, FuncV(decl), number)

    def body(m: Machine) -> None:
        before = repetition.state(m, None)
        call(m, 0)
        if repetition.meets_itself(m):
            repetition.until_repeated(m, None, lambda number: call(m, number), 0, before)

    return Entry(
        decl.qualname,
        module.name,
        body,
        decl.span,
        lines=decl.lines,
        joined_elsewhere=joins.joined(project, module, decl),
        orders_elsewhere=joins.orders_state_of(module, decl),
    )
