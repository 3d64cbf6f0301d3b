"""Texts that are known: what Python's operations on constants give, as far as they cannot grow large.

A kernel is looked up by ``symbol.encode("utf-8")`` or ``bytes(f"copy_{dtype}", "ascii")``, a stream by
``self.streams[f"lane{k}"]``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from streamlint.interp.library import tensors
from streamlint.interp.state import bounded, elements, symbols
from streamlint.interp.state.values import BufferV, ConstV, SymV, TupleV, Value, symbol_of
from streamlint.models import python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from streamlint import ir
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

MOST = 2_000
"""Characters of a text that is computed."""
_WIDTH = re.compile(r"[%{][^%{]*?\d{4}|%[-+ #0]*\*")
"""A format may ask for any width: ``"%99999d"``, ``"{:99999}"``."""


def formatted(m: Machine, e: ir.Opaque, values: list[Value]) -> Value:
    """An f-string: equal values give an equal text, which is a constant if they are."""
    memory = [value for value in values if isinstance(value, BufferV)]
    for value in memory:
        tensors.read_on_host(m, value, e.span, "formatting of text")
    if memory:
        return m.fresh(e.why, e.span)
    plain = [str(value.value) for value in values if isinstance(value, ConstV)]
    if e.texts and len(plain) == len(values):
        made = e.texts[0] + "".join(value + text for value, text in zip(plain, e.texts[1:], strict=True))
        if len(made) <= MOST:
            return ConstV(made)
    around = e.texts or (e.span.path, e.span.line, e.span.col)
    return SymV(symbols.Formatted(tuple(around), tuple(map(symbol_of, values))))


def method(
    m: Machine, receiver: ConstV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """A method of a constant text."""
    of, given = receiver.value, constants([*args, *kwargs.values()])
    is_known = isinstance(of, (str, bytes)) and name in python.TEXT_METHODS and hasattr(of, name)
    if is_known and given is not None:
        options = dict(zip(kwargs, given[len(args) :], strict=True))
        found = folded(lambda: getattr(of, name)(*given[: len(args)], **options), of, *given)
        if isinstance(found, TupleV) and "split" in name:
            return m.new_list(found.items)
        if found is not None:
            return found
    if name == "join" and len(args) == 1 and (items := elements.listed(m, args[0])) is not None:
        known = constants(items)
        found = folded(lambda: of.join(known), of, *known) if known and isinstance(of, str) else None  # type: ignore[arg-type]
        if found is not None:
            return found
    if name == "format":
        for view in tensors.buffers_in(m, [*args, *kwargs.values()], unknown=False):
            tensors.read_on_host(m, view, span, "format()")
    return m.fresh(f"str.{name}", span)


def filled(template: Value, items: Sequence[Value]) -> Value | None:
    """``"%s_%d" % (name, width)``"""
    text = template.value if isinstance(template, ConstV) else None
    given = constants(items)
    if given is None or not isinstance(text, (str, bytes)):
        return None
    return folded(lambda: text % tuple(given), text, *given)


def converted(name: str, args: Sequence[Value]) -> Value | None:
    """``int("3")``, ``bytes(name, "ascii")``, ``str(b"x", "utf-8")``, ``ord("a")`` of constants."""
    given, make = constants(args), python.CONVERSIONS.get(name)
    if not given or make is None or (name == "bytes" and isinstance(given[0], int)):
        return None
    return folded(lambda: make(*given), *given)


def constants(values: Iterable[Value]) -> list[object] | None:
    """The plain values, also of tuples of them; None if something else is among them."""
    plain: list[object] = []
    for value in values:
        match value:
            case ConstV(known):
                plain.append(known)
            case TupleV(items) if (inside := constants(items)) is not None:
                plain.append(tuple(inside))
            case _:
                return None
    return plain


def folded(compute: Callable[[], object], *given: object) -> Value | None:
    """What an operation on constants gives; None if it raises, or may give a large text."""
    texts = [text for text in given if isinstance(text, (str, bytes))]
    if sum(map(len, texts)) > MOST or (texts and _WIDTH.search(str(texts[0]))):
        return None
    try:
        return _value(compute())
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
        return None


def _value(result: object) -> Value | None:
    match result:
        case None | bool() | int() | float() | complex() | str() | bytes():
            return bounded.constant(result)
        case tuple() | list():
            items = [_value(item) for item in result]
            return TupleV(tuple(item for item in items if item is not None)) if None not in items else None
        case _:
            return None
