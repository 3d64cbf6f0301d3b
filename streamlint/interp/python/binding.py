"""Names: looking up and binding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.library import monitors
from streamlint.interp.python import containers, objects, variables
from streamlint.interp.state import elements, names, naming, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    Env,
    EventV,
    Flavor,
    StreamV,
    SymV,
    Value,
    given_by,
    symbol_of,
)
from streamlint.models import members

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine


def load(m: Machine, name: str) -> Value:
    """A name, innermost scope first, then the module, then builtins."""
    innermost = m.frames[-1].env
    env: Env | None = innermost
    while env is not None:
        if name in env.names and name not in env.outer:
            return names.settle(m, env.names[name])
        env = env.parent
    return module_name(m, innermost.module, name)


def module_name(m: Machine, module: str, name: str) -> Value:
    """A module-level name: a definition, an import, or a variable, which is evaluated when first needed."""
    held = m.globals.get((module, name))
    if held is not None:
        return names.settle(m, held)
    found = m.project.member(module, name)
    if found is not None:
        return found
    declared = m.project.module(module)
    if declared is not None and name in declared.assigned:
        m.globals[module, name] = SymV(symbols.Attr(symbols.Name(module), name))
        m.globals[module, name] = variables.first_value(m, declared, name)
        naming.rename(m, m.globals[module, name], name)
        return m.globals[module, name]
    return ConstV(True) if name == "__debug__" else ApiV(name)


def store(m: Machine, name: str, value: Value) -> None:
    env = m.frame.env
    if isinstance(value, BufferV) and value.flavor is Flavor.OPAQUE and members.is_number(name):
        # task_id = connector.store(tensor): what unresolved code returned is no tensor, as far as is known.
        number = given_by(name, value)
        m.called_numbers[number.symbol] = value
        value = number
    naming.rename(m, value, name)
    if isinstance(value, SymV) and value.symbol in m.guesses:
        guess = m.guesses[value.symbol]
        m.guesses[value.symbol] = replace(guess, name=guess.name or name)
    if name in env.outer:
        m.set_global(env.module, name, value)
        return
    if name in env.enclosing:
        scope = env.parent
        while scope is not None:
            if name in scope.names:
                scope.names[name] = value
                m.rebound = True
                return
            scope = scope.parent
    env.names[name] = value


def assign(m: Machine, target: ir.Expr, value: Value) -> None:
    """Binds a target: a name, an attribute, an element, or a pattern of these."""
    match target:
        case ir.Name():
            before = m.frame.env.names.get(target.id, NONE)
            store(m, target.id, value)
            monitors.drop_aside(m, [before], target.span)
        case ir.Attr():
            objects.set_attribute(m, m.python.evaluate(m, target.value), target.name, value, target.span)
        case ir.Index(value=ir.Attr(name="__dict__", value=owner)):
            at = m.python.evaluate(m, target.index)
            if isinstance(at, ConstV) and isinstance(at.value, str):
                objects.set_attribute(m, m.python.evaluate(m, owner), at.value, value, target.span)
        case ir.Index():
            container, at = m.python.evaluate(m, target.value), m.python.evaluate(m, target.index)
            containers.set_index(m, container, at, value, target.span)
            holder = _holder(target)
            if holder and isinstance(value, (BufferV, EventV, StreamV)):
                naming.rename(m, value, f"{holder}[{_place(target.index, at)}]")
        case ir.Seq():
            _unpack(m, target.items, value)
        case ir.Star():
            assign(m, target.value, value)
        case _:
            m.python.evaluate(m, target)


def _place(index: ir.Expr, at: Value) -> str:
    """``key`` of ``batch[key]``, and ``0`` where it is known to be that."""
    match index:
        case ir.Name(id=name) if not isinstance(at, ConstV):
            return name
        case _:
            return symbols.text_of(symbol_of(at))


def walk(m: Machine, target: ir.Expr, value: Value) -> None:
    """Binds the target of a loop, which names what has no better name.

    ``for k, v in batch.items(): batch[k] = v.cuda()``: what stands there at the end is no ``v``.
    """
    m.frame.walks = True
    assign(m, target, value)
    m.frame.walks = False


def _holder(e: ir.Expr) -> str:
    """``self.done[layer][part] = torch.cuda.Event()`` is one of ``done``."""
    match e:
        case ir.Index(value=inside):
            return _holder(inside)
        case ir.Name(id=name) | ir.Attr(name=name):
            return name
        case _:
            return ""


def _unpack(m: Machine, targets: tuple[ir.Expr, ...], value: Value) -> None:
    value = names.settle(m, value)
    items = elements.listed(m, value)
    starred = next((i for i, t in enumerate(targets) if isinstance(t, ir.Star)), None)
    if items is None or (starred is None and len(items) != len(targets)) or len(items) < len(targets) - 1:
        if isinstance(value, BufferV) and value.flavor is Flavor.OPAQUE:
            m.unpacked.add(value.id)
        for position, target in enumerate(targets):
            assign(m, target, containers.element(m, value, symbols.constant(position), target.span))
        return
    if starred is None:
        for target, item in zip(targets, items, strict=True):
            assign(m, target, item)
        return
    after = len(targets) - starred - 1
    for target, item in zip(targets[:starred], items, strict=False):
        assign(m, target, item)
    assign(m, targets[starred], m.new_list(items[starred : len(items) - after]))
    for target, item in zip(targets[starred + 1 :], items[len(items) - after :], strict=True):
        assign(m, target, item)
