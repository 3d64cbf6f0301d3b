"""An entry, and the paths through it that are run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.frozen import frozen, replace
from streamlint.interp.facts import guesses
from streamlint.interp.library import handles, one_stream
from streamlint.interp.python import functions
from streamlint.interp.python.whole import PYTHON
from streamlint.interp.state import callers
from streamlint.interp.state.budgets import LIMITS
from streamlint.interp.state.decisions import Oracle
from streamlint.interp.state.ends import Cut, Jumped, PathEnds, Returned
from streamlint.interp.state.exploration import Exploration
from streamlint.interp.state.frames import Driven, Frame
from streamlint.interp.state.machine import Machine
from streamlint.interp.state.result import trace_of
from streamlint.interp.state.values import Env
from streamlint.trace import (
    Alloc,
    Barrier,
    Callback,
    Copy,
    CudaCall,
    HostAccess,
    HostEffect,
    Launch,
    StreamKind,
    SyncDevice,
    SyncStream,
    Trace,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streamlint import ir
    from streamlint.interp.state.project import Project
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.watch import Watch
    from streamlint.source import Span
    from streamlint.trace import Op
PATHS = 12
"""Paths explored for a function or a method by itself."""
LEAST_PATHS = 3
"""Paths that an entry of many steps has all the same: a usual one, and what the nearest tests tell apart.

Those that began anew with an answer put right do not count: each stands for one that no run takes."""
PAIR_PATHS = 4
"""Paths explored for two methods in a row."""
QUIET_PATHS = 4
"""Paths explored while none of them uses a second stream, an asynchronous copy or a callback."""
PREPARING_PATHS = 12
"""The same for calls that prepare an object for the last one."""
PREPARING_STEPS = 4_000
"""Expressions and statements evaluated for such calls, over all paths: there are many ways to call."""

COMBINATIONS = "combinations of paths"
"""What was left out where each arm of a test was taken on some path, but not with each arm of all others."""


@frozen()
class Entry:
    """One way in: a label for messages, and what to run on a fresh machine."""

    label: str
    module: str
    body: Callable[[Machine], None]
    start: Span
    paths: int = PATHS
    lines: int = 0
    """Lines of what is run: of the longest function that is called, or of the module's body."""
    outside_calls: tuple[str, ...] = ()
    """Names of the methods called from outside, by call number."""
    is_sequence: bool = False
    """Whether these calls, of one object that outside code makes, are all that is run."""
    by_itself: bool = False
    """Whether it is one call of a method of an object, and no order in which outside code calls a class."""
    joined_elsewhere: frozenset[str] = frozenset()
    """Names that functions of the module use which wait for a stream and enter none: a stream among them
    may be joined by its name there."""
    waited_by_owners: frozenset[str] = frozenset()
    """Parameters of the constructor for which code passes streams that it waits for itself elsewhere."""
    known_to_makers: frozenset[str] = frozenset()
    """Streams of its object that those know who make objects of its class: they may wait for such a one."""
    entered_elsewhere: frozenset[str] = frozenset()
    """Names of streams of its object that others may make current: what they get, they may use there."""
    forked_elsewhere: frozenset[str] = frozenset()
    """Names of streams that methods of the class make wait which give them no work themselves."""
    orders_elsewhere: frozenset[str] = frozenset()
    """Methods of the class that order streams, other than those called or as callers of the first."""
    ended_by: frozenset[str] = frozenset()
    """Methods of the class after which the last one called would find nothing to work with."""
    steps_of_ordering: frozenset[str] = frozenset()
    """Methods of the class that another one calls, and orders or chooses streams around that."""
    ordered_by_hooks: bool = False
    """Whether hooks that the class registers order streams: they may run between any two calls."""
    finished_elsewhere: frozenset[str] = frozenset()
    """Names that other public methods of the class use which let the host wait: an event that the called one
    records is there for them, ``def finish(self): self.done.synchronize()``."""
    is_step: bool = False
    """Whether another method of the class mentions the first one: it may wait for what that leaves."""
    has_callers: bool = False
    """Whether another method of the class calls the first one: what is pending then is seen there."""
    asked_by_others: bool = False
    """Whether methods of other classes of the module call something of its name: what is done with a result
    is seen there."""
    of_handle: bool = False
    """Whether the first call hands out the object whose methods are called next: ``submit(x).result()``."""
    after_others: bool = False
    """Whether the object is taken to have had calls that are not in the trace."""
    needs_earlier: bool = False
    """Whether the last call does nothing aside without those before it, and is no step of another method."""
    prepared: bool = False
    """Whether the calls before the last one were chosen to prepare the object for it."""
    of_others: bool = False
    """Whether its module names no stream, and only uses code of others that does: few paths of it are run."""
    order_in_sight: bool = False
    """Whether code of the module constructs such an object itself and calls these methods: its order of calls
    is judged where it runs."""
    arguments_in_sight: frozenset[tuple[str, str]] = frozenset()
    """Methods with the parameters for which code of the module passes memory of its own to an object of its
    own: what is pending on it is seen there."""
    loop_in_sight: int = 0
    """The same of one method that a loop calls again and again: how many calls in a row that shows."""
    one_of_several: bool = False
    """Whether the object is one of several, of a class that orders nothing: who has them all knows which of
    them is free to be used again."""
    of_autograd: bool = False
    """Whether autograd calls it for each tensor that an operator has just queued work on, to save it: nobody
    comes in between."""
    with_hooks: bool = False
    """Whether modules that hooks were registered for are called behind it: in which order, and what their own
    code waits for, is not seen."""
    callers_cut: bool = False
    """Whether functions of the module that mention this one were not followed to their end."""
    leads_to: frozenset[str] = field(default=frozenset(), compare=False)
    """Functions that touch streams, which what is called leads to, and no earlier entry has run."""
    begun: tuple[Mapping[Symbol, int], ...] = field(default=(), compare=False)
    """How paths of an earlier entry, with the same first calls, have answered their tests: paths behind the
    first one begin like that."""

    def called_in(self, call: int) -> str:
        """The method that a call from outside is of; empty for the constructor, and for a function.

        One that is called until its object repeats itself stands there once.
        """
        names = self.outside_calls
        return names[min(call, len(names)) - 1] if call and names else ""

    @property
    def is_method(self) -> bool:
        return self.label != self.module and "." in self.label

    @property
    def owner(self) -> str:
        """The class whose methods it calls; empty for a function."""
        return self.label.partition(",")[0].rpartition(".")[0] if self.is_method else ""


