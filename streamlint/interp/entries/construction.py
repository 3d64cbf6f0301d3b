"""The object that a class's entries are about: constructed once, and given to each path anew."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen, replace
from streamlint.interp.entries import repetition
from streamlint.interp.facts import classes
from streamlint.interp.library import feeding
from streamlint.interp.python import instances, unseen_caller
from streamlint.interp.state import callers, snapshots, symbols
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.ends import PathEnds
from streamlint.interp.state.values import (
    FuncV,
    HeapV,
)
from streamlint.trace import (
    Copy,
    HostEffect,
    Launch,
    Purpose,
    Role,
    Space,
    StreamKind,
    SyncDevice,
    SyncStream,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.interp.entries.repetition import State
    from streamlint.interp.state.decisions import Oracle
    from streamlint.interp.state.machine import Machine
    from streamlint.trace import Op, Site, StreamId


MOST_CONSTRUCTIONS = Most(12, "constructions")
"""Times that a constructor which does not come to its end is run again, with other answers ..."""
CONSTRUCTION_STEPS = Most(4_000, "constructions")
"""... and expressions and statements evaluated for it, over all of them."""
STATES_KEPT = 256
"""Copies of states that a class keeps, of up to 0.2 MB each: what is not kept is run again."""


@frozen()
class _Begun:
    """What the beginning of a path left: the constructor alone, or with a first call of a method."""

    made: HeapV
    before: State | None = None
    """The object's numbers and flags before the call."""
    ended: bool = False
    """Whether the call ended the path: ``assert self.stream is not None``."""


@frozen()
class _Kept:
    called: ir.FunctionDecl | None
    """The method that was called; None for the constructor alone."""
    begun: _Begun
    state: dict[str, object]
    oracle: Oracle
    """The answers that led there."""


@dataclass(slots=True)
class Construction:
    """Makes objects of one class as outside code does, with unknown arguments.

    The constructor runs in the first path, and where it does not come to its end (``if self.layers is None:
    return``) again with other answers, until it does. Later paths that decide alike in it continue from a
    copy of what it left: the constructor of a large class costs more than most of its methods. So do those
    that also begin with the same call of a method, and decide alike in that.
    """

    cls: ir.ClassDecl
    in_sight: bool = True
    """Whether other code of the module made such an object, or got one, before the class was looked at."""
    arguments_in_sight: frozenset[tuple[str, str]] = frozenset()
    """Methods and parameters for which code of the module passes memory of its own: see ``Entry``."""
    _kept: list[_Kept] = field(default_factory=list)
    """What was used last stands last."""
    _last: Machine | None = field(default=None, repr=False)

    def make(self, m: Machine) -> HeapV:
        """An object at the start of a path; what the constructor queued is complete afterwards."""
        self._begin(m)
        return self._complete(m)

    def make_and_call(self, m: Machine, decl: ir.FunctionDecl) -> tuple[HeapV, State]:
        """An object after a first call of a method, and what its numbers and flags were before."""
        self._begin(m)
        begun = self._after(m, decl, partial(self._call, m, decl))
        if begun.ended:
            raise PathEnds
        assert begun.before is not None
        return begun.made, begun.before

    def _begin(self, m: Machine) -> None:
        if self._last is not None and self._last.rebound:
            # A closure of the constructor has changed a variable that the copies share.
            self._kept.clear()
        self._last = m

    def _complete(self, m: Machine) -> HeapV:
        made = self._after(m, None, partial(self._make, m)).made
        if not any(_is_download(m, op) for op in m.ops):
            _set_up(m, m.site(self.cls.span))
            feeding.was_taken(m)
        # Else the object stands for a result on its way to the host; its methods wait for it.
        return made

    def _make(self, m: Machine) -> _Begun:
        before = snapshots.take(m)
        made, whole = _construct(m, self.cls)
        if not whole and not m.oracle.forced:
            made = _with_other_answers(m, self.cls, before)
        m.rebound = False
        return _Begun(made)

    def _call(self, m: Machine, decl: ir.FunctionDecl) -> _Begun:
        made = self._complete(m)
        before = repetition.state(m, made)
        try:
            unseen_caller.call_outside(m, classes.bound(m, made, FuncV(decl)), 1)
        except PathEnds:
            return _Begun(made, before, ended=True)
        return _Begun(made, before)

    def _after(self, m: Machine, decl: ir.FunctionDecl | None, run: Callable[[], _Begun]) -> _Begun:
        """Runs the beginning of a path, or continues from a copy of what it left on another path."""
        kept = self._again(m, decl)
        if kept is not None:
            return kept.begun
        begun = run()
        # What leaves a context that is open (`self.context.__enter__()`) belongs to this path alone.
        if not m.entered and not m.rebound and m.watch is None:
            self._keep(_Kept(decl, begun, snapshots.take(m), m.oracle.so_far()))
        return begun

    def _keep(self, kept: _Kept) -> None:
        self._kept.append(kept)
        del self._kept[:-STATES_KEPT]

    def _again(self, m: Machine, decl: ir.FunctionDecl | None) -> _Kept | None:
        # Who looks on wants to see all of it.
        known = enumerate(self._kept if m.watch is None else ())
        fits = (at for at, each in known if each.called is decl and m.oracle.comes_by(each.oracle))
        at = next(fits, None)
        if at is None:
            return None
        kept = self._kept.pop(at)
        self._kept.append(kept)
        snapshots.restore(m, kept.state)
        m.taken_over = m.steps
        # What belongs to no function is said to be the entry's: what its caller did before.
        m.ops[:] = [op if op.at.calls else replace(op, at=replace(op.at, function=m.entry)) for op in m.ops]
        m.oracle.go_on_from(kept.oracle)
        return kept


