"""Tensors of one operator live on one device: what shows where one of them is shows it of the others.

``packed.add_(bias)`` with ``bias`` on a device: a tensor of the host takes nothing from there. A copy of it,
``row.copy_(packed)``, is work like any other then, and the host does not wait for it. Nor does it where both
ends are in one place, whichever that is: ``out = torch.empty_like(x)``, and aside ``out.copy_(x)``.

What fills a page that the same function then copies to a device comes from the host, and so does what fills
one that is copied there at once, ``upload(loader.next_page())``: nobody takes that way from a device to
itself. The host fills the page then, and waits for no stream: ``page.copy_(rows)``.

What is pinned is on the host. So is what was copied there before, and that copy was waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from streamlint.interp.state.values import BufferV
from streamlint.models.copying import host_effect
from streamlint.models.torch import CONCATENATES, PRODUCTS
from streamlint.trace import Copy, Doubt, Evidence, HostAccess, HostEffect, Launch, Mode, Role, Space

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.trace import BufferId, Op


def settle(m: Machine) -> None:
    """Notes where memory is, as the operators of a finished path show it, and what its copies are."""
    _settle_pages(m)
    _settle_targets(m)
    if not any(_was_unknown(op) for op in m.ops):
        return
    places = _Places()
    for group in _groups(m):
        places.join(group)
    there = {places.of(number) for number in m.buffers if _is_on_device(m, number)}
    there |= {places.of(number) for number in _computed_aside(m)}
    _add_results(m, places, there)
    for number, known in tuple(m.buffers.items()):
        if known.space is Space.UNKNOWN and places.of(number) in there:
            m.lives(BufferV(number), Space.DEVICE, Evidence.INFERRED)
    for place, op in enumerate(m.ops):
        if _was_unknown(op) and _is_within_a_place(m, op, places):
            m.ops[place] = Launch(
                op.at,
                op.lane,
                op.doubts | {Doubt.INFERRED},
                stream=op.stream,
                accesses=op.accesses,
                name=op.name,
                library=op.library,
                choice=op.choice,
            )


def _settle_pages(m: Machine) -> None:
    of_host: set[BufferId] = set()
    following: dict[BufferId, Copy | Launch | HostAccess] = {}
    next_one: Op | None = None
    for op in reversed(m.ops):
        if isinstance(op, Copy) and _may_fill(m, op):
            upload = following.get(op.dst.buffer)
            if _is_uploaded(m, op, upload, at_once=upload is next_one):
                of_host.add(op.src.buffer)
        if isinstance(op, (Copy, Launch, HostAccess)):
            following.update((access.buffer, op) for access in op.accesses)
            next_one = op
    for number in of_host:
        m.lives(BufferV(number), Space.PAGEABLE, Evidence.INFERRED)
    for place, op in enumerate(m.ops):
        if isinstance(op, Copy) and op.src.buffer in of_host and m.buffers[op.dst.buffer].space.on_host:
            doubts = op.doubts | {Doubt.INFERRED}
            m.ops[place] = HostAccess(op.at, op.lane, doubts, accesses=op.accesses, name=op.name)
            # If it came from a device after all, it ordered what was queued there before.
            m.unseen.append(place)


def _settle_targets(m: Machine) -> None:
    """A copy from a device waits for itself where its target turned out to be on the host.

    ``p.shard.copy_(full)``, and then ``p.shard.pin_memory()``, which takes nothing of a device.
    """
    for place, op in enumerate(m.ops):
        if isinstance(op, Launch) and op.waits_on_host:
            read, write = op.accesses
            to = m.buffers[write.buffer].space
            if to.on_host:
                m.ops[place] = Copy(
                    op.at,
                    op.lane,
                    # Where its source is no longer matters.
                    op.doubts - {Doubt.INFERRED},
                    stream=op.stream,
                    src=read,
                    dst=write,
                    host=host_effect(to, m.buffers[read.buffer].space, blocking=True),
                    name=op.name,
                    library=op.library,
                )


def _may_fill(m: Machine, op: Copy) -> bool:
    """Whether a copy that blocks fills a page from what may be anywhere."""
    source = m.buffers[op.src.buffer]
    is_open = source.space is Space.UNKNOWN and source.residence is Evidence.ASSUMED
    return is_open and op.host is HostEffect.BLOCKS and m.buffers[op.dst.buffer].space is Space.PINNED


def _is_uploaded(m: Machine, fill: Copy, following: Op | None, *, at_once: bool) -> bool:
    """Whether the next that is done with a page is its copy to a device, by the same function or at once."""
    return (
        isinstance(following, Copy)
        and following.src.buffer == fill.dst.buffer
        and not m.buffers[following.dst.buffer].space.on_host
        and following.at.call == fill.at.call
        and (at_once or following.at.function == fill.at.function)
        and following.dst.buffer != fill.src.buffer
    )


class _Places:
    """Which memory is in one place: sets that grow together."""

    def __init__(self) -> None:
        self._next: dict[BufferId, BufferId] = {}

    def of(self, number: BufferId) -> BufferId:
        """One buffer of the place, the same for all that are there."""
        while number in self._next:
            number = self._next[number]
        return number

    def join(self, group: Iterable[BufferId]) -> None:
        first, *rest = map(self.of, group)
        self._next.update((other, first) for other in rest if other != first)


def _is_within_a_place(m: Machine, op: Copy, places: _Places) -> bool:
    """Whether a copy neither comes from the host nor goes there."""
    ends = op.src.buffer, op.dst.buffer
    if any(m.buffers[end].space.on_host for end in ends):
        return False
    return _is_on_device(m, op.src.buffer) or places.of(ends[0]) == places.of(ends[1])


def _was_unknown(op: object) -> TypeGuard[Copy]:
    """Whether a copy would have blocked if its source had been on the host."""
    return isinstance(op, Copy) and op.host is HostEffect.BLOCKS_OBSERVED


def _is_on_device(m: Machine, number: BufferId) -> bool:
    known = m.buffers[number]
    return known.space is Space.DEVICE and known.residence is not Evidence.ASSUMED


def _computed_aside(m: Machine) -> Iterator[BufferId]:
    """What is multiplied on a stream that was entered for it: nobody has the host do that in between."""
    for op in m.ops:
        if isinstance(op, Launch) and _is_product(op) and not m.streams[op.stream].is_default:
            yield from (access.buffer for access in op.accesses if access.mode is not Mode.READ)


def _add_results(m: Machine, places: _Places, there: set[BufferId]) -> None:
    """What is computed from something on a device is there, too: ``x = a * x + s @ x``."""
    for op in m.ops:
        if isinstance(op, Launch) and op.role is Role.CODE and not op.doubts:
            read = {places.of(access.buffer) for access in op.accesses if access.mode is not Mode.WRITE}
            if not there.isdisjoint(read):
                there |= {places.of(one.buffer) for one in op.accesses if one.mode is not Mode.READ}


def _groups(m: Machine) -> Iterator[tuple[BufferId, ...]]:
    """Memory that is in one place, by the operators of the path."""
    yield from m.made_of.items()
    for op in m.ops:
        if isinstance(op, Launch) and op.role is Role.CODE and not op.doubts:
            written = [access.buffer for access in op.accesses if access.mode is not Mode.READ]
            read = [access.buffer for access in op.accesses if access.mode is Mode.READ]
            if (op.name in CONCATENATES or _is_product(op)) and (read or written):
                yield (*read, *written)
            elif op.name.endswith("_") and op.name != "copy_" and any(_is_on_device(m, n) for n in read):
                yield (*written, *(number for number in read if _is_on_device(m, number)))


def _is_product(op: Launch) -> bool:
    """Whether an operator multiplies matrices, and so takes no number for one of them."""
    return op.name in PRODUCTS and not op.doubts