@dataclass(slots=True)
class Run:
    """All paths of one entry."""

    entry: Entry
    traces: list[Trace] = field(default_factory=list)
    decided: list[tuple[int, ...]] = field(default_factory=list)
    """What the path of each trace has chosen: see ``replayed``."""
    answers: list[Mapping[Symbol, int]] = field(default_factory=list)
    """The same by what was asked."""
    covered: set[str] = field(default_factory=set)
    needed: set[Span] = field(default_factory=set)
    """Waits that order something on some path; filled in when the run is judged."""
    closures: set[str] = field(default_factory=set)
    """Functions that some path defines inside of another one, and does not call."""
    driven: set[Driven] = field(default_factory=set)
    """Methods that some path calls on objects of its own, as in ``Machine.driven``."""
    handed: dict[ir.ClassDecl, None] = field(default_factory=dict)
    """Classes of objects that some path hands out with work under way in them."""
    at_fault: bool = False
    """Whether something is surely wrong on some path; filled in when the run is judged."""
    unprepared: bool = False
    """Whether some path uses a member of ``None``: see ``Path.uses_none``."""
    whole: bool = False
    """Whether some path comes to its end ..."""
    last_call: int = 0
    """... and the last call from outside that some path begins."""
    cut: int = 0
    left_out: frozenset[str] = frozenset()
    """What the entry was cut at, in words."""