def _construct(m: Machine, cls: ir.ClassDecl) -> tuple[HeapV, bool]:
    """Runs the constructor, and says whether it came to its end.

    Where it does not with unknown arguments (``raise`` in a helper), the object has what it got so far, and
    other attributes are unknown.
    """
    # What is pending on its arguments is told where it begins, and not at the method that is called next.
    begins = _constructor(m, cls)
    callers.begin(m, begins.span if begins is not None else cls.span)
    args, kwargs = unseen_caller.constructor_arguments(m, cls, 0)
    made = classes.new(m, cls)
    m.constructing, m.last_return = True, None
    whole = True
    try:
        instances.initialize(m, made, cls, args, kwargs, cls.span)
    except PathEnds:
        whole = False
    finally:
        m.constructing = False
    m.heap[made.id].symbol = symbols.SELF
    # Between the calls only the outside caller holds the object, and with it all that it keeps alive.
    m.life.outside.append(made)
    return made, whole and not _returned_early(m, cls)


def _returned_early(m: Machine, cls: ir.ClassDecl) -> bool:
    """Whether a ``return`` of the constructor itself ended it: the methods of such an object do little."""
    constructor = _constructor(m, cls)
    if m.last_return is None or constructor is None:
        return False
    body = constructor.load().body
    return any(isinstance(node, ir.Return) and node.span == m.last_return for node in ir.walk(body))


def _constructor(m: Machine, cls: ir.ClassDecl) -> ir.FunctionDecl | None:
    found = classes.lookup(m, cls, "__init__")
    function = found.function if isinstance(found, FuncV) else None
    return function if isinstance(function, ir.FunctionDecl) else None


def _with_other_answers(m: Machine, cls: ir.ClassDecl, before: dict[str, object]) -> HeapV:
    """An object whose constructor came to its end by other answers, nearest first; as it was if none does.

    ``self.layers = found_in(model)``, and ``if self.layers is None: return``.
    """
    waiting = deque(_flipped(m, ()))
    allows, runs, steps = m.project.budgets.allows, 0, 0
    while waiting and allows(MOST_CONSTRUCTIONS, runs + 1) and allows(CONSTRUCTION_STEPS, steps):
        runs += 1
        forced = waiting.popleft()
        made, whole = _begin_again(m, cls, before, forced)
        if whole:
            return made
        steps += m.steps
        waiting += _flipped(m, forced)
    return _begin_again(m, cls, before, ())[0]


def _flipped(m: Machine, forced: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The answers of the path with one of its own turned."""
    chosen = tuple(decision.chosen for decision in m.oracle.taken)
    return ((*chosen[:position], int(not chosen[position])) for position in range(len(forced), len(chosen)))


def _begin_again(
    m: Machine, cls: ir.ClassDecl, before: dict[str, object], forced: tuple[int, ...]
) -> tuple[HeapV, bool]:
    snapshots.restore(m, before)
    m.oracle.begin(forced)
    constructed = _construct(m, cls)
    m.oracle.forced = ()
    return constructed


def _set_up(m: Machine, at: Site) -> None:
    """What the constructor queued counts as complete, but for what it left where nobody else looks."""
    on_stream = partial(SyncStream, at, m.lane, role=Role.SET_UP, name="set up", purpose=Purpose.ASIDE)
    on_device = partial(SyncDevice, at, m.lane, role=Role.SET_UP, name="set up", purpose=Purpose.ASIDE)
    left = _left_to_itself(m)
    if left:
        for stream in m.streams.keys() - left:
            m.emit(on_stream(stream=stream))
        return
    for device in dict.fromkeys(stream.device for stream in m.streams.values()):
        m.emit(on_device(device=device))


def _left_to_itself(m: Machine) -> set[StreamId]:
    """Streams of the code's own with work on them: what waits for the default stream does not wait for them.

    ``with torch.cuda.stream(self.uploads): self.rows = host.to("cuda", non_blocking=True)``
    """
    worked = {op.stream for op in m.ops if isinstance(op, (Launch, Copy))}
    return {
        number
        for number, stream in m.streams.items()
        if number in worked
        and stream.kind is StreamKind.NON_BLOCKING
        and stream.span is not None
        and not stream.by_call
    }


def _is_download(m: Machine, op: Op) -> bool:
    return (
        isinstance(op, Copy)
        and op.host is HostEffect.ASYNC
        and m.buffers[op.dst.buffer].space is Space.PINNED
    )
