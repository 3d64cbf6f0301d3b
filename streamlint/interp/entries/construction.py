"""The object that a class's entries are about: constructed once, and given to each path anew."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.entries import repetition
from streamlint.interp.facts import classes
from streamlint.interp.python import instances, unseen_caller
from streamlint.interp.state import snapshots, symbols
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.ends import PathEnds
from streamlint.interp.state.values import (
    FuncV,
    HeapV,
)
from streamlint.trace import Copy, HostEffect, Purpose, Role, Space, SyncDevice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.entries.repetition import State
    from streamlint.interp.state.decisions import Decision
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.trace import Op


MOST_CONSTRUCTIONS = Most(12, "constructions")
"""Times that a constructor which does not come to its end is run again, with other answers ..."""
CONSTRUCTION_STEPS = Most(4_000, "constructions")
"""... and expressions and statements evaluated for it, over all of them."""


@frozen()
class _Kept:
    """What a constructor, or a call after it, left behind, and the decisions that led there."""

    made: HeapV
    index: State
    """The object's numbers and flags after the constructor."""
    state: dict[str, object]
    taken: tuple[Decision, ...]
    memo: dict[Symbol, int]

    @property
    def chosen(self) -> tuple[int, ...]:
        return tuple(decision.chosen for decision in self.taken)


@dataclass(slots=True)
class Construction:
    """Makes objects of one class as outside code does, with unknown arguments.

    The constructor runs in the first path, and where it does not come to its end (``if self.layers is None:
    return``) again with other answers, until it does. Later paths that decide alike in it continue from a
    copy of what it left: the constructor of a large class costs more than most of its methods. So do those
    that also begin with the same call of a method.
    """

    cls: ir.ClassDecl
    _kept: dict[ir.FunctionDecl | None, _Kept] = field(default_factory=dict)
    """By the method that was called; None for the constructor alone."""
    _last: Machine | None = field(default=None, repr=False)

    def make(self, m: Machine) -> HeapV:
        """An object at the start of a path; what the constructor queued is complete afterwards."""
        self._begin(m)
        made = self._made(m)
        _complete(m, self.cls)
        return made

    def make_and_call(self, m: Machine, decl: ir.FunctionDecl) -> tuple[HeapV, State]:
        """An object after a first call of a method, and what its numbers and flags were before."""
        self._begin(m)
        kept = self._again(m, decl)
        if kept is not None:
            return kept.made, kept.index
        made = self._made(m)
        _complete(m, self.cls)
        index = repetition.state(m, made)
        unseen_caller.call_outside(m, FuncV(decl, None, made), 1)
        self._keep(m, decl, made, index)
        return made, index

    def _begin(self, m: Machine) -> None:
        if self._last is not None and self._last.rebound:
            # A closure of the constructor has changed a variable that the copies share.
            self._kept.clear()
        self._last = m

    def _made(self, m: Machine) -> HeapV:
        kept = self._again(m, None)
        if kept is not None:
            return kept.made
        before = snapshots.take(m)
        made, whole = _construct(m, self.cls)
        if not whole and not m.oracle.forced:
            made = _with_other_answers(m, self.cls, before)
        m.rebound = False
        self._keep(m, None, made, repetition.state(m, made))
        return made

    def _keep(self, m: Machine, decl: ir.FunctionDecl | None, made: HeapV, index: State) -> None:
        # What leaves a context that is open (`self.context.__enter__()`) belongs to this path alone.
        if not m.oracle.forced and not m.entered and not m.rebound and m.watch is None:
            self._kept[decl] = _Kept(
                made, index, snapshots.take(m), tuple(m.oracle.taken), dict(m.oracle.memo)
            )

    def _again(self, m: Machine, decl: ir.FunctionDecl | None) -> _Kept | None:
        kept = self._kept.get(decl)
        # Who looks on wants to see all of it.
        if m.watch is not None or kept is None or m.oracle.forced[: len(kept.taken)] not in ((), kept.chosen):
            return None
        snapshots.restore(m, kept.state)
        # What belongs to no function is said to be the entry's: what its caller did before.
        m.ops[:] = [op if op.at.calls else replace(op, at=replace(op.at, function=m.entry)) for op in m.ops]
        m.oracle.taken[:] = kept.taken
        for key, chosen in kept.memo.items():
            m.oracle.answer(key, chosen)
        return kept


def _construct(m: Machine, cls: ir.ClassDecl) -> tuple[HeapV, bool]:
    """Runs the constructor, and says whether it came to its end.

    Where it does not with unknown arguments (``raise`` in a helper), the object has what it got so far, and
    other attributes are unknown.
    """
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
    constructor = classes.lookup(m, cls, "__init__")
    if m.last_return is None or not (
        isinstance(constructor, FuncV) and isinstance(constructor.function, ir.FunctionDecl)
    ):
        return False
    body = constructor.function.load().body
    return any(isinstance(node, ir.Return) and node.span == m.last_return for node in ir.walk(body))


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


def _complete(m: Machine, cls: ir.ClassDecl) -> None:
    if any(_is_download(m, op) for op in m.ops):
        # The object stands for a result on its way to the host; its methods wait for it.
        return
    for device in dict.fromkeys(stream.device for stream in m.streams.values()):
        m.emit(
            SyncDevice(
                m.site(cls.span),
                m.lane,
                role=Role.SET_UP,
                device=device,
                name="set up",
                purpose=Purpose.ASIDE,
            )
        )


def _is_download(m: Machine, op: Op) -> bool:
    return (
        isinstance(op, Copy)
        and op.host is HostEffect.ASYNC
        and m.buffers[op.dst.buffer].space is Space.PINNED
    )
