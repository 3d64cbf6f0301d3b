"""Calls as unseen code makes them: unknown arguments, an object constructed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp import calls, escape, functions, lifetime, objects, tensors
from streamlint.interp.machine import Machine, PathEnds, Returned
from streamlint.interp.values import (
    ConstV,
    FuncV,
    GeneratorV,
    HeapV,
    SymV,
    Value,
)
from streamlint.trace import Copy, HostEffect, Space, SyncDevice

if TYPE_CHECKING:
    from streamlint.source import Span
    from streamlint.trace import Op


def construct(m: Machine, cls: ir.ClassDecl) -> HeapV | None:
    """An object as outside code makes it; what the constructor queued is complete afterwards."""
    init = objects.lookup(m, cls, "__init__")
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    if isinstance(init, FuncV):
        args, kwargs = outside_arguments(m, init, 0, skip=1)
    else:
        for name in objects.dataclass_fields(m, cls) or {}:
            kwargs[name] = SymV(f"0:{name}")
    m.constructing = True
    try:
        made = objects.instantiate(m, cls, args, kwargs, cls.span)
    except PathEnds:
        return None
    finally:
        m.constructing = False
    if not isinstance(made, HeapV):
        return None
    m.heap[made.id].key = "self"
    # Between the calls only the outside caller holds the object, and with it all that it keeps alive.
    m.life.outside.append(made)
    if any(_is_download(m, op) for op in m.ops):
        # The object stands for a result on its way to the host; its methods wait for it.
        return made
    for device in dict.fromkeys(stream.device for stream in m.streams.values()):
        m.emit(SyncDevice(m.site(cls.span), m.lane, device=device, name="before the first call"))
    return made


def _is_download(m: Machine, op: Op) -> bool:
    return (
        isinstance(op, Copy)
        and op.host is HostEffect.ASYNC
        and m.buffers[op.dst.buffer].space is Space.PINNED
    )


def call_outside(m: Machine, func: FuncV, number: int) -> None:
    """Calls a function as unseen code would: parameters are unknown, or have their default."""
    m.call = number
    if number:
        m.begin(func.function.span, number)
    args, kwargs = outside_arguments(m, func, number, skip=1 if func.receiver is not None else 0)
    try:
        m.last_return = None
        result = calls.call(m, func, args, kwargs, func.function.span)
        _used_by_caller(m, result, func.function.span)
        if isinstance(result, GeneratorV):
            functions.run_generator(m, result, lambda v: lifetime.hand_out(m, v), func.function.span)
        lifetime.hand_out(m, result, func.function.span)
    except Returned:
        pass


def _used_by_caller(m: Machine, result: Value, span: Span) -> None:
    """The caller may use what it gets at once; given the stream or an event too, it can order that itself."""
    given = [] if escape.carries_order(m, [result]) else tensors.buffers_in(m, [result], unknown=False)
    m.end_call(given, m.last_return or span)


def outside_arguments(
    m: Machine, func: FuncV, number: int, *, skip: int
) -> tuple[list[Value], dict[str, Value]]:
    """One value for each parameter. Numbers and texts take their default (``slots=2``), flags stay open."""
    try:
        function = func.function.load() if isinstance(func.function, ir.FunctionDecl) else func.function
    except ir.LoweringError as error:
        raise PathEnds from error
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    for position, param in enumerate(function.params):
        if position < skip and param.kind == "positional":
            continue
        value = _outside_value(m, param, number)
        if param.kind == "positional":
            args.append(value)
        elif param.kind == "keyword":
            kwargs[param.name] = value
        elif param.kind == "*":
            args.append(SymV(f"*{number}:{param.name}"))
    return args, kwargs


def _outside_value(m: Machine, param: ir.Param, number: int) -> Value:
    match param.default:
        case ir.Const(value=value) if (
            value is not None and not isinstance(value, bool) and isinstance(value, (int, str, float))
        ):
            return ConstV(value)
        case _ if param.default is None and _is_tensor(param.annotation):
            return m.argument(f"{number}:{param.name}")
        case _:
            return SymV(f"{number}:{param.name}")


def _is_tensor(annotation: ir.Expr | None) -> bool:
    """``x: torch.Tensor``, ``x: Tensor`` or ``x: "torch.Tensor"``."""
    match annotation:
        case ir.Name(id="Tensor") | ir.Attr(name="Tensor") | ir.Const(value="torch.Tensor" | "Tensor"):
            return True
        case _:
            return False
