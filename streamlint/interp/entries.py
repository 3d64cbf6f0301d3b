"""Where analysis starts, and in which order outside code may call a class.

Entries are module bodies, functions that nothing in the module calls, and the public methods of
classes. A class is constructed once; then each method is called until the numbers in the object
repeat, plus once more (a two-slot ring collides on the third call), and pairs of methods that share
an attribute are called one after the other. Helpers are judged through their callers; a function
that touches streams and was reached by nobody is run by itself at the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp import by_name, closures, outside, stmt
from streamlint.interp.construction import Construction, index_state
from streamlint.interp.relevance import (
    all_classes,
    all_functions,
    callers_first,
    is_relevant,
    mentioned_in,
    queues_work,
    relevant_names,
)
from streamlint.interp.runs import PAIR_PATHS, PATHS, Entry, Run, is_plain, run_entry
from streamlint.interp.values import (
    ClassV,
    FuncV,
    HeapV,
)
from streamlint.models import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streamlint.interp.construction import IndexState
    from streamlint.interp.machine import Machine
    from streamlint.interp.project import Project
    from streamlint.trace import StreamKind

MOST_PAIRS = 12
QUEUED_CALLS = 3
MOST_CALLS = 6

PUBLIC_SPECIALS = frozenset(
    {"__call__", "__next__", "__iter__", "__getitem__", "__enter__", "__exit__", "__len__"}
)


def module_runs(
    project: Project,
    module: ir.Module,
    default_stream: StreamKind,
    only: Callable[[str], bool] | None = None,
) -> Iterator[Run]:
    """Runs every entry of a module, callers before helpers; with ``only``, those whose label it accepts."""
    relevant = relevant_names(project, module)
    covered: set[str] = set()
    cut: set[str] = set()
    issuing: set[str] = set()
    plain: set[str] = set()

    def started(entries: Iterator[Entry]) -> Iterator[Run]:
        for entry in entries:
            if only is not None and not only(entry.label):
                continue
            run = run_entry(project, entry, default_stream)
            covered.update(run.covered)
            if any(trace.cut for trace in run.traces):
                cut.update(run.covered)
            if is_plain(run):
                plain.add(entry.label)
            issuing.update(op.at.function for trace in run.traces for op in trace.ops if op.at.calls)
            yield run
            names = frozenset(run.closures - covered)
            if names:
                hooks = run_entry(project, closures.entry_of(entry, names), default_stream)
                covered.update(hooks.covered)
                yield hooks

    yield from started(_body_entry(module))
    yield from started(_functions(module, relevant, called=False, covered=covered, cut=cut))
    constructions = [Construction(cls) for cls in all_classes(module)]
    for construction in constructions:
        yield from started(_class_entries(project, module, construction, relevant, plain))
    yield from started(_functions(module, relevant, called=True, covered=covered, cut=cut))
    for construction in constructions:
        yield from started(_left_methods(module, construction, covered, cut))
        yield from started(_waiting_methods(project, module, construction, issuing))


def mentions_streams(module: ir.Module) -> bool:
    """Whether any code of the module names streams or asynchronous copies unmistakably.

    Classes inherited from other modules are analyzed there.
    """
    # A module that imports CUDA for Python is not about other streams.
    roots = {imported.module.partition(".")[0] for imported in module.imports}
    told = words.surely_touches if roots.isdisjoint(_CUDA_ROOTS) else words.touches
    return told(module.body_names) or any(told(decl.names) for decl in all_functions(module))


_CUDA_ROOTS = frozenset({"cuda", "cupy", "cupyx", "numba"})


def _body_entry(module: ir.Module) -> Iterator[Entry]:
    def body(m: Machine) -> None:
        env = m.frame.env
        m.frame.function = module.name
        for statement in module.load_body():
            stmt.run(m, statement)
            for name, value in env.names.items():
                m.globals[module.name, name] = value

    try:
        statements = module.load_body()
    except ir.LoweringError:
        return
    interesting = [
        s for s in statements if not isinstance(s, (ir.Declare, ir.Import)) and not _is_constant(s)
    ]
    if interesting:
        yield Entry(module.name, module.name, body, interesting[0].span)


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
    module: ir.Module, relevant: frozenset[str], *, called: bool, covered: set[str], cut: set[str]
) -> Iterator[Entry]:
    """Functions by themselves: first those that nothing calls, then those that nobody reached."""
    mentions: dict[str, int] = {}
    for decl in all_functions(module):
        for name in decl.names & module.functions.keys():
            if name != decl.name:
                mentions[name] = mentions.get(name, 0) + 1
    waiting = [decl for decl in module.functions.values() if bool(mentions.get(decl.name)) == called]
    for decl in callers_first([decl for decl in waiting if f"{module.name}:{decl.qualname}" not in covered]):
        if f"{module.name}:{decl.qualname}" in covered:
            continue
        if not is_relevant(decl, relevant) if not called else not words.touches(decl.names):
            continue
        yield replace(function_entry(module, decl), callers_cut=mentioned_in(module, decl, cut))


def function_entry(module: ir.Module, decl: ir.FunctionDecl) -> Entry:
    def body(m: Machine) -> None:
        outside.call_outside(m, FuncV(decl), 0)

    return Entry(decl.qualname, module.name, body, decl.span, joined_elsewhere=joined(module, decl))


_ENTERS = frozenset({"stream", "set_stream", "StreamContext"})


def joined(module: ir.Module, *own: ir.FunctionDecl) -> frozenset[str]:
    """All names in other functions of the module that wait for streams and enter none."""
    found: set[str] = set()
    owners = {decl.qualname.rpartition(".")[0] for decl in own}
    for decl in all_functions(module):
        if decl in own or not _orders(decl.names):
            continue
        if _ENTERS.isdisjoint(decl.names):
            found |= decl.names
        elif decl.qualname.rpartition(".")[0] in owners:
            # A stream named `stream`: self.stream looks like torch.cuda.stream(...).
            found |= _ENTERS & decl.names
    if not found:
        return frozenset()
    # side = self.pool._side: a stream is named after the variable.
    touching = [decl for decl in own if words.touches(decl.names)]
    return frozenset(found.union(*(by_name.variables(decl, found) for decl in touching)))


# ----------------------------------------------------------------------------- classes


def _class_entries(
    project: Project, module: ir.Module, construction: Construction, relevant: frozenset[str], plain: set[str]
) -> Iterator[Entry]:
    """Each method, then pairs of them; ``plain`` are the entries that were run and have nothing to order."""
    cls = construction.cls
    methods = _methods(project, cls)
    own = [decl for decl in methods.values() if is_relevant(decl, relevant)]
    if not own:
        return
    public = [decl for decl in own if is_public(decl)]
    for decl in public:
        yield _sequence(module, construction, [decl], methods, repeat=True)
    quiet = [
        decl
        for decl in methods.values()
        # with torch.cuda.stream(self.side):    what did so and was plain waits for another method to set it
        if (decl not in own or _label(cls, [decl]) in plain)
        and not words.surely_touches(_reach(decl, methods))
    ]
    for first, second in list(_pairs(module, public, methods))[:MOST_PAIRS]:
        if first in quiet and second in quiet:
            continue
        # A queue that the second method takes from may have to hold more than one element.
        queues = not _QUEUES.isdisjoint(_reach(first, methods)) and "len" in second.names
        times = QUEUED_CALLS if queues else 1
        yield _sequence(module, construction, [*[first] * times, second], methods, repeat=False)


_QUEUES = frozenset({"append", "appendleft", "put", "put_nowait", "push"})


def _pairs(
    module: ir.Module, public: Sequence[ir.FunctionDecl], methods: dict[str, ir.FunctionDecl]
) -> Iterator[tuple[ir.FunctionDecl, ir.FunctionDecl]]:
    """Methods to call one after the other: both public, sharing state, the most telling pairs first."""
    others = [decl for decl in methods.values() if is_public(decl) and decl not in public]
    for firsts in (public, others):
        for first in firsts:
            for second in public:
                # A step of the second method is judged where that method calls it.
                if first is second or first.name in second.names or not shared_state(first, second, methods):
                    continue
                if queues_work(module, _reach(first, methods)) or firsts is others:
                    yield first, second


def _methods(project: Project, cls: ir.ClassDecl) -> dict[str, ir.FunctionDecl]:
    """All methods, inherited ones too, as lookup finds them."""
    found: dict[str, ir.FunctionDecl] = {}
    for ancestor in project.ancestors(cls)[0]:
        for name, decl in ancestor.methods.items():
            found.setdefault(name, decl)
    return found


def is_public(decl: ir.FunctionDecl) -> bool:
    return not decl.name.startswith("_") or decl.name in PUBLIC_SPECIALS


def _reach(decl: ir.FunctionDecl, methods: dict[str, ir.FunctionDecl]) -> frozenset[str]:
    """Names used by a method and by the methods that it mentions."""
    reached = set(decl.names)
    for name in decl.names & methods.keys():
        reached |= methods[name].names
    return frozenset(reached)


def shared_state(
    first: ir.FunctionDecl, second: ir.FunctionDecl, methods: dict[str, ir.FunctionDecl]
) -> bool:
    """Whether two methods use a common attribute that the constructor or one of them sets."""
    common = _reach(first, methods) & _reach(second, methods)
    state = common & (methods["__init__"].names if "__init__" in methods else common)
    return any(name not in ("self", "torch", "None") and name not in methods for name in state - _COMMON)


_COMMON = frozenset(
    "self torch cuda Stream Event stream current_stream device dtype shape size len range int float "
    "list dict tuple wait_stream wait_event record synchronize record_stream non_blocking pin_memory "
    "cp np numpy empty zeros to copy_ append super nn Optional None True False isinstance config "
    "logger enumerate zip".split()
)


def _sequence(
    module: ir.Module,
    construction: Construction,
    order: list[ir.FunctionDecl],
    methods: dict[str, ir.FunctionDecl],
    *,
    repeat: bool,
) -> Entry:
    def body(m: Machine) -> None:
        first, *others = order
        made, before = construction.make_and_call(m, first)
        if repeat:
            _call_until_repeated(m, made, first, before)
        for number, decl in enumerate(others, 2):
            _call(m, made, decl, number)

    label = _label(construction.cls, order)
    names = tuple(decl.name for decl in order)
    elsewhere = frozenset(
        decl.name
        for decl in methods.values()
        if (
            (is_public(decl) and decl.name not in names)
            # average() is a step of reduce(), which forks before it and joins after it.
            or (decl.name not in ("__init__", names[0]) and names[0] in decl.names)
        )
        and _orders(_reach(decl, methods))
    )
    return Entry(
        label,
        module.name,
        body,
        order[0].span,
        PATHS if repeat else PAIR_PATHS,
        outside_calls=names,
        # Of two methods each may join what the other leaves.
        joined_elsewhere=frozenset().union(*(joined(module, decl) for decl in dict.fromkeys(order))),
        orders_elsewhere=elsewhere,
    )


def _label(cls: ir.ClassDecl, order: Sequence[ir.FunctionDecl]) -> str:
    return f"{cls.qualname}." + ", then ".join(dict.fromkeys(decl.name for decl in order))


_ORDERING = frozenset(
    {
        "synchronize",
        "wait_stream",
        "wait_event",
        "wait",
        "query",
        "cudaStreamSynchronize",
        "cudaEventSynchronize",
        "cudaDeviceSynchronize",
        "sync",
    }
)


def _orders(names: frozenset[str]) -> bool:
    return not _ORDERING.isdisjoint(names)


def _call(m: Machine, made: HeapV, decl: ir.FunctionDecl, number: int) -> None:
    m.call = number
    outside.call_outside(m, FuncV(decl, None, made), number)


def _call_until_repeated(m: Machine, made: HeapV, decl: ir.FunctionDecl, before: IndexState) -> None:
    """More calls after the first: until the object is as it was ``before`` one of them, and one more."""
    seen = [before]
    number = 2
    while (state := index_state(m, made)) not in seen and number <= MOST_CALLS:
        seen.append(state)
        _call(m, made, decl, number)
        number += 1
    if state in seen:
        _call(m, made, decl, number)


def _left_methods(
    module: ir.Module, construction: Construction, covered: set[str], cut: set[str]
) -> Iterator[Entry]:
    """Methods that touch streams and that no caller reached: helpers of subclasses, hooks, private steps."""
    cls = construction.cls
    left = [decl for decl in cls.methods.values() if f"{module.name}:{decl.qualname}" not in covered]
    for decl in callers_first(left):
        key = f"{module.name}:{decl.qualname}"
        if key in covered or decl.name == "__init__" or not words.touches(decl.names):
            continue

        def body(m: Machine, decl: ir.FunctionDecl = decl) -> None:
            static = "staticmethod" in decl.decorators
            made = None if static else construction.make(m)
            m.call = 1
            outside.call_outside(
                m, FuncV(decl, None, ClassV(cls) if "classmethod" in decl.decorators else made), 1
            )

        unknown = mentioned_in(module, decl, cut)
        yield Entry(decl.qualname, module.name, body, decl.span, PAIR_PATHS, callers_cut=unknown)


def _waiting_methods(
    project: Project, module: ir.Module, construction: Construction, issuing: set[str]
) -> Iterator[Entry]:
    """Methods that did nothing on a fresh object: they need what other methods leave.

    ``def finish(self): assert self.handle is not None; self.handle.wait()``
    """
    cls = construction.cls
    methods = _methods(project, cls)
    for decl in cls.methods.values():
        if decl.qualname in issuing or decl.name == "__init__" or not words.touches(decl.names):
            continue
        if {"staticmethod", "classmethod"} & set(decl.decorators):
            continue
        names = frozenset().union(*(other.names for other in methods.values() if other is not decl))

        def body(m: Machine, decl: ir.FunctionDecl = decl, names: frozenset[str] = names) -> None:
            made = construction.make(m)
            outside.after_other_calls(m, made, names)
            _call(m, made, decl, 1)

        yield Entry(decl.qualname, module.name, body, decl.span, PAIR_PATHS, after_others=True)
