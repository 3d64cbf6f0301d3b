"""The modules that are in a module which the path has made: ``net.modules()``, ``block.named_children()``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import classes
from streamlint.interp.library import torch_modules
from streamlint.interp.python import containers, module_containers
from streamlint.interp.state import names
from streamlint.interp.state.loop_steps import UNKNOWN_LENGTH_TURNS
from streamlint.interp.state.values import (
    ConstV,
    HeapV,
    Shape,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import torch as model
from streamlint.models import torch_layers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import HeapObject
    from streamlint.source import Span

_Part = tuple[str, Value]


class _NotKnown(Exception):
    """Some module in it is not in sight: then nobody knows which of them comes first."""


def listed(m: Machine, module: Value, name: str, args: list[Value], span: Span) -> HeapV | None:
    """What a method lists; None where something of it is not known."""
    if name not in model.MODULE_TREE or args or not _is_module(m, module):
        return None
    deep = name in model.OF_ALL_DEPTHS
    try:
        found = list(_all_of(m, ("", module), span, {}) if deep else _children(m, module, span))
    except _NotKnown:
        return None
    if (home := m.life.homes.get(_told_apart(m, module))) is not None:
        # It was moved to a device as a whole.
        for _, part in found:
            m.life.homes.setdefault(_told_apart(m, part), home)
    named = model.MODULE_TREE[name]
    return m.new_list([TupleV((ConstV(path), part)) if named else part for path, part in found])


def have_hooks(m: Machine, sequence: SymV) -> bool:
    """Whether a hook is registered for a layer of ``nn.Sequential(proj, nn.GELU())``."""
    if m.makers.get(sequence.symbol) != model.SEQUENCE:
        return False
    watched = {owner for name, owner in m.hooks if name in model.FORWARD_HOOKS}
    return bool(watched) and any(symbol_of(part) in watched for part in sequence.holds)


def _all_of(m: Machine, whole: _Part, span: Span, seen: dict[Symbol, None]) -> Iterator[_Part]:
    """A module, and all that is in it, each once."""
    path, module = whole
    if (own := _told_apart(m, module)) in seen:
        return
    seen[own] = None
    yield whole
    for name, part in _children(m, module, span):
        yield from _all_of(m, (f"{path}.{name}" if path else name, part), span, seen)


def _told_apart(m: Machine, module: Value) -> Symbol:
    return m.symbol_of_object(module) if isinstance(module, HeapV) else symbol_of(module)


def _children(m: Machine, module: Value, span: Span) -> Iterator[_Part]:
    match module:
        case HeapV() if m.heap[module.id].shape is Shape.INSTANCE:
            yield from _of_instance(m, m.heap[module.id])
        case HeapV():
            yield from _of_container(m, module, span)
        case SymV(symbol, layers) if m.makers.get(symbol) == model.SEQUENCE:
            if not all(_is_module(m, layer) for layer in layers):
                raise _NotKnown
            yield from ((str(number), layer) for number, layer in enumerate(layers))
        case SymV(symbol) if _has_no_parts(m.makers.get(symbol, "")):
            return
        case _:
            raise _NotKnown


def _of_instance(m: Machine, held: HeapObject) -> Iterator[_Part]:
    assert held.cls is not None
    outside = set(classes.bases_outside(m.project, held.cls))
    if not m.project.ancestors(held.cls)[1] or not all(map(_has_no_parts, outside)):
        raise _NotKnown
    for name, value in held.attrs.items():
        part = names.settle(m, value)
        if _is_module(m, part):
            yield name, part
        elif isinstance(part, SymV) and _may_be_module(m, held, name, part):
            raise _NotKnown


def _has_no_parts(path: str) -> bool:
    """Whether a class of ``torch.nn`` makes no modules of its own: ``Module``, ``Linear``."""
    return path.startswith("torch.nn.") and path.rpartition(".")[2] in torch_layers.OF_NO_PARTS


def _may_be_module(m: Machine, held: HeapObject, name: str, value: SymV) -> bool:
    """Whether code says of something that its caller passed that it is a module, or calls it."""
    order = m.project.ancestors(held.cls)[0] if held.cls is not None else []
    calls = (method.called for cls in order for method in cls.methods.values())
    return torch_modules.is_shown(m, value) or any(name in called for called in calls)


def _of_container(m: Machine, module: HeapV, span: Span) -> Iterator[_Part]:
    """Of a list of unknown length as many as a loop comes by: ``ModuleList(Block() for _ in range(n))``."""
    held = m.heap[module.id]
    if held.shape is Shape.DICT:
        parts = [(_text(held.keys[key]), part) for key, part in held.entries.items()]
        if held.open:
            raise _NotKnown
    elif held.open:
        parts = [(str(i), containers.nth(m, module, i, span)) for i in range(UNKNOWN_LENGTH_TURNS)]
    else:
        parts = [(str(i), part) for i, part in enumerate(module_containers.parts(m, module, span))]
    for name, value in parts:
        part = names.settle(m, value)
        if not _is_module(m, part):
            raise _NotKnown
        yield name, part


def _text(key: Value) -> str:
    return str(key.value) if isinstance(key, ConstV) else ""


def _is_module(m: Machine, value: Value) -> bool:
    match value:
        case HeapV():
            held = m.heap[value.id]
            if held.shape is Shape.INSTANCE:
                return held.cls is not None and classes.is_module(m.project, held.cls)
            return held.kind == model.SEQUENCE or held.kind in model.MODULE_CONTAINERS
        case SymV():
            return torch_modules.is_made(m, value)
        case _:
            return False
