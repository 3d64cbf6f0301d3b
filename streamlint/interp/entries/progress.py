"""What the entries of a module that were run tell the later ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.frozen import frozen, replace
from streamlint.interp.entries.runs import is_busy, is_plain
from streamlint.trace import (
    Alloc,
    BeginCapture,
    Copy,
    Free,
    HostAccess,
    HostEffect,
    KeepAlive,
    Launch,
    Record,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
    launches_graph,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from streamlint import ir
    from streamlint.interp.entries.runs import Entry, Run
    from streamlint.interp.state.frames import Driven
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span
    from streamlint.trace import BufferId, EventId, StreamId, Trace


@frozen()
class Leaving:
    """An entry that leaves memory behind which another stream uses."""

    label: str
    calls: tuple[str, ...]
    """The methods called."""
    begun: tuple[Mapping[Symbol, int], ...]
    """What paths have answered that do so, one for each choice of places where that was allocated."""


@dataclass(slots=True)
class Told:
    """Functions by module and qualified name, entries by their labels."""

    covered: set[str] = field(default_factory=set)
    """Functions that were run to their end."""
    cut: set[str] = field(default_factory=set)
    """Functions in runs that were cut at a budget."""
    issuing: set[str] = field(default_factory=set)
    """Functions, by qualified name, that did something on the GPU."""
    calling: set[Span] = field(default_factory=set)
    """Calls under which something was done, where there was something to order: a method that does no more
    than ``await self.peer.write(page)``."""
    busy: set[str] = field(default_factory=set)
    """Entries that did something on a second stream."""
    quiet: set[str] = field(default_factory=set)
    """All others."""
    unprepared: set[str] = field(default_factory=set)
    """Entries that would have raised an error: they use what only another call sets."""
    stopped: set[tuple[str, tuple[str, ...], bool]] = field(default_factory=set)
    """Classes with calls of theirs, one after the other, that no path came behind, and whether they were to
    prepare an object: ``assert self.rows is not None``."""
    plain: set[str] = field(default_factory=set)
    """Entries on whose paths there was nothing to order."""

    driven: list[set[Driven]] = field(default_factory=list)
    """What entries, one each, call on objects that they construct: ``Machine.driven``.

    Methods tell it of objects of other classes: how ``Server`` calls its ``Cache``."""
    places: dict[str, frozenset[Span]] = field(default_factory=dict)
    """Where the memory was allocated that an entry used."""
    leaving: list[Leaving] = field(default_factory=list)
    """Entries that leave memory behind which another stream uses."""
    meeting: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """Entries whose last call leaves a copy under way on host memory that the first call touched, with the
    methods called."""
    following: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """Entries of several methods whose last call did something that can be unordered, with the methods."""
    filling: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """Entries whose last call leaves memory of a device behind that is filled aside, with the methods."""
    handed: dict[str, tuple[ir.ClassDecl, ...]] = field(default_factory=dict)
    """Classes of what entries hand out with work under way in it."""
    launching: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """Entries whose last call launches a graph that was captured before it, with the methods called."""

    def note(self, run: Run) -> None:
        self.covered |= run.covered
        if any(trace.cut for trace in run.traces):
            self.cut |= run.covered
        self.issuing.update(op.at.function for trace in run.traces for op in trace.ops if op.at.calls)
        busy = any(is_busy(trace.ops) for trace in run.traces)
        if busy:
            self.calling.update(span for trace in run.traces for op in trace.ops for span in op.at.calls)
        (self.busy if busy else self.quiet).add(run.entry.label)
        self.places[run.entry.label] = frozenset(
            span
            for trace in run.traces
            for op in trace.ops
            if op.at.call and isinstance(op, (Launch, Copy))
            for access in op.accesses
            if (span := trace.buffers[access.buffer].span) is not None
        )
        if run.handed:
            self.handed[run.entry.label] = tuple(run.handed)
        if run.unprepared:
            self.unprepared.add(run.entry.label)
        if run.entry.is_sequence and run.last_call and not run.whole:
            calls = tuple(map(run.entry.called_in, range(1, run.last_call + 1)))
            self.stopped.add((run.entry.owner, calls, run.entry.prepared))
        if is_plain(run):
            self.plain.add(run.entry.label)
        if not run.entry.of_handle:
            self._note_order(run)

    def _note_order(self, run: Run) -> None:
        """Calls of one class that leave something for further calls of it."""
        calls = run.entry.outside_calls
        order = run.entry.label, calls
        if any(_launches(trace) for trace in run.traces):
            self.launching.append(order)
        if begun := _leave_memory(run):
            self.leaving.append(Leaving(*order, begun))
        if len(set(calls)) > 1 and any(map(_meets_the_first, run.traces)):
            self.meeting.append(order)
        if len(set(calls)) > 1 and any(map(_last_is_busy, run.traces)):
            self.following.append(order)
        if calls and any(map(_fills_aside, run.traces)):
            self.filling.append(order)

    def note_judged(self, run: Run) -> None:
        """Keeps the order of calls of a program in which nothing is wrong: it is one to be used in."""
        # Where the search for dropped references was cut, all calls were made all the same.
        whole = all(set(trace.cut) <= {"lifetimes"} for trace in run.traces)
        if run.at_fault or not whole:
            return
        own = f"{run.entry.module}:{run.entry.owner}"
        driven = {call for call in run.driven if call.cls != own}
        if driven:
            self.driven.append(driven)

    def begun_by(self, label: str) -> tuple[Mapping[Symbol, int], ...]:
        """How paths of an entry have begun that leave memory behind: who goes on from there meets it."""
        return next((each.begun for each in self.leaving if each.label == label), ())

    def shows_order(self, cls: ir.ClassDecl, names: Sequence[str]) -> bool:
        """Whether some entry calls all these methods on an object of its own, as often as it wants to.

        One method again and again is what a loop of unknown length does, and its passes are cut: unless it
        calls others in between, as in ``lane.finish(out); lane.start(x)``. Nor does a function that calls one
        method of an object which the module keeps: what it leaves, its own next call meets.
        """
        key, again = f"{cls.module}:{cls.qualname}", len(set(names)) == 1
        return any(
            any(set(names) <= methods for methods in _of_each_object(key, driven))
            and not (again and _repeated(key, driven) == {names[0]})
            and not (again and all(c.kept for c in driven if (c.cls, c.method) == (key, names[0])))
            for driven in self.driven
        )

    def shows_arguments(self, cls: ir.ClassDecl) -> frozenset[tuple[str, str]]:
        """The methods of a class with the parameters for which some entry passes memory of its own.

        ``with self.halo.stream: self.q *= 0.5`` and then ``self.halo.exchange(self.q)``: nothing is pending.
        """
        key = f"{cls.module}:{cls.qualname}"
        calls = (call for driven in self.driven for call in driven if call.cls == key)
        return frozenset((call.method, name) for call in calls if not call.step for name in call.shown)

    def shows_loop(self, cls: ir.ClassDecl, name: str) -> int:
        """How many calls of a method in a row an entry shows that calls it in a loop, again and again.

        Two, if it shows any, and more where the passes of the loop went around a ring.
        """
        key = f"{cls.module}:{cls.qualname}"
        shown = (driven for driven in self.driven if name in _repeated(key, driven))
        calls = (call for driven in shown for call in driven if (call.cls, call.method) == (key, name))
        return max((max(call.times, 2) for call in calls), default=0)

    def ends_early(self, entry: Entry) -> bool:
        """Whether no path of an entry can come to its last call: its first calls have ended all paths before.

        Those that prepare an object are run with other answers than others.
        """
        calls = entry.outside_calls
        return entry.is_sequence and any(
            (entry.owner, calls[:number], entry.prepared) in self.stopped for number in range(1, len(calls))
        )

    def was_run(self, label: str) -> bool:
        return label in self.busy or label in self.quiet

    def was_prepared(self, label: str) -> bool:
        """Whether an entry did something on a second stream, and had all that it uses."""
        return label in self.busy and label not in self.unprepared

    def is_covered(self, module: ir.Module, decl: ir.FunctionDecl) -> bool:
        return f"{module.name}:{decl.qualname}" in self.covered

    def has_issued(self, decl: ir.FunctionDecl) -> bool:
        """Whether a method did something on the GPU, by itself or by what it calls.

        Not where that was only to prepare for what it does itself, on an object that has nothing to work
        with: ``self.fill_buffers()``, and then a loop over no layers.
        """
        body = replace(decl.span, end_line=decl.span.line + decl.lines - 1)
        return decl.qualname in self.issuing or any(body.has_lines_of(span) for span in self.calling)

    def is_seen_whole(self, module: ir.Module, decl: ir.FunctionDecl) -> bool:
        """Whether a run that was not cut came by it."""
        return self.is_covered(module, decl) and f"{module.name}:{decl.qualname}" not in self.cut


def _leave_memory(run: Run) -> tuple[Mapping[Symbol, int], ...]:
    """How paths begin on which one or two methods leave memory behind that another stream uses.

    One for each choice of places where the methods have allocated it: ``load()`` may have it from a file or
    from pages of the host, and keep it for the other stream only where it was told to.
    """
    if len(run.entry.outside_calls) not in (1, 2):
        return ()
    found: dict[frozenset[Span | None], Mapping[Symbol, int]] = {}
    for trace, answers in zip(run.traces, run.answers, strict=True):
        if places := frozenset(trace.buffers[number].span for number in _left(trace)):
            found.setdefault(places, answers)
    return tuple(found.values())


def _left(trace: Trace) -> set[BufferId]:
    """The memory that calls have allocated and leave behind, and which another stream uses."""
    last = max((op.at.call for op in trace.ops), default=0)
    allocated = {
        op.buffer: op.stream
        for op in trace.ops
        if isinstance(op, Alloc) and op.stream is not None and op.at.call > 0
    }
    for op in trace.ops:
        # What the last call drops is behind it too: use(name) reads self.pages[name], and takes it out.
        if isinstance(op, KeepAlive) or (isinstance(op, Free) and op.at.call != last):
            allocated.pop(op.buffer, None)
    lent = {
        number
        for number, on in allocated.items()
        if trace.buffers[number].lent and not trace.streams[on].is_default
    }
    return lent | {
        access.buffer
        for op in trace.ops
        if isinstance(op, (Launch, Copy)) and op.at.call == last
        for access in op.accesses
        if allocated.get(access.buffer, op.stream) != op.stream
    }


def _meets_the_first(trace: Trace) -> bool:
    """Whether the last call leaves a copy under way on host memory that the first one touched."""
    last = max((op.at.call for op in trace.ops), default=0)
    touched = {
        access.buffer
        for op in trace.ops
        if isinstance(op, (HostAccess, Launch, Copy)) and op.at.call == 1
        for access in op.accesses
    }
    return any(
        access.buffer in touched and trace.buffers[access.buffer].space.on_host
        for op in trace.ops
        if isinstance(op, Copy) and op.host is HostEffect.ASYNC and op.at.call == last
        for access in op.accesses
    )


def _last_is_busy(trace: Trace) -> bool:
    last = max((op.at.call for op in trace.ops), default=0)
    return is_busy([op for op in trace.ops if op.at.call == last])


def _fills_aside(trace: Trace) -> bool:
    """Whether the last call leaves memory of a device behind that another stream than the current one fills.

    No stream, and not the host, has waited for that since: who takes the memory would have to.
    """
    last = max((op.at.call for op in trace.ops), default=0)
    filling: set[StreamId] = set()
    recorded: dict[EventId, StreamId] = {}
    for op in trace.ops:
        match op:
            case Launch(stream=stream) | Copy(stream=stream) if op.at.call == last > 0:
                written = (access.buffer for access in op.accesses if access.mode.writes)
                aside = not trace.streams[stream].is_default
                if aside and not all(trace.buffers[number].space.on_host for number in written):
                    filling.add(stream)
            case Record(stream=stream, event=event):
                recorded[event] = stream
            case Wait(event=event) | SyncEvent(event=event) if event in recorded:
                filling.discard(recorded[event])
            case SyncStream(stream=stream):
                filling.discard(stream)
            case SyncDevice():
                filling.clear()
            case _:
                pass
    return bool(filling)


def _launches(trace: Trace) -> bool:
    """Whether the last call launches a graph that another call, or the constructor, has captured."""
    captured = {op.at.call for op in trace.ops if isinstance(op, BeginCapture)}
    launches = {op.at.call for op in trace.ops if launches_graph(op)}
    last = max((op.at.call for op in trace.ops), default=0)
    return last in launches and bool(captured) and last not in captured


def _of_each_object(key: str, driven: set[Driven]) -> Iterable[set[str]]:
    """The methods of a class that are called on each object of it."""
    called: dict[int, set[str]] = {}
    for call in driven:
        if call.cls == key:
            called.setdefault(call.on, set()).add(call.method)
    return called.values()


def _repeated(key: str, driven: set[Driven]) -> set[str]:
    """The methods of a class that a loop of unknown length calls, without what they call by themselves.

    An object is made once, also where a loop is the first to use it: ``while True: runner.step(q.get())``.
    """
    called = (call for call in driven if call.cls == key and call.method != "__init__")
    return {call.method for call in called if call.endless and not call.step}
