"""Elements that code asks a container for: which they are, or whether they are there, is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.library import stored
from streamlint.interp.python import alike, keys
from streamlint.interp.state import elements, symbols
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    EventV,
    GraphV,
    HeapObject,
    HeapV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.trace import Picked

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol

FIRST = symbols.constant(0)


def found(m: Machine, held: HeapObject, owner: HeapV, at: Symbol) -> Value:
    """The element at a number or under a key, the same each time: who asks another one gets another one."""
    if at not in held.extra:
        if at is FIRST and symbols.EACH in held.extra:
            # [start(f, page) for f, page in zip(files, pages)], and then: for page in pages: ...
            held.extra[at] = held.extra[symbols.EACH]
            _begins_with(m, held.extra[at])
        elif _stands_for_each(at) and (_was_walked(held) or _is_for_others(m, held)):
            # for i, start in enumerate(starts): start.record(streams[i]), and then: [run(streams[i]) for i in
            # range(n)]
            held.extra[at] = held.extra[FIRST]
        elif isinstance(held.sample, GraphV) and (captured := _may_be_meant(m, held, at)):
            # graphs[size].replay(): what was captured for one of the sizes, and no other graph like it.
            held.extra[at] = _one_of(held, captured, at)
        elif (
            isinstance(held.sample, SymV) and held.key_sample is not None and symbol_of(held.key_sample) is at
        ):
            # optimizers = {id(s): torch.optim.SGD([s.param]) for s in shards}: the same loop over the shards
            # comes by the one that was made for each.
            held.extra[at] = held.sample
        elif (at is FIRST or _stands_for_each(at)) and (filled := _filled(m, held)) is not None:
            held.extra[at] = filled
        elif not _is_known(at) and (one := _filled_by_number(m, held)) is not None:
            held.extra[at] = alike.like(m, one, at, apart=True)
        elif held.sample is not None and (held.open or not (held.items or held.entries)):
            # Where a loop has filled a dict, the sample is itself one of its elements.
            apart = held.sample in held.entries.values()
            held.extra[at] = alike.like(m, held.sample, _place(m, held, at), held.born, apart=apart)
        elif elements.is_behind(held, at) and _may_be_more(m, held.items[-1]):
            held.extra[at] = _one_more(m, held, at)
        elif known := held.items or _may_be_meant(m, held, at):
            held.extra[at] = _one_of(held, known, at)
        else:
            held.extra[at] = SymV(symbols.Item(m.symbol_of_object(owner), at))
        _note_choice(m, held, owner, at)
    return held.extra[at]


def _begins_with(m: Machine, first: Value, depth: int = alike.DEPTH) -> None:
    """``pages = [torch.zeros(p.shape) for p in params]``: what stands for each is apart from ``pages[1]``.

    So is what each of several objects has: ``slots = [Slot(n) for n in sizes]``, and the page of a slot.
    """
    match first:
        case BufferV(region=(*_, row)) if row == elements.ANY_ROW:
            m.buffers[first.id] = replace(m.buffers[first.id], first_part=elements.ANY_ROW)
        case HeapV(number) if depth:
            for part in m.heap[number].attrs.values():
                _begins_with(m, part, depth - 1)
        case _:
            pass


def _stands_for_each(at: Symbol) -> bool:
    """``[run(groups[i]) for i in range(n)]``"""
    match at:
        case symbols.Item(_, symbols.Each()):
            return True
        case _:
            return at is symbols.EACH


def _was_walked(held: HeapObject) -> bool:
    """Whether a loop has come by the first stream or event, and by others."""
    first = held.extra.get(FIRST)
    return isinstance(first, (StreamV, EventV)) and symbols.constant(1) in held.extra


def _is_for_others(m: Machine, held: HeapObject) -> bool:
    """Whether what stood in a list at first only keeps places, at the first of which something stands by now.

    ``parts = [None] * n``, ``parts[i] = rows[i] * 2`` for all ``i``, and then ``[torch.cat(parts[i]) for i in
    range(n)]``; or lists of such places. Not where the first one was put there by itself.
    """
    sample, first = held.sample, held.extra.get(FIRST)
    second = held.extra.get(symbols.constant(1))
    places = sample == NONE or (isinstance(sample, HeapV) and m.heap[sample.id].shape is Shape.LIST)
    return places and first is not None and second is not None and _are_made_alike(m, first, second)


def _are_made_alike(m: Machine, one: Value, other: Value) -> bool:
    """Whether one statement has made both, or what is in both, for each anew."""
    match one, other:
        case BufferV(), BufferV():
            return m.buffers[one.id].span == m.buffers[other.id].span
        case StreamV(), StreamV():
            return one.id != other.id and m.streams[one.id].span == m.streams[other.id].span
        case HeapV(), HeapV():
            left, right = _first_in(m, one), _first_in(m, other)
            return left is not None and right is not None and _are_made_alike(m, left, right)
        case _:
            return False


def _first_in(m: Machine, value: HeapV) -> Value | None:
    held = m.heap[value.id]
    return held.extra.get(FIRST, held.items[0] if held.items else None)


def _filled(m: Machine, held: HeapObject) -> HeapV | None:
    """One of the lists of which all were empty at first, that got something by a number that is not known.

    ``groups = [[] for _ in range(n)]``, ``groups[slot].append(job)``, and then ``for group in groups``: one
    of them has the job, and it may be the first.
    """
    return _filled_under(m, held, lambda key: not _is_known(key))


def _filled_by_number(m: Machine, held: HeapObject) -> Value | None:
    """... and one that code fills with others by their numbers: whoever's it is got something as they did.

    ``plan[t % ranks].append(job)`` for all jobs, and then ``for job in plan[rank]``. Or, of
    ``lanes = [[None] * 3 for _ in range(n)]``, ``lanes[gpu][k] = Stream()`` for all, and ``lanes[mine][0]``.
    """
    if held.sample is not None and _are_places(m, held.sample):
        filled = [value for key, value in held.extra.items() if _is_known(key) and not _are_places(m, value)]
        return filled[0] if len(filled) > 1 and _are_made_alike(m, filled[0], filled[1]) else None
    return _filled_under(m, held, _is_known) if all(map(_is_known, held.extra)) else None


def _filled_under(m: Machine, held: HeapObject, is_meant: Callable[[Symbol], bool]) -> HeapV | None:
    if not isinstance(held.sample, HeapV) or elements.listed(m, held.sample) != []:
        return None
    asked = (value for key, value in held.extra.items() if is_meant(key))
    return next((one for one in asked if isinstance(one, HeapV) and elements.listed(m, one) != []), None)


def _are_places(m: Machine, value: Value) -> bool:
    """``None``, or a list of nothing else, where something will be: ``[None] * n``."""
    match value:
        case HeapV(number):
            listed = elements.listed(m, value)
            return bool(listed) and all(
                one == NONE for one in (*(listed or ()), *m.heap[number].extra.values())
            )
        case _:
            return value == NONE


def _place(m: Machine, held: HeapObject, at: Symbol) -> Symbol:
    """``order[p]`` of ``order = {p: i for i, p in enumerate(params)}``: at which place ``p`` stands there."""
    if held.born is None or held.key_sample is None:
        return at
    first, asked = stored.before(m, symbol_of(held.key_sample)), stored.before(m, at)
    if not (held.born.each and isinstance(first, symbols.Item) and isinstance(asked, symbols.Item)):
        return at
    begin, number = symbols.number(first.at), symbols.number(asked.at)
    if first.of is not asked.of or begin is None or number is None or number < begin:
        return at
    return symbols.constant(number - begin)


def _may_be_meant(m: Machine, held: HeapObject, key: Symbol) -> list[Value]:
    """What a dict has under keys of which none is another one than this for sure."""
    return [value for place, value in held.entries.items() if not keys.are_two(m, place, key)]


def _one_of(held: HeapObject, known: list[Value], at: Symbol) -> Value:
    """Who asks by another key, or number, gets another one of them; a walk comes by one after the other."""
    by = symbols.text_of(at) if len(known) > 1 else ""
    number = symbols.number(at) if held.shape is Shape.LIST else None
    place = number if number is not None and number >= 0 else len(held.extra)
    return picked(known[min(place, len(known) - 1)], by)


def _may_be_more(m: Machine, value: Value) -> bool:
    """A page, an object, or a page's address and a view of it: ``self.pages.append((pointer, view))``."""
    match value:
        case HeapV(number):
            return m.heap[number].shape is Shape.INSTANCE
        case TupleV(items):
            return all(isinstance(item, BufferV) for item in items)
        case _:
            return isinstance(value, BufferV)


