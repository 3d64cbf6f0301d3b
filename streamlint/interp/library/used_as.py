"""What code does with a value shows its class, also to a test that came before.

``isinstance(out, dict)`` is open where nothing is known of ``out``, and a path takes it to be false. If then
somebody takes ``out["logits"]``, that path was none that can happen: the next one knows better.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.values import BufferV, Flavor, SymV, Value, symbol_of
from streamlint.models import members, python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


class Use(Enum):
    """What something is used as, with the classes of which it is then."""

    MAPPING = python.BASES["dict"]
    SEQUENCE = python.BASES["list"] | python.BASES["tuple"]
    TENSOR = frozenset({"Tensor"})


def denied(m: Machine, test: Symbol) -> None:
    """Notes that a path takes ``isinstance(out, dict)`` to be false."""
    match test:
        case symbols.Call(symbols.Name("isinstance"), (thing, *_)):
            m.denied.setdefault(thing, []).append(test)
        case _:
            pass


def shows(m: Machine, value: Value, use: Use) -> None:
    """Something is used as a mapping, a sequence or a tensor."""
    match value:
        case SymV(symbol):
            of = [symbol]
        case BufferV(number, flavor=Flavor.OPAQUE | Flavor.TORCH):
            # What was only taken for a tensor may have been asked before it was.
            of = [symbol_of(value), *([m.given[number]] if number in m.given else [])]
        case _:
            return
    asked = [one for symbol in of for each in _with_sources(symbol, use) for one in _with_sample(each)]
    for test in (test for symbol in asked for test in m.denied.get(symbol, ())):
        if _classes(test) & use.value:
            m.oracle.shows(test, 0)


def _with_sources(symbol: Symbol, use: Use) -> Iterator[Symbol]:
    """What is used, and what it was made of by methods of tensors: ``batch["image"].float().div_(255.0)``."""
    yield symbol
    match symbol:
        case symbols.Fresh(what) if use is Use.TENSOR:
            yield from _receivers(what)
        case symbols.Call() if use is Use.TENSOR:
            yield from _receivers(symbol)
        case _:
            pass


def _receivers(call: Symbol) -> Iterator[Symbol]:
    match call:
        case symbols.Call(symbols.Attr(of, name)) if members.may_give_tensor(name):
            yield from _with_sources(of, Use.TENSOR)
        case _:
            pass


def _with_sample(symbol: Symbol) -> Iterator[Symbol]:
    """An element, and what stood for all elements when a comprehension made them: ``moved["logits"]``."""
    yield symbol
    match symbol:
        case symbols.Item(sample, _) if symbols.contains(sample, symbols.EACH):
            yield sample
        case _:
            pass


def _classes(test: Symbol) -> frozenset[str]:
    match test:
        case symbols.Call(_, (_, *options)):
            return frozenset(
                option.path.rpartition(".")[2] for option in options if isinstance(option, symbols.Name)
            )
        case _:
            return frozenset()
