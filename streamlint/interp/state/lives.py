"""What a path knows of when memory goes back: see ``interp/state/lifetime.py``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen, replace
from streamlint.models.schema import Lib

if TYPE_CHECKING:
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import (
        BufferV,
        Flavor,
        HeapV,
        PartialV,
        Value,
    )
    from streamlint.source import Span
    from streamlint.trace import (
        Buffer,
        BufferId,
        LaneId,
        MonitorId,
        Region,
        StreamId,
    )


@frozen()
class Finalizer:
    """``weakref.finalize(pages, unpin, array)``: it runs when it is called, or when the object goes."""

    of: Value
    does: PartialV
    kept: bool = False
    """Whether code that is not seen got the object, and may hold it."""
    by_class: bool = False
    """Whether it is the method of its class that Python calls then, ``__del__``: it gets the object."""


@frozen()
class Part:
    """What a tuple, or an unknown value, was made of, by its number; of a container its samples."""

    number: int


Slot: TypeAlias = "str | int | Symbol | Part"
"""An attribute, an element of a list, an entry of a dict, a part of what does not change."""


@frozen()
class Local:
    """A name of a function that runs, by how many others run around it."""

    depth: int
    name: str


@frozen()
class Outside:
    """What callers were given, by its number."""

    number: int


@frozen()
class LastSeen:
    """Where something holds some memory, or an object."""

    root: int | Local | Outside | Symbol
    """An object that is there as long as its methods run; a name; what a caller has; what one gave."""
    slots: tuple[Slot, ...]

    @property
    def lasts(self) -> bool:
        """Whether it is no variable that the next statement may bind anew, nor what was made with it."""
        return not isinstance(self.root, Local) and not any(isinstance(slot, Part) for slot in self.slots)


@dataclass(slots=True)
class Lifetimes:
    """What is known about references on one path."""

    read: int = 0
    """Ops looked at so far."""
    candidates: set[BufferId] = field(default_factory=set)
    """Buffers used on a stream that is not their own and not known to be gone."""
    escaped: dict[BufferId, set[Span]] = field(default_factory=dict)
    """Buffers that unresolved code received and may keep, with the calls that gave them to it."""
    steps: dict[Span, Symbol] = field(default_factory=dict)
    """Those of the calls that ran unseen code without gradients, with what they called."""
    captured_steps: set[Symbol] = field(default_factory=set)
    """What of unseen code was called, without gradients, while something was captured."""
    saved: dict[BufferId, set[Span]] = field(default_factory=dict)
    """Operands that autograd may keep for the backward pass, with the operators."""
    captured: set[BufferId] = field(default_factory=set)
    """Buffers that were allocated during a capture."""
    mapped: set[BufferId] = field(default_factory=set)
    """Memory at whose address an array of a device was made."""
    plain: set[BufferId] = field(default_factory=set)
    """Memory for which autograd computes no gradients: what was made of nothing that needs some."""
    by_layers: dict[int, Symbol] = field(default_factory=dict)
    """Operations of layers, whose weights need gradients, with the layer: ``proj(x)``."""
    stepped: dict[Symbol, int] = field(default_factory=dict)
    """Optimizers, with the operations that were queued when they took their last step."""
    flavors: dict[BufferId, Flavor] = field(default_factory=dict)
    """What each buffer was made as: it decides who frees it."""
    same: dict[BufferId, set[BufferId]] = field(default_factory=dict)
    """Results that may be their operand."""
    converted: set[BufferId] = field(default_factory=set)
    """Those of them that were to get another type, which they mostly do."""
    numbers: set[BufferId] = field(default_factory=set)
    """Memory of which somebody has the address as a number, which holds nothing."""
    kept: list[Value] = field(default_factory=list)
    """What a library keeps until a host function that it has queued has run: for the whole path."""
    held: list[Value] = field(default_factory=list)
    """What running statements hold without a name: the list a loop walks, the context of a ``with``."""
    outside: list[Value] = field(default_factory=list)
    """What was returned or yielded to code that is not seen."""
    lent: list[Value] = field(default_factory=list)
    """What was handed out last of what a side stream made: its consumer holds it until it gets the next."""
    handed_out: set[BufferId] = field(default_factory=set)
    """All memory that was lent in this way."""
    given_up: set[BufferId] = field(default_factory=set)
    """Memory from outside that the code lets go of."""
    passed_on: set[Symbol] = field(default_factory=set)
    """Arguments of earlier calls of which the code has kept a copy instead: no caller holds them any more."""
    left: dict[BufferId, int] = field(default_factory=dict)
    """Such memory that no other stream has used up to an op, and that somebody else holds yet."""
    grown: set[BufferId] = field(default_factory=set)
    """Memory that a tensor gave back for more, if that was more."""
    freed_on: dict[BufferId, StreamId] = field(default_factory=dict)
    """On which streams memory is to be freed that was allocated on another one."""
    outputs: dict[BufferId, str] = field(default_factory=dict)
    """Memory that code has allocated for unseen functions to fill, with the names of these."""
    elements: dict[BufferId, int] = field(default_factory=dict)
    """How many elements tensors were allocated with."""
    pools: dict[Symbol, int] = field(default_factory=dict)
    """Pools that program code has made, by their number."""
    let_go: dict[BufferId, tuple[MonitorId, LaneId]] = field(default_factory=dict)
    """Memory in an attribute to which another thread has assigned something else, and who tells of it."""
    moved: dict[BufferId, BufferV] = field(default_factory=dict)
    """What names of a buffer stand for since ``p.data = other``."""
    parts: dict[BufferId, set[Region]] = field(default_factory=dict)
    """Of memory that stands for each of several: the parts of it that stand for one."""
    viewed: set[BufferId] = field(default_factory=set)
    """Memory of which other tensors were made that are all of it: ``rows = x.view(n, -1)``."""
    given: set[BufferId] = field(default_factory=set)
    """Memory that tensors got in this way: ``page`` in ``p.data = page`` is a tensor too."""
    given_to: dict[Symbol, None] = field(default_factory=dict)
    """Tensors of unseen code that got some."""
    put_into: dict[Symbol | BufferId, BufferV] = field(default_factory=dict)
    """Memory by the tensors of others that it was put into, until these are seen to use it."""
    put_by: dict[BufferId, int] = field(default_factory=dict)
    """The call from outside that put memory into a tensor of others."""
    homes: dict[Symbol, StreamId] = field(default_factory=dict)
    """Modules that went to a device, of which nothing else was known: the stream whose memory they got."""
    gradients: set[BufferId] = field(default_factory=set)
    """Gradients of a backward pass in sight: autograd has allocated them."""
    weak: dict[Symbol, Value] = field(default_factory=dict)
    """What weak references lead to, which they do not hold."""
    finalizers: dict[Symbol, Finalizer | None] = field(default_factory=dict)
    """What ``weakref.finalize`` gave; None of those that have run, or were taken back."""
    seen_in: dict[BufferId | HeapV, LastSeen] = field(default_factory=dict)
    """Where memory, or an object, was held when it was last looked for ..."""
    looked_for: dict[BufferId | HeapV, int] = field(default_factory=dict)
    """... and how often it was looked for all over since it was last found."""
    scans: int = 0


# ----------------------------------------------------------------------------- hooks


def in_pinned_pool(buffer: Buffer) -> Buffer:
    """Page-locked memory of PyTorch: its pool delays the reuse of a block until its own copies are done.

    Of ``driver.cuMemcpyHtoDAsync(target, page.data_ptr(), size, stream)`` it knows nothing (measured).
    """
    return replace(buffer, pool="PyTorch's pool of pinned memory", pool_awaits=Lib.TORCH.product)
