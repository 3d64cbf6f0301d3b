"""Objects of classes of the tree: how they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import classes, modules
from streamlint.interp.library import storage, thread_local, weakly
from streamlint.interp.state import flavors, naming, symbols
from streamlint.interp.state.values import (
    FALSE,
    NONE,
    TRUE,
    BufferV,
    ConstV,
    Flavor,
    FuncV,
    HeapV,
    SymV,
    Value,
    given_by,
    symbol_of,
)

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def instantiate(
    m: Machine, decl: ir.ClassDecl, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``Class(...)``"""
    if (of_threads := thread_local.made_of(m, decl, args, kwargs)) is not None:
        return of_threads
    made = classes.new(m, decl)
    m.constructed.add(made.id)
    initialize(m, made, decl, args, kwargs, span)
    weakly.made(m, made)
    return made


def initialize(
    m: Machine, made: HeapV, decl: ir.ClassDecl, args: list[Value], kwargs: dict[str, Value], span: Span
) -> None:
    """Runs ``__init__``, or sets the fields of a dataclass."""
    constructor = classes.lookup(m, decl, "__init__")
    if isinstance(constructor, FuncV):
        m.python.call(m, FuncV(constructor.function, constructor.closure, made), args, kwargs, span)
        return
    fields = classes.dataclass_fields(m, decl)
    if fields is None:
        return
    bound = dict(kwargs)
    for (name, default), value in zip(fields.items(), args, strict=False):
        bound[name] = value
        del default
    for name, default in fields.items():
        if name in bound:
            m.heap[made.id].attrs[name] = bound[name]
        elif default is not None:
            m.heap[made.id].attrs[name] = _default(m, decl, default)
            naming.rename(m, m.heap[made.id].attrs[name], name)
    after = classes.method(m, made, "__post_init__")
    if after is not None:
        m.python.call(m, after, [], {}, span)


def _default(m: Machine, decl: ir.ClassDecl, default: ir.Expr) -> Value:
    """A field's default; ``field(default_factory=list)`` makes a new one for each object."""
    module = m.project.module(decl.module)
    if module is None:
        return NONE
    if isinstance(default, ir.Call) and ir.called(default) == "field":
        for argument in default.args:
            if argument.keyword == "default":
                return modules.at_module_level(m, module, argument.value) or NONE
            if argument.keyword == "default_factory":
                call = ir.Call(default.span, argument.value, ())
                return modules.at_module_level(m, module, call) or NONE
        return NONE
    return modules.at_module_level(m, module, default) or NONE


def has(m: Machine, value: Value, name: Value) -> Value:
    """``hasattr(value, name)``"""
    if thread_local.lacks(m, value, name):
        return FALSE
    match thread_local.of_lane(m, value), name:
        case HeapV(number), ConstV(str() as attribute) if attribute in m.heap[number].attrs:
            return TRUE
        case (SymV() | FuncV()) as of, ConstV(str() as attribute) if (
            symbols.Attr(symbol_of(of), attribute) in m.roles
        ):
            return TRUE
        case BufferV() as view, ConstV(str() as attribute) if storage.put_on(m, view, attribute) is not None:
            # param.full = torch.zeros(n): what the path has put on a tensor is there.
            return TRUE
        case FuncV() as kept, ConstV(str() as attribute) if _keeps_nothing_yet(m, kept, attribute):
            return FALSE
        case BufferV(flavor=flavor), ConstV("__cuda_array_interface__") if flavor in flavors.DEVICE_FLAVORS:
            return TRUE
        case BufferV(flavor=Flavor.ARRAY), ConstV("__cuda_array_interface__"):
            return FALSE
        case _:
            return given_by("hasattr", value, name)


def _keeps_nothing_yet(m: Machine, func: FuncV, name: str) -> bool:
    """Whether a function has no attributes yet: ``if not hasattr(step, "side"):`` in ``step``.

    It asks for what it keeps itself, and this is its first call; or the path has only just defined it. What
    Python and decorators give a function has names of theirs: ``__wrapped__``.
    """
    asks_itself = m.frame.function == func.name
    return (asks_itself or func.closure is not None) and not name.startswith("__")
