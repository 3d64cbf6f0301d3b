"""What code can name at a place: its own expressions, and what they stand for when a path comes by."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeVar

from streamlint import models
from streamlint.fixes.text import named_first
from streamlint.frozen import frozen, replace
from streamlint.interp.state import names, symbols
from streamlint.interp.state.values import (
    ApiV,
    BufferV,
    ConstV,
    Env,
    EventV,
    GraphV,
    HeapV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models.schema import Lib
from streamlint.trace import CURRENT_DEVICE, MAIN_LANE, StreamKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from streamlint.interp.state.frames import Frame
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.trace import BufferId, DeviceId, EventId, GraphId, StreamId

T = TypeVar("T", StreamV, EventV, GraphV, BufferV)


@frozen()
class Sight:
    """One place of the code, as a path came by."""

    issued: int
    """Operations that had been issued."""
    values: Mapping[str, Value]
    """What the expressions of the function stand for, by their text."""
    elements: Mapping[str, tuple[Value, ...]]
    """Containers among them: all that is in them."""
    apis: Mapping[str, str]
    """What the names of libraries are here, by dotted path: ``cp`` is ``cupy``."""
    written: tuple[Collection[str], Collection[str]]
    """The chains of names and attributes in the text of the function, and of the file."""
    current: Mapping[Lib, StreamId]
    default: StreamId | None
    is_main: bool
    """Whether the main thread runs here."""
    device: tuple[DeviceId | None, Symbol | None] = (CURRENT_DEVICE, None)
    """Which device is current, as the code says it, or what names it."""

    def streams(self, number: StreamId) -> Iterator[tuple[str, StreamV]]:
        return self._found(StreamV, number)

    def events(self, number: EventId) -> Iterator[tuple[str, EventV]]:
        return self._found(EventV, number)

    def graphs(self, number: GraphId) -> Iterator[tuple[str, GraphV]]:
        return self._found(GraphV, number)

    def buffers(self, number: BufferId) -> Iterator[tuple[str, BufferV]]:
        return self._found(BufferV, number)

    def _found(self, kind: type[T], number: int) -> Iterator[tuple[str, T]]:
        """Names come before attributes and elements, and short ones before long ones."""
        for text in sorted(self.values, key=lambda each: (not each.isidentifier(), len(each), each)):
            value = self.values[text]
            if isinstance(value, kind) and value.id == number:
                yield text, value

    def api(self, path: str) -> str | None:
        """How a function of a library is written here; None where nothing of it was imported."""
        head, rest = path, ""
        while head:
            name = self.apis.get(head)
            if name is not None:
                return name + rest
            head, _, last = head.rpartition(".")
            rest = f".{last}{rest}"
        return None

    def path_of(self, text: str) -> str | None:
        """The dotted path of what is written here as ``cudart.cudaStreamSynchronize``."""
        for path, name in self.apis.items():
            if text == name or text.startswith(f"{name}."):
                return path + text[len(name) :]
        return None

    def strange(self, path: str) -> int:
        """How far off a module is: 0 where the function writes it, 1 where the file does, else 2.

        ``torch.xpu`` has what ``torch.cuda`` has; which of them is meant, the code around says.
        """
        name = self.api(path)
        return next((far for far, texts in enumerate(self.written) if name in texts), len(self.written))


def seen_by(
    m: Machine,
    expressions: Mapping[str, ast.expr],
    imported: Iterable[str],
    written: tuple[Collection[str], Collection[str]],
) -> Sight:
    """What the innermost frame can name now. Nothing is evaluated that could do something."""
    env = m.frame.env
    values: dict[str, Value] = {}
    elements: dict[str, tuple[Value, ...]] = {}
    for text, expression in expressions.items():
        value = _value(m, env, expression)
        if value is None:
            continue
        values[text] = value
        inside = _elements(m, value)
        if inside is not None:
            elements[text] = inside
    for text, value in _attributes(m, env):
        values.setdefault(text, value)
    apis: dict[str, str] = {}
    for name in imported:
        found = _name(m, env, name)
        if isinstance(found, ApiV):
            apis.setdefault(found.path, name)
    where = m.device
    is_here = m.lane == MAIN_LANE and where in (CURRENT_DEVICE, "0")
    current: dict[Lib, StreamId] = {}
    for lib in (Lib.TORCH, Lib.CUPY):
        stream = m.current.get((lib, where, m.lane))
        if stream is None and is_here:
            stream = m.defaults.get((StreamKind.CURRENT, where))
        if stream is not None:
            current[lib] = stream.id
    default = m.defaults.get((m.default_stream, where))
    main = m.lane == MAIN_LANE
    selected = (m.exact_device, m.device_symbol)
    named_default = default.id if default else None
    return Sight(len(m.ops), values, elements, apis, written, current, named_default, main, selected)


def with_first(m: Machine, frame: Frame, before: Sight, statement: ast.stmt) -> Sight:
    """The same with what the statement names at once: a field has no value before somebody asks for it."""
    named = named_first(statement)
    if named is None or ast.unparse(named) in before.values:
        return before
    value = _value(m, frame.env, named)
    if not isinstance(value, StreamV):
        return before
    return replace(before, values={**before.values, ast.unparse(named): value})


def _value(m: Machine, env: Env, expression: ast.expr) -> Value | None:
    """The value of a chain of names, attributes and elements; None where code would have to run for it."""
    match expression:
        case ast.Name(id=name):
            return _name(m, env, name)
        case ast.Constant(value=bool() | int() | str() as plain):
            return ConstV(plain)
        case ast.Attribute(value=inner, attr=name):
            owner = _value(m, env, inner)
            return None if owner is None else _attribute(m, owner, name)
        case ast.Subscript(value=inner, slice=index):
            owner, at = _value(m, env, inner), _value(m, env, index)
            return None if owner is None or at is None else _element(m, owner, at)
        case _:
            return None


def _name(m: Machine, env: Env, name: str) -> Value | None:
    scope: Env | None = env
    while scope is not None:
        if name in scope.names and name not in scope.outer:
            return _settled(m, scope.names[name])
        scope = scope.parent
    if (env.module, name) in m.globals:
        return _settled(m, m.globals[env.module, name])
    found = m.project.member(env.module, name)
    return _settled(m, found) if isinstance(found, ApiV) else None


def _settled(m: Machine, value: Value) -> Value:
    """What a value has turned out to be, without making a default stream or running a module for it."""
    if not isinstance(value, ApiV):
        return names.settle(m, value)
    if value.path not in models.STREAMS:
        return value
    lib, kind = models.STREAMS[value.path]
    made = m.defaults.get((kind, m.device))
    return value if made is None else StreamV(made.id, lib)


def _attribute(m: Machine, owner: Value, name: str) -> Value | None:
    match owner:
        case HeapV(number) if m.heap[number].shape is Shape.INSTANCE:
            found = m.heap[number].attrs.get(name)
            if found is None:
                found = m.roles.get(symbols.Attr(m.symbol_of_object(owner), name))
            return None if found is None else _settled(m, found)
        case SymV(symbol):
            return m.roles.get(symbols.Attr(symbol, name))
        case _:
            return None


def _element(m: Machine, owner: Value, at: Value) -> Value | None:
    match owner, at:
        case TupleV(items), ConstV(value=int() as number) if -len(items) <= number < len(items):
            return _settled(m, items[number])
        case HeapV(held), ConstV(value=int() as number) if m.heap[held].shape is Shape.LIST:
            items = tuple(m.heap[held].items)
            return _settled(m, items[number]) if -len(items) <= number < len(items) else None
        case HeapV(held), _ if m.heap[held].shape is Shape.DICT:
            found = m.heap[held].entries.get(symbol_of(at))
            return None if found is None else _settled(m, found)
        case _:
            return None


def _attributes(m: Machine, env: Env) -> Iterator[tuple[str, Value]]:
    """The streams and events of objects at hand: ``self.side``, whether the function mentions it or not."""
    for name, value in env.names.items():
        held = _settled(m, value)
        if isinstance(held, HeapV) and m.heap[held.id].shape is Shape.INSTANCE:
            for attribute, kept in m.heap[held.id].attrs.items():
                found = _settled(m, kept)
                if isinstance(found, (StreamV, EventV)) and attribute.isidentifier():
                    yield f"{name}.{attribute}", found


def _elements(m: Machine, value: Value) -> tuple[Value, ...] | None:
    match value:
        case TupleV(items):
            found = items
        case HeapV(held) if m.heap[held].shape is Shape.LIST:
            sample = m.heap[held].sample
            found = (*m.heap[held].items, *([sample] if sample is not None else []))
            found += tuple(m.heap[held].extra.values())
        case _:
            return None
    return tuple(_settled(m, item) for item in found)
