"""Which places of an array a kernel works on, where a number that it is given tells them.

``x[first + i]`` with ``i`` of the thread: launches for another ``first`` may work on other elements.
``x[pid * stride + i]`` begins at the beginning, whatever ``stride`` is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.library import extents
from streamlint.interp.state import elements, symbols
from streamlint.interp.state.values import NONE, BufferV, Value, symbol_of
from streamlint.models import triton
from streamlint.trace import Shifted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@frozen()
class Place:
    """What tells where in an array a kernel works."""

    by: tuple[str, ...]
    """The parameters that every index is shifted by."""
    is_index: bool = False
    """``x[row, i]``: the first index is that parameter itself."""


def placed(view: BufferV, place: Place | None, given: Mapping[str, Value]) -> BufferV:
    """The part of an argument that a kernel works on, for the numbers that it is given."""
    view = extents.from_there(view)
    if place is None:
        return view
    numbers = [given.get(name, NONE) for name in place.by]
    if place.is_index:
        return BufferV(view.id, (*view.region, elements.selector(numbers[0])), view.flavor)
    text = ", ".join(symbols.text_of(symbol_of(number)) for number in numbers)
    return BufferV(view.id, (*view.region, Shifted(text)), view.flavor)


# ----------------------------------------------------------------------------- how a number comes about


@frozen()
class Number:
    varies: bool = False
    """Whether threads or passes of a loop have several of it, the first of which is what it is shifted by."""
    by: frozenset[str] = frozenset()
    """The parameters that it is shifted by."""

    def __or__(self, other: Number) -> Number:
        return Number(self.varies or other.varies, self.by | other.by)

    @property
    def starts_at_zero(self) -> bool:
        return self.varies and not self.by


FIXED = Number()
OF_THREADS = Number(varies=True)


@frozen()
class Access:
    array: str
    """Empty: all arrays among ``at.by``, which are pointers in an address."""
    at: Number
    first: str = ""
    """The first index, if it is a parameter by itself."""


@dataclass(slots=True)
class Flow:
    """What the indices of a kernel are computed from."""

    params: frozenset[str]
    addresses: bool = False
    """Whether arrays are pointers to calculate with: an address that another name has is followed."""
    locals: dict[str, Number] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    anywhere: set[str] = field(default_factory=set)
    """Arrays that go where they are not followed."""
    loops: int = 0

    # -- expressions

    def number(self, e: ir.Expr | None) -> Number:
        match e:
            case ir.Name(id=name):
                known = self.locals.get(name)
                given = Number(by=frozenset({name})) if name in self.params else FIXED
                return given if known is None else known | given
            case ir.Const():
                return FIXED
            case ir.Unary(op="-" | "+", operand=operand):
                return self.number(operand)
            case ir.Binary(op="+" | "-", left=left, right=right):
                return self.number(left) | self.number(right)
            case ir.Binary(op=op, left=left, right=right):
                return _scaled(op, self.number(left), self.number(right))
            case ir.Choice(body=body, orelse=orelse):
                return self.number(body) | self.number(orelse)
            case ir.Seq(items=items):
                return self.together(items)
            case ir.Slice(lo=lo):
                return OF_THREADS | self.number(lo) if lo is not None else OF_THREADS
            case ir.Attr(value=ir.Name(id=name)) if name in self.params:
                return FIXED  # x.shape
            case ir.Index(value=value) if not self.number(value).by & self.params:
                return self.number(value)  # cuda.grid(2)[0]
            case ir.Call(func=called, args=args):
                return self._result(_last(called), args)
            case _:
                return OF_THREADS

    def together(self, parts: Iterable[ir.Expr]) -> Number:
        found = FIXED
        for part in parts:
            found = found | self.number(part)
        return found

    def _result(self, name: str, args: tuple[ir.Arg, ...]) -> Number:
        if name == "load" or not args:
            return OF_THREADS
        if name in triton.RANGES:
            return OF_THREADS | self.number(args[0].value) if len(args) > 1 else OF_THREADS
        if name == triton.MAKES_BLOCK:
            offsets = [arg.value for arg in args[3:4] if arg.keyword is None]
            offsets += [arg.value for arg in args if arg.keyword in triton.PLACES_BLOCK]
            return self.together((*offsets, *(arg.value for arg in args[:1] if arg.keyword is None)))
        found = self.number(args[0].value)
        return found if found.by else OF_THREADS

    # -- statements

    def scan(self, *nodes: object) -> None:
        for node in nodes:
            match node:
                case ir.Assign(targets=targets, value=value):
                    self.scan(*targets, value)
                    for target in targets:
                        self.assign(target, value)
                case ir.AugAssign(op=op, target=target, value=value):
                    self.scan(target, value)
                    if isinstance(target, ir.Name):
                        self.moved(target.id, op, value)
                case ir.For(target=target, iter=over, body=body):
                    self.scan(over)
                    self._bind(target, OF_THREADS | self.number(over) if _is_range(over) else OF_THREADS)
                    self._loop(body)
                case ir.While(test=test, body=body):
                    self.scan(test)
                    self._loop(body)
                case ir.Index() if (base := _base(node)) in self.params:
                    self._indexed(node, base)
                    self.scan(*_indices(node))
                case ir.Call():
                    self._called(node)
                case _:
                    self.scan(*ir.children(node))

    def _loop(self, body: tuple[ir.Stmt, ...]) -> None:
        self.loops += 1
        self.scan(*body)
        self.loops -= 1

    def assign(self, target: ir.Expr, value: ir.Expr) -> None:
        match target, value:
            case ir.Seq(items=names), ir.Seq(items=values) if len(names) == len(values):
                for one, given in zip(names, values, strict=True):
                    self.assign(one, given)
            case ir.Name(id=name), _ if self.loops and _mentions(value, name):
                self._bind(target, OF_THREADS)
            case _:
                self._bind(target, self.number(value))
        if isinstance(value, ir.Name) and not self.addresses:
            self.anywhere.add(value.id)

    def moved(self, name: str, op: str, value: ir.Expr) -> None:
        """``i += step``: in a loop the first pass is not moved yet."""
        old = self.locals.get(name, FIXED)
        by = OF_THREADS if self.loops else self.number(value)
        self.locals[name] = old | by if op in ("+", "-") else old | _scaled(op, old, by)

    def _bind(self, target: ir.Expr, number: Number) -> None:
        match target:
            case ir.Name(id=name):
                self.locals[name] = self.locals.get(name, FIXED) | number
            case ir.Seq(items=items):
                for item in items:
                    self._bind(item, number)
            case _:
                pass

    def _indexed(self, node: ir.Index, base: str) -> None:
        indices = _indices(node)
        outermost = indices[0]
        if isinstance(outermost, ir.Seq) and outermost.items:  # factor[()] has one place
            outermost = outermost.items[0]
        told = (
            isinstance(outermost, ir.Name) and outermost.id in self.params and outermost.id not in self.locals
        )
        self.accesses.append(
            Access(
                base, self.together(indices), outermost.id if isinstance(outermost, ir.Name) and told else ""
            )
        )

    def _called(self, call: ir.Call) -> None:
        last, args = _last(call.func), [arg.value for arg in call.args]
        if last in triton.ACCESSES or last.startswith("atomic_") or is_atomic(call.func):
            through = call.func.value if isinstance(call.func, ir.Attr) else None
            array = args[0].id if args and isinstance(args[0], ir.Name) and args[0].id in self.params else ""
            if array and len(args) > 2 and last not in triton.ACCESSES:
                self.accesses.append(Access(array, self.together(args[1:-1])))
            else:
                self.accesses.append(Access("", self.together([*args[:1], *([through] if through else [])])))
            self.scan(*args[1:])
            return
        if last not in triton.MAKES_POINTER:
            self.anywhere |= {arg.id for arg in args if isinstance(arg, ir.Name)} & self.params
        self.scan(call.func, *(arg for arg in args if not isinstance(arg, ir.Name)))

    # -- what comes of it

    def places(self, arrays: frozenset[str], fixed: frozenset[str] = frozenset()) -> dict[str, Place]:
        """By array; ``fixed`` are parameters that a kernel is compiled for: the sizes of its tiles."""
        found: dict[str, set[Place]] = {}
        for access in self.accesses:
            by = access.at.by - arrays - fixed
            place = Place((access.first,), is_index=True) if access.first else Place(tuple(sorted(by)))
            for array in (access.array,) if access.array else access.at.by & arrays:
                found.setdefault(array, set()).add(place if by else Place(()))
        return {
            array: _both(places)
            for array, places in found.items()
            if array not in self.anywhere and all(place.by for place in places)
        }


def _both(places: set[Place]) -> Place:
    if len(places) == 1:
        return next(iter(places))
    return Place(tuple(sorted(set(chain.from_iterable(place.by for place in places)))))


def _scaled(op: str, left: Number, right: Number) -> Number:
    """``i * stride`` and ``i // width`` start where ``i`` does, if that is at zero."""
    if left.starts_at_zero or (op == "*" and right.starts_at_zero):
        return OF_THREADS
    return left | right


