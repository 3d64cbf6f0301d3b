"""The object that a class's entries are about: constructed once, and given to each path anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp import objects, outside, scopes, snapshots
from streamlint.interp.machine import Machine, PathEnds
from streamlint.interp.values import FuncV, HeapV, SymV, Value
from streamlint.trace import Copy, HostEffect, Space, SyncDevice

if TYPE_CHECKING:
    from streamlint.interp.decisions import Decision
    from streamlint.trace import Op


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a constructor left behind, and the decisions that led there."""

    made: HeapV
    state: dict[str, object]
    taken: tuple[Decision, ...]
    memo: dict[str, int]

    @property
    def chosen(self) -> tuple[int, ...]:
        return tuple(decision.chosen for decision in self.taken)


@dataclass(slots=True)
class Construction:
    """Makes objects of one class as outside code does, with unknown arguments.

    The constructor runs in the first path. Later paths that decide alike in it continue from a copy of
    what it left: the constructor of a large class costs more than most of its methods.
    """

    cls: ir.ClassDecl
    _kept: _Kept | None = None
    _last: Machine | None = field(default=None, repr=False)

    def make(self, m: Machine) -> HeapV:
        """An object at the start of a path; what the constructor queued is complete afterwards."""
        if self._last is not None and self._last.rebound:
            # A closure of the constructor has changed a variable that the copies share.
            self._kept = None
        made = self._again(m)
        if made is None:
            made = _construct(m, self.cls)
            # What leaves a context that is open (`self.context.__enter__()`) belongs to this path alone.
            if not m.oracle.forced and not m.entered:
                self._keep(m, made)
        m.rebound = False
        self._last = m
        _complete(m, self.cls)
        return made

    def _keep(self, m: Machine, made: HeapV) -> None:
        self._kept = _Kept(made, snapshots.take(m), tuple(m.oracle.taken), dict(m.oracle.memo))

    def _again(self, m: Machine) -> HeapV | None:
        kept = self._kept
        if kept is None or m.oracle.forced[: len(kept.taken)] not in ((), kept.chosen):
            return None
        snapshots.restore(m, kept.state)
        m.oracle.taken[:] = kept.taken
        m.oracle.memo.update(kept.memo)
        return kept.made


def _construct(m: Machine, cls: ir.ClassDecl) -> HeapV:
    """Runs the constructor.

    The methods that are called next show that it came to its end. Where it does not with unknown arguments
    (``raise`` in a helper), the object has what it got so far, and other attributes are unknown.
    """
    init = objects.lookup(m, cls, "__init__")
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    own = init.function if isinstance(init, FuncV) and isinstance(init.function, ir.FunctionDecl) else None
    m.targets[0] = scopes.Target(own, cls)
    if isinstance(init, FuncV):
        args, kwargs = outside.outside_arguments(m, init, 0, skip=1)
    else:
        for name in objects.dataclass_fields(m, cls) or {}:
            kwargs[name] = SymV(f"0:{name}")
    made = objects.new(m, cls)
    m.constructing = True
    try:
        objects.initialize(m, made, cls, args, kwargs, cls.span)
    except PathEnds:
        pass
    finally:
        m.constructing = False
    m.heap[made.id].key = "self"
    # Between the calls only the outside caller holds the object, and with it all that it keeps alive.
    m.life.outside.append(made)
    return made


def _complete(m: Machine, cls: ir.ClassDecl) -> None:
    if any(_is_download(m, op) for op in m.ops):
        # The object stands for a result on its way to the host; its methods wait for it.
        return
    for device in dict.fromkeys(stream.device for stream in m.streams.values()):
        m.emit(SyncDevice(m.site(cls.span), m.lane, device=device, name="before the first call"))


def _is_download(m: Machine, op: Op) -> bool:
    return (
        isinstance(op, Copy)
        and op.host is HostEffect.ASYNC
        and m.buffers[op.dst.buffer].space is Space.PINNED
    )
