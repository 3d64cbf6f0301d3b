"""What the text says of unknown values of a path: of parameters, fields, elements and what they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import classes, kinds, known
from streamlint.interp.facts.kinds import NOTHING, PLAIN, Fact, Kind, joined, surest
from streamlint.interp.state import at_work, counted, symbols
from streamlint.models import host, python
from streamlint.trace import Space

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def of_value(m: Machine, symbol: Symbol) -> Fact:
    """What the text says of an unknown value of a path: ``x``, ``batch.lens_cpu[0]``."""
    if symbol in m.plain:
        return PLAIN
    if symbol in m.forms.tensors:
        # def pack(dones: torch.Tensor), called with what its caller was given: that says where it is.
        return surest((kinds.TENSOR, _of_symbol(m, symbol)))
    found = _of_symbol(m, symbol)
    return PLAIN if found.kind is Kind.MEMORY and _says_of_itself(m, symbol) else found


def _says_of_itself(m: Machine, symbol: Symbol) -> bool:
    """Whether it is no array, but what one says: ``table.nbytes``, ``table[:4].shape[0]``."""
    parts = (one for one in (symbol, *symbols.owners(symbol)) if isinstance(one, symbols.Attr))
    said = (one.of for one in parts if one.name in host.ARRAY_META)
    return any(_of_symbol(m, array).kind is Kind.MEMORY for array in said)


def _of_symbol(m: Machine, symbol: Symbol) -> Fact:
    if symbols.has(symbol, symbols.Call):
        called = [symbols.function_called(one) for one in (symbol, *symbols.owners(symbol))]
        if not python.GIVES_NUMBER.isdisjoint(called):
            return PLAIN
        if any(path.startswith("numpy.random.") for path in called):
            return kinds.tensor(Space.PAGEABLE)
    if m.of_numpy and not m.of_numpy.isdisjoint((symbol, *symbols.owners(symbol))):
        return kinds.tensor(Space.PAGEABLE)
    item = _outermost_item(symbol)
    if item is not None:
        if counted.gives_numbers(m, item.of):
            return PLAIN
        whole = known.part(of_value(m, item.of))
        return _element(m, item) if whole.kind is Kind.UNKNOWN and item is symbol else whole
    facts = known.facts_of(m.project)
    if symbol in m.parameters:
        scope, name = m.parameters[symbol]
        return facts.of_param(scope, name)
    if symbol in m.owners:
        cls, name = m.owners[symbol]
        return facts.of_field(cls, name)
    module = at_work.module(m)
    if module is None:
        return NOTHING
    match symbol:
        case symbols.Attr(owner, name):
            holder = of_value(m, owner) if owner in m.parameters or owner in m.owners else NOTHING
            return known.read(holder, name) if holder.kind is Kind.MEMORY else facts.of_member(module, name)
        case symbols.Name(path) if "." in path:
            return facts.of_member(module, symbols.last_name(symbol))
        case _:
            return NOTHING


def _outermost_item(symbol: Symbol) -> symbols.Item | None:
    """``batches[0]`` of ``batches[0].parts[1].x``"""
    found = None
    if symbols.has(symbol, symbols.Item):
        for one in (symbol, *symbols.owners(symbol)):
            found = one if isinstance(one, symbols.Item) else found
    return found


def _element(m: Machine, item: symbols.Item) -> Fact:
    """What the annotation of a container says of its elements: ``parts: list[torch.Tensor]``."""
    if item.of in m.parameters:
        scope, name = m.parameters[item.of]
        said = [(scope.module.name, one.annotation) for one in scope.function.params if one.name == name]
    elif item.of in m.owners:
        cls, name = m.owners[item.of]
        said = [
            (one.module, annotation)
            for one in m.project.ancestors(cls)[0]
            for annotation in classes.declared(one).get(name, ())
        ]
    else:
        return NOTHING
    facts = known.facts_of(m.project)
    return joined(facts.of_annotation(module, part) for module, one in said[:1] for part in kinds.held(one))
