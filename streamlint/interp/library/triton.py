"""What a Triton kernel does to its parameters: which pointers it loads through, which it stores through.

A launch compiles the kernel for the values of its ``tl.constexpr`` parameters, and for ``None``: what stands
behind ``if FUSED:`` is not part of a launch with ``FUSED=False``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.library import kernel_places
from streamlint.interp.library.kernels import Use, mode_of
from streamlint.interp.state import arguments, symbols
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import ConstV, FuncV, SymV, Value
from streamlint.models import triton
from streamlint.trace import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

MOST_DEEP = Most(3, "device functions that call others")
"""How many device functions deep a pointer is followed."""
_PASSES = 2
"""A pointer that a loop moves shows in the second: ``load(ptr)`` at its start, ``ptr = other`` at its end."""


_USES: Kept[tuple[Span, int, tuple[tuple[str, object], ...]], dict[str, Use] | None] = Kept()


def uses(
    m: Machine,
    func: FuncV,
    args: Sequence[Value] = (),
    kwargs: Mapping[str, Value] | None = None,
    depth: int = MOST_DEEP.number,
) -> dict[str, Use] | None:
    """By parameter, in order. None if the body cannot be read, or a pointer goes where it is not followed."""
    function = ir.code_of(func.function)
    if function is None:
        return None
    known = _constants(function, args, kwargs or {})
    asked = (function.span, depth, tuple(known.items()))
    return m.project.once(_USES, asked, lambda: _uses(m, function, known, depth))


def _uses(m: Machine, function: ir.Function, known: dict[str, object], depth: int) -> dict[str, Use] | None:
    names = [param.name for param in function.params]
    body = _Body(m, function.module, {name: frozenset({name}) for name in names}, known, depth)
    for _ in range(_PASSES):
        body.scan(*function.body)
    if body.lost:
        return None
    touched = body.reads | body.writes | body.adds
    places = kernel_places.in_python(
        function,
        frozenset(touched),
        addresses=True,
        fixed=frozenset(param.name for param in function.params if _is_constexpr(param)),
    )
    return {
        name: Use(mode_of(name, body.reads, body.writes, body.adds), name in touched, places.get(name))
        for name in names
    }


# ----------------------------------------------------------------------------- what is compiled


def _constants(
    function: ir.Function, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> dict[str, object]:
    """Parameters that the kernel is compiled for, with their values: ``tl.constexpr``, and what is ``None``.

    Left out are those that the body assigns.
    """
    positional = {param.name: value for param, value in zip(function.params, args, strict=False)}
    if any(arguments.is_rest(value) for value in args):
        positional = {}
    assigned = set(_assigned(function.body))
    known: dict[str, object] = {}
    for param in function.params:
        value = kwargs.get(param.name, positional.get(param.name))
        if value is None and isinstance(param.default, ir.Const):
            value = ConstV(param.default.value) if param.default.value is not ... else None
        match value:
            case ConstV(plain) if (plain is None or _is_constexpr(param)) and param.name not in assigned:
                known[param.name] = plain
            case _:
                pass
    return known


def _is_constexpr(param: ir.Param) -> bool:
    match param.annotation:
        case ir.Attr(name="constexpr") | ir.Name(id="constexpr"):
            return True
        case _:
            return False


def _assigned(body: tuple[ir.Stmt, ...]) -> Iterator[str]:
    for node in ir.walk(body):
        match node:
            case ir.Assign(targets=targets):
                for target in targets:
                    yield from (part.id for part in ir.walk(target) if isinstance(part, ir.Name))
            case ir.AugAssign(target=ir.Name(id=name)):
                yield name
            case _:
                pass


_UNKNOWN = object()


def folded(e: ir.Expr, known: Mapping[str, object]) -> object:
    """The value of an expression over known names; ``_UNKNOWN`` if it depends on others."""
    match e:
        case ir.Const(value=value):
            return value
        case ir.Name(id=name):
            return known.get(name, _UNKNOWN)
        case ir.Unary(op="not", operand=operand):
            value = folded(operand, known)
            return _UNKNOWN if value is _UNKNOWN else not value
        case ir.Boolean(op=op, operands=operands):
            return _boolean([folded(operand, known) for operand in operands], stop=op == "or")
        case ir.Compare(op=op, left=left, right=right):
            return _compared(op, folded(left, known), folded(right, known))
        case _:
            return _UNKNOWN


def _boolean(values: Sequence[object], *, stop: bool) -> object:
    """``a and b``: one false operand decides, whatever the others are."""
    if any(value is not _UNKNOWN and bool(value) == stop for value in values):
        return stop
    return _UNKNOWN if any(value is _UNKNOWN for value in values) else not stop


def _compared(op: str, left: object, right: object) -> object:
    if left is _UNKNOWN or right is _UNKNOWN:
        return _UNKNOWN
    match op:
        case "==" | "is":
            return left == right
        case "!=" | "is not":
            return left != right
        case "<" | "<=" | ">" | ">=" if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op]
        case _:
            return _UNKNOWN


# ----------------------------------------------------------------------------- the body


@dataclass(slots=True)
class _Body:
    m: Machine
    module: str
    pointers: dict[str, frozenset[str]]
    """Parameters that a name may point into."""
    known: Mapping[str, object]
    """Names whose value the kernel is compiled for."""
    depth: int
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    adds: set[str] = field(default_factory=set)
    """Those that it adds to atomically."""
    lost: bool = False

    def scan(self, *nodes: object) -> None:
        for node in nodes:
            match node:
                case ir.Assign(targets=targets, value=value):
                    self.scan(value)
                    for target in targets:
                        self._assign(target, value)
                case ir.AugAssign(target=ir.Name(id=name), value=value):
                    self.scan(value)
                    self._point(name, self._bases(value))
                case ir.If(test=test) if (taken := folded(test, self.known)) is not _UNKNOWN:
                    self.scan(*(node.body if taken else node.orelse))
                case ir.Choice(test=test) if (taken := folded(test, self.known)) is not _UNKNOWN:
                    self.scan(node.body if taken else node.orelse)
                case ir.Call():
                    self._call(node)
                    self.scan(*(arg.value for arg in node.args))
                    if isinstance(node.func, ir.Attr):
                        self.scan(node.func.value)
                case _:
                    self.scan(*ir.children(node))

    def _assign(self, target: ir.Expr, value: ir.Expr) -> None:
        match target, value:
            case ir.Name(id=name), _:
                self._point(name, self._bases(value))
            case ir.Seq(items=names), ir.Seq(items=values) if len(names) == len(values):
                for one, given in zip(names, values, strict=True):
                    self._assign(one, given)
            case _:
                pass

    def _point(self, name: str, bases: frozenset[str]) -> None:
        self.pointers[name] = self.pointers.get(name, frozenset()) | bases

    def _bases(self, e: ir.Expr) -> frozenset[str]:
        """The parameters that an address may be computed from."""
        match e:
            case ir.Name(id=name):
                return self.pointers.get(name, frozenset())
            case ir.Binary(op="+" | "-", left=left, right=right):
                # One pointer, which stands first, and what it is moved by: x_ptr + first + columns.
                return self._bases(left) or self._bases(right)
            case ir.Choice(test=test, body=body, orelse=orelse):
                taken = folded(test, self.known)
                if taken is not _UNKNOWN:
                    return self._bases(body if taken else orelse)
                return self._bases(body) | self._bases(orelse)
            case ir.Index(value=value):
                return self._bases(value)
            case ir.Call(func=called, args=args) if _last(called) in triton.MAKES_POINTER:
                receiver = self._bases(called.value) if isinstance(called, ir.Attr) else frozenset()
                return receiver.union(*(self._bases(arg.value) for arg in args))
            case _:
                return frozenset()

    def _call(self, call: ir.Call) -> None:
        last = _last(call.func)
        # tl.load(pointers), or descriptor.load(offsets)
        through = call.func.value if isinstance(call.func, ir.Attr) else call.func
        bases = self._bases(through) or (self._bases(call.args[0].value) if call.args else frozenset())
        if last == "load":
            self.reads |= bases
        elif last == "store":
            self.writes |= bases
        elif last in triton.ADDITIONS:
            self.adds |= bases
        elif last.startswith("atomic_"):
            self.reads |= bases
            self.writes |= bases
        elif isinstance(call.func, ir.Name):
            self._helper(call, last)

    def _helper(self, call: ir.Call, name: str) -> None:
        """A device function of the program: its parameters are followed; another one loses the pointers."""
        given = [(arg.keyword, self._bases(arg.value)) for arg in call.args]
        if not any(bases for _, bases in given):
            return
        found = self.m.project.member(self.module, name)
        inner = self._uses_of(found, call) if isinstance(found, FuncV) else None
        if inner is None:
            self.lost = self.lost or name not in triton.HARMLESS
            return
        order = list(inner)
        for i, (keyword, bases) in enumerate(given):
            use = inner.get(keyword or (order[i] if i < len(order) else ""), Use(Mode.UPDATE))
            if use.mode is Mode.ADD:
                self.adds |= bases
                continue
            if use.mode is not None and use.mode.reads:
                self.reads |= bases
            if use.mode is not None and use.mode.writes:
                self.writes |= bases

    def _uses_of(self, helper: FuncV, call: ir.Call) -> dict[str, Use] | None:
        """What a device function does, for the constants that it is given here."""
        if not self.depth:
            self.m.project.budgets.cut(MOST_DEEP)
            return None
        values = [(arg.keyword, _as_value(folded(arg.value, self.known))) for arg in call.args]
        args = [value for keyword, value in values if keyword is None]
        kwargs = {keyword: value for keyword, value in values if keyword is not None}
        return uses(self.m, helper, args, kwargs, self.depth - 1)


def _as_value(found: object) -> Value:
    return (
        ConstV(found) if isinstance(found, (bool, int, float, str, type(None))) else SymV(symbols.Name("?"))
    )


def _last(called: ir.Expr) -> str:
    return called.name if isinstance(called, ir.Attr) else called.id if isinstance(called, ir.Name) else ""
