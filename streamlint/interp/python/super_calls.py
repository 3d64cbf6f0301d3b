"""``super().method(...)``: what a class inherits, in sight or out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import classes, decorators
from streamlint.interp.library import escape, layers, operators, optimizers, saved_hooks, unresolved
from streamlint.interp.state import names
from streamlint.interp.state.values import NONE, ClassV, FuncV, HeapV, Value
from streamlint.models import torch as torch_model

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine


def is_one(e: ir.Call) -> bool:
    owner = e.func.value if isinstance(e.func, ir.Attr) else None
    return isinstance(owner, ir.Call) and isinstance(owner.func, ir.Name) and owner.func.id == "super"


def call(m: Machine, e: ir.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``super().method(...)``: the next class that has it, in the order of the object's own class.

    Behind a mixin that may be one which the mixin does not know. A base that is not in sight is an unresolved
    call: one of a library gets the arguments only, of another package the object too.
    """
    cls, receiver = _super_of(m, e)
    if cls is None or receiver is None or not isinstance(e.func, ir.Attr):
        return NONE
    for ancestor in classes.behind(m, cls, receiver):
        if e.func.name in ancestor.methods:
            decl = ancestor.methods[e.func.name]
            bound = None if decorators.is_static(decl) else receiver
            return m.python.call(m, FuncV(decl, None, bound), args, kwargs, e.span)
    if e.func.name in escape.WAITING:
        # A subclass of torch.futures.Future, of Event, of Thread: it waits for something.
        escape.barrier(m, escape.all_streams(m), e.span, e.func.name)
    computed = layers.inherited(m, receiver) if isinstance(receiver, HeapV) else ""
    if computed and e.func.name in torch_model.CALLED:
        return operators.layer(m, receiver, computed, args, kwargs, e.span)
    if e.func.name != "__init__":
        known = e.func.name not in torch_model.CALLED and classes.extends_library(m.project, cls)
        given = args if known else [receiver, *args]
        return unresolved.opaque(m, f"super().{e.func.name}", given, kwargs, e.span)
    saved_hooks.inherited(m, cls, receiver, args)
    optimizers.inherited(m, cls, receiver, args, kwargs)
    return NONE


def _super_of(m: Machine, e: ir.Call) -> tuple[ir.ClassDecl | None, Value | None]:
    """The class behind which ``super()`` or ``super(Class, self)`` looks, and the object."""
    inner = e.func.value if isinstance(e.func, ir.Attr) else None
    if isinstance(inner, ir.Call) and len(inner.args) == 2:
        cls, receiver = (names.settle(m, m.python.evaluate(m, arg.value)) for arg in inner.args)
        return (cls.decl if isinstance(cls, ClassV) else m.frame.cls), receiver
    return m.frame.cls, next(iter(m.frame.env.names.values()), None)
