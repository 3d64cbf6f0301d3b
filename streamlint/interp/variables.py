"""Variables that other code set before: a module's, a class's, and attributes that make streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp import outside, stmt
from streamlint.interp.machine import PathEnds
from streamlint.interp.relevance import all_functions
from streamlint.interp.values import NONE, FuncV, HeapV, SymV, Value
from streamlint.models import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.machine import Machine


@dataclass(frozen=True, slots=True)
class StreamAttribute:
    """``self.name = value`` in a method, with its name for ``self``."""

    function: ir.Function
    receiver: str
    value: ir.Expr


def assigned(owner: ir.Module | ir.ClassDecl, name: str) -> ir.Expr | None:
    """What the first plain ``name = ...`` in the body of a module or class assigns.

    None where there is no such statement, or the body cannot be lowered.
    """
    try:
        body = owner.load_body()
    except ir.LoweringError:
        return None
    for statement in body:
        if isinstance(statement, ir.Assign) and any(
            isinstance(target, ir.Name) and target.id == name for target in statement.targets
        ):
            return statement.value
    return None


def first_value(m: Machine, module: ir.Module, name: str) -> Value:
    """A module's variable when an entry first reads it.

    Runs the plain top-level assignment to ``name``; anything more involved stays symbolic. A variable
    that is ``None`` only until some function of the module sets it is what that function makes of it:
    by the time that other code runs, the application has been set up.
    """
    unknown = SymV(f"{module.name}.{name}")
    written = assigned(module, name)
    value = stmt.at_module_level(m, module, written) if written is not None else None
    if value is None:
        return unknown
    setters = [decl for decl in all_functions(module) if name in decl.globals] if value == NONE else []
    if not setters or _is_being_set(m, setters):
        return value
    return _set_later(m, module, name, setters, unknown)


def _is_being_set(m: Machine, setters: list[ir.FunctionDecl]) -> bool:
    """Whether a function that sets the variable is running: ``if _STREAM is None: _STREAM = Stream()``."""
    running = {(frame.env.module, frame.function) for frame in m.frames}
    return any((decl.module, FuncV(decl).name) in running for decl in setters)


def _set_later(
    m: Machine, module: ir.Module, name: str, setters: list[ir.FunctionDecl], unknown: SymV
) -> Value:
    """What a function that makes streams leaves in a module's variable, called by the application before."""
    key = (module.name, name)
    for decl in setters:
        if module.functions.get(decl.name) is not decl or not words.makes_streams(decl.names):
            continue
        m.globals[key] = NONE
        outside_call, constructing, m.constructing = m.call, m.constructing, True
        try:
            outside.call_outside(m, FuncV(decl), 0)
        except PathEnds:
            continue
        finally:
            m.call, m.constructing = outside_call, constructing
        if m.globals[key] != NONE:
            return m.globals[key]
    return unknown


def stream_attribute(m: Machine, made: HeapV, cls: ir.ClassDecl, name: str) -> Value | None:
    """The stream or event that some method of the class puts into an attribute that nothing has set yet.

    ``self.side = torch.cuda.Stream()`` stands in a method that was not called, or in a constructor that
    could not be followed to its end.
    """
    for ancestor in m.project.ancestors(cls)[0]:
        found = _made(m, ancestor).get(name)
        module = m.project.module(ancestor.module)
        if found is not None and module is not None:
            parameters = {param.name: SymV(f"0:{param.name}") for param in found.function.params[1:]}
            return stmt.at_module_level(m, module, found.value, {found.receiver: made, **parameters})
    return None


def _made(m: Machine, cls: ir.ClassDecl) -> dict[str, StreamAttribute]:
    """The first expression for each attribute that creates a stream or an event, constructor first."""
    known = m.project.stream_attributes.get(cls)
    if known is None:
        known = m.project.stream_attributes[cls] = {}
        for decl in sorted(cls.methods.values(), key=lambda decl: decl.name != "__init__"):
            if words.makes_streams(decl.names):
                for name, attribute in _assignments(decl):
                    known.setdefault(name, attribute)
    return known


def _assignments(decl: ir.FunctionDecl) -> Iterator[tuple[str, StreamAttribute]]:
    try:
        function = decl.load()
    except ir.LoweringError:
        return
    if not function.params or "staticmethod" in decl.decorators:
        return
    receiver = function.params[0].name
    for node in ir.walk(function.body):
        match node:
            case ir.Assign(targets=(ir.Attr(value=ir.Name(id=owner), name=name),), value=value) if (
                owner == receiver and _makes_stream(value)
            ):
                yield name, StreamAttribute(function, receiver, value)
            case _:
                pass


def _makes_stream(value: ir.Expr) -> bool:
    return any(
        isinstance(node, ir.Call) and isinstance(node.func, ir.Attr) and node.func.name in words.MAKERS
        for node in ir.walk(value)
    )