def run_entry(project: Project, entry: Entry, default_stream: StreamKind) -> Run:
    """Explores an entry's paths."""
    run = Run(entry)
    project.budgets.entry = entry.label
    brief = entry.prepared or entry.of_others
    exploration = Exploration(
        lambda oracle: _run_path(_machine(project, entry, default_stream, oracle), entry),
        entry.paths,
        PREPARING_PATHS if entry.prepared else QUIET_PATHS,
        is_busy=lambda m: is_busy(m.ops),
        is_promising=lambda m: len(m.streams) > 1,
        # Calls that prepare an object have done so when the last one has something to do.
        is_whole=lambda m: m.whole and (not entry.prepared or is_busy(m.ops)),
        reach=lambda m: len(m.ops),
        outcome=lambda m: m.did,
        begun=entry.begun,
        least=1 if brief else LEAST_PATHS,
        seeking=bool(entry.leads_to),
        preparing=entry.prepared,
    )
    steps, most = 0, PREPARING_STEPS if brief else LIMITS.entry_steps
    told: dict[object, list[Trace]] = {}
    for number, machine in enumerate(exploration, 1):
        steps += machine.done
        project.budgets.spend(machine.done)
        exploration.spent = steps > most
        exploration.nearly_spent = steps + steps // number > most
        run.covered |= machine.covered
        exploration.seeking = not entry.leads_to <= run.covered
        run.driven |= machine.driven
        run.unprepared |= machine.uses_none
        run.whole |= machine.whole
        run.last_call = max(run.last_call, machine.call)
        run.handed.update((cls, None) for one in handles.given(machine) if (cls := machine.heap[one.id].cls))
        run.closures |= functions.uncalled(machine).keys()
        trace = one_stream.merged(machine, trace_of(machine))
        alike = told.setdefault(machine.did, [])
        if not any(is_same(trace, other) for other in alike):
            alike.append(trace)
            run.traces.append(trace)
            run.decided.append(machine.oracle.chosen)
            run.answers.append({decision.key: decision.chosen for decision in machine.oracle.taken})
    run.cut = exploration.cut
    cuts = {budget for trace in run.traces for budget in trace.cut}
    paths = {"paths"} if run.cut else {COMBINATIONS} if exploration.combinations else set()
    run.left_out = project.budgets.taken() | cuts | paths
    return run


def _machine(project: Project, entry: Entry, default_stream: StreamKind, oracle: Oracle) -> Machine:
    return Machine(
        project=project, python=PYTHON, oracle=oracle, entry=entry.label, default_stream=default_stream
    )


def _run_path(m: Machine, entry: Entry) -> Machine:
    m.most_steps, m.most_ops = LIMITS.of_path(entry.lines)
    m.frames.append(Frame(Env({}, entry.module), entry.label, touches=True))
    callers.begin(m, entry.start)
    try:
        with suppress(Returned, Jumped):
            entry.body(m)
        m.whole = True
    except (PathEnds, Cut):
        pass
    except RecursionError:
        m.cut.append("recursion")
    guesses.settle(m)
    callers.close(m)
    m.did = outline(m.ops)
    return m


def replayed(
    project: Project, entry: Entry, default_stream: StreamKind, decided: tuple[int, ...], watch: Watch
) -> Trace:
    """Runs one path again, and lets somebody look on."""
    m = _machine(project, entry, default_stream, Oracle(decided))
    m.watch = watch
    return one_stream.merged(_run_path(m, entry), trace_of(m))


def is_busy(ops: Sequence[Op]) -> bool:
    """Whether a path has anything that could be unordered."""
    streams = {op.stream for op in ops if isinstance(op, (Launch, Copy))}
    return len(streams) > 1 or any(
        isinstance(op, Callback)
        or (isinstance(op, Copy) and op.host is HostEffect.ASYNC)
        or (isinstance(op, CudaCall) and op.times)
        for op in ops
    )


def is_plain(run: Run) -> bool:
    """Whether all paths only queue work on one stream, and wait for it: there is nothing to order."""
    return all(
        len(trace.streams) == 1 and not is_busy(trace.ops) and all(isinstance(op, _PLAIN) for op in trace.ops)
        for trace in run.traces
    )


_PLAIN = (Launch, Copy, HostAccess, Alloc, Barrier, SyncStream, SyncDevice)


def outline(ops: Sequence[Op]) -> object:
    """What a path did: each operation's kind, place and stream."""
    return tuple((type(op), op.at.span, op.at.call, getattr(op, "stream", None)) for op in ops)


def is_same(trace: Trace, other: Trace) -> bool:
    """Whether nothing but the decisions differs: then the second path shows what the first does."""
    return replace(trace, path=other.path) == other