_ATOMICS_OF = "atomic"


def is_atomic(called: ir.Expr) -> bool:
    """``cuda.atomic.add``"""
    return isinstance(called, ir.Attr) and _last(called.value) == _ATOMICS_OF


def _last(called: ir.Expr) -> str:
    return called.name if isinstance(called, ir.Attr) else called.id if isinstance(called, ir.Name) else ""


def _is_range(e: ir.Expr) -> bool:
    return isinstance(e, ir.Call) and _last(e.func) == "range"


def _base(e: ir.Expr) -> str:
    while isinstance(e, ir.Index):
        e = e.value
    return e.id if isinstance(e, ir.Name) else ""


def _indices(e: ir.Expr) -> list[ir.Expr]:
    found: list[ir.Expr] = []
    while isinstance(e, ir.Index):
        found.insert(0, e.index)
        e = e.value
    return found


def _mentions(e: ir.Expr, name: str) -> bool:
    return any(isinstance(part, ir.Name) and part.id == name for part in ir.walk((e,)))


def in_python(
    function: ir.Function,
    arrays: frozenset[str],
    *,
    addresses: bool = False,
    fixed: frozenset[str] = frozenset(),
) -> dict[str, Place]:
    """By array of a kernel in Python: what tells where all its indices are."""
    flow = Flow(frozenset(param.name for param in function.params), addresses)
    flow.scan(*function.body)
    flow.accesses.clear()  # what stands further down in a loop is assigned now
    flow.scan(*function.body)
    return flow.places(arrays, fixed)