def _one_more(m: Machine, held: HeapObject, at: Symbol) -> Value:
    """An element behind those that a loop of unknown length has made, in a few passes: who asks has as many.

    ``for i, row in enumerate(rows): self.slots[i].page.copy_(row)``
    """
    last, number = held.items[-1], symbols.number(at)
    assert number is not None, "it is behind the others"
    made = alike.like(m, last, at, held.born, apart=True)
    if number == len(held.items) and not isinstance(last, BufferV):
        # Who walks all of them comes by this one too.
        held.items.append(made)
    return made


def things_in(held: HeapObject) -> list[tuple[Symbol, StreamV | EventV]]:
    """The streams and events in a container, with the numbers or keys by which they were asked for."""
    numbered = ((symbols.constant(number), item) for number, item in enumerate(held.items))
    both = (*numbered, *held.entries.items(), *held.extra.items())
    return [(key, item) for key, item in both if isinstance(item, (StreamV, EventV))]


def _is_known(at: Symbol) -> bool:
    """The number of an element, or the text that is its key: two of them name two elements."""
    return isinstance(at, symbols.Const) and at.kind in (int, str)


def _note_choice(m: Machine, held: HeapObject, owner: HeapV, at: Symbol) -> None:
    """``self.lanes[a]`` and ``self.lanes[b]`` may be one stream, if neither ``a`` nor ``b`` is known."""
    chosen = held.extra[at]
    if not isinstance(chosen, StreamV) or _is_known(at):
        return
    for other in (*held.items, *held.entries.values(), *held.extra.values()):
        if isinstance(other, StreamV):
            picked = m.streams[other.id].chosen or other == chosen
            m.streams[other.id] = replace(m.streams[other.id], among=f"object{owner.id}", chosen=picked)


def picked(value: Value, by: str) -> Value:
    """One of several elements, which of them is not known: ``self.slots[self.slot_of[name]]``."""
    match value:
        case BufferV(region=region) if by:
            return replace(value, region=(Picked(by), *region))
        case TupleV(items):
            return TupleV(tuple(picked(item, by) for item in items))
        case _:
            return value
