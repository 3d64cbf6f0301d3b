"""Which form of a call is meant, where a library has several under one name and tells them apart by types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import names
from streamlint.interp.state.values import NONE, BufferV, ConstV, StreamV, Value
from streamlint.models import schema as fx

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.interp.state.machine import Machine


def chosen(m: Machine, api: fx.Api, args: Sequence[Value]) -> tuple[str, ...]:
    """The parameters that ``args`` stand for: ``image.download(out)``, ``image.download(stream, out)``."""
    if not api.overloads:
        return api.names_of(len(args))
    given = [names.settle(m, value) for value in args]
    streams, memory = frozenset(_streams(api)), frozenset(_memory(api))
    for form in (api.names, *(tuple(params.split()) for params in api.overloads)):
        if len(given) <= len(form) and all(
            _fits(value, is_stream=name in streams, is_memory=name in memory)
            for name, value in zip(form, given, strict=False)
        ):
            return form
    return api.names


def _fits(value: Value, *, is_stream: bool, is_memory: bool) -> bool:
    """What is not known fits everywhere."""
    match value:
        case StreamV():
            return is_stream
        case BufferV():
            return is_memory
        case ConstV():
            return value == NONE or not (is_stream or is_memory)
        case _:
            return True


def _streams(api: fx.Api) -> Iterator[str]:
    for effect in api.effects:
        stream = getattr(effect, "stream", None)
        if isinstance(stream, str):
            yield stream


def _memory(api: fx.Api) -> Iterator[str]:
    for effect in api.effects:
        match effect:
            case fx.Copies(dst, src):
                yield from (dst, src)
            case fx.Computes(reads, out):
                yield from (*reads, out)
            case _:
                pass
