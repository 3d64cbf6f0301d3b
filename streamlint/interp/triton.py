"""What a Triton kernel does to its parameters: which pointers it loads through, which it stores through."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.kernels import Use, children, mode_of
from streamlint.interp.values import FuncV
from streamlint.trace import Mode

if TYPE_CHECKING:
    from streamlint.interp.machine import Machine

_DEEP = 3
"""How many device functions deep a pointer is followed."""
_PASSES = 2
"""A pointer that a loop moves shows in the second: ``load(ptr)`` at its start, ``ptr = other`` at its end."""
_MAKES_POINTER = frozenset(
    "make_block_ptr make_tensor_descriptor advance to broadcast_to expand_dims multiple_of "
    "max_contiguous".split()
)


def uses(m: Machine, func: FuncV, depth: int = _DEEP) -> dict[str, Use] | None:
    """By parameter, in order. None if the body cannot be read, or a pointer goes where it is not followed."""
    try:
        function = func.function.load() if isinstance(func.function, ir.FunctionDecl) else func.function
    except ir.LoweringError:
        return None
    names = [param.name for param in function.params]
    body = _Body(m, function.module, {name: frozenset({name}) for name in names}, depth)
    for _ in range(_PASSES):
        body.scan(*function.body)
    if body.lost:
        return None
    touched = body.reads | body.writes
    return {name: Use(mode_of(name, body.reads, body.writes), name in touched) for name in names}


@dataclass(slots=True)
class _Body:
    m: Machine
    module: str
    pointers: dict[str, frozenset[str]]
    """Parameters that a name may point into."""
    depth: int
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
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
                case ir.Call():
                    self._call(node)
                    self.scan(*(arg.value for arg in node.args))
                    if isinstance(node.func, ir.Attr):
                        self.scan(node.func.value)
                case _:
                    self.scan(*children(node))

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
                return self._bases(left) | self._bases(right)
            case ir.Choice(body=body, orelse=orelse):
                return self._bases(body) | self._bases(orelse)
            case ir.Index(value=value):
                return self._bases(value)
            case ir.Call(func=called, args=args) if _last(called) in _MAKES_POINTER:
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
        inner = uses(self.m, found, self.depth - 1) if isinstance(found, FuncV) and self.depth else None
        if inner is None:
            self.lost = self.lost or name not in _HARMLESS
            return
        order = list(inner)
        for i, (keyword, bases) in enumerate(given):
            use = inner.get(keyword or (order[i] if i < len(order) else ""), Use(Mode.UPDATE))
            if use.mode is not None and use.mode.reads:
                self.reads |= bases
            if use.mode is not None and use.mode.writes:
                self.writes |= bases


def _last(called: ir.Expr) -> str:
    return called.name if isinstance(called, ir.Attr) else called.id if isinstance(called, ir.Name) else ""


_HARMLESS = frozenset("range min max int float bool len abs print static_range".split())
