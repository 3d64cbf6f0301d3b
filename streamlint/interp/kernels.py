"""What a kernel does to its parameters, from its Python body or its C++ signature."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp import calls
from streamlint.interp.values import ApiV, FuncV
from streamlint.models import numba as numba_model
from streamlint.models.schema import Lib
from streamlint.trace import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streamlint.interp.machine import Machine

_DEEP = 3
"""How many device functions deep a parameter is followed."""


def library(m: Machine, func: FuncV) -> Lib | None:
    """Whose kernel a function is, by its decorators; None for a plain function."""
    for decorator in func.function.decorators:
        text = decorator if isinstance(decorator, str) else calls.decide_text(decorator)
        path = _resolved(m, func.function.module, text.partition("(")[0])
        if path in numba_model.KERNEL_DECORATORS:
            return Lib.NUMBA
        if path in ("cupyx.jit.rawkernel", "jit.rawkernel"):
            return Lib.CUPY
        if path in ("triton.jit", "jit_kernel"):
            return Lib.TORCH
    return None


def _resolved(m: Machine, module: str, text: str) -> str:
    head, dot, rest = text.partition(".")
    found = m.project.member(module, head)
    if isinstance(found, ApiV):
        return f"{found.path}{dot}{rest}"
    # An import inside a function is not a member of the module.
    return "numba.cuda.jit" if text == "cuda.jit" else text


# ----------------------------------------------------------------------------- Python kernels


def python_modes(m: Machine, func: FuncV, depth: int = _DEEP) -> dict[str, Mode | None] | None:
    """By parameter, in order: read, written or both; None for one that is no array. None if there is no body."""
    try:
        function = func.function.load() if isinstance(func.function, ir.FunctionDecl) else func.function
    except ir.LoweringError:
        return None
    names = [param.name for param in function.params]
    reads: set[str] = set()
    writes: set[str] = set()
    for statement in function.body:
        _scan(m, function, statement, names, reads, writes, depth)
    return {
        name: (Mode.UPDATE if name in reads else Mode.WRITE)
        if name in writes
        else (Mode.READ if name in reads else None)
        for name in names
    }


def _scan(
    m: Machine,
    function: ir.Function,
    node: object,
    names: Sequence[str],
    reads: set[str],
    writes: set[str],
    depth: int,
) -> None:
    """Collects what one node does to the parameters, then looks inside it."""

    def inside(*parts: object) -> None:
        for part in parts:
            _scan(m, function, part, names, reads, writes, depth)

    match node:
        case ir.Assign(targets=targets, value=value):
            _alias(value, names, reads, writes)
            for target in targets:
                _stored(target, names, writes, inside)
            inside(value)
        case ir.AugAssign(target=target, value=value):
            base = _base(target)
            if base in names and not isinstance(target, ir.Name):
                reads.add(base)
            _stored(target, names, writes, inside)
            inside(value)
        case ir.Index(value=ir.Name(id=name), index=index) if name in names:
            reads.add(name)
            inside(index)
        case ir.Call(func=called, args=args):
            _passed(m, function, called, args, names, reads, writes, depth)
            inside(called, *(arg.value for arg in args if not isinstance(arg.value, ir.Name)))
        case _:
            inside(*_children(node))


def _children(node: object) -> Iterator[object]:
    if isinstance(node, tuple):
        yield from node
    elif is_dataclass(node) and not isinstance(node, type):
        for field in fields(node):
            if field.name != "span":
                yield getattr(node, field.name)


def _base(e: ir.Expr) -> str:
    """The name that ``x[i][j].real`` starts with."""
    while isinstance(e, (ir.Index, ir.Attr)):
        e = e.value
    return e.id if isinstance(e, ir.Name) else ""


def _stored(target: ir.Expr, names: Sequence[str], writes: set[str], inside: Callable[..., None]) -> None:
    if isinstance(target, ir.Index):
        base = _base(target)
        if base in names:
            writes.add(base)
        inside(target.index)
    elif isinstance(target, ir.Seq):
        for item in target.items:
            _stored(item, names, writes, inside)


def _alias(value: ir.Expr, names: Sequence[str], reads: set[str], writes: set[str]) -> None:
    """``row = x[i]`` or ``y = x`` may be written through later."""
    if isinstance(value, ir.Name) and value.id in names:
        reads.add(value.id)
        writes.add(value.id)
    elif isinstance(value, ir.Index) and _has_slice(value.index) and _base(value) in names:
        reads.add(_base(value))
        writes.add(_base(value))


def _has_slice(e: ir.Expr) -> bool:
    return isinstance(e, ir.Slice) or (isinstance(e, ir.Seq) and any(_has_slice(item) for item in e.items))


_ATOMICS = frozenset("add sub and_ or_ xor inc dec exch min max nanmin nanmax cas compare_and_swap".split())
_HARMLESS = frozenset(
    "len min max range abs float int bool round float32 float64 int32 int64 uint32 uint8 grid gridsize "
    "sqrt exp log sin cos floor ceil isnan isinf".split()
)


def _passed(
    m: Machine,
    function: ir.Function,
    called: ir.Expr,
    args: tuple[ir.Arg, ...],
    names: Sequence[str],
    reads: set[str],
    writes: set[str],
    depth: int,
) -> None:
    """Parameters handed to another function: atomics update, device functions are looked into."""
    given = [
        (i, arg.value.id)
        for i, arg in enumerate(args)
        if isinstance(arg.value, ir.Name) and arg.value.id in names
    ]
    last = called.name if isinstance(called, ir.Attr) else called.id if isinstance(called, ir.Name) else ""
    if not given or last in _HARMLESS:
        return
    if last in _ATOMICS and isinstance(called, ir.Attr):
        given = [(i, name) for i, name in given if i == 0]
    inner = m.project.member(function.module, last) if isinstance(called, ir.Name) and depth else None
    modes = python_modes(m, inner, depth - 1) if isinstance(inner, FuncV) else None
    order = list(modes) if modes is not None else []
    for i, name in given:
        mode = Mode.UPDATE
        if modes is not None and i < len(order):
            found = modes.get(order[i], Mode.UPDATE)
            if found is None:
                continue
            mode = found
        if mode.reads:
            reads.add(name)
        if mode.writes:
            writes.add(name)


# ----------------------------------------------------------------------------- C++ kernels

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def c_modes(code: str, name: str) -> tuple[Mode | None, ...] | None:
    """By position, from ``__global__ void name(const float* x, float* y, int n)``; None if not found."""
    text = _COMMENT.sub(" ", code)
    plain = name.partition("<")[0].rpartition("::")[2]
    found = re.search(rf"\b{re.escape(plain)}\s*\(([^)]*)\)\s*\{{", text)
    if found is None:
        return None
    return tuple(_c_mode(part) for part in found.group(1).split(",") if part.strip() not in ("", "void"))


def _c_mode(parameter: str) -> Mode | None:
    if "*" not in parameter and "[" not in parameter:
        return None
    pointee = parameter.partition("*")[0]
    return Mode.READ if re.search(r"\bconst\b", pointee) else Mode.UPDATE
