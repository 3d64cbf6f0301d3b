"""What a kernel does to its parameters, from its Python body."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.library import kernel_places
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import FuncV
from streamlint.models import numba as numba_model
from streamlint.trace import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.library.kernel_places import Place
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

MOST_DEEP = Most(3, "device functions that call others")
"""How many device functions deep a parameter is followed."""


# ----------------------------------------------------------------------------- Python kernels


@frozen()
class Use:
    """What a kernel does with a parameter; no mode: it is no array, or is not touched."""

    mode: Mode | None
    indexed: bool = False
    """Indexed in code that was seen, so that it must be an array."""
    place: Place | None = None
    """What tells where in it the kernel works; None if it may be anywhere."""


_USES: Kept[tuple[Span, int], dict[str, Use] | None] = Kept()


def python_uses(m: Machine, func: FuncV, depth: int = MOST_DEEP.number) -> dict[str, Use] | None:
    """By parameter, in order: what the kernel's body does with it. None if there is no body."""
    asked = (func.function.span, depth)
    return m.project.once(_USES, asked, lambda: _uses(m, func, depth))


def _uses(m: Machine, func: FuncV, depth: int) -> dict[str, Use] | None:
    function = ir.code_of(func.function)
    if function is None:
        return None
    body = _Body(m, function, [param.name for param in function.params], depth)
    for statement in function.body:
        body.scan(statement)
    places = kernel_places.in_python(function, frozenset(body.reads | body.writes | body.adds))
    return {
        name: Use(mode_of(name, body.reads, body.writes, body.adds), name in body.indexed, places.get(name))
        for name in body.names
    }


def mode_of(name: str, reads: set[str], writes: set[str], adds: set[str]) -> Mode | None:
    if name in adds:
        return Mode.UPDATE if name in reads | writes else Mode.ADD
    if name in writes:
        return Mode.UPDATE if name in reads else Mode.WRITE
    return Mode.READ if name in reads else None


@dataclass(slots=True)
class _Body:
    """A kernel's body: which parameters it reads, writes and indexes."""

    m: Machine
    function: ir.Function
    names: Sequence[str]
    depth: int
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    adds: set[str] = field(default_factory=set)
    """Those that it adds to atomically."""
    indexed: set[str] = field(default_factory=set)

    def scan(self, *nodes: object) -> None:
        """Collects what nodes do to the parameters, and looks inside them."""
        for node in nodes:
            match node:
                case ir.Assign(targets=targets, value=value):
                    self._alias(value)
                    for target in targets:
                        self._stored(target)
                    self.scan(value)
                case ir.AugAssign(target=target, value=value):
                    if isinstance(target, ir.Index):
                        self._note(_base(target), Mode.UPDATE)
                    self._stored(target)
                    self.scan(value)
                case ir.Index(value=value, index=index) if _base(value) in self.names:
                    self._note(_base(value), Mode.READ)
                    self.scan(index)
                case ir.Call(func=called, args=args):
                    self._passed(called, args)
                    self.scan(called, *(arg.value for arg in args if not isinstance(arg.value, ir.Name)))
                case _:
                    self.scan(*ir.children(node))

    def _note(self, name: str, mode: Mode, *, indexed: bool = True) -> None:
        if name not in self.names:
            return
        if mode is Mode.ADD:
            self.adds.add(name)
        else:
            self.reads |= {name} if mode.reads else set()
            self.writes |= {name} if mode.writes else set()
        if indexed:
            self.indexed.add(name)

    def _stored(self, target: ir.Expr) -> None:
        if isinstance(target, ir.Index):
            self._note(_base(target), Mode.WRITE)
            self.scan(target.index)
        elif isinstance(target, ir.Seq):
            for item in target.items:
                self._stored(item)

    def _alias(self, value: ir.Expr) -> None:
        """``y = x`` or ``row = x[i, :]`` may be written through later."""
        if isinstance(value, ir.Name):
            self._note(value.id, Mode.UPDATE, indexed=False)
        elif isinstance(value, ir.Index) and _has_slice(value.index):
            self._note(_base(value), Mode.UPDATE)

    def _passed(self, called: ir.Expr, args: tuple[ir.Arg, ...]) -> None:
        """Parameters handed to another function: atomics update, device functions are looked into."""
        given = [(i, arg.value.id) for i, arg in enumerate(args) if isinstance(arg.value, ir.Name)]
        last = (
            called.name if isinstance(called, ir.Attr) else called.id if isinstance(called, ir.Name) else ""
        )
        if last in numba_model.HARMLESS and not kernel_places.is_atomic(called):
            return
        atomic = last.removeprefix("atomic_")
        if atomic in numba_model.ATOMICS and isinstance(called, ir.Attr):
            mode = Mode.ADD if atomic in numba_model.ADDITIONS else Mode.UPDATE
            self._note(given[0][1] if given and given[0][0] == 0 else "", mode)
            return
        inner = self.m.project.member(self.function.module, last) if isinstance(called, ir.Name) else None
        uses = self._of_device_function(inner) if isinstance(inner, FuncV) else None
        known = list(uses.values()) if uses is not None else []
        for i, name in given:
            use = known[i] if i < len(known) else Use(Mode.UPDATE)
            if use.mode is not None:
                self._note(name, use.mode, indexed=use.indexed)

    def _of_device_function(self, func: FuncV) -> dict[str, Use] | None:
        if not self.depth:
            self.m.project.budgets.cut(MOST_DEEP)
            return None
        return python_uses(self.m, func, self.depth - 1)


def _base(e: ir.Expr) -> str:
    """The name that ``x[i][j].real`` starts with."""
    while isinstance(e, (ir.Index, ir.Attr)):
        e = e.value
    return e.id if isinstance(e, ir.Name) else ""


def _has_slice(e: ir.Expr) -> bool:
    return isinstance(e, ir.Slice) or (isinstance(e, ir.Seq) and any(_has_slice(item) for item in e.items))
