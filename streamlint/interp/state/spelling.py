"""How the functions of a program write what they work with, so that messages call it the same.

``self.side`` of a method is ``worker.side`` in the function that made the worker, and what one function calls
``logits`` another one got as ``activation``. A message about a statement has the names of its function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state.values import BufferV, EventV, Flavor, GraphV, StreamV, SymV, Value
from streamlint.trace import OpId, Spelling, Spellings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span
    from streamlint.trace import Named

LONGEST = 60
"""A longer expression is no name."""

_TOLD = frozenset({StreamV, EventV, GraphV, BufferV})


def noted(m: Machine, value: Value, e: ir.Name | ir.Attr | ir.Index) -> Value:
    """The value, after the path knows how the running function writes it now."""
    if isinstance(value, SymV):
        key: tuple[str, Value | Symbol] = (m.frames[-1].function, value.symbol)
    elif type(value) in _TOLD and not _is_number(value):
        key = (m.frames[-1].function, value)
    else:
        return value
    written = m.written.get(key)
    if written is None:
        m.written[key] = [(len(m.ops), e)]
    elif written[-1][1] is not e:
        written.append((len(m.ops), e))
    return value


def _is_number(value: Value) -> bool:
    """Whether it is the handle of a stream, or an address, and not what that stands for."""
    match value:
        case StreamV(raw=raw):
            return raw
        case BufferV(flavor=flavor):
            return flavor is Flavor.POINTER
        case _:
            return False


def of(m: Machine) -> Spellings:
    """What the functions call the streams, events and memory of a path that is done."""
    written, roles = m.written, m.roles
    return Spellings(lambda: _gathered(written, roles))


def _gathered(
    spelled: Mapping[tuple[str, Value | Symbol], Sequence[tuple[int, ir.Expr]]],
    roles: Mapping[Symbol, Value],
) -> dict[tuple[str, Named], list[Spelling]]:
    known: dict[tuple[str, Named], list[Spelling]] = {}
    for (function, what), written in spelled.items():
        value = what if isinstance(what, (StreamV, EventV, GraphV, BufferV)) else roles.get(what)  # type: ignore[arg-type]
        named = None if value is None or _is_number(value) else _named(value)
        if named is None:
            continue
        found = known.setdefault((function, named), [])
        for since, e in written:
            said = text(e)
            if said and len(said) <= LONGEST:
                found.append(Spelling(said, OpId(since), isinstance(e, ir.Name), e.span.line))
    for found in known.values():
        found.sort(key=lambda one: one.since)
    return known


def _named(value: Value) -> Named | None:
    match value:
        case StreamV(number):
            return ("stream", number)
        case EventV(number):
            return ("event", number)
        case GraphV(number):
            return ("graph", number)
        case BufferV(number, region):
            return ("view", number, region)
        case _:
            return None


def called(m: Machine, span: Span) -> str:
    """What the running function calls at a place, without its owner; nothing if that has no short form."""
    call = m.frames[-1].calling if m.frames else None
    if call is None or call.span != span:
        return ""
    return call.func.name if isinstance(call.func, ir.Attr) else text(call.func)


def text(e: ir.Expr) -> str:
    """An expression of names, attributes and elements as it is written; nothing for any other.

    A part of some memory has the name of the whole: ``x[:n]`` is ``x``.
    """
    match e:
        case ir.Name(id=name):
            return name
        case ir.Attr(value=whole, name=name):
            return _joined(text(whole), f".{name}")
        case ir.Index(value=whole, index=index) if _is_part(index):
            return text(whole)
        case ir.Index(value=whole, index=index):
            at = _index(index)
            return _joined(text(whole), f"[{at}]") if at else ""
        case _:
            return ""


def _joined(first: str, rest: str) -> str:
    return f"{first}{rest}" if first and rest else ""


def _is_part(index: ir.Expr) -> bool:
    """Whether an index has a slice or ``...`` in it."""
    match index:
        case ir.Slice():
            return True
        case ir.Const(value=value):
            return value is None or value is ...
        case ir.Seq(items=items):
            return any(map(_is_part, items))
        case _:
            return False


def _index(index: ir.Expr) -> str:
    match index:
        case ir.Const(value=value):
            return repr(value)
        case ir.Binary(op=op, left=left, right=right):
            first, second = _index(left), _index(right)
            return _joined(first, f" {op} {second}") if second else ""
        case ir.Unary(op="-", operand=operand):
            return _joined("-", _index(operand))
        case ir.Seq(items=items):
            parts = [_index(item) for item in items]
            return ", ".join(parts) if all(parts) else ""
        case _:
            return text(index)
