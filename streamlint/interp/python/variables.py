"""Variables that other code set before: a module's, a class's, and attributes that make streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.facts import decorators, modules, registering, scopes, touching
from streamlint.interp.python import containers, first_values, registries, stream_sources, unseen_caller
from streamlint.interp.state import arguments, naming, symbols
from streamlint.interp.state.ends import PathEnds
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import (
    NONE,
    ConstV,
    FuncV,
    HeapObject,
    HeapV,
    Shape,
    SymV,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.interp.state.machine import Machine


@frozen()
class StreamAttribute:
    """``self.name = value`` or ``self.name["key"] = value`` in a method, with its name for ``self``."""

    function: ir.Function
    receiver: str
    name: str
    key: str | None
    value: ir.Expr


def first_value(m: Machine, module: ir.Module, name: str) -> Value:
    """A module's variable when an entry first reads it.

    Runs the plain top-level assignment to ``name``; anything more involved stays symbolic. A variable
    that is ``None`` only until some function of the module sets it is what that function makes of it:
    by the time that other code runs, the application has been set up. A number or flag that some function
    sets may be any.
    """
    unknown = SymV(symbols.Attr(symbols.Name(module.name), name))
    written = scopes.assigned(module, name)
    value = first_values.at_import(m, module, name, written) if written is not None else None
    stream_sources.mark_used(m, value)
    if value is None:
        return unknown
    if isinstance(value, HeapV):
        m.globals[module.name, name] = value
        registries.fill(m, module, name)
        registering.opened(m, module.name, name, value, module.functions.values())
        add_sample(m, [module], name, m.heap[value.id])
        first_values.came_by(m, value)
    if not isinstance(value, ConstV):
        return value
    setters = [decl for decl in ir.all_functions(module) if name in decl.globals]
    if not setters or _is_being_set(m, setters):
        return value
    # capturing = False, until some `with capture():` sets it
    return _set_later(m, module, name, setters, unknown) if value == NONE else unknown


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
        if module.functions.get(decl.name) is not decl or not touching.makes_streams(decl.used):
            continue
        m.globals[key] = NONE
        outside_call, constructing, m.constructing = m.call, m.constructing, True
        try:
            unseen_caller.call_outside(m, FuncV(decl), 0)
        except PathEnds:
            continue
        finally:
            m.call, m.constructing = outside_call, constructing
        if m.globals[key] != NONE:
            stream_sources.mark_used(m, m.globals[key])
            return m.globals[key]
    return unknown


def stream_attribute(m: Machine, made: HeapV, cls: ir.ClassDecl, name: str) -> Value | None:
    """The stream or event, or dict of them, that some method puts into an attribute that nothing has set yet.

    ``self.side = torch.cuda.Stream()`` stands in a method that was not called, or in a constructor that
    could not be followed to its end.
    """
    for ancestor in m.project.ancestors(cls)[0]:
        for found in _made(m, ancestor).get(name, ()):
            if found.key is None:
                return _evaluate(m, made, ancestor, found)
            table = m.new_object(Shape.DICT, symbol=symbols.Attr(m.symbol_of_object(made), name))
            m.heap[table.id].open = True
            add_stream_elements(m, made, cls, name, m.heap[table.id])
            return table
    return None


def given_by_others(m: Machine, made: HeapV, cls: ir.ClassDecl, name: str) -> Value:
    """The same for an attribute that is ``None`` until another module sets it, and that no method sets."""
    for ancestor in m.project.ancestors(cls)[0]:
        if name in _set_by_methods(m, ancestor):
            return NONE
    given = stream_sources.given_by_others(m, cls, name)
    if given is None:
        return NONE
    m.heap[made.id].attrs[name] = given
    naming.rename(m, given, f"self.{name}")
    return given


_SET_BY_METHODS: Kept[ir.ClassDecl, frozenset[str]] = Kept()


def _set_by_methods(m: Machine, cls: ir.ClassDecl) -> frozenset[str]:
    """Attributes to which a method other than the constructor assigns something."""
    return m.project.once(_SET_BY_METHODS, cls, lambda: frozenset(_attributes_set(cls)))


def _attributes_set(cls: ir.ClassDecl) -> Iterator[str]:
    for decl in cls.methods.values():
        function = ir.code_of(decl) if decl.name != "__init__" else None
        for node in ir.walk(function.body) if function is not None else ():
            if isinstance(node, ir.Assign):
                yield from (target.name for target in node.targets if isinstance(target, ir.Attr))


def add_stream_elements(m: Machine, made: HeapV, cls: ir.ClassDecl, name: str, held: HeapObject) -> None:
    """The same for elements of a dict: ``self.streams["copy"] = torch.cuda.Stream()``.

    Code that reads the dict while it is still empty expects another method to have been called.
    """
    for ancestor in m.project.ancestors(cls)[0]:
        for found in _made(m, ancestor).get(name, ()):
            value = _evaluate(m, made, ancestor, found) if found.key is not None else None
            if found.key is not None and value is not None:
                naming.rename(m, value, f"{name}[{found.key!r}]")
                containers.put(m, held, ConstV(found.key), value)


def add_sample(m: Machine, owners: Sequence[ir.ClassDecl | ir.Module], name: str, held: HeapObject) -> None:
    """What code puts into a container that is still empty stands for its elements, if they are asked for."""
    if held.shape is Shape.INSTANCE or held.items or held.named or held.sample is not None:
        return
    for owner in owners:
        held.sample = stream_sources.element(m, owner, name)
        if held.sample is not None:
            naming.rename(m, held.sample, name)
            return


def _evaluate(m: Machine, made: HeapV, cls: ir.ClassDecl, found: StreamAttribute) -> Value | None:
    module = m.project.module(cls.module)
    if module is None:
        return None
    parameters = {param.name: arguments.unknown(0, param.name) for param in found.function.params[1:]}
    value = modules.at_module_level(m, module, found.value, {found.receiver: made, **parameters})
    stream_sources.mark_used(m, value)
    return value


_STREAM_ATTRIBUTES: Kept[ir.ClassDecl, dict[str, list[StreamAttribute]]] = Kept()


def _made(m: Machine, cls: ir.ClassDecl) -> dict[str, list[StreamAttribute]]:
    """The expressions that create a stream or an event for an attribute, those of the constructor first."""
    return m.project.once(_STREAM_ATTRIBUTES, cls, lambda: _by_name(cls))


def _by_name(cls: ir.ClassDecl) -> dict[str, list[StreamAttribute]]:
    found: dict[str, list[StreamAttribute]] = {}
    for decl in sorted(cls.methods.values(), key=lambda decl: decl.name != "__init__"):
        if touching.makes_streams(decl.used):
            for attribute in _assignments(decl):
                found.setdefault(attribute.name, []).append(attribute)
    return found


def _assignments(decl: ir.FunctionDecl) -> Iterator[StreamAttribute]:
    function = ir.code_of(decl)
    if function is None or not function.params or decorators.is_static(decl):
        return
    receiver = function.params[0].name
    for node in ir.walk(function.body):
        match node:
            case ir.Assign(targets=(target,), value=value) if _makes_stream(value):
                match target:
                    case ir.Attr(value=ir.Name(id=owner), name=name) if owner == receiver:
                        yield StreamAttribute(function, receiver, name, None, value)
                    case ir.Index(
                        value=ir.Attr(value=ir.Name(id=owner), name=name), index=ir.Const(value=str() as key)
                    ) if owner == receiver:
                        yield StreamAttribute(function, receiver, name, key, value)
                    case _:
                        pass
            case _:
                pass


def _makes_stream(value: ir.Expr) -> bool:
    return any(
        isinstance(node, ir.Call) and isinstance(node.func, ir.Attr) and node.func.name in touching.MAKES
        for node in ir.walk(value)
    )
